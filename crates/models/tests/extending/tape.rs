//! A tape: what a command takes depends on how far away it is.

use stasis_block::Command;
use stasis_clock::{Nanos, MILLISECOND};
use stasis_models::Latency;

/// What winding past a MiB takes (ns).
const WIND: Nanos = MILLISECOND;

#[derive(Debug, Default)]
pub struct Tape {
    /// Where the head is (bytes).
    head: u64,
}

impl Latency for Tape {
    fn latency(&mut self, _now: Nanos, command: &Command) -> Nanos {
        let distance = command.offset.abs_diff(self.head);
        self.head = command.offset + command.length;
        (distance + command.length) / (1 << 20) * WIND
    }
}
