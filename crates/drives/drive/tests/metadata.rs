//! Blocks with metadata, from a controller through the layers to a medium: a model sees the host's
//! data, a power cut parts no block from its metadata, and a wrong bit is found.

use crate::support;
use std::sync::{Arc, Mutex};

use crate::common::{Latencies, Moody};
use crate::support::{Driver, Sqe, DATA};
use proptest::prelude::*;
use stasis_block::clock::Nanos;
use stasis_block::{BlockLayout, Command, Fate, Interleaved, Operation, Request, Status, Tag};
use stasis_drive::{Done, Drive, DriveFault, DriveFaultKind, Faults, Layer, PowerCuts, Sampling};
use stasis_models::{Completion, Model};
use stasis_nvme::{Config, Metadata, Namespace, Protection};

const BLOCKS: u64 = 24;
const STRIDE: u64 = 4096 + 512;
const CAPACITY: usize = (BLOCKS * STRIDE) as usize;
const ACTION: u32 = 1 << 29;
const CHECKS: u32 = 1 << 28 | 1 << 26;

/// A controller whose blocks of 4096 bytes have protection information of type 1.
fn driver() -> Driver {
    let metadata = Some(Metadata { protection: Protection::Type1, ..Metadata::new(8) });
    let namespaces = vec![Namespace { metadata, ..Namespace::new(BLOCKS, 4096) }];
    let config = Config { namespaces, metadata: true, ..support::config() };
    Driver::with_queues(config, 1, 64)
}

fn io(opcode: u8, lba: u64, blocks: u32, prinfo: u32) -> Sqe {
    let base = Sqe::io(opcode, lba, blocks, DATA, DATA + 4096);
    Sqe { cdw12: base.cdw12 | prinfo, cdw14: lba as u32, mptr: DATA + 0x8000, ..base }
}

/// Brings what the controller asks for to the drive, and back what the drive has done by `now`.
fn carry(driver: &mut Driver, layer: &mut dyn Layer, now: Nanos) {
    while let Some(request) = driver.controller.pop_request() {
        layer.submit(now, request);
    }
    let mut done = Vec::new();
    layer.advance(now, &mut done);
    for Done { tag, status, data, .. } in done {
        driver.controller.complete(&driver.ram, tag, status, data);
    }
}

/// A command alone, from its begin at `now` to its end.
fn alone(driver: &mut Driver, layer: &mut dyn Layer, now: &mut Nanos, sqe: Sqe) -> u16 {
    driver.submit(1, sqe);
    carry(driver, layer, *now);
    *now += 100;
    carry(driver, layer, *now);
    let ends = driver.reap(1);
    assert_eq!(ends.len(), 1, "{sqe:?}");
    ends[0].status
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_power_cut_parts_no_block_from_its_metadata(
        writes in prop::collection::vec((0..BLOCKS - 1, 1..3u32, 1..200u8, 0..60u64), 1..30),
        seed: u64,
    ) {
        let (medium, _) = Moody::new(seed, CAPACITY);
        let drive = Drive::new(0, "disk".into(), Latencies::new(seed, 50), Box::new(medium));
        let mut layer = PowerCuts::new(Box::new(drive), 512, 1, false);
        let mut driver = driver();
        layer.control().set_layout(&driver.controller.layout());
        let (mut now, mut versions) = (0, vec![vec![0u8]; BLOCKS as usize]);
        for &(lba, blocks, value, later) in &writes {
            now += later;
            driver.ram.set(DATA, &[value; 8192]);
            driver.submit(1, io(1, lba, blocks, ACTION));
            carry(&mut driver, &mut layer, now);
            driver.reap(1);
            (lba..lba + u64::from(blocks)).for_each(|lba| versions[lba as usize].push(value));
        }
        layer.control().cut_power(now, Sampling::Random(seed));
        now += 100;
        carry(&mut driver, &mut layer, now);
        driver.reap(1);
        for lba in 0..BLOCKS {
            prop_assert_eq!(alone(&mut driver, &mut layer, &mut now, io(2, lba, 1, CHECKS)), 0, "{}", lba);
            let data = driver.ram.get(DATA, 4096);
            prop_assert!(data.iter().all(|byte| *byte == data[0]), "block {lba} is torn");
            prop_assert!(versions[lba as usize].contains(&data[0]), "block {lba}: {}", data[0]);
        }
    }
}

