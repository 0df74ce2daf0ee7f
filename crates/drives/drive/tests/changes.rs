//! Drives that become others while they work, against drives that were so from the beginning.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use stasis_block::{Command, Operation, Request};
use stasis_drive::{
    put_before, Done, Drive, DriveFault, DriveFaultKind, FaultChange, Faults, Layer, Look, Region,
    Schedule, SharedDrive, VirtualDisk,
};
use stasis_media::{Execution, MediumSpec, OpenOptions};
use stasis_models::{BuildContext, Model, ModelSpec};
use stasis_scheduler::{LimitSpec, QueueSpec, SchedulerSpec, KINDS};

const CAPACITY: u64 = 1 << 20;

fn model(word: &str, seed: u64) -> Box<dyn Model> {
    let context = BuildContext { seed, capacity: CAPACITY, path: 0 };
    ModelSpec::parse(word).unwrap().build(&context).unwrap()
}

fn drive(word: &str, seed: u64) -> Box<dyn Layer> {
    let medium = MediumSpec::Ram { size: CAPACITY };
    let execution = Execution::Synchronous;
    let options = OpenOptions { execution, delay: Duration::ZERO, base: Path::new("/") };
    Box::new(Drive::new(0, "disk".into(), model(word, seed), medium.open(&options).unwrap()))
}

fn slow(number: u16, factor: f64, begin: u64) -> DriveFault {
    DriveFault { begin, factor, ..DriveFault::new(number, DriveFaultKind::Slow) }
}

/// Reads at these times, and what is done at the time `at`; each read's number and end, in order.
fn reads(
    layer: &mut Box<dyn Layer>,
    times: &[u64],
    at: u64,
    mut change: impl FnMut(&mut Box<dyn Layer>),
) -> Vec<(u64, u64)> {
    let (mut done, mut changed) = (Vec::<Done>::new(), false);
    for (tag, &time) in times.iter().enumerate() {
        if time >= at && !std::mem::replace(&mut changed, time >= at) {
            change(layer);
        }
        while let Some(event) = layer.next_event().filter(|event| *event <= time) {
            layer.advance(event, &mut done);
        }
        let read = Command::new(Operation::Read, 0, 512);
        layer.submit(time, Request::new(tag as u32, read, vec![0; 512]));
    }
    while let Some(event) = layer.next_event() {
        layer.advance(event, &mut done);
    }
    done.iter().map(|done| (done.order, done.at)).collect()
}

/// Reads of two disks on a drive that takes 10 us each, by their times and disks, and a schedule that
/// follows at a time: each read's disk, number and end, in order of these.
fn share(
    schedule: &Schedule,
    all: &[(u64, usize)],
    change: Option<(u64, &Schedule)>,
) -> Vec<(usize, u64, u64)> {
    let shared = SharedDrive::new(&schedule.scheduler, drive("fixed:10us", 1));
    let mut disks: Vec<_> = schedule
        .disks
        .iter()
        .enumerate()
        .map(|(number, queue)| {
            let half = CAPACITY / 2;
            let region = Region { offset: number as u64 * half, length: half };
            shared.disk(number as u16, format!("disk{number}"), region, queue)
        })
        .collect();
    shared.start(0);
    let (mut ended, mut done) = (Vec::new(), Vec::new());
    let mut until = |disks: &mut [VirtualDisk], time: u64| loop {
        let next = disks.iter().filter_map(Layer::next_event).min();
        let Some(event) = next.filter(|event| *event <= time) else { break };
        for (number, disk) in disks.iter_mut().enumerate() {
            disk.advance(event, &mut done);
            ended.extend(done.drain(..).map(|done| (number, done.order, done.at)));
        }
    };
    let mut change = change;
    for (tag, &(time, disk)) in all.iter().enumerate() {
        if let Some((at, to)) = change.filter(|(at, _)| *at <= time) {
            until(&mut disks, at);
            shared.reschedule(at, schedule, to);
            change = None;
        }
        until(&mut disks, time);
        let read = Command::new(Operation::Read, tag as u64 * 512, 512);
        disks[disk].submit(time, Request::new(tag as u32, read, vec![0; 512]));
    }
    if let Some((at, to)) = change {
        until(&mut disks, at);
        shared.reschedule(at, schedule, to);
    }
    until(&mut disks, u64::MAX);
    assert_eq!(ended.len(), all.len(), "each ends once");
    ended.sort_unstable();
    ended
}

