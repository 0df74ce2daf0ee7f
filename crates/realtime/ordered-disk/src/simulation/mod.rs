//! The log, its recovery and the checkpointing, on a host whose power fails at any
//! point, against the plain definition: a list of writes, and the places where it may be cut.

pub(crate) mod host;

use std::sync::Arc;

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::append::{append, begin_sync, read, Change};
use crate::checkpoint::{Checkpoint, Stage};
use crate::injected::{Bug, INJECTED};
use crate::record::{checksum, PAGE};
use crate::recover;
use crate::ring::Ring;
use crate::state::{State, SyncPoint};
use crate::superblock::{Superblock, SUPERBLOCKS, UNKNOWN};
use host::{File, Power, SECTOR};

const SECTORS: u64 = 96;
const RING: u64 = 16 * PAGE;

/// Value last written to each sector of the disk.
type Model = Vec<u64>;

struct World {
    random: Xoshiro256PlusPlus,
    power: Arc<Power>,
    log: File,
    disk: File,
    state: State,
    checkpoint: Option<Checkpoint>,
    sync: Option<SyncPoint>,
    boot: u64,
    writes: u64,
    now: Model,
    // With the write that was under way.
    torn: Option<Model>,
    // Places where it may be cut: the log's boundary, and the contents there.
    cuts: Vec<(u64, Model)>,
}

/// A sector's bytes.
fn sector(write: u64) -> Vec<u8> {
    match write {
        0 => vec![0; SECTOR],
        _ => write.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(SECTOR / 8),
    }
}

fn bytes(model: &[u64]) -> Vec<u8> {
    model.iter().flat_map(|write| sector(*write)).collect()
}

fn boot(number: u64) -> [u8; 16] {
    [number as u8 + 1; 16]
}

