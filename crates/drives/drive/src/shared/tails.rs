//! Tail latencies over virtual time of all who share a drive.

use stasis_block::clock::Nanos;
use stasis_run_events::TenantTail;

/// Steps of time that are kept at most; when a run outgrows them, their length doubles.
const STEPS: usize = 64;
/// Length of a step at first: 2^20 ns, about a millisecond.
const FIRST: u32 = 20;
/// Parts of each factor of two of latency: 1/32 is how far a percentile may be above the latency
/// that it stands for.
const PARTS: usize = 32;
const PART_BITS: u32 = PARTS.trailing_zeros();
/// Latencies from 2^42 ns (73 min) on count as the longest of their step.
const OCTAVES: u32 = 42;
const BUCKETS: usize = (OCTAVES - PART_BITS + 1) as usize * PARTS;

/// Number of latencies of each size in each step, and the longest of each.
struct Tail {
    name: String,
    counts: Vec<u32>,
    longest: [Nanos; STEPS],
}

/// Latencies of tenants of one drive, in common steps of time.
pub(super) struct Tails {
    from: Option<Nanos>,
    shift: u32,
    tenants: Vec<Tail>,
}

impl Tails {
    pub(super) fn new() -> Self {
        Self { from: None, shift: FIRST, tenants: Vec::new() }
    }

    /// One more tenant; returns its place.
    pub(super) fn add(&mut self, name: &str) -> usize {
        let counts = vec![0; STEPS * BUCKETS];
        self.tenants.push(Tail { name: name.to_owned(), counts, longest: [0; STEPS] });
        self.tenants.len() - 1
    }

    /// Requests that complete from `now` on count.
    pub(super) fn start(&mut self, now: Nanos) {
        self.from.get_or_insert(now);
    }

    /// A request of the tenant at `place` took `latency`, and completed at `at`.
    pub(super) fn record(&mut self, place: usize, at: Nanos, latency: Nanos) {
        let Some(since) = self.from.map(|from| at.saturating_sub(from)) else { return };
        while since >> self.shift >= STEPS as u64 {
            self.shift += 1;
            self.tenants.iter_mut().for_each(Tail::halve);
        }
        let Some(tail) = self.tenants.get_mut(place) else { return };
        let step = (since >> self.shift) as usize;
        let count = &mut tail.counts[step * BUCKETS + bucket(latency)];
        *count = count.saturating_add(1);
        tail.longest[step] = tail.longest[step].max(latency);
    }

    /// Returns the beginning of the first step, and the length of each (ns).
    pub(super) fn steps(&self) -> (Nanos, Nanos) {
        (self.from.unwrap_or(0), 1 << self.shift)
    }

    /// Returns the tails of the tenants at these places in the steps until `now`; the last one may
    /// not be over.
    pub(super) fn report(
        &self,
        now: Nanos,
        places: impl Iterator<Item = usize>,
    ) -> Vec<TenantTail> {
        let until = self.from.map_or(0, |from| now.saturating_sub(from));
        let steps = (until.div_ceil(1 << self.shift) as usize).min(STEPS);
        let tenant_tail = |tail: &Tail| {
            let counts = |step: usize| &tail.counts[step * BUCKETS..(step + 1) * BUCKETS];
            let requests = |step| counts(step).iter().map(|count| u64::from(*count)).sum();
            TenantTail {
                name: tail.name.clone(),
                requests_each_step: (0..steps).map(requests).collect(),
                p99_ns_each_step: (0..steps)
                    .map(|step| p99(counts(step), tail.longest[step]))
                    .collect(),
            }
        };
        places.filter_map(|place| self.tenants.get(place)).map(tenant_tail).collect()
    }
}

impl Tail {
    /// Joins each two steps.
    fn halve(&mut self) {
        for step in 0..STEPS {
            for part in 0..BUCKETS {
                let count_at =
                    |step: usize| self.counts.get(step * BUCKETS + part).copied().unwrap_or(0);
                self.counts[step * BUCKETS + part] =
                    count_at(2 * step).saturating_add(count_at(2 * step + 1));
            }
            let longest_at = |step: usize| self.longest.get(step).copied().unwrap_or(0);
            self.longest[step] = longest_at(2 * step).max(longest_at(2 * step + 1));
        }
    }
}

