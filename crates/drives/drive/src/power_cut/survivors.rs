//! Choice of the changes in a cache that a power cut loses.

use std::collections::{HashMap, HashSet};

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_block::splitmix::nth as hash;
use stasis_block::AtomicUnits;

use super::change::Change;
use super::survival::{Left, Survival};
use super::volatile_cache::VolatileCache;
use super::zone_holes::{self, Holes};

/// Choice among the states that a power cut can leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// Nothing is left that can be lost; where a cache bounds it, the newest is
    /// lost.
    Least,
    /// Everything is left.
    Most,
    /// The newest write is left, and older ones are lost as far as they may be: what a missing
    /// order between two writes shows in.
    Newest,
    /// The oldest write is left, and newer ones are lost as far as they may be: a page cache writes
    /// in the order of offsets, so that what an application wrote last, such as a header, can be
    /// the oldest.
    Oldest,
    /// Everything is left but one change that can be lost, drawn with this seed: one of the newest,
    /// between two barriers, that have a choice.
    AllButOne(u64),
    /// Everything is left but the changes of which this has the bit: bit 0 is that of the newest that can
    /// be lost. Changes behind a barrier after one of those are lost as well.
    Losing(u64),
    /// A random state, drawn with this seed.
    Random(u64),
}

/// Limit on the numbers of changes that can be named, which are counted from the newest on.
pub const MAX_NAMED: u8 = 64;

/// The sort of a cut that loses one change alone: see [`choose`].
const ALL_BUT_ONE: u64 = 0;

/// Sectors of a page of 4 KiB.
const PAGE: u64 = 8;

impl VolatileCache {
    /// Samples a state that the rules permit: survival of each change that can be lost, by place,
    /// in the order of submission. A change that is not named is lost; durable changes are not
    /// named.
    pub fn sample(&self, sampling: Sampling) -> Vec<(usize, Survival)> {
        let survivals = match sampling {
            Sampling::Most => self.all_of(|_| true),
            Sampling::Least => self.least(),
            Sampling::Newest => self.alone(|writes| writes.last()),
            Sampling::Oldest => self.alone(|writes| writes.next()),
            Sampling::Losing(mask) => self.losing(mask),
            Sampling::AllButOne(seed) => self.all_but_one(Xoshiro256PlusPlus::seed_from_u64(seed)),
            Sampling::Random(seed) => self.random(Xoshiro256PlusPlus::seed_from_u64(seed)),
        };
        let mut survivals: Vec<_> = survivals.into_iter().collect();
        survivals.sort_unstable_by_key(|(index, _)| *index);
        let place = |index: usize| self.changes()[index].place;
        survivals.into_iter().map(|(index, survival)| (place(index), survival)).collect()
    }

    fn can_be_lost(&self) -> impl Iterator<Item = (usize, &Change)> {
        self.changes().iter().enumerate().filter(|(_, change)| !change.durable)
    }

    /// Returns the survival of the changes that `selects` accepts: whole.
    fn all_of(&self, selects: impl Fn(&Change) -> bool) -> Left {
        let these = self.can_be_lost().filter(|(_, change)| selects(change));
        these.map(|(index, _)| (index, Survival::Whole)).collect()
    }

    /// The oldest epoch of which something may be the newest that is left: to
    /// lose it as well would be more than the cache holds. `None` if all may be
    /// lost.
    fn least_epoch(&self) -> Option<u32> {
        let limit = self.unit_limit()?;
        let mut units = HashSet::new();
        let missing = self.missing(|_, _| false);
        let one_too_many =
            missing.iter().find(|one| units.insert(one.unit) && units.len() as u64 > limit)?;
        Some(self.changes()[one_too_many.change].epoch)
    }

    fn least(&self) -> Left {
        let Some(epoch) = self.least_epoch() else { return Left::new() };
        let mut survivals = self.all_of(|change| change.epoch < epoch);
        self.destage(epoch, &mut survivals, None);
        self.mend(&mut survivals, Holes::Fill);
        survivals
    }

