//! The volatile cache of a drive at an instant: the changes that can still be lost.

use std::collections::{HashSet, VecDeque};

use stasis_block::{AtomicUnits, BlockLayout, Command, Operation, PowerLoss, ZoneLayout, SECTOR};

use super::change::{Change, End};
use super::survival::Survival;
use super::zone_holes;

/// A drive's cache, followed from command to command; see the
/// [module](super).
#[derive(Debug, Clone)]
pub struct VolatileCache {
    power_loss: PowerLoss,
    units: AtomicUnits,
    discard_zeroes: bool,
    pub(super) zones: ZoneLayout,
    // True if a flush covers only changes that had ended when it was submitted.
    strict: bool,
    changes: VecDeque<Change>,
    // The newest place.
    newest: usize,
    epoch: u32,
    // The newest ended flush's place: a change that was submitted before and ends later is durable
    // then.
    flushed: usize,
    // The newest epoch of which something is durable.
    durable_epoch: u32,
}

/// An atomic unit that lacks acknowledged data, and a change with some of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missing {
    /// The unit, by its first sector.
    pub(super) unit: u64,
    /// The change, by its index among those that are held.
    pub(super) change: usize,
}

impl VolatileCache {
    /// The empty cache of a drive. `discard_zeroes`: a discarded range reads as
    /// zeroes; otherwise a discard changes nothing.
    pub fn new(power_loss: PowerLoss, discard_zeroes: bool) -> Self {
        Self {
            power_loss,
            units: AtomicUnits::of_sectors(power_loss.atomic_unit / SECTOR),
            discard_zeroes,
            zones: ZoneLayout::default(),
            strict: false,
            changes: VecDeque::new(),
            newest: 0,
            epoch: 0,
            flushed: 0,
            durable_epoch: 0,
        }
    }

    /// The cache of a drive with such zones.
    #[must_use]
    pub fn with_zones(self, zones: ZoneLayout) -> Self {
        Self { zones, ..self }
    }

    /// A flush covers the changes that had ended when it was submitted, as NVMe requires, and
    /// nothing else (NVM Express Base Specification 2.0, 7.1).
    #[must_use]
    pub fn strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// Acknowledged data that a power cut can take, as the drive's model describes it.
    pub fn power_loss(&self) -> &PowerLoss {
        &self.power_loss
    }

    /// Sets the effect of a power cut, on held changes too: of a drive whose model has `power_loss`
    /// and whose blocks lie as in `layout`.
    pub fn set_layout(&mut self, power_loss: PowerLoss, layout: &BlockLayout) {
        self.power_loss = power_loss.for_blocks(layout.largest().into());
        self.units = AtomicUnits::new(power_loss, layout);
        self.zones.clone_from(layout.zones());
    }

    /// Describes the loss that a power cut can cause, human-readable.
    pub(super) fn told(&self) -> String {
        /// Limit on the changes that are named.
        const NAMED: usize = 64;
        let at_risk = || self.changes.iter().filter(|change| !change.durable);
        let mut text = String::new();
        for change in at_risk().take(NAMED) {
            let (offset, length) = (change.first * SECTOR, change.sectors * SECTOR);
            let operation = if change.writes { "write" } else { "discard" };
            let end = match change.end {
                End::InFlight => "in flight",
                End::Acknowledged => "acknowledged",
                End::Failed => "failed",
            };
            text +=
                &format!("\n  {operation} {} of {length} bytes at {offset}, {end}", change.place);
        }
        let acknowledged = at_risk().filter(|change| change.end == End::Acknowledged).count();
        let (all, more) = (at_risk().count(), at_risk().nth(NAMED).map_or("", |_| "\n  and more"));
        format!("{acknowledged} acknowledged changes, of {all} that are not durable{text}{more}")
    }

    /// Returns whether a command changes what the drive holds.
    pub(super) fn changes_disk(&self, command: &Command) -> bool {
        match command.operation {
            Operation::Write | Operation::WriteZeroes | Operation::Copy => true,
            Operation::Discard => self.discard_zeroes || self.zones.resets(command),
            _ => false,
        }
    }

    /// A command is submitted; `place` is its place, which is above all earlier
    /// ones.
    pub fn submitted(&mut self, place: usize, command: &Command) {
        self.newest = place;
        if command.operation == Operation::Barrier {
            self.epoch += 1;
        } else if self.changes_disk(command) {
            self.changes.push_back(Change {
                place,
                first: command.offset / SECTOR,
                sectors: command.length / SECTOR,
                epoch: self.epoch,
                durable: false,
                sequential: self.zones.moves(command),
                writes: command.operation != Operation::Discard,
                data: matches!(command.operation, Operation::Write | Operation::Copy),
                fua: command.fua,
                end: End::InFlight,
                ended_before: usize::MAX,
            });
        }
    }

