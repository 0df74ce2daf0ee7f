//! Use of channels and LUNs over time, in few numbers.

use stasis_block::clock::Nanos;

/// Buckets of time: twice as many are merged.
const BUCKETS: usize = 64;
/// The width of a bucket at first: 2^16 ns, about 66 us.
const SHIFT: u32 = 16;

/// Busy time (ns) of each of several resources, in a bounded number of buckets
/// of equal width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    resources: usize,
    shift: u32,
    // Bucket by bucket, each with every resource.
    busy: Vec<Nanos>,
}

impl Usage {
    /// Creates the record of `resources` resources that were never busy.
    pub(crate) fn new(resources: u32) -> Self {
        let resources = resources as usize;
        Self { resources, shift: SHIFT, busy: vec![0; 2 * BUCKETS * resources] }
    }

    /// The width of a bucket (ns).
    pub fn width(&self) -> Nanos {
        1 << self.shift
    }

    /// Returns the time for which a resource was busy (ns) in each bucket, from time 0 on, up to
    /// the last in which anything was.
    pub fn of(&self, resource: u32) -> impl Iterator<Item = Nanos> + '_ {
        let used = self.busy.iter().rposition(|&busy| busy > 0).map_or(0, |last| last + 1);
        let buckets = used.div_ceil(self.resources);
        (0..buckets).map(move |bucket| self.busy[bucket * self.resources + resource as usize])
    }

    /// Returns the time for which a resource was busy (ns).
    pub fn total(&self, resource: u32) -> Nanos {
        self.of(resource).sum()
    }

    /// The resource was busy from `start` to `end`.
    pub(crate) fn add(&mut self, resource: u32, start: Nanos, end: Nanos) {
        if end <= start {
            return;
        }
        while (end - 1) >> self.shift >= 2 * BUCKETS as u64 {
            self.merge();
        }
        let resource = resource as usize;
        let (first, last) = ((start >> self.shift) as usize, ((end - 1) >> self.shift) as usize);
        if first == last {
            self.busy[first * self.resources + resource] += end - start;
            return;
        }
        for bucket in first..=last {
            let from = start.max((bucket as u64) << self.shift);
            let until = end.min((bucket as u64 + 1) << self.shift);
            self.busy[bucket * self.resources + resource] += until - from;
        }
    }

    /// Makes buckets twice as wide, and half as many.
    fn merge(&mut self) {
        let row = self.resources;
        for bucket in 0..BUCKETS {
            for resource in 0..row {
                let two = 2 * bucket * row + resource;
                self.busy[bucket * row + resource] = self.busy[two] + self.busy[two + row];
            }
        }
        self.busy[BUCKETS * row..].fill(0);
        self.shift += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the intervals themselves.
        #[test]
        fn buckets_hold_what_intervals_cover(
            spans in prop::collection::vec((0u32..3, 0u64..1 << 26, 0u64..1 << 22), 1..40),
        ) {
            let mut usage = Usage::new(3);
            for &(resource, start, length) in &spans {
                usage.add(resource, start, start + length);
            }
            for resource in 0..3 {
                let width = usage.width();
                for (bucket, busy) in usage.of(resource).enumerate() {
                    let (from, until) = (bucket as u64 * width, (bucket as u64 + 1) * width);
                    let expected: u64 = spans.iter().filter(|span| span.0 == resource)
                        .map(|&(_, start, length)| {
                            (start + length).min(until).saturating_sub(start.max(from))
                        })
                        .sum();
                    prop_assert_eq!(busy, expected);
                }
                let all: u64 =
                    spans.iter().filter(|span| span.0 == resource).map(|span| span.2).sum();
                prop_assert_eq!(usage.total(resource), all);
                prop_assert!(usage.of(resource).count() <= 2 * BUCKETS);
            }
        }
    }
}
