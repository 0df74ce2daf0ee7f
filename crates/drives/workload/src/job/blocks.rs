//! Block sizes of a job, and whether blocks are in a map.

use super::description::Job;
use super::ranks::Distribution;
use super::values::Weighted;

impl Job {
    /// Block sizes of reads, writes and trims: a split before a range before a size, as in fio.
    pub(super) fn blocks(&self) -> [Blocks; 3] {
        std::array::from_fn(|d| match (&self.bssplit[d], self.bsrange[d]) {
            (Some(split), _) => Blocks::Split(split.clone()),
            (None, Some((least, most))) if least < most => Blocks::Range(least, most),
            (None, Some((least, _))) => Blocks::Split(Weighted::always(least)),
            (None, None) => Blocks::Split(Weighted::always(self.bs[d])),
        })
    }

    /// Returns whether random offsets may meet a block again before all were met.
    pub(super) fn maps_nothing(&self) -> bool {
        let least = |d: usize| self.blocks()[d].bounds().0;
        let aligned = (0..3).any(|d| self.ba[d] > 0 && self.ba[d] != least(d));
        self.norandommap || self.distribution != Distribution::Uniform || self.random && aligned
    }

    /// Returns whether random blocks are in a map.
    pub(super) fn has_map(&self) -> bool {
        self.random && !self.maps_nothing() && !self.lfsr
    }
}

/// Block sizes of a direction.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Blocks {
    /// Some sizes with their shares.
    Split(Weighted<u64>),
    /// From, to.
    Range(u64, u64),
}

impl Blocks {
    /// Returns the least and the greatest.
    pub fn bounds(&self) -> (u64, u64) {
        match self {
            Self::Range(least, most) => (*least, *most),
            Self::Split(split) => {
                let or_one = |bound: Option<u64>| bound.unwrap_or(1);
                (or_one(split.all().min()), or_one(split.all().max()))
            }
        }
    }
}
