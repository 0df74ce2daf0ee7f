//! The slowest of many commands, by operation and in bounded memory.

use std::cmp::Reverse;

use crate::clock::Nanos;
use crate::Operation;

/// Commands of an operation that are kept.
pub const SLOWEST: usize = 20;

/// The [`SLOWEST`] slowest of some commands; of those that took as long the first.
#[derive(Debug, Clone)]
pub struct Slowest<T> {
    /// Each with its time and its number.
    kept: Vec<(Nanos, u64, T)>,
    /// The shortest time of them, once there are enough.
    least: Option<Nanos>,
    count: u64,
}

impl<T> Default for Slowest<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), least: None, count: 0 }
    }
}

impl<T: Clone> Slowest<T> {
    /// Takes a command whose time is `time`; `command` describes it, where it is among the slowest.
    #[inline]
    pub fn record(&mut self, time: Nanos, command: impl FnOnce() -> T) {
        if self.least.is_none_or(|least| time > least) {
            self.keep(time, command());
        }
    }

    fn keep(&mut self, time: Nanos, command: T) {
        let rank = |kept: &(Nanos, u64, T)| (kept.0, Reverse(kept.1));
        if self.kept.len() == SLOWEST {
            let least = (0..SLOWEST).min_by_key(|&place| rank(&self.kept[place]));
            self.kept.swap_remove(least.unwrap_or_default());
        }
        self.kept.push((time, self.count, command));
        self.count += 1;
        if self.kept.len() == SLOWEST {
            self.least = self.kept.iter().map(|kept| kept.0).min();
        }
    }

    /// Returns all kept entries, the slowest first.
    pub fn sorted(&self) -> Vec<T> {
        self.ordered().into_iter().map(|kept| kept.2.clone()).collect()
    }

    fn ordered(&self) -> Vec<&(Nanos, u64, T)> {
        let mut all: Vec<_> = self.kept.iter().collect();
        all.sort_by_key(|kept| (Reverse(kept.0), kept.1));
        all
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.least = None;
    }
}

/// The [`SLOWEST`] slowest commands of each operation.
#[derive(Debug, Clone)]
pub struct SlowestByOperation<T>([Slowest<T>; Operation::ALL.len()]);

impl<T> Default for SlowestByOperation<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Slowest::default()))
    }
}

impl<T: Clone> SlowestByOperation<T> {
    /// Takes a command, see [`Slowest::record`].
    #[inline]
    pub fn record(&mut self, operation: Operation, time: Nanos, command: impl FnOnce() -> T) {
        self.0[operation as usize].record(time, command);
    }

    /// Returns all kept entries, the slowest first; entries of one latency are in the order of
    /// operations.
    pub fn sorted(&self) -> Vec<T> {
        let mut all: Vec<_> = self.0.iter().flat_map(Slowest::ordered).collect();
        all.sort_by_key(|kept| Reverse(kept.0));
        all.into_iter().map(|kept| kept.2.clone()).collect()
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(Slowest::clear);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_those_of_a_sorted_list(times in prop::collection::vec(0u64..50, 0..200)) {
            let mut slowest = Slowest::default();
            let mut all: Vec<_> = times.into_iter().enumerate().collect();
            all.iter().for_each(|&(number, time)| slowest.record(time, || (number, time)));
            all.sort_by_key(|&(number, time)| (Reverse(time), number));
            all.truncate(SLOWEST);
            prop_assert_eq!(slowest.sorted(), all);
            slowest.clear();
            prop_assert!(slowest.sorted().is_empty());
        }

        /// Fast operations keep theirs beside slow ones.
        #[test]
        fn each_operation_keeps_its_own(times in prop::collection::vec((0u64..50, 0usize..2), 0..200)) {
            let mut slowest = SlowestByOperation::default();
            let operations = [Operation::Read, Operation::Write];
            for (time, operation) in times.iter().copied() {
                let time = time + 1000 * operation as u64;
                slowest.record(operations[operation], time, || (time, operation));
            }
            let all = slowest.sorted();
            prop_assert!(all.is_sorted_by(|a, b| a.0 >= b.0));
            for operation in 0..2 {
                let count_of = |all: &[(u64, usize)]| all.iter().filter(|one| one.1 == operation).count();
                prop_assert_eq!(count_of(&all), count_of(&times).min(SLOWEST));
            }
        }
    }
}
