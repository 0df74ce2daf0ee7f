//! The crash-state enumerator: from cut point to cut point through a trace, the
//! disks that a power cut can leave at each.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use stasis_block::splitmix::nth as hash;
use stasis_drive::{Sampling, Survival, VolatileCache, WritePointers};

use crate::disk::WrittenSectors;
use crate::sectors::Content;
use crate::trace::{CutPoint, EventKind, Trace};

/// A drive at the present instant.
#[derive(Debug)]
struct Present {
    cache: VolatileCache,
    // Sectors that cannot be lost, together with all earlier ones.
    settled: WrittenSectors,
    pointers: WritePointers,
}

/// The state of one drive after a power cut.
#[derive(Debug, Clone, Default)]
pub struct DriveCrashState {
    /// Sectors that differ from those on the medium for certain, in the order
    /// in which they were written first.
    pub sectors: Vec<(u64, Content)>,
    /// Final contents of these sectors, by sector.
    lookup: HashMap<u64, Content>,
    /// For each zone that is not empty, its first sector, and the number of its written sectors.
    pub pointers: Vec<(u64, u64)>,
    /// See [`WrittenSectors::print`].
    pub print: u128,
}

/// A change of which a state lacks something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostChange {
    /// Its place in the log of the drive with the cache.
    pub place: usize,
    /// The part that is lost.
    pub loss: Loss,
    /// The reason why the drive may lose it.
    pub why: LossReason,
}

/// The reason why a drive may lose a change in a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossReason {
    /// Only some of its atomic units were on the medium.
    Torn,
    /// A change that was submitted later went to the medium before it.
    Reordered,
    /// The cut came before its acknowledgement.
    InFlight,
    /// The change was acknowledged, in the volatile cache, and no flush had covered it.
    Cached,
}

/// The part of a change that a power cut takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All of it.
    Whole,
    /// A part of its sectors.
    Torn {
        /// Sectors that the cut leaves.
        kept: u64,
        /// Sectors of the change.
        total: u64,
    },
}

/// Enumerates the crash states of a trace, cut point after cut point, forwards.
#[derive(Debug)]
pub struct Enumerator<'a> {
    trace: &'a Trace,
    point: CutPoint,
    drives: Vec<Present>,
    // Sectors that became certain since they were last asked for, by drive.
    news: Vec<(usize, u64, Content)>,
}

impl<'a> Enumerator<'a> {
    /// An enumerator at the beginning of `trace`. `strict`: a flush covers nothing that was in
    /// flight when it was submitted.
    pub fn new(trace: &'a Trace, strict: bool) -> Self {
        let drives = trace.drives.iter().enumerate().map(|(index, drive)| {
            let log = drive.cached();
            let cache = VolatileCache::new(log.power_loss, log.discard_zeroes);
            let cache = cache.with_zones(log.zones.clone()).strict(strict);
            let written = trace.header.drives.get(index).map_or(&[][..], |one| &one.device.written);
            let pointers = WritePointers::new(written.iter().copied());
            Present { cache, settled: WrittenSectors::default(), pointers }
        });
        Self { trace, point: 0, drives: drives.collect(), news: Vec::new() }
    }

    /// Number of events before the present point.
    pub fn point(&self) -> CutPoint {
        self.point
    }

    /// Goes on until `point` events have happened.
    pub fn go_to(&mut self, point: CutPoint) {
        while self.point < point {
            let Some(event) = self.trace.events.get(self.point as usize) else { break };
            let (drive, level, place) = match event.kind {
                EventKind::Request(drive, level, place)
                | EventKind::Completion(drive, level, place) => {
                    (usize::from(drive), level, place as usize)
                }
                EventKind::Output => {
                    self.point += 1;
                    continue;
                }
            };
            if level == self.trace.drives[drive].cached_level() {
                let Present { cache, settled, pointers } = &mut self.drives[drive];
                let log = self.trace.drives[drive].cached();
                let request = &log.requests[place];
                if let EventKind::Request(..) = event.kind {
                    cache.submitted(place, &request.command);
                } else {
                    let (news, well) = (&mut self.news, request.well_by(self.point + 1));
                    cache.ended(place, request.command.operation, well, |place| {
                        let settling = &log.requests[place];
                        pointers.apply(&log.zones, &settling.command, &Survival::Whole);
                        for (sector, content) in log.sectors(place) {
                            settled.set(sector, Some(content));
                            news.push((drive, sector, content));
                        }
                    });
                }
            }
            self.point += 1;
        }
    }

    /// Takes the changes that became certain since the last call: drive, sector and content, in
    /// order.
    pub fn news(&mut self) -> Vec<(usize, u64, Content)> {
        std::mem::take(&mut self.news)
    }

    /// The settled contents of `drive`.
    pub fn settled(&self, drive: usize) -> &WrittenSectors {
        &self.drives[drive].settled
    }

