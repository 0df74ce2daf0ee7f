//! Which of what a cache can lose is lost.

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::cache::{Cache, Held};

/// What is left of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    All,
    /// Runs of so many sectors, each as a bit of a hash says.
    Torn {
        seed: u64,
        sectors: u64,
    },
}

impl Left {
    /// Whether the sector with this index within the change is left.
    pub(crate) fn has(self, index: u64) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Torn { seed, sectors } => hash(seed, index / sectors) & 1 == 0,
        }
    }
}

/// Which power cut at an instant: a manner and a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Nothing is left that can be lost.
    Least,
    /// Everything is left.
    Most,
    /// Something at random.
    Random(u64),
}

/// Sectors of a page of 4 KiB.
const PAGE: u64 = 8;

/// What is left of each of `held`, by place; only of what can be lost.
pub(crate) fn draw(cache: &Cache, manner: Manner) -> Vec<(usize, Left)> {
    let can_be_lost = || cache.held().filter(|held| !held.durable);
    let (newest, durable) = cache.epochs();
    match manner {
        Manner::Least => Vec::new(),
        Manner::Most => can_be_lost().map(|held| (held.place, Left::All)).collect(),
        Manner::Random(seed) => {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            // Of one epoch anything, everything before it, nothing after: one
            // in which there is something to choose, mostly.
            let candidates: Vec<u32> = can_be_lost().map(|held| held.epoch).collect();
            let epoch = match candidates.len() as u64 {
                0 => newest,
                count => candidates[(random.next_u64() % count) as usize],
            };
            let own: Vec<&Held> = can_be_lost().filter(|held| held.epoch == epoch).collect();
            let mut left = Vec::new();
            for held in can_be_lost().filter(|held| held.epoch < epoch && epoch > durable) {
                left.push((held.place, Left::All));
            }
            choose(&own, &mut random, &mut left);
            left
        }
    }
}

/// What is left of changes that can be lost each by itself.
fn choose(own: &[&Held], random: &mut Xoshiro256PlusPlus, left: &mut Vec<(usize, Left)>) {
    let count = own.len().max(1) as u64;
    let one = own.get((random.next_u64() % count) as usize).map(|held| held.place);
    // Each sort of cut finds other mistakes.
    let sort = random.next_u64() % 8;
    let density = random.next_u64() % 9;
    for held in own {
        let seed = random.next_u64();
        let torn = Left::Torn { seed, sectors: if seed & 1 == 0 { 1 } else { PAGE } };
        let place = held.place;
        let what = match sort {
            // All but one; one alone; all, and one torn.
            0 if Some(place) == one => Left::Nothing,
            0 => Left::All,
            1 if Some(place) == one => Left::All,
            1 => Left::Nothing,
            2 if Some(place) == one => torn,
            2 => Left::All,
            // A prefix, and a suffix.
            3 if Some(place) < one => Left::All,
            3 => Left::Nothing,
            4 if Some(place) >= one => Left::All,
            4 => Left::Nothing,
            _ if seed >> 8 & 7 < density => Left::All,
            _ if seed >> 16 & 3 == 0 => torn,
            _ => Left::Nothing,
        };
        if what != Left::Nothing {
            left.push((place, what));
        }
    }
}

/// Numbers of which every bit depends on every bit (splitmix64).
pub(crate) fn hash(seed: u64, index: u64) -> u64 {
    let mut value = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