/// The bucket of a latency: one for each value below [`PARTS`], then so many for each factor of two.
fn bucket(latency: Nanos) -> usize {
    let Some(octave) = latency.checked_ilog2().filter(|octave| *octave >= PART_BITS) else {
        return latency as usize;
    };
    if octave >= OCTAVES {
        return BUCKETS - 1;
    }
    let part = (latency >> (octave - PART_BITS)) as usize % PARTS;
    (octave - PART_BITS + 1) as usize * PARTS + part
}

/// The longest latency of a bucket; none of the last, which is open.
fn end(bucket: usize) -> Option<Nanos> {
    if bucket < PARTS {
        return Some(bucket as Nanos);
    }
    let shift = (bucket / PARTS - 1) as u32;
    (bucket < BUCKETS - 1).then(|| (((PARTS + bucket % PARTS + 1) as Nanos) << shift) - 1)
}

/// Returns the 99th percentile by nearest rank; `None` without requests.
fn p99(counts: &[u32], longest: Nanos) -> Option<Nanos> {
    let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    let rank = (all * 99).div_ceil(100);
    let mut counted = 0;
    let reached = counts.iter().position(|count| {
        counted += u64::from(*count);
        all > 0 && counted >= rank
    })?;
    Some(end(reached).unwrap_or(longest).min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_its_own_percentile() {
        let mut tails = Tails::new();
        let quiet = tails.add("quiet");
        tails.record(quiet, 5, 1 << 30);
        tails.start(1_000_000_000);
        let noisy = tails.add("noisy");
        // 200 ms, of which the noisy one suffers in the second half: 100 requests each ms.
        for at in 0..20_000u64 {
            let now = 1_000_000_000 + at * 10_000;
            tails.record(quiet, now, 100_000);
            tails.record(noisy, now, if at < 10_000 { 50_000 } else { 5_000_000 });
        }
        let (from, step) = tails.steps();
        assert_eq!((from, step), (1_000_000_000, 1 << 22));
        let report = tails.report(1_200_000_000, 0..2);
        let [quiet, noisy] = &report[..] else { panic!("{}", report.len()) };
        assert_eq!((quiet.name.as_str(), noisy.name.as_str()), ("quiet", "noisy"));
        assert_eq!(quiet.requests_each_step.iter().sum::<u64>(), 20_000);
        assert_eq!(quiet.p99_ns_each_step, [Some(100_000); 48]);
        let boundary = (100_000_000 >> 22) as usize;
        assert_eq!(noisy.p99_ns_each_step[..boundary], [Some(50_000); 23]);
        assert_eq!(noisy.p99_ns_each_step[boundary + 1..], [Some(5_000_000); 24]);
    }

    #[test]
    fn a_percentile_is_no_more_than_a_part_above_the_latency_it_stands_for() {
        for count in [1usize, 7, 99, 100, 101, 5000] {
            let draw = |index: usize| stasis_block::splitmix::nth(count as u64, index as u64);
            let mut latencies: Vec<_> =
                (0..count).map(|index| draw(index) >> (index % 60)).collect();
            let mut tails = Tails::new();
            let place = tails.add("one");
            tails.start(0);
            latencies.iter().for_each(|latency| tails.record(place, 10, *latency));
            latencies.sort_unstable();
            let exact = latencies[(count * 99).div_ceil(100) - 1];
            let p99 = tails.report(11, 0..1)[0].p99_ns_each_step[0].unwrap();
            assert!(p99 >= exact, "{count}: {p99} < {exact}");
            if exact < 1 << OCTAVES {
                assert!(p99 - exact <= exact / PARTS as u64, "{count}: {p99} > {exact}");
            }
        }
        let mut tails = Tails::new();
        tails.add("none");
        tails.start(7);
        assert_eq!(tails.report(8, 0..1)[0].p99_ns_each_step, [None]);
        tails.record(0, u64::MAX, u64::MAX);
        assert_eq!(tails.report(u64::MAX, 0..1)[0].p99_ns_each_step.last(), Some(&Some(u64::MAX)));
    }

    #[test]
    fn a_latency_is_within_its_bucket() {
        for latency in
            (0..3000).chain((5..OCTAVES).flat_map(|o| [(1 << o) - 1, 1 << o, (1 << o) + 1]))
        {
            let place = bucket(latency);
            assert!(place < BUCKETS && end(place).is_none_or(|end| latency <= end), "{latency}");
            assert!(place == 0 || end(place - 1).unwrap() < latency, "{latency}");
        }
    }
}
