//! The decision to keep the drive idle for a queue that has nothing waiting: its owner, who waits
//! for each request, may be about to send the next, right after the last on the drive ("deceptive
//! idleness": Iyer and Druschel, "Anticipatory Scheduling", SOSP 2001).

use stasis_block::clock::{Nanos, MILLISECOND};

use crate::pool::Held;

/// A request that begins farther than this from where the last ended is a seek
/// (400 KiB: BFQ's threshold, 8 x 100 sectors; a disk's track or two).
const SEEK: u64 = 400 * 1024;
/// Number of seeks in a queue's past that makes it a seeking one: more than half of the last 32.
const SEEKS: u32 = 16;
/// Limit on the wait for a queue that seeks: waiting saves no seek there, it only keeps the queue's
/// share (BFQ's and CFQ's minimum, 2 ms).
const SEEKY_WAIT: Nanos = 2 * MILLISECOND;
/// Think times count an eighth of the mean, as in CFQ; the first few are no mean.
const SMOOTHING: u64 = 8;
const ENOUGH: u32 = 4;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Anticipation {
    last_end: Option<u64>,
    // The latest in bit 0: set for a seek.
    seeks: u32,
    // Time at which its last request in flight was done, nothing waiting.
    idle_since: Option<Nanos>,
    think: Nanos,
    samples: u32,
}

impl Anticipation {
    /// A request arrives; `window` is the limit on the wait.
    pub(crate) fn arrived(&mut self, now: Nanos, held: &Held, window: Nanos) {
        if let Some(since) = self.idle_since.take() {
            // Capped, so that one long pause is not remembered for long.
            let think = now.saturating_sub(since).min(2 * window);
            let (old, one) = (self.think * (SMOOTHING - 1), self.samples == 0);
            self.think = if one { think } else { (old + think) / SMOOTHING };
            self.samples = self.samples.saturating_add(1);
        }
        if !held.nowhere {
            let seek = self.last_end.is_some_and(|end| end.abs_diff(held.place) > SEEK);
            self.seeks = self.seeks << 1 | u32::from(seek);
            self.last_end = Some(held.end);
        }
    }

    /// Notes that the last request is done, and nothing waits.
    pub(crate) fn idles(&mut self, now: Nanos) {
        self.idle_since = Some(now);
    }

    /// Returns whether most of its requests are seeks.
    pub(crate) fn seeks(&self) -> bool {
        self.seeks.count_ones() > SEEKS
    }

    /// Duration of the wait for its next request; 0: no wait. `always` waits even for a queue that
    /// thinks for long or seeks.
    pub(crate) fn wait(&self, window: Nanos, always: bool) -> Nanos {
        if always {
            return window;
        }
        if self.samples >= ENOUGH && self.think > window {
            return 0;
        }
        if self.seeks() {
            window.min(SEEKY_WAIT)
        } else {
            window
        }
    }
}