/// Times in order.
fn times() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0u64..2_000, 1..40).prop_map(|pauses| {
        let sums = pauses.into_iter().scan(0, |at, pause| {
            *at += pause;
            Some(*at)
        });
        sums.collect()
    })
}

proptest! {
    /// Commands that were submitted before end as in the old drive, later ones as in the new one.
    #[test]
    fn a_model_takes_the_place_of_another(times in times(), at in 0u64..40_000) {
        let mut changed = drive("uniform:1us-9us", 1);
        let ends = reads(&mut changed, &times, at, |layer| {
            assert!(layer.control().set_model(at, model("uniform:20us-30us", 2)));
        });
        let nothing = |_: &mut Box<dyn Layer>| ();
        let mut old = reads(&mut drive("uniform:1us-9us", 1), &times, at, nothing);
        let before = times.iter().filter(|time| **time < at).count() as u64;
        old.retain(|(order, _)| *order < before);
        let later: Vec<_> = times.iter().copied().filter(|time| *time >= at).collect();
        let new = reads(&mut drive("uniform:20us-30us", 2), &later, at, nothing);
        let mut wanted: Vec<_> =
            old.into_iter().chain(new.into_iter().map(|(order, end)| (before + order, end))).collect();
        wanted.sort_by_key(|(order, end)| (*end, *order));
        let mut ends = ends;
        prop_assert!(ends.is_sorted_by_key(|(_, end)| *end), "completions go back in time: {ends:?}");
        ends.sort_by_key(|(order, end)| (*end, *order));
        prop_assert_eq!(ends, wanted);
    }

    /// A layer of faults that joins a working drive changes nothing by itself, and a fault of it is that
    /// of a drive that had the layer from the beginning.
    #[test]
    fn faults_join_a_working_drive(times in times(), at in 0u64..40_000, factor in 1.0f64..4.0) {
        let before = times.iter().filter(|time| **time < at).count() as u64;
        let join = |faults: Vec<DriveFault>| {
            let mut working = drive("uniform:1us-9us", 1);
            reads(&mut working, &times, at, |layer| {
                put_before(layer, |lower| Box::new(Faults::joining(lower, before, 0)));
                let change = FaultChange { faults: faults.clone(), seed: 5, begun: Some(0) };
                layer.control().set_faults(change).unwrap();
            })
        };
        let nothing = |_: &mut Box<dyn Layer>| ();
        prop_assert_eq!(join(vec![]), reads(&mut drive("uniform:1us-9us", 1), &times, at, nothing));
        let fault = slow(0, factor, at);
        let layer = Faults::new(drive("uniform:1us-9us", 1), vec![fault.clone()], 5);
        let mut whole: Box<dyn Layer> = Box::new(layer);
        whole.control().start(0);
        prop_assert_eq!(join(vec![fault]), reads(&mut whole, &times, at, nothing));
    }

    /// Earlier commands come to their end as in the old drive; later ones wait for that, and are then
    /// those of a drive with the new scheduler.
    #[test]
    fn a_scheduler_follows_another(
        (times, disks) in (times(), prop::collection::vec(0..2usize, 40)),
        at in 0u64..30_000,
        (from, to) in (0..KINDS.len(), 0..KINDS.len()),
        depths in (1u32..4, 1u32..4),
        weights in prop::array::uniform3(1u32..1000),
    ) {
        let schedule = |kind: usize, depth, weight| Schedule {
            scheduler: SchedulerSpec { depth, ..SchedulerSpec::parse(KINDS[kind].name).unwrap() },
            disks: vec![QueueSpec::weighted(weight), QueueSpec::weighted(weights[2])],
            loads: Vec::new(),
        };
        let (was, is) = (schedule(from, depths.0, weights[0]), schedule(to, depths.1, weights[1]));
        let all: Vec<_> = times.iter().copied().zip(disks.iter().copied()).collect();
        let ends = share(&was, &all, Some((at, &is)));
        let (before, later): (Vec<_>, Vec<_>) = all.iter().partition(|(time, _)| *time < at);
        let mut wanted = share(&was, &before, None);
        // A drive that begins where the old one is done.
        let over = wanted.iter().map(|(_, _, end)| *end).max().unwrap_or(0).max(at);
        let later: Vec<_> = later.iter().map(|(time, disk)| ((*time).max(over), *disk)).collect();
        let mine = |disk| before.iter().filter(|(_, own)| *own == disk).count() as u64;
        let later = share(&is, &later, None);
        if was == is {
            // Nothing has changed, and nothing waits.
            prop_assert_eq!(ends, share(&was, &all, None));
        } else {
            wanted.extend(later.into_iter().map(|(disk, order, end)| (disk, mine(disk) + order, end)));
            wanted.sort_unstable();
            prop_assert_eq!(ends, wanted);
        }
    }

    /// Commands that a limit has let through end as they would have; the others, in their order, are
    /// those of a drive with the new limit.
    #[test]
    fn a_limit_takes_the_place_of_another(
        times in times(),
        at in 0u64..30_000,
        rates in prop::array::uniform2(prop::option::of(50_000u32..2_000_000)),
    ) {
        let schedule = |rate: Option<u32>| {
            let limits = LimitSpec { iops: rate, ..LimitSpec::default() };
            let scheduler = SchedulerSpec { depth: 99, ..SchedulerSpec::parse("none").unwrap() };
            let disks = vec![QueueSpec { limits, ..QueueSpec::default() }, QueueSpec::default()];
            Schedule { scheduler, disks, loads: Vec::new() }
        };
        let (was, is) = (schedule(rates[0]), schedule(rates[1]));
        let all: Vec<_> = times.iter().map(|time| (*time, 0)).collect();
        let ends = share(&was, &all, Some((at, &is)));
        let mut wanted = share(&was, &all, None);
        if rates[0] != rates[1] {
            // A command takes 10 us from where the limit lets it through.
            wanted.retain(|(_, order, end)| {
                end - 10_000 < at || (end - 10_000 == at && times[*order as usize] < at)
            });
            let through = wanted.len();
            let later: Vec<_> = times[through..].iter().map(|time| ((*time).max(at), 0)).collect();
            let later = share(&is, &later, None).into_iter();
            wanted.extend(later.map(|(disk, order, end)| (disk, order + through as u64, end)));
        }
        prop_assert_eq!(ends, wanted);
    }

    /// Numbers that are drawn after a change of the seed are those of a drive with that seed.
    #[test]
    fn a_drive_draws_by_another_seed(times in times()) {
        let nothing = |_: &mut Box<dyn Layer>| ();
        let mut changed = drive("uniform:1us-9us", 1);
        changed.control().reseed(2);
        let wanted = reads(&mut drive("uniform:1us-9us", 2), &times, 0, nothing);
        prop_assert_eq!(reads(&mut changed, &times, 0, nothing), wanted);
    }
}

