//! The heuristics that infer from a queue's requests that a user waits at the screen: its weight is
//! raised for a while (Valente and Andreolini, "Improving Application Responsiveness with the BFQ
//! Disk I/O Scheduler", SYSTOR 2012; vIrtical D3.6, 2.3 and 2.4).

use stasis_block::clock::{Nanos, MILLISECOND, SECOND};

use super::BfqSpec;

/// An application that starts keeps the drive busy for as long as this much
/// takes at the drive's peak rate: 700 MB stands between the two pairs of rate
/// and time that Linux's BFQ was calibrated with (7 s at 109 MB/s on disks,
/// 2.5 s at 258 MB/s on flash).
const START: u64 = 700_000_000 / crate::SECTOR;
/// Bounds of that time (Linux's BFQ: 3 s, below which interactive tasks suffer,
/// to 25 s, the start of a large application on the slowest drives).
const MIN_TIME: Nanos = 3 * SECOND;
const MAX_TIME: Nanos = 25 * SECOND;
/// After an idle time of this length, a queue's next request is a user's doing (Linux's BFQ:
/// 2 s).
const USER_PAUSE: Nanos = 2 * SECOND;
/// A soft real-time application needs no more than this: compressed
/// high-definition video (D3.6, 2.4; Linux's BFQ: 7000 sectors/s).
const SOFT_RATE: u64 = 7_000;
/// And it pauses longer than the idle window by four ticks of its guest's clock
/// (D3.6, 3.2), here at 250 Hz, Debian's.
const SOFT_MARGIN: Nanos = 4 * 4 * MILLISECOND;
/// For how long it is then raised (Linux's BFQ: 300 ms, several frames).
const SOFT_TIME: Nanos = 300 * MILLISECOND;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Raise {
    until: Nanos,
    // Time since which all its requests are done; `None` while it has something, or had nothing
    // yet.
    idle_since: Option<Nanos>,
    known: bool,
    // Beginning and service of a sequence of requests without a pause.
    began: Nanos,
    served: u64,
    // A request before this comes from one that takes all it can get.
    soft_after: Nanos,
}

impl Raise {
    pub(super) fn is_on(&self, now: Nanos) -> bool {
        now < self.until
    }

    /// A request arrives at a queue with nothing waiting or in flight. `peak`
    /// is the drive's peak rate in sectors/s, 0 while it is not known.
    pub(super) fn arrives(&mut self, now: Nanos, spec: &BfqSpec, sync: bool, peak: u64) {
        let pause = self.idle_since.map(|since| now.saturating_sub(since));
        let user = !self.known || pause.is_some_and(|pause| pause >= USER_PAUSE);
        let soft = self.known && now >= self.soft_after;
        (self.known, self.idle_since, self.began, self.served) = (true, None, now, 0);
        if !spec.low_latency || !sync {
            return;
        }
        if user {
            let time = START.saturating_mul(SECOND).checked_div(peak).unwrap_or(MAX_TIME);
            self.until = self.until.max(now.saturating_add(time.clamp(MIN_TIME, MAX_TIME)));
        } else if soft {
            self.until = self.until.max(now.saturating_add(SOFT_TIME));
        }
    }

    pub(super) fn serve(&mut self, sectors: u64) {
        self.served += sectors;
    }

    /// All it asked for is done.
    pub(super) fn idles(&mut self, now: Nanos, spec: &BfqSpec) {
        self.idle_since = Some(now);
        let affordable = self.served.saturating_mul(SECOND) / SOFT_RATE;
        let isochronous = now.saturating_add(spec.idle).saturating_add(SOFT_MARGIN);
        self.soft_after = self.began.saturating_add(affordable).max(isochronous);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for `sectors` at each of the times, each served 1 ms later; returns
    /// when it was raised on arrival.
    fn raised_at(spec: &BfqSpec, sync: bool, peak: u64, asks: &[(Nanos, u64)]) -> Vec<bool> {
        let mut raise = Raise::default();
        let ask = |&(at, sectors): &(Nanos, u64)| {
            raise.arrives(at * MILLISECOND, spec, sync, peak);
            let on = raise.is_on(at * MILLISECOND);
            raise.serve(sectors);
            raise.idles((at + 1) * MILLISECOND, spec);
            on
        };
        asks.iter().map(ask).collect()
    }

    #[test]
    fn a_start_is_raised_for_the_time_of_a_large_application() {
        let spec = BfqSpec::default();
        let asks: Vec<_> = (0..3000).map(|at| (at * 10, 1000)).collect();
        for (rate, seconds) in [(0, 25), (10_000_000, 25), (70_000_000, 10), (2_000_000_000, 3)] {
            let raised = raised_at(&spec, true, rate / 512, &asks);
            let end = raised.iter().position(|on| !on).unwrap() / 100;
            assert_eq!(end, seconds, "at {rate} B/s");
        }
        assert!(!raised_at(&spec, false, 0, &asks).contains(&true), "nobody waits for it");
        let off = BfqSpec { low_latency: false, ..spec };
        assert!(!raised_at(&off, true, 0, &asks).contains(&true));
    }

    #[test]
    fn a_pause_is_a_users() {
        // At a peak rate that raises for 3 s, and asking for too much for video.
        let times = [0, 1500, 2990, 3010, 4500, 6502, 8000, 9000, 9510];
        let raised = raised_at(&BfqSpec::default(), true, 4_000_000, &times.map(|at| (at, 20_000)));
        assert_eq!(raised, [true, true, true, false, false, true, true, true, false]);
    }

    #[test]
    fn a_player_is_raised_and_a_greedy_reader_is_not() {
        let spec = BfqSpec::default();
        let begin = 4000;
        // A player: 64 KiB each 40 ms, 1.6 MB/s. Too fast for one: 512 KiB.
        let every = |step: u64, sectors| (0..500).map(move |at| (at * step, sectors));
        let player: Vec<_> = every(40, 128).filter(|ask| ask.0 >= begin || ask.0 < 40).collect();
        let raised = raised_at(&spec, true, 4_000_000, &player);
        assert!(raised.iter().all(|on| *on), "the pause, then as a player");
        let heavy: Vec<_> = every(40, 1024).collect();
        assert!(!raised_at(&spec, true, 4_000_000, &heavy)[100..].contains(&true));
        // Greedy, at a rate as low as a player's: next as soon as the last is done.
        let greedy: Vec<_> = every(20, 8).collect();
        assert!(!raised_at(&spec, true, 4_000_000, &greedy)[200..].contains(&true));
    }
}
