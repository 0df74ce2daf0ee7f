//! The names of what a state lacks: a disk of which nothing is lost is looked at in a guest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use stasis_block::clock::Nanos;
use stasis_block::Operation;
use stasis_crash::{Check, Cut, CutPoint, Level, StateReader, Trace, Verdict};
use stasis_drive::Sampling;
use stasis_guest_image::Guest;
use stasis_qemu_vm::{Checker, Config, Device, Task};
use stasis_results::units;

use crate::check::{devices, Places, StateDisks};
use crate::names::{self, Holder, Holders};
use crate::session::{Outcome, Session, StateChecks};

/// The script in the guest.
const SCRIPT: &str = "root/stasis-names";
/// Time limit of a script, in the guest's time: `xfs_db` and `debugfs` read all inodes.
const MAX_TIME: Duration = Duration::from_secs(120);
/// Flushes of the guest after which a file system has told the drive what it had written: one for
/// the data, one for the journal.
const SOON: usize = 2;
/// Blocks of a range that are looked up.
const BLOCKS: usize = 16;

/// A range of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The drive's number.
    pub drive: usize,
    /// Level of the disk: the guest's, or the drive's below an image, which holds the image's file.
    pub level: Level,
    /// Its first byte.
    pub offset: u64,
    /// Its length (bytes).
    pub length: u64,
}

/// Holders of the ranges that a state lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// For each range, what lies there.
    pub holders: Vec<Vec<Holder>>,
    /// The reason why something could not be named.
    pub why_not: Option<String>,
}

/// A block that is to be named: the state, the range, and the block's first byte.
#[derive(Debug, Clone, Copy)]
struct Block {
    state: usize,
    range: usize,
    offset: u64,
}

/// Names ranges, state after state.
pub struct Namer {
    checker: Checker,
    devices: Vec<Device>,
    places: Places,
    asked: Vec<Vec<Range>>,
    named: Vec<Named>,
    // Times of the cuts (ns).
    cuts: Vec<Nanos>,
    // Blocks that nothing held at the time of the cut, or where there was no file system yet.
    free: Vec<Block>,
    // Why no guest runs.
    no_guest: Option<String>,
}

