//! A thread's search for work: when it spins, when it waits, and for how long.
//!
//! While there is work it spins, and guests need not ring. When there was none for a while it asks
//! them to, and waits. How long it spins before that adapts as KVM's halt polling does: waits that
//! end soon make it longer, long ones shorter. Where others want the core, the thread does not spin: a
//! spinning thread is taken off it for as long as they like, a waiting one gets it when it is rung.
//! So it never gives the core away while it spins, and looks instead whether the scheduler takes it:
//! an interval between two turns that is too long says so, and so does the kernel's count of
//! preemptions beside a processor time that lags, which sees those within turns with work.

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
/// For how long a thread does not spin after that (ns), at first.
const SPIN_BACKOFF: Nanos = 1_000_000_000;
/// The same at most: it doubles each time that the thread was interrupted as soon as it span again.
const MAX_SPIN_BACKOFF: Nanos = 16_000_000_000;
/// Time between two looks at a thread's own use of its processor while it does not wait (ns).
const LOOK: Nanos = 1_000_000;
/// Time within which the core has to be lost twice (ns): a computer that nobody else uses runs something of its
/// own now and then.
const LOST_TWICE: Nanos = 50_000_000;
/// Time before a completion's time at which a thread stops waiting (ns): the possible lateness of
/// the host's timers.
const WAKE_AHEAD: Nanos = 60_000;

/// A thread's use of its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Time that the thread has run (ns).
    pub time: Nanos,
    /// Number of times that the scheduler has taken the processor away.
    pub preemptions: u64,
}

/// Work of a thread, and its clock.
pub trait Rounds {
    /// The time (ns).
    fn now(&self) -> Nanos;

    /// Returns the thread's own use of its processor, where the kernel tells it.
    fn usage(&self) -> Option<Usage> {
        None
    }

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
    /// Duration of not spinning after the last interruption (ns).
    backoff: Nanos,
    /// True if requests are announced also while there is work: as long as the thread does not spin.
    announced: bool,
    /// Time at which the last turn began, if it had no work and nothing was waited for.
    idle: Option<Nanos>,
    /// Time and usage at the last look, if nothing was waited for since.
    looked: Option<(Nanos, Usage)>,
    /// Time at which the core was found lost last.
    lost: Option<Nanos>,
}

impl Polling {
    /// Begins to look for work.
    pub fn new(poll: Poll) -> Self {
        Self {
            poll,
            window: 0,
            last_work: 0,
            no_spin_until: 0,
            backoff: 0,
            announced: poll == Poll::Never,
            idle: None,
            looked: None,
            lost: None,
        }
    }

    /// Queues have just begun: they are polled, or listened to.
    pub fn begin(&self, rounds: &mut impl Rounds) {
        rounds.set_notifications(self.announced);
    }

    /// One turn, and a wait where there was nothing to do. `work`: there was something else
    /// to do.
    pub fn step(&mut self, rounds: &mut impl Rounds, work: bool) {
        let now = rounds.now();
        // The thread has spun since: whatever came meanwhile, it had not the core.
        if self.idle.take().is_some_and(|began| now - began > INTERRUPTED) {
            self.lost_core(now);
        }
        self.look(rounds, now);
        if rounds.turn(now) || work {
            self.last_work = now;
            return;
        }
        match self.poll {
            Poll::Always => std::hint::spin_loop(),
            Poll::Adaptive if now - self.last_work < self.window => {
                self.idle = Some(now);
                std::hint::spin_loop();
            }
            Poll::Adaptive if now >= self.no_spin_until => self.wait(rounds, now, WAKE_AHEAD),
            // A thread that does not spin now is as one that never does.
            Poll::Adaptive | Poll::Never => self.wait(rounds, now, 0),
        }
    }

    /// Looks, now and then, whether others have had the core in a stretch without a wait.
    fn look(&mut self, rounds: &impl Rounds, now: Nanos) {
        let is_due = |(at, _): (Nanos, Usage)| now - at >= LOOK;
        if self.poll != Poll::Adaptive
            || now < self.no_spin_until
            || !self.looked.is_none_or(is_due)
        {
            return;
        }
        let Some(usage) = rounds.usage() else { return };
        if let Some((at, before)) = self.looked {
            let away = (now - at).saturating_sub(usage.time.saturating_sub(before.time));
            if away > INTERRUPTED && usage.preemptions > before.preemptions {
                self.lost_core(now);
            }
        }
        self.looked = Some((now, usage));
    }

    /// Others have had the core: if that is so again, or the thread has just begun to spin again, it does not
    /// spin for a while, and for longer each time.
    fn lost_core(&mut self, now: Nanos) {
        let soon = now.saturating_sub(self.no_spin_until) < self.backoff;
        let is_again = self.lost.replace(now).is_some_and(|lost| now - lost < LOST_TWICE);
        if !soon && !is_again {
            return;
        }
        self.backoff = match soon {
            true => (2 * self.backoff).min(MAX_SPIN_BACKOFF),
            false => SPIN_BACKOFF,
        };
        self.no_spin_until = now + self.backoff;
        self.window = 0;
    }

