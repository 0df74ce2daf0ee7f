//! Input of a person at a terminal for a guest.

use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// Size of a terminal's window in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSize {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
}

impl Default for WindowSize {
    /// As terminals have it that have no window.
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// Input of a terminal since the last request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Typed {
    /// Size of its window now.
    pub window: WindowSize,
    /// True if it is gone.
    pub hung_up: bool,
    /// After how long the machine wants to be asked again (ms); 0: it does not mind.
    pub pause: u16,
    /// The bytes typed.
    pub bytes: Vec<u8>,
}

/// Limit on the bytes that are taken at once: pasted text comes in pieces.
pub const MAX_TYPED: usize = 4096;
/// Bytes before what was typed.
const HEAD: usize = 7;

impl Typed {
    /// Appends its form on the wire: rows and columns (`u16` each), 1 if the terminal is gone
    /// (`u8`), the pause (`u16`), and the bytes typed.
    pub fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.window.rows.to_le_bytes());
        into.extend_from_slice(&self.window.columns.to_le_bytes());
        into.push(u8::from(self.hung_up));
        into.extend_from_slice(&self.pause.to_le_bytes());
        into.extend_from_slice(&self.bytes);
    }

    /// Reads that form; `None` if it is shorter than any.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, typed) = bytes.split_first_chunk::<HEAD>()?;
        let [a, b, c, d, gone, low, high] = *head;
        let window =
            WindowSize { rows: u16::from_le_bytes([a, b]), columns: u16::from_le_bytes([c, d]) };
        let pause = u16::from_le_bytes([low, high]);
        Some(Self { window, hung_up: gone != 0, pause, bytes: typed.to_vec() })
    }

    /// Adds what came later.
    pub fn add(&mut self, later: Self) {
        self.window = later.window;
        self.hung_up |= later.hung_up;
        self.bytes.extend(later.bytes);
    }
}

/// A terminal at which a person sits.
pub trait Keyboard: Debug + Send {
    /// The input since the last call. Waits for input at most `limit` of the wall clock (ns), and
    /// paces its caller: one call after another, virtual time that passes by so much does not pass
    /// faster than the wall clock.
    ///
    /// # Errors
    /// If the terminal cannot be read.
    fn read(&mut self, limit: u64) -> io::Result<Typed>;
}

/// A keyboard with several holders.
pub type SharedKeyboard = Arc<Mutex<dyn Keyboard>>;

impl Keyboard for SharedKeyboard {
    fn read(&mut self, limit: u64) -> io::Result<Typed> {
        self.lock().unwrap_or_else(PoisonError::into_inner).read(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_survives_the_wire() {
        let window = WindowSize { rows: 50, columns: 300 };
        let first = Typed { bytes: b"ls".to_vec(), ..Typed::default() };
        let mut typed = Typed { window, hung_up: true, pause: 700, bytes: b"\x03\n".to_vec() };
        let mut bytes = Vec::new();
        typed.encode(&mut bytes);
        assert_eq!(Typed::decode(&bytes).as_ref(), Some(&typed));
        assert_eq!(Typed::decode(&bytes[..6]), None);
        let mut all = first;
        all.add(std::mem::take(&mut typed));
        assert_eq!((all.window, all.hung_up, &all.bytes[..]), (window, true, &b"ls\x03\n"[..]));
    }
}
