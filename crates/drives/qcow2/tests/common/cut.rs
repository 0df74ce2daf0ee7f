//! Power cuts: a guest's commands to an image, and the contents that it may find afterwards.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rand_xoshiro::rand_core::RngCore;
use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Status};
use stasis_drive::{Drive, Layer, LoadSpec, Region, Sampling, SharedDrive};
use stasis_media::{Medium, Pieces, Ram};
use stasis_qcow2::{check, Durability, Settings, ZeroLatency};
use stasis_scheduler::{QueueSpec, SchedulerSpec};
use stasis_workload::JobFile;

use super::history::{tap, History};
use super::*;

pub const SECTOR: usize = 512;

/// A command as the guest saw it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub command: Command,
    pub submit: Nanos,
    pub end: Option<Nanos>,
}

/// Record of a run on an image.
pub struct Run {
    pub base: Vec<u8>,
    pub history: History,
    pub commands: Vec<Seen>,
    pub settings: Settings,
    pub size: usize,
    pub end: Nanos,
    /// Offset of the image's file on the drive; `base` is the drive.
    pub place: u64,
}

/// Content of the disk's sector `sector` after the command `index` wrote it: unique, so that it can
/// be recognized.
fn stamp(index: usize, sector: usize) -> Vec<u8> {
    let mut data = vec![0; SECTOR];
    data[..8].copy_from_slice(&(index as u64 + 1).to_le_bytes());
    data[8..16].copy_from_slice(&(sector as u64).to_le_bytes());
    data[504..].copy_from_slice(&(index as u64 + 1).to_le_bytes());
    data
}

/// Random writes, discards and flushes, several at a time, on the image at
/// `path`, whose disk is empty.
pub fn run(path: &Path, seed: u64, settings: Settings, count: usize) -> Run {
    let base = std::fs::read(path).unwrap();
    let (opening, medium) = open_files(path, true, &options()).unwrap();
    let drive = Drive::new(0, "d".into(), Latencies::new(seed), medium);
    let (tap, history) = tap(Box::new(drive));
    let image = opening.open(Box::new(tap), settings).unwrap();
    let size = image.properties().capacity as usize;
    let (history, commands, end) = work(image, history, seed, count);
    Run { base, history, commands, settings, size, end, place: 0 }
}

/// The same, on a drive with a scheduler, where the image lies `place` bytes behind the drive's
/// beginning and a workload of others precedes it.
pub fn run_on_shared(
    path: &Path,
    seed: u64,
    settings: Settings,
    count: usize,
    scheduler: &str,
) -> Run {
    let place: u64 = 1 << 20;
    let mut base = vec![0; place as usize];
    base.extend(std::fs::read(path).unwrap());
    let (opening, medium) = open_files(path, true, &options()).unwrap();
    let length = medium.capacity();
    let whole = Box::new(Ram::new(place + length + (1 << 20)));
    let medium = Pieces::new(whole, vec![(place, medium)]).unwrap();
    let drive = Drive::new(0, "d".into(), Latencies::new(seed), Box::new(medium));
    let (tap, history) = tap(Box::new(drive));
    let spec = SchedulerSpec { depth: 2, ..SchedulerSpec::parse(scheduler).unwrap() };
    let shared = SharedDrive::new(&spec, Box::new(tap));
    let region = Region { offset: place, length };
    let disk = shared.disk(0, "disk".into(), region, &QueueSpec::default());
    let jobs = "[w]\nrw=randread\nbs=4k\nsize=1m\ntime_based=1\nruntime=100d\nnorandommap=1\n";
    let load = LoadSpec {
        name: "load".into(),
        jobs: JobFile::parse(jobs, &|_| None).unwrap(),
        region: Region { offset: 0, length: place },
        queue: QueueSpec::default(),
        group: None,
        seed,
    };
    shared.add_load(&load).unwrap();
    shared.start(0);
    let image = opening.open(Box::new(disk.covering()), settings).unwrap();
    let size = image.properties().capacity as usize;
    let (history, commands, end) = work(image, history, seed, count);
    Run { base, history, commands, settings, size, end, place }
}

fn work(
    image: stasis_qcow2::Image,
    history: Arc<Mutex<History>>,
    seed: u64,
    count: usize,
) -> (History, Vec<Seen>, Nanos) {
    let size = image.properties().capacity as usize;
    let mut driver = Driver::new(image);
    let mut random = random(seed);
    let mut commands: Vec<Seen> = Vec::new();
    let mut in_flight: Vec<(u32, usize)> = Vec::new();
    // A few busy places, so that clusters are written, freed and written again.
    let places: Vec<u64> = (0..6).map(|_| random.next_u64() % (size as u64 / 2)).collect();
    for index in 0..count {
        let operation = match random.next_u64() % 10 {
            0..=5 => Operation::Write,
            6 => Operation::Discard,
            _ => Operation::Flush,
        };
        let mut command = Command::flush();
        if operation != Operation::Flush {
            let length = (random.next_u64() % 40_000 / 512 + 1) * 512;
            let place = places[random.next_u64() as usize % places.len()];
            let offset = (place + random.next_u64() % 100_000) / 512 * 512;
            command = Command::new(operation, offset.min(size as u64 - length), length);
            command.fua = operation == Operation::Write && random.next_u64().is_multiple_of(12);
        }
        let overlaps = |other: &Command| {
            command.offset < other.offset + other.length
                && other.offset < command.offset + command.length
        };
        while in_flight.len() >= 4 || in_flight.iter().any(|(_, i)| overlaps(&commands[*i].command))
        {
            finish_first(&mut driver, &mut in_flight, &mut commands);
        }
        let data = match operation {
            Operation::Write => {
                let first = command.offset as usize / SECTOR;
                let last = first + command.length as usize / SECTOR;
                (first..last).flat_map(|sector| stamp(index, sector)).collect()
            }
            _ => vec![],
        };
        commands.push(Seen { command, submit: driver.now, end: None });
        in_flight.push((driver.submit(command, data), index));
        if random.next_u64().is_multiple_of(2) {
            finish_first(&mut driver, &mut in_flight, &mut commands);
        }
    }
    while !in_flight.is_empty() {
        finish_first(&mut driver, &mut in_flight, &mut commands);
    }
    // Its remaining work; others may never end.
    let quiet = driver.now + 5_000_000;
    while driver.now < quiet && driver.step() {}
    let end = driver.now;
    driver.layer.abandon();
    let history = history.lock().unwrap().clone();
    (history, commands, end)
}