impl World {
    fn new(seed: u64) -> Self {
        let power = Power::new();
        let capacity = SECTORS * SECTOR as u64;
        let log = vec![0; (SUPERBLOCKS + RING) as usize];
        let log = File::new(log, power.clone(), seed);
        let superblock = Superblock {
            generation: 0,
            incarnation: 0,
            capacity,
            ring: RING,
            tail: 0,
            epoch: 0,
            boot: UNKNOWN,
            clean: true,
        };
        log.damage(|bytes| bytes[..PAGE as usize].copy_from_slice(&superblock.encode()));
        let disk = File::new(vec![0; capacity as usize], power.clone(), !seed);
        let now = vec![0; SECTORS as usize];
        let mut world = Self {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            power,
            log,
            disk,
            state: State::new(superblock),
            checkpoint: None,
            sync: None,
            boot: 0,
            writes: 0,
            cuts: vec![(0, now.clone())],
            torn: None,
            now,
        };
        world.recover().expect("an empty log opens");
        world.begin();
        world
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    /// After an opening: nothing but the content there counts.
    fn begin(&mut self) {
        self.cuts = vec![(self.state.boundary(), self.now.clone())];
        self.torn = None;
        self.checkpoint = None;
        self.sync = None;
    }

    fn record_cut(&mut self) {
        if self.cuts.last().is_none_or(|(boundary, _)| *boundary < self.state.boundary()) {
            self.cuts.push((self.state.boundary(), self.now.clone()));
        }
    }

    fn write(&mut self) -> std::io::Result<()> {
        let long = 1 + self.below(12);
        let at = self.below(SECTORS - long);
        self.writes += 1;
        let zeroes = self.below(6) == 0;
        let value = if zeroes { 0 } else { self.writes };
        let data = sector(value).repeat(long as usize);
        let change = match zeroes {
            true => Change::Zeroes(long * SECTOR as u64),
            false => Change::Data(&data, checksum(&data)),
        };
        while !self.state.has_room(change.size()) {
            if self.state.boundary() == self.state.tail() {
                self.order();
            }
            self.sync = None;
            self.sync_all()?;
            self.checkpoint_on()?;
        }
        let mut next = self.now.clone();
        next[at as usize..(at + long) as usize].fill(value);
        self.torn = Some(next.clone());
        append(&mut self.state, &self.log, at * SECTOR as u64, change, 0)?;
        self.torn = None;
        self.now = next;
        self.record_cut();
        Ok(())
    }

    fn order(&mut self) {
        self.state.order(0);
        self.record_cut();
    }

    fn begin_sync(&mut self) -> std::io::Result<()> {
        self.sync = Some(begin_sync(&mut self.state, &self.log, 0)?);
        self.log.begin_sync();
        Ok(())
    }

    fn end_sync(&mut self) -> std::io::Result<()> {
        if let Some(point) = self.sync.take() {
            self.log.end_sync()?;
            self.state.synced(point);
        }
        Ok(())
    }

    fn sync_all(&mut self) -> std::io::Result<()> {
        self.begin_sync()?;
        self.end_sync()
    }

    fn checkpoint_on(&mut self) -> std::io::Result<()> {
        let Some(checkpoint) = &mut self.checkpoint else {
            let limit = 1 + self.below(RING);
            self.checkpoint = self.state.plan(limit).map(Checkpoint::new);
            return Ok(());
        };
        if checkpoint.stage() == Stage::Forget {
            self.state.forget(checkpoint.plan(), &checkpoint.plan().extents);
        }
        checkpoint.step(&self.log, &self.disk)?;
        if checkpoint.stage() == Stage::Done {
            self.state.freed(checkpoint.plan());
            self.checkpoint = None;
        }
        Ok(())
    }

    fn step(&mut self) -> std::io::Result<()> {
        match self.below(20) {
            0..=7 => self.write(),
            8..=10 => {
                self.order();
                Ok(())
            }
            11 if self.sync.is_none() => self.begin_sync(),
            11..=12 => self.end_sync(),
            13 => self.sync_all(),
            _ => self.checkpoint_on(),
        }
    }

    fn read(&self) -> Vec<u8> {
        let mut found = vec![1; SECTORS as usize * SECTOR];
        let extents: Vec<_> = self.state.index().find(0, found.len() as u64).collect();
        let ring = Ring { file: &self.log, size: RING };
        read(&ring, &self.disk, &extents, 0, &mut found).unwrap();
        found
    }

    fn recover(&mut self) -> Result<(), String> {
        let found = recover::recover(&self.log, self.log.length(), boot(self.boot));
        let recovery = found.map_err(|why| format!("{why:?}"))?;
        let superblock =
            recover::apply(&self.log, &self.disk, recovery).map_err(|e| e.to_string())?;
        self.state = State::new(superblock);
        Ok(())
    }

    /// The power or the program fails, perhaps again in the middle of the recovery; then the disk
    /// is compared with its permitted contents.
    fn crash(&mut self) -> Result<(), String> {
        let durable = self.state.whole();
        let cuts = std::mem::take(&mut self.cuts);
        let mut allowed: Vec<Model> =
            cuts.into_iter().filter(|(at, _)| *at >= durable).map(|cut| cut.1).collect();
        let everything: Vec<Model> =
            [Some(self.now.clone()), self.torn.take()].into_iter().flatten().collect();
        let mut lost_power = false;
        for attempt in 0.. {
            if self.below(4) > 0 {
                lost_power = true;
                self.boot += 1;
                for file in [&self.log, &self.disk] {
                    let kept = [0, 30, 128, 220, 255][self.random.next_u64() as usize % 5];
                    file.cut(kept);
                }
            }
            if !lost_power {
                // A recovery in the same boot keeps everything.
                allowed.extend(everything.iter().cloned());
            }
            let again = attempt < 4 && self.below(2) == 0;
            let operations = if again { 1 + self.below(10) } else { u64::MAX };
            self.power.cut_after(operations);
            let result = self.recover();
            self.power.cut_after(u64::MAX);
            match result {
                Ok(()) => break,
                Err(error) if error == "no power" => {}
                Err(error) => return Err(error),
            }
        }
        if !lost_power {
            allowed = everything;
        }
        let found = self.read();
        let model = allowed.into_iter().rev().find(|model| bytes(model) == found);
        self.now = model.ok_or("the disk is nothing that it may be")?;
        self.begin();
        Ok(())
    }
}

/// Several lives of a disk; returns a fault.
fn run(seed: u64) -> Result<(), String> {
    let mut world = World::new(seed);
    for _ in 0..4 {
        let operations = 1 + world.below(300);
        world.power.cut_after(operations);
        while world.step().is_ok() {
            if world.below(16) == 0 && world.read() != bytes(&world.now) {
                return Err("a read is not what was written".into());
            }
        }
        world.crash()?;
    }
    Ok(())
}

#[test]
fn after_any_crash_the_disk_is_cut_at_an_order() {
    for seed in 0..500 {
        run(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn injected_bugs_are_found() {
    let bugs = [
        Bug::NoChecksum,
        Bug::OpenEpoch,
        Bug::CheckpointEarly,
        Bug::CheckpointNewest,
        Bug::NoDiskSync,
        Bug::NoSuperblockSync,
        Bug::EarlyDurable,
        Bug::NoRecoverySync,
        Bug::LateSyncPoint,
    ];
    for bug in bugs {
        INJECTED.set(Some(bug));
        let found = (0..300).find(|seed| run(*seed).is_err());
        INJECTED.set(None);
        println!("{bug:?}: found by seed {found:?}");
        assert!(found.is_some(), "{bug:?} is not found");
    }
}

/// Records that a recovery cut off lie where those of the next opening end.
fn cut_off_records_come_back() -> bool {
    let mut world = World::new(1);
    let put = |world: &mut World, at: u64, value: u64, long: usize| {
        let data = sector(value).repeat(long);
        let change = Change::Data(&data, checksum(&data));
        append(&mut world.state, &world.log, at * SECTOR as u64, change, 0).unwrap();
        world.state.order(0);
    };
    let begin = world.state.end();
    assert!(begin.is_multiple_of(PAGE));
    // Two pages; behind shorter records of a page there are zeroes.
    [1, 2, 2, 2, 2, 2, 2, 2].into_iter().for_each(|long| put(&mut world, 0, 7, long));
    let last = world.state.end();
    assert_eq!(last, begin + 2 * PAGE);
    put(&mut world, 50, 8, 1);
    // Power fails, and of all that only the second record is torn.
    world.log.cut(255);
    world.log.damage(|bytes| bytes[(SUPERBLOCKS + begin % RING) as usize + 576 + 100] ^= 1);
    world.boot += 1;
    world.recover().unwrap();
    for _ in 0..7 {
        let data = sector(9);
        let change = Change::Data(&data, checksum(&data));
        append(&mut world.state, &world.log, 20 * SECTOR as u64, change, 0).unwrap();
    }
    append(&mut world.state, &world.log, 0, Change::Zeroes(512), 0).unwrap();
    assert_eq!(world.state.end(), last, "what follows is a sound record of before");
    world.recover().unwrap();
    world.read()[50 * SECTOR..51 * SECTOR] == sector(8)
}

#[test]
fn what_was_cut_off_stays_cut_off() {
    assert!(!cut_off_records_come_back());
    INJECTED.set(Some(Bug::AnyIncarnation));
    let found = cut_off_records_come_back();
    INJECTED.set(None);
    assert!(found, "the test finds the injected bug");
}

#[test]
fn damage_to_durable_records_is_told() {
    let mut world = World::new(2);
    for _ in 0..4 {
        world.write().unwrap();
        world.order();
        world.sync_all().unwrap();
    }
    let first = SUPERBLOCKS + world.state.tail() % RING;
    world.log.damage(|bytes| bytes[first as usize + 20] ^= 1);
    let error = world.recover().unwrap_err();
    assert_eq!(error, format!("Damaged {{ offset: {first} }}"));
}

#[test]
fn without_space_a_write_fails_and_the_disk_goes_on() {
    let mut world = World::new(3);
    (0..5).for_each(|_| world.write().unwrap());
    world.log.set_full(true);
    assert!(world.write().is_err());
    assert_eq!(world.read(), bytes(&world.now));
    world.log.set_full(false);
    // The checkpointing fails in its middle, and begins again.
    world.order();
    world.sync_all().unwrap();
    world.checkpoint_on().unwrap();
    world.checkpoint_on().unwrap();
    world.disk.set_full(true);
    assert!((0..20).any(|_| world.checkpoint_on().is_err()));
    world.disk.set_full(false);
    (0..200).for_each(|_| world.write().unwrap());
    assert_eq!(world.read(), bytes(&world.now));
    world.crash().unwrap();
}
