//! A machine as its guest's agent greets for the first time, made before its drives are known: up to there a boot
//! depends on nothing but the machine ([`super::kept_boot`]). Runs with any drives and networks go on from
//! there, and each machine of a run. Owns the memory until a machine takes it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::kept_boot::Greeting;
use crate::error::Error;
use crate::memory::{GuestMemory, Region};

/// A machine as its guest's agent greets for the first time.
pub struct FirstBoot {
    pub(super) memory: FirstMemory,
    pub(super) greeting: Arc<Greeting>,
}

impl FirstBoot {
    pub(super) fn new(memory: GuestMemory, greeting: Arc<Greeting>) -> Self {
        let memory = Arc::new(Mutex::new(memory));
        Self { memory: FirstMemory { memory, is_last: true }, greeting }
    }

    /// Returns the first boot for each of `count` machines.
    pub fn each(self, count: usize) -> impl Iterator<Item = Self> {
        let Self { memory: FirstMemory { memory, .. }, greeting } = self;
        (1..=count).map(move |number| Self {
            memory: FirstMemory { memory: Arc::clone(&memory), is_last: number == count },
            greeting: Arc::clone(&greeting),
        })
    }
}

/// Memory of a first boot: the last machine takes it, and those before it have copies.
pub(super) struct FirstMemory {
    memory: Arc<Mutex<GuestMemory>>,
    is_last: bool,
}

impl FirstMemory {
    /// The memory, or a copy of it, in which `fill` fills the root file system's range.
    ///
    /// # Errors
    /// `fill`'s; and that there is too little memory, as `failed` makes it.
    pub(super) fn take(
        self,
        fill: impl FnOnce(&mut Region) -> Result<(), Error>,
        failed: impl Fn(io::Error) -> Error,
    ) -> Result<GuestMemory, Error> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match self.is_last {
            true => Ok(std::mem::take(&mut memory)),
            false => memory.copy(fill, failed),
        }
    }
}
