//! A thread's search for work: when it spins, when it waits, and for how long.
//!
//! While there is work it spins, and guests need not ring. When there was none for a while it asks
//! them to, and waits. How long it spins before that adapts as KVM's halt polling does: waits that
//! end soon make it longer, long ones shorter. Another thread that wants the core meanwhile gets it
//! between two turns. Where others keep the core, the thread does not spin: a spinning thread is
//! taken off it for as long as they like, a waiting one gets it when it is rung.

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;

/// Way in which a thread looks for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Poll {
    /// The thread never waits: the least latency, at the price of a core.
    Always,
    /// The thread spins while there is work, then waits.
    #[default]
    Adaptive,
    /// The thread waits whenever there is nothing to do.
    Never,
}

/// Longest that a thread spins without work before it waits (ns).
const MAX_SPIN: Nanos = 200_000;
/// Duration of spinning at first (ns).
const FIRST_SPIN: Nanos = 10_000;
/// A turn without work that takes longer than this (ns) was interrupted: it takes
/// a microsecond or two.
const INTERRUPTED: Nanos = 300_000;
/// For how long a thread does not spin after that (ns).
const SPIN_BACKOFF: Nanos = 1_000_000_000;
/// Time before a completion's time at which a thread stops waiting (ns): the possible lateness of
/// the host's timers.
const WAKE_AHEAD: Nanos = 60_000;

/// Work of a thread, and its clock.
pub trait Rounds {
    /// The time (ns).
    fn now(&self) -> Nanos;

    /// Does the work that is due at `now` (ns); returns whether there was any.
    fn turn(&mut self, now: Nanos) -> bool;

    /// Returns whether requests are announced from now on, or looked for.
    fn set_notifications(&mut self, on: bool);

    /// Returns the time at which something is to be looked at even if nothing rings (ns).
    fn next_event(&self) -> Option<Nanos>;

    /// Returns the time at which the thread looks for work that nothing announces (ns), if there
    /// may be such. It need not be met exactly.
    fn next_look(&self, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// Waits until something rings, `timeout` (ns) at most; whether anything other than a
    /// new job rang, or has come that nothing announces.
    fn wait(&mut self, timeout: Option<Nanos>) -> bool;
}

/// A thread's way of looking for work, with the durations it has learnt.
#[derive(Debug)]
pub struct Polling {
    poll: Poll,
    /// Duration of spinning without work (ns).
    window: Nanos,
    last_work: Nanos,
    /// Time until which others seem to want the core.
    no_spin_until: Nanos,
    /// Time at which the last turn began, if it had no work and nothing was waited for.
    idle: Option<Nanos>,
}

impl Polling {
    /// Begins to look for work.
    pub fn new(poll: Poll) -> Self {
        Self { poll, window: 0, last_work: 0, no_spin_until: 0, idle: None }
    }

    /// Queues have just begun: they are polled, or listened to.
    pub fn begin(&self, rounds: &mut impl Rounds) {
        rounds.set_notifications(self.poll == Poll::Never);
    }

    /// One turn, and a wait where there was nothing to do. `work`: there was something else
    /// to do.
    pub fn step(&mut self, rounds: &mut impl Rounds, work: bool) {
        let now = rounds.now();
        let work = rounds.turn(now) || work;
        let interrupted = self.idle.take().is_some_and(|began| now - began > INTERRUPTED);
        if work {
            self.last_work = now;
            return;
        }
        if interrupted && self.poll == Poll::Adaptive {
            self.no_spin_until = now + SPIN_BACKOFF;
            self.window = 0;
        }
        match self.poll {
            Poll::Always => std::hint::spin_loop(),
            Poll::Adaptive if now - self.last_work < self.window => {
                self.idle = Some(now);
                // A thread that waits for this core gets it now, such as a VMM that is to hand an
                // interrupt over; without one this costs a fraction of a microsecond.
                std::thread::yield_now();
            }
            Poll::Adaptive => self.wait(rounds, now, WAKE_AHEAD),
            Poll::Never => self.wait(rounds, now, 0),
        }
    }

    /// Waits until something rings, or a completion's time comes near.
    fn wait(&mut self, rounds: &mut impl Rounds, now: Nanos, ahead: Nanos) {
        let limit = |rounds: &mut _| Rounds::next_event(rounds).map(|at| at.saturating_sub(now));
        if limit(rounds).is_some_and(|limit| limit <= ahead) {
            std::hint::spin_loop();
            return;
        }
        if self.poll == Poll::Adaptive {
            rounds.set_notifications(true);
            if rounds.turn(now) {
                rounds.set_notifications(false);
                self.last_work = now;
                return;
            }
        }
        let due = limit(rounds).map(|limit| limit.saturating_sub(ahead));
        let look = rounds.next_look(now).map(|at| at.saturating_sub(now));
        let timeout = due.into_iter().chain(look).min();
        let rung = rounds.wait(timeout);
        if self.poll == Poll::Adaptive {
            rounds.set_notifications(false);
            let after = rounds.now();
            if rung {
                self.window = if after < self.no_spin_until {
                    0
                } else if after - now < MAX_SPIN {
                    (self.window * 2).clamp(FIRST_SPIN, MAX_SPIN)
                } else {
                    self.window / 2
                };
                self.last_work = after;
            }
        }
    }
}
