//! Requests for help, and the grant of help: the coordination of the publication
//! (vIrtical D3.6, 9.3), with a bound.
//!
//! Everyone has a token bucket of help, full at first: while it is given it runs down
//! with time. All buckets together fill at `share` of time, in equal parts for
//! those that are not full. So within any time t one gets at most `burst` +
//! `share` x t of help, all n together at most n x `burst` + `share` x t, and
//! one that always asks takes nothing from the buckets of those that rarely do.

use stasis_block::clock::Nanos;

/// A part of time is counted in millionths, a bucket in millionths of a ns.
const WHOLE: u128 = 1_000_000;
/// Help that ran out begins again with this part of a full bucket, so that it
/// does not flicker.
const RESUME: u128 = 20;

#[derive(Debug)]
struct Member {
    queue: u32,
    asks: bool,
    given: bool,
    tokens: u128,
    calls: u64,
    helped: Nanos,
    unhelped: Nanos,
}

/// Account of help: calls, time helped, time asked in vain.
pub type Account = (u64, Nanos, Nanos);

/// The token buckets of all that share a drive, for those who schedule it and for those who have
/// another program do it.
#[derive(Debug)]
pub struct Help {
    share: u128,
    full: u128,
    members: Vec<Member>,
    now: Nanos,
    next: Option<Nanos>,
    changed: Vec<u32>,
}

impl Help {
    /// `share` in millionths of time, `burst` in ns.
    pub fn new(share: u32, burst: Nanos) -> Self {
        let (share, full) = (u128::from(share).min(WHOLE), u128::from(burst) * WHOLE);
        Self { share, full, members: Vec::new(), now: 0, next: None, changed: Vec::new() }
    }

    /// A queue begins or ends to ask.
    pub fn request(&mut self, now: Nanos, queue: u32, on: bool) {
        self.advance(now);
        let at = self.members.iter().position(|member| member.queue == queue);
        let at = at.unwrap_or_else(|| {
            let tokens = self.full;
            let (calls, helped, unhelped) = (0, 0, 0);
            let asks = false;
            self.members.push(Member {
                queue,
                asks,
                given: false,
                tokens,
                calls,
                helped,
                unhelped,
            });
            self.members.len() - 1
        });
        let member = &mut self.members[at];
        if member.asks != on {
            member.calls += 1;
        }
        member.asks = on;
        self.decide();
    }

    /// The queue is gone, and its bucket with it.
    pub fn forget(&mut self, now: Nanos, queue: u32) {
        self.advance(now);
        self.members.retain(|member| member.queue != queue);
        self.decide();
    }

    /// Returns whether the queue has help now.
    pub fn is_given(&self, queue: u32) -> bool {
        self.members.iter().any(|member| member.queue == queue && member.given)
    }

    /// Returns the time at which help next begins or ends by itself.
    pub fn next(&self) -> Option<Nanos> {
        self.next
    }

    /// A queue for which help began or ended, once for each.
    pub fn pop_changed(&mut self) -> Option<u32> {
        self.changed.pop()
    }

    /// Account of the queue until `now`.
    pub fn account(&self, now: Nanos, queue: u32) -> Account {
        let member = self.members.iter().find(|member| member.queue == queue);
        member.map_or((0, 0, 0), |member| {
            let since = now.saturating_sub(self.now);
            let helped = member.helped + if member.given { since } else { 0 };
            let vain = member.asks && !member.given;
            (member.calls, helped, member.unhelped + if vain { since } else { 0 })
        })
    }

    /// Advances time to `now`.
    pub fn advance(&mut self, now: Nanos) {
        while self.now < now {
            let until = self.next.map_or(now, |next| next.min(now));
            self.pass(until - self.now);
            self.now = until;
            self.decide();
        }
    }

    fn fills(&self, member: &Member) -> bool {
        member.given || member.tokens < self.full
    }

    /// Rate at which a filling bucket gains (per ns).
    fn gain(&self) -> u128 {
        let filling = self.members.iter().filter(|member| self.fills(member)).count();
        self.share / (filling.max(1) as u128)
    }