    /// One write of the newest epoch alone, the one that `pick` takes of them in their order.
    fn alone(&self, pick: fn(&mut dyn Iterator<Item = usize>) -> Option<usize>) -> Left {
        let writes = || self.can_be_lost().filter(|(_, change)| change.writes);
        let Some(epoch) = writes().last().map(|(_, change)| change.epoch) else {
            return self.least();
        };
        let mut of_epoch =
            writes().filter(|(_, change)| change.epoch == epoch).map(|(index, _)| index);
        let mut survivals = self.all_of(|change| change.epoch < epoch);
        survivals.extend(pick(&mut of_epoch).map(|index| (index, Survival::Whole)));
        self.mend(&mut survivals, Holes::Cut);
        if self.unit_limit().is_some() {
            self.destage(epoch, &mut survivals, None);
            self.mend(&mut survivals, Holes::Fill);
        }
        survivals
    }

    fn random(&self, mut random: Xoshiro256PlusPlus) -> Left {
        let least = self.least_epoch().unwrap_or(0);
        // Picks an epoch, preferably one with a choice.
        let epochs = self.can_be_lost().map(|(_, change)| change.epoch);
        let candidates: Vec<u32> = epochs.filter(|epoch| *epoch >= least).collect();
        let epoch = match candidates.len() as u64 {
            0 => self.newest_epoch(),
            count => candidates[(random.next_u64() % count) as usize],
        };
        self.part_of(epoch, None, random)
    }

    /// All changes but those of which `mask` has the bit, counted from the newest on, and but those of
    /// later epochs, which need them.
    fn losing(&self, mask: u64) -> Left {
        let mut ranked: Vec<_> = self.can_be_lost().collect();
        ranked.reverse();
        let is_named = |rank: usize| rank < usize::from(MAX_NAMED) && mask >> rank & 1 == 1;
        let named = ranked.iter().enumerate().filter(|(rank, _)| is_named(*rank));
        let lost: HashSet<usize> = named.map(|(_, (index, _))| *index).collect();
        let epochs = lost.iter().map(|index| self.changes()[*index].epoch);
        let Some(epoch) = epochs.min() else { return self.all_of(|_| true) };
        let epoch = epoch.max(self.least_epoch().unwrap_or(0));
        let stays = |index: usize, change: &Change| {
            change.epoch < epoch || change.epoch == epoch && !lost.contains(&index)
        };
        let these = ranked.into_iter().filter(|(index, change)| stays(*index, change));
        let mut survivals: Left = these.map(|(index, _)| (index, Survival::Whole)).collect();
        self.mend(&mut survivals, Holes::Cut);
        if self.unit_limit().is_some() {
            self.destage(epoch, &mut survivals, None);
            self.mend(&mut survivals, Holes::Fill);
        }
        survivals
    }

    /// All changes but one of the newest epoch with a choice.
    fn all_but_one(&self, random: Xoshiro256PlusPlus) -> Left {
        let newest = self.can_be_lost().last().map(|(_, change)| change.epoch);
        newest.map_or_else(Left::new, |epoch| self.part_of(epoch, Some(ALL_BUT_ONE), random))
    }

    /// All before an epoch, nothing after it, and a random part of it; a cut is of the sort
    /// `always`, if that is given.
    fn part_of(&self, epoch: u32, always: Option<u64>, mut random: Xoshiro256PlusPlus) -> Left {
        let mut survivals = self.all_of(|change| change.epoch < epoch);
        let own: Vec<_> = self.can_be_lost().filter(|(_, change)| change.epoch == epoch).collect();
        choose(&own, self.units(), always, &mut random, &mut survivals);
        self.mend(&mut survivals, Holes::Cut);
        if self.unit_limit().is_some() {
            self.destage(epoch, &mut survivals, Some(&mut random));
            self.mend(&mut survivals, Holes::Fill);
        }
        survivals
    }

    /// Changes `survivals` to a state that a drive with such zones can leave.
    fn mend(&self, survivals: &mut Left, holes: Holes) {
        zone_holes::mend(&self.zones, self.changes(), survivals, holes);
    }

