//! A pair on its way to the store.

use stasis_key_value::{Condition, Key};

/// A pair that is to be stored, without its value.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    pub key: Key,
    pub condition: Condition,
    /// Length of the value in bytes.
    pub length: u32,
}

impl Pair {
    /// Length of the value in bytes.
    pub fn length(&self) -> u32 {
        self.length
    }
}
