//! I/O priorities, as in ioprio_set(2) and virtio-blk's request header, and weights.

use serde::{Deserialize, Serialize};
use stasis_block::clock::{Nanos, MILLISECOND};

/// The smallest and largest weight of a queue or group (as cgroup v2's
/// `io.bfq.weight`, so that a real host's settings carry over).
pub const WEIGHTS: std::ops::RangeInclusive<u32> = 1..=1000;

/// The default weight (cgroup v2's default).
pub const DEFAULT_WEIGHT: u32 = 100;

/// Time for which `bfq` and `cfq` let a class wait for those before it until it gets a little:
/// strict order would starve it (CFQ's and BFQ's timeout for the idle class, 0.2 s; here for every
/// class).
pub(crate) const CLASS_WAIT: Nanos = 200 * MILLISECOND;

/// Classes of priority; an earlier one goes before a later one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Before all others.
    RealTime,
    /// The ordinary class of I/O.
    #[default]
    BestEffort,
    /// Served when nothing else waits.
    Idle,
}

impl Class {
    pub(crate) const COUNT: usize = 3;

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// A class, and a level in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Priority {
    /// Its class.
    pub class: Class,
    /// From 0, the highest, to [`Priority::LOWEST`].
    pub level: u8,
}

impl Default for Priority {
    fn default() -> Self {
        Self { class: Class::default(), level: Self::DEFAULT_LEVEL }
    }
}

impl Priority {
    /// The lowest level (`IOPRIO_NR_LEVELS` - 1).
    pub const LOWEST: u8 = 7;
    /// The default level (`IOPRIO_BE_NORM`).
    pub const DEFAULT_LEVEL: u8 = 4;

    /// Reads the number of ioprio_set(2), which is also the field `ioprio` of virtio-blk's header
    /// as Linux fills it: class in bits 13 to 15, level in bits 0 to 2. Bits between them are
    /// hints. `None` for class 0, which is unspecified, and for numbers that are no class.
    pub fn from_ioprio(number: u32) -> Option<Self> {
        let class = match number >> 13 {
            1 => Class::RealTime,
            2 => Class::BestEffort,
            3 => Class::Idle,
            _ => return None,
        };
        Some(Self { class, level: (number & 7) as u8 })
    }

    /// The weight of a level: falling by equal steps as BFQ's does, and with
    /// the default weight at the default level.
    pub fn weight(self) -> u32 {
        let step = DEFAULT_WEIGHT / u32::from(Self::LOWEST + 1 - Self::DEFAULT_LEVEL);
        step * u32::from(Self::LOWEST + 1 - self.level.min(Self::LOWEST))
    }
}

/// The next class: the first that waits, or a later one that has been held up for too long.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turns {
    // Time since which a class waits without service.
    since: [Nanos; Class::COUNT],
}

impl Turns {
    /// A class begins to wait.
    pub(crate) fn begins(&mut self, now: Nanos, class: usize) {
        self.since[class] = now;
    }

    /// The class whose turn it is, and whether it is for having been held up
    /// for `limit`.
    pub(crate) fn next(
        &self,
        now: Nanos,
        limit: Nanos,
        waits: impl Fn(usize) -> bool,
    ) -> Option<(usize, bool)> {
        let mut waiting = (0..Class::COUNT).filter(|&class| waits(class));
        let first = waiting.next()?;
        let late = waiting.find(|&class| now.saturating_sub(self.since[class]) >= limit);
        Some(late.map_or((first, false), |class| (class, true)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ioprio_numbers_are_class_and_level() {
        let read = |number| Priority::from_ioprio(number).map(|p| (p.class, p.level));
        assert_eq!(read(0), None);
        assert_eq!(read(4), None);
        assert_eq!(read(1 << 13), Some((Class::RealTime, 0)));
        assert_eq!(read(2 << 13 | 7), Some((Class::BestEffort, 7)));
        assert_eq!(read(2 << 13 | 5 << 3 | 1), Some((Class::BestEffort, 1)));
        assert_eq!(read(3 << 13), Some((Class::Idle, 0)));
        assert_eq!(read(u32::MAX), None);
    }

    #[test]
    fn the_default_level_has_the_default_weight() {
        assert_eq!(Priority::default().weight(), DEFAULT_WEIGHT);
        let weights: Vec<_> =
            (0..=9).map(|level| Priority { class: Class::BestEffort, level }.weight()).collect();
        assert_eq!(weights, [200, 175, 150, 125, 100, 75, 50, 25, 25, 25]);
    }
}