    /// Puts more of an epoch on the medium until no more is missing than the cache
    /// holds: the oldest first, or, with `random`, often anything.
    fn destage(&self, epoch: u32, survivals: &mut Left, random: Option<&mut Xoshiro256PlusPlus>) {
        let Some(limit) = self.unit_limit() else { return };
        // The oldest first; a unit that lacks a change of a later epoch cannot be destaged.
        let mut units: Vec<(u64, Vec<usize>)> = Vec::new();
        let mut numbers: HashMap<u64, usize> = HashMap::new();
        let mut lacking = 0;
        let missing = self.missing(|index, within| {
            survivals.get(&index).is_some_and(|survival| survival.has(within as usize))
        });
        for one in missing.iter().rev() {
            let number = *numbers.entry(one.unit).or_insert_with(|| {
                lacking += 1;
                units.push((one.unit, Vec::new()));
                units.len() - 1
            });
            units[number].1.push(one.change);
        }
        let mut excess = (lacking as u64).saturating_sub(limit);
        units.retain(|(_, changes)| {
            changes.iter().all(|&index| self.changes()[index].epoch == epoch)
        });
        if let Some(random) = random.filter(|_| excess > 0) {
            if random.next_u64() % 3 > 0 {
                for last in (1..units.len()).rev() {
                    units.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
                }
            }
        }
        for (unit, changes) in units {
            if excess == 0 {
                break;
            }
            excess -= 1;
            for index in changes {
                self.write_unit(unit, index, survivals);
            }
        }
    }

    /// Puts one unit of a change on the medium.
    fn write_unit(&self, unit: u64, index: usize, survivals: &mut Left) {
        let change = &self.changes()[index];
        let before = survivals.get(&index).unwrap_or(&Survival::Lost);
        let sectors = (0..change.sectors).map(|within| {
            before.has(within as usize) || self.units().of(change.first + within).0 == unit
        });
        let after = Survival::of_sectors(sectors.collect());
        survivals.insert(index, after);
    }
}

/// Chooses the survival of changes that can be lost each by itself, torn between `units`; a cut is of
/// the sort `always`, if that is given.
fn choose(
    own: &[(usize, &Change)],
    units: &AtomicUnits,
    always: Option<u64>,
    random: &mut Xoshiro256PlusPlus,
    survivals: &mut Left,
) {
    let count = own.len().max(1) as u64;
    let one = own.get((random.next_u64() % count) as usize).map(|(_, change)| change.place);
    // Each sort of cut finds other mistakes.
    let sort = random.next_u64() % 8;
    let sort = always.unwrap_or(sort);
    let density = random.next_u64() % 9;
    for (index, change) in own {
        let seed = random.next_u64();
        let place = change.place;
        let survival = match sort {
            // All but one; one alone; all, and one torn.
            ALL_BUT_ONE if Some(place) == one => Survival::Lost,
            ALL_BUT_ONE => Survival::Whole,
            1 if Some(place) == one => Survival::Whole,
            1 => Survival::Lost,
            2 if Some(place) == one => torn(change, seed, units),
            2 => Survival::Whole,
            // A prefix, and a suffix.
            3 if Some(place) < one => Survival::Whole,
            3 => Survival::Lost,
            4 if Some(place) >= one => Survival::Whole,
            4 => Survival::Lost,
            _ if seed >> 8 & 7 < density => Survival::Whole,
            _ if seed >> 16 & 3 == 0 => torn(change, seed, units),
            _ => Survival::Lost,
        };
        if survival != Survival::Lost {
            survivals.insert(*index, survival);
        }
    }
}

/// Chooses runs of sectors, each a unit or some 4 KiB long, by the bits of a hash.
fn torn(change: &Change, seed: u64, units: &AtomicUnits) -> Survival {
    let (_, unit) = units.of(change.first);
    // Units of a run.
    let run = if seed & 1 == 0 { 1 } else { (PAGE / unit).max(1) };
    let mut begun = 0;
    let survivors = (0..change.sectors).map(|within| {
        let sector = change.first + within;
        begun += u64::from(within > 0 && units.of(sector).0 == sector);
        hash(seed, begun / run) & 1 == 0
    });
    Survival::of_sectors(survivors.collect())
}