    fn pass(&mut self, time: Nanos) {
        let (gain, full) = (self.gain(), self.full);
        for member in &mut self.members {
            if member.given || member.tokens < full {
                let gained = member.tokens + gain * u128::from(time);
                let spent = if member.given { WHOLE * u128::from(time) } else { 0 };
                member.tokens = gained.saturating_sub(spent).min(full);
            }
            member.helped += if member.given { time } else { 0 };
            member.unhelped += if member.asks && !member.given { time } else { 0 };
        }
    }

    /// Begins and ends help, and finds when that, or who fills, changes next.
    fn decide(&mut self) {
        let enough = self.full / RESUME;
        for member in &mut self.members {
            let lowest = if member.given { 0 } else { enough };
            let given = member.asks && member.tokens > lowest;
            if given != member.given {
                member.given = given;
                self.changed.push(member.queue);
            }
        }
        let gain = self.gain();
        let mut next: Option<u128> = None;
        for member in &self.members {
            let wait = if member.given {
                (gain < WHOLE).then(|| member.tokens.div_ceil(WHOLE - gain))
            } else if !self.fills(member) || gain == 0 {
                None
            } else if member.asks {
                Some((enough + 1).saturating_sub(member.tokens).div_ceil(gain))
            } else {
                Some((self.full - member.tokens).div_ceil(gain))
            };
            next = wait.map_or(next, |wait| Some(next.map_or(wait, |next| next.min(wait))));
        }
        self.next = next.map(|wait| {
            let wait = Nanos::try_from(wait.max(1)).unwrap_or(Nanos::MAX);
            self.now.saturating_add(wait)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// For any requests at any times: nobody gets more than burst + share x time in any time,
        /// all together no more than their bursts + share x time.
        #[test]
        fn help_keeps_its_bounds(
            share in 0u32..=1_000_000,
            burst in 1u64..2_000,
            steps in prop::collection::vec((0u32..4, any::<bool>(), 0u64..500), 1..80),
        ) {
            let mut help = Help::new(share, burst);
            let (mut now, mut history) = (0, vec![(0, [0; 4])]);
            for (queue, on, pause) in steps {
                help.request(now, queue, on);
                now += pause;
                help.advance(now);
                history.push((now, [0, 1, 2, 3].map(|queue| help.account(now, queue).1)));
                for (then, before) in &history {
                    let (passed, got) = (now - then, &history[history.len() - 1].1);
                    let filled = passed * u64::from(share) / 1_000_000 + 1;
                    let each: Vec<_> = got.iter().zip(before).map(|(new, old)| new - old).collect();
                    // A bucket ends at a whole ns: one ns each time it runs out,
                    // which takes a twentieth of it to begin again.
                    let rounding = 2 + 20 * passed / burst.max(20);
                    for &one in &each {
                        prop_assert!(one <= burst + filled + rounding, "{one} of {passed}");
                    }
                    let all: u64 = each.iter().sum();
                    prop_assert!(all <= 4 * burst + filled + 4 * rounding, "{all} of {passed}");
                }
            }
        }

        /// Two that always ask get the same, to a bucket's twentieth.
        #[test]
        fn help_is_shared_fairly(share in 1_000u32..=1_000_000, others in 1u32..6) {
            let (burst, mut help) = (1_000_000u64, Help::new(share, 1_000_000));
            (0..=others).for_each(|queue| help.request(0, queue, true));
            let now = 200 * burst;
            help.advance(now);
            let first = help.account(now, 0).1;
            for queue in 1..=others {
                let other = help.account(now, queue).1;
                prop_assert!(first.abs_diff(other) <= burst / 20 + 20, "{first} {other}");
            }
        }

        /// One that asks rarely finds its bucket full, even if others ask always.
        #[test]
        fn the_greedy_do_not_drain_the_modest(share in 100_000u32..=1_000_000) {
            let burst = 1_000_000u64;
            let mut help = Help::new(share, burst);
            help.request(0, 0, true);
            help.request(50 * burst, 1, true);
            let now = 50 * burst + burst;
            help.advance(now);
            prop_assert_eq!(help.account(now, 1).1, burst);
        }
    }
}
