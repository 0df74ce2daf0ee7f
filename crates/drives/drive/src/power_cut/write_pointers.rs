//! Ends of a drive's zones.

use std::collections::BTreeMap;

use stasis_block::{Command, ZoneLayout, SECTOR};

use super::Survival;

/// The write pointers of a drive's zones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WritePointers {
    /// Number of sectors written of each zone that is not empty, by its first sector.
    written: BTreeMap<u64, u64>,
}

impl WritePointers {
    /// Returns the write pointers of zones of which `written` is written: the first byte of each
    /// zone, and the number of its bytes. Zones that are not named are empty.
    pub fn new(written: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let sectors = written.into_iter().map(|(zone, bytes)| (zone / SECTOR, bytes / SECTOR));
        Self { written: sectors.filter(|(_, written)| *written > 0).collect() }
    }

    /// A command has moved them, as far as it survives.
    pub fn apply(&mut self, zones: &ZoneLayout, command: &Command, survival: &Survival) {
        if !zones.moves(command) {
            return;
        }
        let first = command.offset / SECTOR;
        let end = first + command.length / SECTOR;
        for (zone, from, to) in zones.parts(first, end) {
            let there = (from..to).take_while(|at| survival.has((at - first) as usize)).count();
            match there as u64 {
                0 => {}
                _ if zones.resets(command) => drop(self.written.remove(&zone)),
                there => drop(self.written.insert(zone, from + there - zone)),
            }
        }
    }

    /// Returns the first sector of each zone that is not empty, and the number of its sectors that
    /// are written.
    pub fn sectors(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.written.iter().map(|(zone, written)| (*zone, *written))
    }

    /// Like [`Self::sectors`], but in bytes.
    pub fn bytes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.sectors().map(|(zone, written)| (zone * SECTOR, written * SECTOR))
    }
}