#[test]
fn a_fault_that_stays_goes_on_and_one_that_is_left_out_is_over() {
    let counted = DriveFault { times: Some(2), ..slow(0, 10.0, 0) };
    let mut layer: Box<dyn Layer> =
        Box::new(Faults::new(drive("fixed:10us", 1), vec![counted.clone()], 5));
    layer.control().start(0);
    let mut now = 0;
    let mut take = |layer: &mut Box<dyn Layer>| {
        now += 1_000_000;
        let end = reads(layer, &[now], 0, |_| ())[0].1;
        end - now
    };
    assert_eq!(take(&mut layer), 100_000);
    let keep = FaultChange { faults: vec![counted, slow(1, 3.0, 0)], seed: 5, begun: Some(0) };
    layer.control().set_faults(keep).unwrap();
    assert_eq!(take(&mut layer), 300_000, "its second time, and the other's first");
    assert_eq!(take(&mut layer), 30_000, "it comes twice only");
    let none = FaultChange { faults: vec![], seed: 5, begun: Some(0) };
    layer.control().set_faults(none).unwrap();
    assert_eq!(take(&mut layer), 10_000);
}

#[test]
fn a_drive_without_faults_gives_them_back() {
    let change = FaultChange { faults: vec![slow(0, 2.0, 0)], seed: 5, begun: Some(7) };
    let mut plain = drive("fixed:10us", 1);
    assert_eq!(plain.control().set_faults(change.clone()), Err(change));
    assert!(!plain.control().adapt(0, &()), "a model in closed form is replaced");
    assert_eq!(plain.control().look(0, Look::Cache), None);
    assert!(plain.control().look(0, Look::PowerCut).unwrap().contains("no later flush"));
}
