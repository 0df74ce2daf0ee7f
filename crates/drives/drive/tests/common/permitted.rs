//! The simplest reference of the states that a power cut can leave: a drive that moves one atomic
//! unit of one change to its medium at a time, at any time, and every medium that it can have
//! so. No rule of the model is used here, only the effect of each event on a medium.

use std::collections::HashSet;

use stasis_block::{CacheKind, Command, Operation, PowerLoss};

/// By sector: the place of the change that it is from, and 1; 0 if none.
pub type Medium = Vec<usize>;

struct Seen {
    command: Command,
    ended: bool,
    // Changes before this barrier are of other epochs than those after.
    epoch: usize,
}

/// Every medium that a drive of this many sectors can have.
pub struct Permitted {
    power_loss: PowerLoss,
    commands: Vec<Seen>,
    epoch: usize,
    media: HashSet<Medium>,
}

impl Permitted {
    pub fn new(power_loss: PowerLoss, sectors: usize) -> Self {
        let media = HashSet::from([vec![0; sectors]]);
        Self { power_loss, commands: Vec::new(), epoch: 0, media }
    }

    /// The media as they can be now.
    pub fn media(&self) -> &HashSet<Medium> {
        &self.media
    }

    pub fn submit(&mut self, command: Command) {
        self.epoch += usize::from(command.operation == Operation::Barrier);
        self.commands.push(Seen { command, ended: false, epoch: self.epoch });
        self.go_on();
    }

    pub fn end(&mut self, place: usize) {
        self.commands[place].ended = true;
        self.go_on();
    }

    fn sectors(&self, place: usize) -> std::ops::Range<usize> {
        let command = &self.commands[place].command;
        if !matches!(
            command.operation,
            Operation::Write | Operation::WriteZeroes | Operation::Discard
        ) {
            return 0..0;
        }
        let first = (command.offset / 512) as usize;
        first..first + (command.length / 512) as usize
    }

    fn has(&self, medium: &Medium, place: usize) -> bool {
        self.sectors(place).all(|sector| medium[sector] > place)
    }

    /// Writes units until there is nothing new, and keeps the drive's promises by now.
    fn go_on(&mut self) {
        let mut all = self.media.clone();
        let mut new: Vec<Medium> = all.iter().cloned().collect();
        while let Some(medium) = new.pop() {
            for place in 0..self.commands.len() {
                let epoch = self.commands[place].epoch;
                let earlier = (0..place).filter(|&other| self.commands[other].epoch < epoch);
                if !earlier.clone().all(|other| self.has(&medium, other)) {
                    continue;
                }
                let unit = |sector: usize| sector / (self.power_loss.atomic_unit / 512) as usize;
                let units: HashSet<usize> = self.sectors(place).map(unit).collect();
                for number in units {
                    let mut next = medium.clone();
                    for sector in self.sectors(place).filter(|&sector| unit(sector) == number) {
                        next[sector] = next[sector].max(place + 1);
                    }
                    if all.insert(next.clone()) {
                        new.push(next);
                    }
                }
            }
        }
        all.retain(|medium| self.keeps_promises(medium));
        self.media = all;
    }

    fn keeps_promises(&self, medium: &Medium) -> bool {
        let safe = matches!(self.power_loss.cache, CacheKind::Protected | CacheKind::None);
        let durable =
            (0..self.commands.len()).filter(|&place| self.commands[place].ended).all(|place| {
                let flushed = self.commands[place..]
                    .iter()
                    .any(|later| later.ended && later.command.operation == Operation::Flush);
                !(flushed || safe || self.commands[place].command.fua) || self.has(medium, place)
            });
        let CacheKind::Volatile(size) = self.power_loss.cache else { return durable };
        // Data that the cache must still hold, in units.
        let held = (0..medium.len()).filter(|&sector| {
            (medium[sector]..self.commands.len()).any(|place| {
                let Seen { command, ended, .. } = &self.commands[place];
                let data = command.operation == Operation::Write;
                *ended && data && self.sectors(place).contains(&sector)
            })
        });
        let unit = self.power_loss.atomic_unit;
        let units: HashSet<u64> = held.map(|sector| sector as u64 * 512 / unit).collect();
        durable && units.len() as u64 * unit <= size
    }
}
