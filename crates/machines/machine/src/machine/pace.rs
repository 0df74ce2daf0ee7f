//! The pace of processors and machines beside each other. Owns how far each may be from the others.
//!
//! Invariants: a quantum is at least a tick, so that whoever is furthest behind can run, and several
//! times as long as a slice can end late; machines that are free have a lookahead.

use crate::freeze::Scale;

/// A quantum is at least so many times as long as a slice can end late: a processor would
/// be ahead of the others by more than that anyway, and hardly ever in guest mode.
const LATENESS_IN_QUANTUM: u64 = 4;

/// Distances in ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    quantum: u64,
    /// The experiment's quantum, and the longest.
    usual: u64,
    most: u64,
    lookahead: Option<u64>,
    lateness: u64,
}

impl Pace {
    /// A processor may be at most `quantum` (ns) from the others, and a slice can end `lateness` (ticks)
    /// late. Over networks nothing reaches another machine sooner than `frame` (ns), and machines that
    /// share nothing else are `free` to be ahead of each other by that.
    pub(super) fn new(
        quantum: u64,
        frame: Option<u64>,
        free: bool,
        lateness: u64,
        scale: Scale,
    ) -> Self {
        // No machine is further ahead than a frame needs to reach it.
        let quantum = scale.to_ticks(quantum.min(frame.unwrap_or(quantum)));
        let usual = quantum.max(LATENESS_IN_QUANTUM * lateness).max(1);
        Self {
            quantum: usual,
            usual,
            most: frame.map_or(u64::MAX, |frame| scale.to_ticks(frame)).max(usual),
            lookahead: frame.filter(|_| free).map(|frame| scale.to_ticks(frame)),
            lateness,
        }
    }

    /// Distance that a processor may be from the others.
    pub(super) fn quantum(&self) -> u64 {
        self.quantum
    }

    /// Sets the distance (ticks), as far as networks allow it; None: the experiment's.
    pub(super) fn set_quantum(&mut self, quantum: Option<u64>) {
        self.quantum = quantum.map_or(self.usual, |quantum| quantum.clamp(1, self.most));
    }

    /// The furthest time for a processor while another one is at `time`.
    pub(super) fn quantum_after(&self, time: u64) -> u64 {
        time.saturating_add(self.quantum)
    }

    /// The time before which nothing that another machine does from `instant` on reaches a machine;
    /// nothing where they share more than networks.
    pub(super) fn lookahead_after(&self, instant: u64) -> Option<u64> {
        self.lookahead.map(|lookahead| instant.saturating_add(lookahead))
    }

    /// Returns whether machines are ahead of each other, as they share nothing but networks.
    pub(super) fn is_free(&self) -> bool {
        self.lookahead.is_some()
    }

    /// By how much a slice can end late.
    pub(super) fn lateness(&self) -> u64 {
        self.lateness
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantum_is_no_longer_than_a_frame_needs_and_no_shorter_than_a_late_end() {
        let scale = Scale::new(1_000_000);
        let pace = |frame, free, lateness| Pace::new(1_000, frame, free, lateness, scale);
        assert_eq!(pace(None, true, 0).quantum(), 1_000);
        assert_eq!(pace(Some(300), false, 0).quantum(), 300);
        assert_eq!(pace(Some(300), false, 100).quantum(), 400);
        assert_eq!(pace(Some(300), true, 0).lookahead_after(5), Some(305));
        assert!(pace(Some(300), true, 0).is_free() && !pace(Some(300), false, 0).is_free());
        assert_eq!(Pace::new(0, None, false, 0, scale).quantum_after(7), 8);
    }
}