    /// Number of changes of `drive` that can be lost now.
    pub fn unsettled(&self, drive: usize) -> usize {
        self.drives[drive].cache.unsettled().filter(|(_, durable)| !durable).count()
    }

    /// Returns the state of each drive after a power cut now.
    pub fn cut(&self, sampling: Sampling) -> Vec<DriveCrashState> {
        (0..self.drives.len()).map(|index| self.crashed(index, sampling)).collect()
    }

    /// The changes of `drive` of which a disk after a power cut now lacks something, in the order of
    /// submission. One that later changes have overwritten on that disk is none of them.
    pub fn losses(&self, drive: usize, sampling: Sampling) -> Vec<LostChange> {
        let log = self.trace.drives[drive].cached();
        // Sectors that a later change has on the medium.
        let mut later = HashSet::new();
        let mut is_later = false;
        let mut found = Vec::new();
        for (place, survival) in self.survivals(drive, sampling).into_iter().rev() {
            let (mut kept, mut total, mut lacks) = (0, 0, false);
            for (within, (sector, _)) in log.sectors(place).enumerate() {
                total += 1;
                match survival.has(within) {
                    true => {
                        kept += 1;
                        later.insert(sector);
                    }
                    false => lacks |= !later.contains(&sector),
                }
            }
            let reordered = is_later;
            is_later |= kept > 0;
            if !lacks {
                continue;
            }
            let loss = if kept > 0 { Loss::Torn { kept, total } } else { Loss::Whole };
            let why = match loss {
                Loss::Torn { .. } => LossReason::Torn,
                Loss::Whole if reordered => LossReason::Reordered,
                Loss::Whole if log.requests[place].well_by(self.point) => LossReason::Cached,
                Loss::Whole => LossReason::InFlight,
            };
            found.push(LostChange { place, loss, why });
        }
        found.reverse();
        found
    }

    /// Returns the remainder of each change of a drive that is not settled, in the order of
    /// submission.
    fn survivals(&self, index: usize, sampling: Sampling) -> Vec<(usize, Survival)> {
        let sampling = match sampling {
            Sampling::Random(seed) => Sampling::Random(hash(seed, index as u64)),
            Sampling::AllButOne(seed) => Sampling::AllButOne(hash(seed, index as u64)),
            other => other,
        };
        let cache = &self.drives[index].cache;
        let mut chosen = cache.sample(sampling).into_iter().peekable();
        let survivals = cache.unsettled().map(|(place, durable)| {
            let survival = match chosen.next_if(|(chosen, _)| *chosen == place) {
                Some((_, survival)) => survival,
                None if durable => Survival::Whole,
                None => Survival::Lost,
            };
            (place, survival)
        });
        survivals.collect()
    }

    fn crashed(&self, index: usize, sampling: Sampling) -> DriveCrashState {
        let (log, present) = (self.trace.drives[index].cached(), &self.drives[index]);
        let mut crashed =
            DriveCrashState { print: present.settled.print(), ..DriveCrashState::default() };
        let mut pointers = present.pointers.clone();
        for (place, survival) in self.survivals(index, sampling) {
            if survival == Survival::Lost {
                continue;
            }
            for (within, (sector, content)) in log.sectors(place).enumerate() {
                if survival.has(within) {
                    crashed.set(sector, content, &present.settled);
                }
            }
            pointers.apply(&log.zones, &log.requests[place].command, &survival);
        }
        crashed.pointers = pointers.sectors().collect();
        for (zone, written) in &crashed.pointers {
            crashed.print ^= u128::from(hash(*zone, *written)) << 64;
        }
        crashed
    }
}

impl DriveCrashState {
    /// Returns the first byte on the drive of each zone that is not empty, and the bytes that are
    /// written.
    pub fn pointers_in_bytes(&self) -> Vec<(u64, u64)> {
        let bytes = |sectors: u64| sectors * crate::sectors::SECTOR as u64;
        self.pointers.iter().map(|(zone, written)| (bytes(*zone), bytes(*written))).collect()
    }

    fn set(&mut self, sector: u64, content: Content, settled: &WrittenSectors) {
        let before = self.lookup.insert(sector, content);
        if before.is_none() {
            self.sectors.push((sector, content));
        }
        for held in [before.or_else(|| settled.get(sector)), Some(content)].into_iter().flatten() {
            self.print ^= crate::disk::print(sector, held);
        }
    }

    /// Content of `sector` if the sector is not settled.
    pub fn get(&self, sector: u64) -> Option<Content> {
        self.lookup.get(&sector).copied()
    }

    /// The sectors and their final contents.
    pub fn each(&self) -> impl Iterator<Item = (u64, Content)> + '_ {
        self.sectors.iter().map(|(sector, first)| (*sector, self.get(*sector).unwrap_or(*first)))
    }
}
