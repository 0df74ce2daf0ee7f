//! Input of a person at a terminal for a guest.

use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use stasis_layout::{layout, FromBytes, IntoBytes, U16};

/// Size of a terminal's window in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSize {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
}

impl Default for WindowSize {
    /// Returns the usual size of a terminal without a window.
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

layout! {
    /// Before the bytes typed.
    struct Head: 7 {
        [0] rows: U16,
        [2] columns: U16,
        /// Not 0 if the terminal is gone.
        [4] hung_up: u8,
        [5] pause: U16,
    }
}

impl Typed {
    /// Appends its form on the wire.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let WindowSize { rows, columns } = self.window;
        let (rows, columns, pause) = (rows.into(), columns.into(), self.pause.into());
        let head = Head { rows, columns, hung_up: self.hung_up.into(), pause };
        into.extend_from_slice(head.as_bytes());
        into.extend_from_slice(&self.bytes);
    }

    /// Reads that form; `None` if it is shorter than any.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, typed) = Head::read_from_prefix(bytes).ok()?;
        let window = WindowSize { rows: head.rows.get(), columns: head.columns.get() };
        let (hung_up, pause) = (head.hung_up != 0, head.pause.get());
        Some(Self { window, hung_up, pause, bytes: typed.to_vec() })
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
        assert_eq!(bytes, [50, 0, 44, 1, 1, 188, 2, 3, b'\n']);
        assert_eq!(Typed::decode(&bytes[..6]), None);
        let mut all = first;
        all.add(std::mem::take(&mut typed));
        assert_eq!((all.window, all.hung_up, &all.bytes[..]), (window, true, &b"ls\x03\n"[..]));
    }
}