#[test]
fn a_wrong_bit_is_found_by_reads_and_by_verify() {
    let spec = DriveFault { times: Some(3), ..DriveFault::new(0, DriveFaultKind::BitRot) };
    // Wherever it is, in the data or in the metadata's sector.
    for seed in 0..24 {
        let (medium, _) = Moody::new(seed, CAPACITY);
        let drive = Drive::new(0, "disk".into(), Latencies::new(seed, 50), Box::new(medium));
        let mut layer = Faults::new(Box::new(drive), vec![spec.clone()], seed);
        let mut driver = driver();
        layer.control().set_layout(&driver.controller.layout());
        driver.ram.set(DATA, &[7; 8192]);
        let mut now = 0;
        for lba in (0..BLOCKS).step_by(2) {
            assert_eq!(alone(&mut driver, &mut layer, &mut now, io(1, lba, 2, ACTION)), 0);
        }
        layer.control().start(0);
        let mut found = |driver: &mut Driver, layer: &mut Faults, opcode: u8| {
            let now = &mut now;
            let checked =
                (0..BLOCKS).map(|lba| alone(driver, layer, now, io(opcode, lba, 1, CHECKS)));
            checked.enumerate().filter(|(_, status)| *status != 0).collect::<Vec<_>>()
        };
        let by_reads = found(&mut driver, &mut layer, 2);
        let by_verify = found(&mut driver, &mut layer, 0x0c);
        let mut records = Vec::new();
        layer.control().take_faults(&mut records);
        let mut wrong: Vec<_> = records.iter().map(|one| (one.offset / STRIDE) as usize).collect();
        wrong.sort_unstable();
        wrong.dedup();
        // A bit of the application tag is nobody's to check.
        let unseen = |lba: &usize| !by_reads.iter().any(|(found, _)| found == lba);
        let unseen: Vec<_> = wrong.iter().filter(|lba| unseen(lba)).collect();
        let in_metadata =
            |lba: usize| records.iter().any(|one| one.offset == lba as u64 * STRIDE + 4096);
        assert!(unseen.iter().all(|&&lba| in_metadata(lba)), "{wrong:?} {by_reads:?}");
        assert!(by_reads
            .iter()
            .all(|(lba, status)| wrong.contains(lba) && matches!(status, 0x282 | 0x284)));
        assert_eq!(by_reads, by_verify);
    }
}

/// A model that notes its commands, and fails at a byte.
struct Noting {
    commands: Arc<Mutex<Vec<Command>>>,
    fails_at: u64,
    due: Vec<Completion>,
}

impl Model for Noting {
    fn submit(&mut self, at: Nanos, tag: Tag, command: &Command) {
        self.commands.lock().unwrap().push(*command);
        let fate = Fate::Failed { status: Status::ReadError, at: self.fails_at };
        self.due.push(Completion { tag, at, fate });
    }

    fn next_event(&self) -> Option<Nanos> {
        self.due.first().map(|due| due.at)
    }

    fn advance(&mut self, _: Nanos, done: &mut Vec<Completion>) {
        done.append(&mut self.due);
    }
}

#[test]
fn a_model_sees_the_data_and_fails_at_a_byte_of_it() {
    let commands = Arc::default();
    let model = Noting { commands: Arc::clone(&commands), fails_at: 2 * 4096 + 5, due: Vec::new() };
    let (medium, _) = Moody::new(1, CAPACITY);
    let mut drive = Drive::new(0, "disk".into(), Box::new(model), Box::new(medium));
    let part = Interleaved { start: 0, end: CAPACITY as u64, block: 4096, stride: STRIDE };
    drive.control().set_layout(&BlockLayout::new(4096, vec![part]));
    let read = Command::new(Operation::Read, 3 * STRIDE, 4 * STRIDE);
    drive.submit(0, Request::new(1, read, vec![0; 4 * STRIDE as usize]));
    let mut done = Vec::new();
    drive.advance(0, &mut done);
    assert_eq!(*commands.lock().unwrap(), [Command::new(Operation::Read, 3 * 4096, 4 * 4096)]);
    assert_eq!((done[0].command, done[0].failed_at), (read, 2 * STRIDE + 5));
}
