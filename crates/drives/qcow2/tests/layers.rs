//! The times of the layers around a model are all of an I/O's time but the model's.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::common::*;
use proptest::prelude::*;
use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Rate, Request};
use stasis_drive::{
    Decorator, Done, Drive, DriveFault, DriveFaultKind, Faults, Layer, Region, SharedDrive,
};
use stasis_qcow2::{create, CreateOptions, Durability};
use stasis_scheduler::{LimitSpec, QueueSpec, SchedulerSpec, KINDS};

const SIZE: u64 = 8 << 20;

/// Times when the model got each command and completed it.
type Times = Rc<RefCell<BTreeSet<(Nanos, Nanos)>>>;

struct Noted {
    lower: Drive,
    times: Times,
}

impl Decorator for Noted {
    fn lower(&self) -> &dyn Layer {
        &self.lower
    }

    fn lower_mut(&mut self) -> &mut dyn Layer {
        &mut self.lower
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        let first = done.len();
        Layer::advance(&mut self.lower, now, done);
        self.times.borrow_mut().extend(done[first..].iter().map(|done| (done.submit, done.at)));
    }
}

/// Limits in front of the drive, and its faults.
fn limits() -> impl Strategy<Value = LimitSpec> {
    let rate = |rate: u64| Rate::per_second(rate << 20);
    (prop::option::of(500u32..5000), prop::option::of((1u64..200).prop_map(rate)))
        .prop_map(|(iops, bandwidth)| LimitSpec { iops, bandwidth, ..LimitSpec::default() })
}

fn faults() -> Vec<DriveFault> {
    let slow =
        DriveFault { factor: 2.0, delay: 7_000, rate: 0.2, ..fault(0, DriveFaultKind::Slow) };
    let stall =
        DriveFault { begin: 2_000_000, end: Some(3_000_000), ..fault(1, DriveFaultKind::Stall) };
    vec![slow, stall]
}

fn fault(number: u16, kind: DriveFaultKind) -> DriveFault {
    DriveFault::new(number, kind)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn times_add_up(
        kind in prop::sample::select(KINDS),
        depth in 1u32..4,
        limits in limits(),
        has_faults: bool,
        has_image: bool,
        durability in prop::sample::select(vec![Durability::Ordered, Durability::Barrier]),
        ios in prop::collection::vec((0u64..400_000, 0u8..8, 0u64..120, 1u64..40), 1..80),
    ) {
        let folder = folder();
        let path = name(&folder, "disk.qcow2");
        create(&path, &CreateOptions { size: Some(SIZE), ..CreateOptions::default() }).unwrap();
        let (opening, medium) = open_files(&path, true, &options()).unwrap();
        let drive = Drive::new(0, "d".into(), Latencies::new(5), medium);
        let region = Region { offset: 0, length: drive.properties().capacity };
        let times = Times::default();
        let noted = Box::new(Noted { lower: drive, times: Rc::clone(&times) });
        let lower: Box<dyn Layer> = match has_faults {
            true => Box::new(Faults::new(noted, faults(), 3)),
            false => noted,
        };
        let spec = SchedulerSpec { depth, ..SchedulerSpec::parse(kind.name).unwrap() };
        let shared = SharedDrive::new(&spec, lower);
        let queue = QueueSpec { limits, ..QueueSpec::default() };
        let disk = shared.disk(0, "disk".into(), region, &queue);
        let mut layer: Box<dyn Layer> = match has_image {
            true => Box::new(opening.open(Box::new(disk.covering()), settings(durability)).unwrap()),
            false => Box::new(disk),
        };
        shared.start(0);
        let (mut now, mut done) = (0, Vec::new());
        let count = ios.len();
        for (tag, (wait, operation, page, pages)) in (0..).zip(ios) {
            now += wait;
            while let Some(at) = layer.next_event().filter(|&at| at <= now) {
                layer.advance(at, &mut done);
            }
            let length = (4096 * pages).min(SIZE / 2);
            let operation = match operation {
                0 => Operation::Flush,
                1..4 => Operation::Read,
                _ => Operation::Write,
            };
            let command = match operation {
                Operation::Flush => Command::flush(),
                operation => Command::new(operation, 4096 * 8 * page, length),
            };
            layer.submit(now, Request::new(tag, command, vec![1; command.length as usize]));
        }
        while done.len() < count {
            let at = layer.next_event().expect("each command ends");
            layer.advance(at.max(now), &mut done);
        }
        let times = times.borrow();
        for done in &done {
            let record = done.record();
            let (begin, end) = (record.model_begin(), record.model_end());
            prop_assert!(record.submit <= begin && begin <= end && end <= record.target, "{record:?}");
            let at_drive = begin == end || times.contains(&(begin, end));
            prop_assert!(at_drive, "no command of the model from {begin} to {end}: {record:?}");
        }
        prop_assert!(has_image || done.iter().all(|done| done.layers.image == 0));
        prop_assert!(has_faults || done.iter().all(|done| done.layers.fault == 0));
        prop_assert!(!limits.is_none() || done.iter().all(|done| done.layers.limited == 0));
    }
}