    /// The command at `place` ends, `well` or not; `settle` gets, in the order of
    /// submission, the place of each change that is now on the medium with
    /// everything before it.
    pub fn ended(
        &mut self,
        place: usize,
        operation: Operation,
        well: bool,
        settle: impl FnMut(usize),
    ) {
        if operation == Operation::Flush {
            if !well {
                return;
            }
            if !self.strict {
                self.flushed = self.flushed.max(place);
            }
            let strict = self.strict;
            for change in self.changes.iter_mut().take_while(|change| change.place < place) {
                // A failed change counts as written: it is not waited for.
                let covered = !strict || change.ended_before < place;
                change.durable |= change.end != End::InFlight && covered;
            }
        } else if let Ok(index) = self.changes.binary_search_by_key(&place, |change| change.place) {
            let safe = self.power_loss.keeps_acknowledged();
            let change = &mut self.changes[index];
            change.ended_before = self.newest;
            change.end = if well { End::Acknowledged } else { End::Failed };
            change.durable |= well && (safe || change.fua || place < self.flushed);
        }
        self.settle(settle);
    }

    /// The drive has written its oldest unsettled change, as it may at any time.
    pub(super) fn write_oldest(&mut self, settle: impl FnMut(usize)) {
        if let Some(change) = self.changes.front_mut() {
            change.durable = true;
        }
        self.settle(settle);
    }

    /// Lets go of the changes that are on the medium with everything before them.
    fn settle(&mut self, mut settle: impl FnMut(usize)) {
        for index in zone_holes::before_durable(&self.zones, &self.changes) {
            self.changes[index].durable = true;
        }
        let newest = self.changes.iter().rev().find(|change| change.durable);
        self.durable_epoch = self.durable_epoch.max(newest.map_or(0, |change| change.epoch));
        for change in &mut self.changes {
            change.durable |= change.epoch < self.durable_epoch;
        }
        while let Some(change) = self.changes.front().filter(|change| change.durable) {
            settle(change.place);
            self.changes.pop_front();
        }
    }

    /// The changes that are not settled, by place: in the order of submission,
    /// and whether each is durable all the same.
    pub fn unsettled(&self) -> impl Iterator<Item = (usize, bool)> + '_ {
        self.changes.iter().map(|change| (change.place, change.durable))
    }

    pub(super) fn changes(&self) -> &VecDeque<Change> {
        &self.changes
    }

    pub(super) fn newest_epoch(&self) -> u32 {
        self.epoch
    }

    /// The atomic units.
    pub(super) fn units(&self) -> &AtomicUnits {
        &self.units
    }

    /// Units that can lack data at once; `None` without a limit.
    pub(super) fn unit_limit(&self) -> Option<u64> {
        self.power_loss.limit().map(|bytes| bytes / self.power_loss.atomic_unit)
    }

    /// Returns the units that would lack acknowledged data if exactly the sectors that `survives`
    /// accepts (given the change's index and the sector) were on the medium: with each change whose
    /// data is lacking, the newest first.
    pub(super) fn missing(&self, survives: impl Fn(usize, u64) -> bool) -> Vec<Missing> {
        // Sectors of which a newer change has decided.
        let mut decided = HashSet::new();
        let mut missing: Vec<Missing> = Vec::new();
        for (index, change) in self.changes.iter().enumerate().rev() {
            for within in 0..change.sectors {
                let there = change.durable || survives(index, within);
                // A change in flight was promised to nobody, and zeroes take no room.
                let lacking = !there && change.data && change.end == End::Acknowledged;
                if !there && !lacking {
                    continue;
                }
                let sector = change.first + within;
                let one = Missing { unit: self.units.of(sector).0, change: index };
                if decided.insert(sector) && lacking && missing.last() != Some(&one) {
                    missing.push(one);
                }
            }
        }
        missing
    }

    /// Returns whether a power cut may leave these survivals of the unsettled changes, by place; a
    /// change that is not named is lost.
    pub fn permits(&self, survivals: &[(usize, Survival)]) -> bool {
        let survival_of = |change: &Change| {
            let found = survivals.iter().find(|(place, _)| *place == change.place);
            found.map_or(&Survival::Lost, |(_, survival)| survival)
        };
        let there =
            |change: &&Change| (0..change.sectors).any(|at| survival_of(change).has(at as usize));
        let whole =
            |change: &Change| (0..change.sectors).all(|at| survival_of(change).has(at as usize));
        let newest = self.changes.iter().filter(there).map(|change| change.epoch).max();
        let ordered = self.changes.iter().all(|change| {
            let needed = change.durable || newest.is_some_and(|newest| change.epoch < newest);
            !needed || whole(change)
        });
        let untorn = self.changes.iter().all(|change| {
            (1..change.sectors).all(|at| {
                let begins = self.units.of(change.first + at).0 == change.first + at;
                begins
                    || survival_of(change).has(at as usize)
                        == survival_of(change).has(at as usize - 1)
            })
        });
        let fits = self.unit_limit().is_none_or(|limit| {
            let has =
                |index: usize, within: u64| survival_of(&self.changes[index]).has(within as usize);
            let units: HashSet<u64> = self.missing(has).iter().map(|one| one.unit).collect();
            units.len() as u64 <= limit
        });
        let no_hole = zone_holes::are_absent(&self.zones, &self.changes, |change, at| {
            change.durable || survival_of(change).has(at as usize)
        });
        ordered && untorn && fits && no_hole
    }
}
