//! Division of what a controller does at a time: a carrier that serves several hosts on one thread
//! asks for it, so that no command of one keeps the others waiting.
//!
//! A slice is the work between two calls of [`crate::Subsystem::set_time`]. It is bounded by counts,
//! not by a clock, so that the same calls have the same results. The counts are such that a slice
//! takes less than 100 us of a processor's time (`crates/realtime/serve/src/slices.rs` measures it).

use crate::namespaces::Namespaces;

/// Instructions of computational programs in a slice, carried out or checked.
pub const INSTRUCTIONS: u64 = 4096;
/// Bytes of the memory namespace that are cleared in a slice.
pub const CLEARED: usize = 128 << 10;
/// Elements that a list grows by in a slice, or that are forgotten.
pub const ELEMENTS: usize = 1024;
/// Maximum number of bytes of a request that moves no data, where work is divided.
pub const PIECE: u64 = 8 << 20;
/// Bytes of data of the commands that are begun in a slice; the last one may exceed it.
const BYTES: u64 = 256 << 10;
/// The part of [`BYTES`] that a command takes beside its data: no more than 128 are begun.
const COMMAND: u64 = 2 << 10;

/// The slice under way.
#[derive(Debug, Default)]
pub struct Slices {
    divides: bool,
    taken: u64,
    /// True if a command waits for the next slice.
    deferred: bool,
}

impl Slices {
    /// Divides work from now on.
    pub fn divide(&mut self) {
        self.divides = true;
    }

    /// Returns whether work is divided.
    pub fn divides(&self) -> bool {
        self.divides
    }

    /// Begins the next slice.
    pub fn begin(&mut self) {
        (self.taken, self.deferred) = (0, false);
    }

    /// A command is begun.
    #[inline]
    pub fn command(&mut self) {
        self.taken = self.taken.saturating_add(COMMAND);
    }

    /// Data of a command is moved.
    #[inline]
    pub fn data(&mut self, bytes: usize) {
        self.taken = self.taken.saturating_add(bytes as u64);
    }

    /// Returns whether the next command is to wait for another slice: then it is waited for.
    #[inline]
    pub fn defers(&mut self) -> bool {
        let spent = self.divides && self.taken >= BYTES;
        self.deferred |= spent;
        spent
    }

    /// Returns whether a command waits for the next slice.
    pub fn is_deferred(&self) -> bool {
        self.deferred
    }

    /// The most bytes of a request that moves no data; `whole` where work is not divided.
    pub fn piece(&self, whole: u64) -> u64 {
        if self.divides {
            PIECE.min(whole)
        } else {
            whole
        }
    }
}

impl Slices {
    /// As [`Slices::piece`], of a request that erases a namespace: whole zones, and all of chunks.
    pub fn piece_of(&self, namespaces: &Namespaces, nsid: u32, whole: u64) -> u64 {
        if namespaces.chunks(nsid).is_some() {
            return whole;
        }
        let zone = namespaces.zones(nsid).map_or(1, |zones| zones.set.size * zones.block);
        let piece = self.piece(whole);
        if self.divides {
            (piece / zone).max(1) * zone
        } else {
            piece
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_ends_with_its_commands_or_their_bytes() {
        let mut slices = Slices::default();
        for _ in 0..1000 {
            slices.command();
        }
        assert!(!slices.defers() && !slices.is_deferred(), "nothing is divided");
        slices.divide();
        assert!(slices.defers() && slices.is_deferred());
        slices.begin();
        assert!(!slices.defers() && !slices.is_deferred());
        slices.data(256 << 10);
        assert!(slices.defers());
        slices.begin();
        let count = std::iter::from_fn(|| (!slices.defers()).then(|| slices.command())).count();
        assert_eq!(count, 128);
        assert_eq!((slices.piece(1 << 30), Slices::default().piece(1 << 30)), (PIECE, 1 << 30));
    }
}
