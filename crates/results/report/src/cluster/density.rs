//! Number of events over time, in steps that grow with the time.

use stasis_block::clock::Nanos;

/// Limit on the steps.
const MAX_STEPS: usize = 256;
/// Length of a step at first (ns): about a millisecond.
const FIRST: Nanos = 1 << 20;

/// Counts over time.
#[derive(Debug, Clone)]
pub(crate) struct Density {
    /// Length of a step (ns).
    pub step: Nanos,
    /// The counts, from time 0 on.
    pub counts: Vec<u64>,
}

impl Default for Density {
    fn default() -> Self {
        Self { step: FIRST, counts: Vec::new() }
    }
}

impl Density {
    /// One more, at `at` (ns).
    pub(crate) fn add(&mut self, at: Nanos) {
        while at / self.step >= MAX_STEPS as u64 {
            self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.step *= 2;
        }
        let place = (at / self.step) as usize;
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_and_nothing_is_lost() {
        let mut density = Density::default();
        let times = [0, 1, FIRST, 255 * FIRST, 256 * FIRST, 90_000_000_000, 3];
        times.into_iter().for_each(|at| density.add(at));
        assert!(density.counts.len() <= MAX_STEPS && density.step >= 90_000_000_000 / 256);
        assert_eq!(density.counts.iter().sum::<u64>(), times.len() as u64);
        assert_eq!((density.counts[0], density.counts[density.counts.len() - 1]), (6, 1));
        density.add(u64::MAX / 2);
        assert!(density.counts.len() <= MAX_STEPS);
    }
}