impl Session {
    /// Names the ranges `asked` of each state, by its cut: on the disk as it was then, with nothing
    /// lost. A file system may tell the drive later what the bytes are, so what nothing held then is
    /// named on the disk [`SOON`] flushes later, or else at the end of the run. The session may not
    /// have inspected any state.
    ///
    /// # Errors
    /// A disk cannot be read. What the guest cannot name is in [`Named::why_not`].
    pub fn name(
        &mut self,
        asked: Vec<(CutPoint, Vec<Range>)>,
        guest: Guest,
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<Named>> {
        let cut = |(number, point)| Cut { number: number as u64, point, sampling: Sampling::Most };
        let points: Vec<CutPoint> = asked.iter().map(|(point, _)| *point).collect();
        let soon = points.iter().map(|point| soon_after(&self.trace, *point));
        let end = self.trace.events.len() as CutPoint;
        let all = points.iter().copied().chain(soon).chain([end]);
        let mut cuts: Vec<Cut> = all.enumerate().map(cut).collect();
        cuts.sort_by_key(|cut| (cut.point, cut.number));
        let asked = asked.into_iter().map(|(_, ranges)| ranges).collect();
        let mut namer = Namer::new(&self.trace, asked, guest, stop)?;
        let mut checks = StateChecks {
            oracle: false,
            check: Some(&mut namer),
            each: true,
            ..StateChecks::default()
        };
        let going = |_: &Outcome| !stop.load(std::sync::atomic::Ordering::Relaxed);
        self.explore(&cuts, &mut checks, &mut Outcome::default(), going)?;
        Ok(namer.named)
    }
}

/// The point at which [`SOON`] flushes of the guest have ended after `point`.
fn soon_after(trace: &Trace, point: CutPoint) -> CutPoint {
    let requests = trace.drives.iter().flat_map(|drive| &drive.guest.requests);
    let flushes = requests.filter(|request| request.command.operation == Operation::Flush);
    let ends = flushes.filter_map(|flush| flush.end.map(|(_, event, _)| event + 1));
    let mut ends: Vec<CutPoint> = ends.filter(|end| *end > point).collect();
    ends.sort_unstable();
    ends.get(SOON - 1).copied().unwrap_or(trace.events.len() as CutPoint)
}

impl Namer {
    fn new(
        trace: &Trace,
        asked: Vec<Vec<Range>>,
        guest: Guest,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self> {
        let mut config = Config::new(guest);
        config.stop = Arc::clone(stop);
        let command = ["sh", &format!("/{SCRIPT}")].map(str::to_owned).to_vec();
        let checker =
            Checker::new(config, Task { command, limit: MAX_TIME, files: Arc::default() });
        let (devices, places) = devices(trace)?;
        let named = asked
            .iter()
            .map(|ranges| Named { holders: vec![Vec::new(); ranges.len()], why_not: None });
        let named = named.collect();
        let (cuts, free) = (vec![0; asked.len()], Vec::new());
        Ok(Self { checker, devices, places, named, asked, cuts, free, no_guest: None })
    }

    /// The holders of blocks of the disk `index`, or why there are none.
    fn holders(
        &mut self,
        state: &mut dyn StateReader,
        index: usize,
        bytes: &[u64],
    ) -> Result<(Holders, u64), String> {
        if let Some(why) = &self.no_guest {
            return Err(why.clone());
        }
        let Some(&(drive, start)) = self.places.get(index) else {
            return Err("no such disk".to_owned());
        };
        let found = names::probe(&mut |offset, into| {
            state.read(drive, start + offset, into).map_err(|error| error.to_string())
        })?;
        let disks = self.devices.iter().flat_map(|device| &device.disks);
        let device = disks.map(|disk| format!("/dev/{}", disk.name)).nth(index).unwrap_or_default();
        let block = found.unit();
        let offsets: BTreeSet<u64> = bytes.iter().map(|byte| byte / block * block).collect();
        let offsets: Vec<u64> = offsets.into_iter().collect();
        let Self { checker, devices, places, no_guest, .. } = self;
        let mut ask = |script: &str| {
            let files = [(SCRIPT, script.as_bytes())];
            let asked = checker.check(&mut StateDisks(state, devices, places), &files, &[]);
            let answer = asked.map_err(|error| {
                let why = format!("no guest runs that could name them: {error}");
                no_guest.insert(why).clone()
            })?;
            match (answer.late, answer.status) {
                (true, _) => Err(format!("the tools took more than {MAX_TIME:?}")),
                (_, None) => Err("the guest did not survive the tools".to_owned()),
                (_, Some(_)) => Ok(answer.output),
            }
        };
        let named = names::holders(&found, &device, &offsets, &mut ask);
        let named = named.map_err(|why| format!("{} on {device}: {why}", found.name()))?;
        Ok((named, block))
    }

    /// Names blocks; returns each with what holds it, in the order of the blocks.
    fn name(
        &mut self,
        state: &mut dyn StateReader,
        blocks: &[Block],
        is_end: bool,
    ) -> Vec<(Block, Holder)> {
        // By the disk, with the byte on it.
        let mut by_disk: BTreeMap<usize, Vec<(Block, u64)>> = BTreeMap::new();
        let mut found = Vec::new();
        for block in blocks {
            let Range { drive, level, .. } = self.asked[block.state][block.range];
            let byte = match level {
                Level::Guest => Some(block.offset),
                Level::Drive => state.on_disk(drive, block.offset),
            };
            let Some(byte) = byte else {
                found.push((*block, Holder::tables()));
                continue;
            };
            let disk =
                self.places.iter().rposition(|(owner, start)| *owner == drive && *start <= byte);
            let Some(disk) = disk else { continue };
            by_disk.entry(disk).or_default().push((*block, byte - self.places[disk].1));
        }
        for (disk, blocks) in by_disk {
            let bytes: Vec<u64> = blocks.iter().map(|(_, byte)| *byte).collect();
            match self.holders(state, disk, &bytes) {
                Ok((holders, size)) => {
                    let holder = |byte: u64| holders.get(&(byte / size * size)).cloned();
                    let known = blocks.into_iter();
                    found.extend(known.filter_map(|(block, byte)| Some((block, holder(byte)?))));
                }
                Err(_) if !is_end => self.free.extend(blocks.iter().map(|(block, _)| *block)),
                Err(why) => {
                    for (block, _) in blocks {
                        self.named[block.state].why_not.get_or_insert_with(|| why.clone());
                    }
                }
            }
        }
        found.sort_by_key(|(block, _)| (block.state, block.range, block.offset));
        found
    }
}

impl Check for Namer {
    fn check(&mut self, state: &mut dyn StateReader) -> Result<Verdict, String> {
        let number = usize::try_from(state.number()).unwrap_or(usize::MAX);
        let states = self.asked.len();
        let is_end = number >= 2 * states;
        let is_cut = number < states;
        let blocks: Vec<Block> = match self.asked.get(number) {
            Some(ranges) => {
                self.cuts[number] = state.at();
                blocks_of(number, ranges)
            }
            None => {
                let due = |block: &Block| is_end || block.state == number - states;
                let (blocks, later) = self.free.iter().partition(|block| due(block));
                self.free = later;
                blocks
            }
        };
        if blocks.is_empty() {
            return Ok(Verdict::Sound);
        }
        for (block, mut holder) in self.name(state, &blocks, is_end) {
            if holder.is_free() && !is_end {
                self.free.push(block);
                continue;
            }
            if !is_cut && !holder.is_free() {
                let later = state.at().saturating_sub(self.cuts[block.state]);
                holder.what = format!("{} later, {}", units::duration(later as f64), holder.what);
            }
            let holders = &mut self.named[block.state].holders[block.range];
            if !holders.contains(&holder) {
                holders.push(holder);
            }
        }
        Ok(Verdict::Sound)
    }
}

/// The blocks of ranges, as far as they are looked up: the smaller a range, the smaller the blocks.
/// File systems' own are of 512 bytes to 64 KiB, mostly of 4 KiB.
fn blocks_of(state: usize, ranges: &[Range]) -> Vec<Block> {
    let of_range = |(range, Range { offset, length, .. }): (usize, &Range)| {
        let all = |step: &u64| *length <= BLOCKS as u64 * step;
        let step = [512, 1024].into_iter().find(all).unwrap_or(4096);
        let end = offset.saturating_add(*length);
        let inner = (offset / step * step..end).step_by(step as usize).skip(1);
        let all = std::iter::once(*offset).chain(inner).take(BLOCKS);
        all.map(move |offset| Block { state, range, offset }).collect::<Vec<_>>()
    };
    ranges.iter().enumerate().flat_map(of_range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_looked_up_block_by_block() {
        let offsets = |offset, length| -> Vec<u64> {
            let range = Range { drive: 0, level: Level::Guest, offset, length };
            blocks_of(0, &[range]).iter().map(|block| block.offset).collect()
        };
        assert_eq!(offsets(512, 512), [512]);
        assert_eq!(offsets(512, 2048), [512, 1024, 1536, 2048]);
        assert_eq!(offsets(8192, 12288)[..3], [8192, 9216, 10240]);
        assert_eq!(offsets(1024, 64 << 10)[..3], [1024, 4096, 8192]);
        assert_eq!(offsets(0, 1 << 40).len(), BLOCKS);
        assert_eq!(offsets(u64::MAX - 511, u64::MAX).len(), 1);
    }
}
