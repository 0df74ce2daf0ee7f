//! The least of a set that changes one member at a time, as in a tournament: each
//! node keeps the least of the four below it (Knuth, The Art of Computer
//! Programming 3, 5.4.1), which are one line of the processor's cache.
//!
//! A change goes up for as long as it changes the winner: for one that does not win
//! that is a node or two, for the winner the logarithm.

/// Behind all members' keys: of a number that is no member.
const NOBODY: u128 = u128::MAX;

const WIDTH: usize = 4;

/// The keys below one node.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Four([u128; WIDTH]);

const EMPTY: Four = Four([NOBODY; WIDTH]);

impl Four {
    fn least(&self, less: impl Fn(u128, u128) -> bool) -> u128 {
        let lesser = |one, other| if less(other, one) { other } else { one };
        let [a, b, c, d] = self.0;
        lesser(lesser(a, b), lesser(c, d))
    }
}

/// Members by number, from 0 on, each with its key.
#[derive(Debug, Default)]
pub(super) struct Tournament {
    least: Option<u128>,
    // First the root's four; below key k of them all are the four of number k + 1.
    // Of the last level, the members, there are only the first.
    fours: Vec<Four>,
    // Number of nodes before the last level.
    inner: usize,
}

fn is_less(one: u128, other: u128) -> bool {
    one < other
}

impl Tournament {
    /// The least key.
    pub(super) fn least(&self) -> Option<u128> {
        self.least
    }

    pub(super) fn is_empty(&self) -> bool {
        self.least.is_none()
    }

    /// Makes room for this many numbers, so that nothing is allocated later.
    pub(super) fn reserve(&mut self, numbers: u32) {
        self.grow(numbers, is_less);
    }

    /// Gives this key to a number within the room.
    pub(super) fn insert(&mut self, number: u32, key: u128) {
        self.put(number, key, is_less);
    }

    /// Removes the number's key.
    pub(super) fn remove(&mut self, number: u32) {
        self.put(number, NOBODY, is_less);
    }

    fn grow(&mut self, numbers: u32, less: impl Fn(u128, u128) -> bool + Copy) {
        let last = (numbers as usize).div_ceil(WIDTH);
        // The last level is three times as many and one, if it is whole.
        while (WIDTH - 1) * self.inner + 1 < last {
            let members = self.fours.split_off(self.inner.min(self.fours.len()));
            self.inner = WIDTH * self.inner + 1;
            self.fours.clear();
            self.fours.resize(self.inner + members.len(), EMPTY);
            let keys = members.iter().flat_map(|four| four.0);
            keys.zip(0..).for_each(|(key, number)| self.put(number, key, less));
        }
        self.fours.resize(self.fours.len().max(self.inner + last), EMPTY);
    }

    fn put(&mut self, number: u32, mut key: u128, less: impl Fn(u128, u128) -> bool + Copy) {
        let number = number as usize;
        let (mut at, mut place) = (self.inner + number / WIDTH, number % WIDTH);
        loop {
            let four = &mut self.fours[at];
            four.0[place] = key;
            key = four.least(less);
            if at == 0 {
                self.least = Some(key).filter(|&key| key != NOBODY);
                return;
            }
            (at, place) = ((at - 1) / WIDTH, (at - 1) % WIDTH);
            if self.fours[at].0[place] == key {
                return;
            }
        }
    }
}

/// Members by number, each with a time of less than 2^96; those of one time are in
/// the order of their keys.
#[derive(Debug, Default)]
pub(super) struct Timed {
    // By time and number: entities of the same time are rare, and looked up.
    times: Tournament,
    keys: Vec<u128>,
}

/// The number that a time stands with.
fn number(time: u128) -> u32 {
    time as u32
}

/// Orders times that have numbers, and their keys.
fn in_time(keys: &[u128]) -> impl Fn(u128, u128) -> bool + Copy + '_ {
    move |one, other| {
        if (one ^ other) >> u32::BITS == 0 {
            let key = |time| keys.get(number(time) as usize);
            return key(one).is_some_and(|one| key(other).is_none_or(|other| one < other));
        }
        one < other
    }
}

impl Timed {
    /// The first time, and the least key of it.
    pub(super) fn least(&self) -> Option<(u128, u128)> {
        let time = self.times.least()?;
        Some((time >> u32::BITS, self.keys[number(time) as usize]))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Makes room for this many numbers.
    pub(super) fn reserve(&mut self, numbers: u32) {
        self.times.grow(numbers, in_time(&self.keys));
        self.keys.resize(self.keys.len().max(numbers as usize), NOBODY);
    }

    /// A number that is no member gets this time and key.
    pub(super) fn insert(&mut self, number: u32, time: u128, key: u128) {
        self.keys[number as usize] = key;
        let time = time << u32::BITS | u128::from(number);
        self.times.put(number, time, in_time(&self.keys));
    }

    /// The number's time and key go.
    pub(super) fn remove(&mut self, number: u32) {
        self.times.put(number, NOBODY, in_time(&self.keys));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against maps that are searched from end to end, while room is made.
        #[test]
        fn the_least_is_the_least(
            steps in prop::collection::vec((0u32..300, 0u128..5, 0u128..50, any::<bool>()), 1..600),
        ) {
            let (mut keys, mut timed) = (Tournament::default(), Timed::default());
            let (mut map, mut room) = (BTreeMap::new(), 0);
            for (number, time, key, insert) in steps {
                room = room.max(number + 1);
                keys.reserve(room);
                timed.reserve(room);
                let key = key << 32 | u128::from(number);
                if map.remove(&number).is_some() {
                    timed.remove(number);
                }
                if insert {
                    keys.insert(number, key);
                    timed.insert(number, time, key);
                    map.insert(number, (time, key));
                } else {
                    keys.remove(number);
                }
                prop_assert_eq!(keys.least(), map.values().map(|entry| entry.1).min());
                prop_assert_eq!(timed.least(), map.values().min().copied());
                prop_assert_eq!((keys.is_empty(), timed.is_empty()), (map.is_empty(), map.is_empty()));
            }
        }
    }
}