    /// Waits until something rings, or a completion's time comes near.
    fn wait(&mut self, rounds: &mut impl Rounds, now: Nanos, ahead: Nanos) {
        let limit = |rounds: &mut _| Rounds::next_event(rounds).map(|at| at.saturating_sub(now));
        if limit(rounds).is_some_and(|limit| limit <= ahead) {
            std::hint::spin_loop();
            return;
        }
        if !self.announced {
            rounds.set_notifications(true);
            self.announced = now < self.no_spin_until;
            if rounds.turn(now) {
                rounds.set_notifications(self.announced);
                self.last_work = now;
                return;
            }
        }
        let due = limit(rounds).map(|limit| limit.saturating_sub(ahead));
        let look = rounds.next_look(now).map(|at| at.saturating_sub(now));
        let timeout = due.into_iter().chain(look).min();
        let rung = rounds.wait(timeout);
        self.looked = None;
        if self.poll == Poll::Adaptive {
            let after = rounds.now();
            if !self.announced || after >= self.no_spin_until {
                self.announced = false;
                rounds.set_notifications(false);
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds whose time is a script's: a turn takes a microsecond, unless another thread has the core.
    #[derive(Default)]
    struct Script {
        now: std::cell::Cell<Nanos>,
        work: bool,
        waits: u32,
        /// Time that the next wait takes (ns).
        wait: Nanos,
        /// Time that others have had the core (ns), and how often they took it.
        away: Nanos,
        preemptions: u64,
    }

    impl Rounds for Script {
        fn now(&self) -> Nanos {
            self.now.set(self.now.get() + 1_000);
            self.now.get()
        }

        fn usage(&self) -> Option<Usage> {
            let time = self.now.get() - self.away;
            Some(Usage { time, preemptions: self.preemptions })
        }

        fn turn(&mut self, _: Nanos) -> bool {
            std::mem::take(&mut self.work)
        }

        fn set_notifications(&mut self, _: bool) {}

        fn next_event(&self) -> Option<Nanos> {
            None
        }

        fn wait(&mut self, _: Option<Nanos>) -> bool {
            self.waits += 1;
            self.now.set(self.now.get() + self.wait);
            true
        }
    }

    /// A thread that spins, as its waits have ended soon.
    fn spinning(script: &mut Script) -> Polling {
        let mut polling = Polling::new(Poll::Adaptive);
        script.wait = 5_000;
        while polling.window < MAX_SPIN {
            script.waits = 0;
            while script.waits == 0 {
                polling.step(script, false);
            }
        }
        polling
    }

    #[test]
    fn a_thread_that_is_interrupted_stops_spinning_even_if_there_is_work_then() {
        for work in [false, true] {
            let mut script = Script::default();
            let mut polling = spinning(&mut script);
            polling.step(&mut script, false);
            assert!(polling.idle.is_some(), "it spins");
            // Another thread has the core for a slice, twice; a request has come meanwhile.
            script.now.set(script.now.get() + 4_000_000);
            // Once may be by chance: it waits, and spins again.
            for _ in 0..2 {
                polling.step(&mut script, false);
            }
            assert!(polling.idle.is_some(), "it spins");
            script.now.set(script.now.get() + 4_000_000);
            (script.work, script.waits) = (work, 0);
            let mut steps = 0;
            let until = script.now.get() + SPIN_BACKOFF;
            while script.now.get() < until {
                polling.step(&mut script, false);
                steps += 1;
            }
            let turns_with_work = u32::from(work);
            assert_eq!(script.waits + turns_with_work, steps, "it waits whenever nothing is to do");
        }
    }

    #[test]
    fn a_thread_that_loses_the_core_within_a_turn_stops_spinning() {
        for preemptions in [0, 1] {
            let mut script = Script::default();
            let mut polling = spinning(&mut script);
            // Turns with work, in one of which another thread has the core: or it only takes long.
            for turn in 0..4_000 {
                script.work = true;
                polling.step(&mut script, false);
                if turn == 2_000 || turn == 3_500 {
                    script.now.set(script.now.get() + 4_000_000);
                    script.away += 4_000_000;
                    script.preemptions += preemptions;
                }
            }
            script.waits = 0;
            polling.step(&mut script, false);
            assert_eq!(u64::from(script.waits), preemptions, "it spins unless it was taken off");
        }
    }

    #[test]
    fn a_computer_that_stays_busy_is_tried_less_and_less_often() {
        let mut script = Script::default();
        let mut polling = spinning(&mut script);
        let mut interruptions = 0;
        let end = script.now.get() + 120 * SPIN_BACKOFF;
        while script.now.get() < end {
            polling.step(&mut script, false);
            // Whenever it spins, it loses the core.
            if polling.idle.is_some() {
                script.now.set(script.now.get() + 4_000_000);
                interruptions += 1;
            }
            script.wait = 50_000;
        }
        // After 1, 2, 4, 8, 16, 16... seconds.
        assert!((5..=12).contains(&interruptions), "{interruptions}");
    }
}