fn finish_first(
    driver: &mut Driver<stasis_qcow2::Image>,
    in_flight: &mut Vec<(u32, usize)>,
    commands: &mut [Seen],
) {
    let (tag, index) = in_flight.remove(0);
    let done = driver.wait(tag);
    assert_eq!(done.status, Status::Ok);
    commands[index].end = Some(done.at);
}

/// The disk of the image at `path`, read through the image layer.
pub fn contents(path: &Path) -> Vec<u8> {
    let (opening, medium) = open_files(path, true, &options()).unwrap();
    let size = opening.size();
    let drive = Drive::new(0, "d".into(), Box::new(ZeroLatency::default()), medium);
    let mut image = opening.open(Box::new(drive), Settings::default()).unwrap();
    let command = Command::new(Operation::Read, 0, size);
    let (status, data) = image.instant(command, vec![0; size as usize]);
    assert_eq!(status, Status::Ok);
    data
}

impl Run {
    /// Cuts the power at a random instant, starts again from the remaining state, and returns a
    /// fault found in it.
    pub fn cut(&self, path: &Path, draw: u64, second_opinion: bool) -> Result<(), String> {
        let mut random = random(draw);
        let at = random.next_u64() % (self.end + 1);
        let mut disk = self.base.clone();
        self.history.cut(at, Sampling::Random(random.next_u64()), &mut disk);
        std::fs::write(path, &disk[self.place as usize..]).unwrap();
        let (_, report, _) = check(path).map_err(|error| error.to_string())?;
        if !report.is_sound() {
            return Err(format!("at {at}: {report:?}"));
        }
        let found = contents(path);
        if second_opinion {
            qemu_finds_sound(path);
            assert_same(&qemu_contents(path), &found, "as qemu-img reads it");
        }
        self.check_promise(at, &found)
    }

    /// Returns whether `found` is a disk that the guest may find after a cut at `at`.
    fn check_promise(&self, at: Nanos, found: &[u8]) -> Result<(), String> {
        let changes = |sector: usize| {
            let offset = (sector * SECTOR) as u64;
            self.commands.iter().enumerate().filter(move |(_, one)| {
                let Command { offset: from, length, .. } = one.command;
                one.submit <= at && from <= offset && offset < from + length
            })
        };
        let ended = |one: &Seen| one.end.is_some_and(|end| end <= at);
        // Content of each sector: the last change that it can be of.
        let mut holds: Vec<Option<usize>> = Vec::new();
        let mut newest_submit = None::<Nanos>;
        for sector in 0..self.size / SECTOR {
            let data = &found[sector * SECTOR..(sector + 1) * SECTOR];
            let zero = data.iter().all(|&byte| byte == 0);
            let index = match zero {
                true => changes(sector)
                    .filter(|(_, one)| one.command.operation == Operation::Discard)
                    .map(|(index, _)| index)
                    .next_back(),
                false => {
                    let index = u64::from_le_bytes(data[..8].try_into().unwrap()) as usize;
                    let own = changes(sector).any(|(place, _)| place + 1 == index);
                    if !own || data != stamp(index - 1, sector) {
                        return Err(format!(
                            "at {at}: sector {sector} holds what nobody wrote there"
                        ));
                    }
                    let submit = self.commands[index - 1].submit;
                    newest_submit = newest_submit.max(Some(submit));
                    Some(index - 1)
                }
            };
            holds.push(index);
        }
        // The flushes that must have counted.
        let flushes =
            || self.commands.iter().filter(|one| one.command.operation == Operation::Flush);
        let ordered = self.settings.durability == Durability::Ordered;
        let lag = if ordered { self.settings.max_lag } else { 0 };
        let mut required = None::<Nanos>;
        for flush in flushes().filter(|flush| ended(flush)) {
            let end = flush.end.unwrap_or(0);
            // One that ended before something that is there was submitted, too.
            let followed =
                ordered && newest_submit.is_some_and(|submit| end <= submit && end < submit);
            if end + lag <= at || followed {
                required = required.max(Some(flush.submit));
            }
        }
        for fua in self.commands.iter().filter(|one| one.command.fua && ended(one)) {
            if ordered {
                // A durable write's flush covers the same as any flush.
                required = required.max(Some(fua.submit));
            }
        }
        for (sector, holds) in holds.iter().enumerate() {
            for (index, one) in changes(sector).filter(|(_, one)| ended(one)) {
                let end = one.end.unwrap_or(0);
                let durable = one.command.fua && one.command.operation == Operation::Write;
                let covered = required.is_some_and(|submit| end <= submit && end < submit);
                if (covered || durable) && holds.is_none_or(|holds| holds < index) {
                    return Err(format!(
                        "at {at}: sector {sector} holds {holds:?}, and {index} was to be kept: {one:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}
