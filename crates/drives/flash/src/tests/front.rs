//! The parts between the host and the translation layer, each against its closed form.

use stasis_block::{Link, Operation};

use super::basics::small;
use super::load::{alone, on, run};
use crate::spec::{
    DramSpec, FaultKind, FaultSpec, PcieSpec, Precondition, ProcessorsSpec, Rate, TrimSpec,
};
use crate::{Spec, Ssd};

const CAPACITY: u64 = 16 << 20;

/// A new drive, whose reads need no cells.
fn drive(spec: Spec) -> Ssd {
    Ssd::new(&Spec { controller: 0, precondition: Some(Precondition::None), ..spec }, CAPACITY, 1)
        .unwrap()
}

/// The mean time between completions of so many commands of 4 units, 64 in flight (ns).
fn interval(spec: Spec, operation: Operation, count: u64) -> f64 {
    let mut ssd = drive(spec);
    let done = run(&mut ssd, 0, 64, count, |index| on(operation, index * 4 % 4_096, 4));
    done.iter().map(|done| done.at).max().unwrap() as f64 / count as f64
}

fn near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 0.02, "{value} for {expected}");
}

#[test]
fn commands_are_as_frequent_as_the_processors_allow() {
    for cores in [1, 2, 5] {
        let processors = Some(ProcessorsSpec { cores, command: 10_000, unit: 500 });
        let time = interval(Spec { processors, ..small() }, Operation::Read, 10_000);
        near(time, 12_000.0 / f64::from(cores));
    }
    let processors = Some(ProcessorsSpec { cores: 3, command: 10_000, unit: 500 });
    let mut ssd = drive(Spec { processors, ..small() });
    assert_eq!(alone(&mut ssd, 0, &on(Operation::Read, 0, 2)).1, 11_000);
    assert_eq!(alone(&mut ssd, 50_000, &on(Operation::Discard, 0, 2)).1, 10_000);
}

#[test]
fn data_is_as_fast_as_the_memory_for_both_directions_together() {
    for passes in [1, 2] {
        let rate = Rate::per_second(2_000_000_000);
        let dram = Some(DramSpec { rate, passes });
        let read = interval(Spec { dram: dram.clone(), ..small() }, Operation::Read, 10_000);
        near(read, 16_384.0 * f64::from(passes) / 2.0);
        // Half of them writes into a buffer that is large enough.
        let mut ssd = drive(Spec { dram, buffer: 16 << 20, ..small() });
        let done = run(&mut ssd, 0, 64, 1_000, |index| {
            let operation = [Operation::Write, Operation::Read][index as usize % 2];
            on(operation, index * 4 % 2_048 + 2_048 * (index % 2), 4)
        });
        let last = done.iter().map(|done| done.at).max().unwrap() as f64 / 1_000.0;
        near(last, 16_384.0 * f64::from(passes) / 2.0);
    }
}

#[test]
fn ranges_are_forgotten_one_after_another() {
    let trim = TrimSpec { range: 20_000, rate: Some(Rate::per_second(4_096_000_000)) };
    let spec = Spec { trim: Some(trim), ..small() };
    near(interval(spec.clone(), Operation::Discard, 1_000), 20_000.0 + 4_000.0);
    let mut ssd = drive(spec);
    assert_eq!(alone(&mut ssd, 0, &on(Operation::Discard, 0, 1)).1, 21_000);
    // Nothing else takes longer.
    assert_eq!(alone(&mut ssd, 100_000, &on(Operation::Read, 0, 1)).1, 0);
    assert_eq!(interval(small(), Operation::Discard, 100), 0.0);
}

#[test]
fn a_link_carries_what_its_lanes_do_less_its_packets() {
    // Rates of 8, 16 and 2.5 GT/s; packets of 256 and 128 bytes; 24 bytes around a write's data.
    for (generation, lanes, payload, rate) in [
        (3, 4, 256, 8e9 * 4.0 / 8.0 * 128.0 / 130.0 * 256.0 / 280.0),
        (4, 4, 128, 16e9 * 4.0 / 8.0 * 128.0 / 130.0 * 128.0 / 152.0),
        (1, 1, 256, 2.5e9 / 8.0 * 0.8 * 256.0 / 280.0),
    ] {
        let link = Link::new(generation, lanes).unwrap();
        let pcie = PcieSpec { link, payload };
        near(pcie.to_host().bytes_per_second() as f64, rate);
        let whole = f64::from(payload);
        near(pcie.to_drive().bytes_per_second() as f64, rate * (whole + 24.0) / (whole + 20.0));
        let spec = Spec { pcie: Some(pcie), ..small() };
        near(interval(spec, Operation::Read, 2_000), 16_384.0 / rate * 1e9);
    }
}

#[test]
fn parts_that_cannot_be_are_refused() {
    let says = |spec: Spec| spec.check(CAPACITY).unwrap_err().to_string();
    let processors = Some(ProcessorsSpec { cores: 0, command: 1, unit: 1 });
    assert!(says(Spec { processors, ..small() }).contains("`processors.cores` = 0"));
    let dram = Some(DramSpec { rate: Rate::per_second(1), passes: 0 });
    assert!(says(Spec { dram, ..small() }).contains("`dram.passes` = 0"));
    let pcie =
        |generation, payload| Some(PcieSpec { link: Link::new(generation, 4).unwrap(), payload });
    assert!(says(Spec { pcie: pcie(6, 256), ..small() }).contains("is PCIe 5.0 x4"));
    assert!(says(Spec { pcie: pcie(4, 300), ..small() }).contains("nearest that works is 512"));
    let interface_rate = Some(Rate::per_second(1_000));
    let both = Spec { interface_rate, pcie: pcie(4, 256), ..small() };
    assert!(says(both).contains("`interface_rate`"));
    let fault = FaultSpec { wear: Some(2.0), ..FaultSpec::new(FaultKind::Corrupt) };
    assert!(says(Spec { faults: vec![fault], ..small() }).contains("`faults.wear`"));
}

/// Blocks fail more often the more they are worn.
#[test]
fn bad_blocks_grow_with_wear() {
    let wear = FaultSpec { rate: 0.2, wear: Some(2.0), ..FaultSpec::new(FaultKind::FailedErase) };
    let spec = Spec { faults: vec![wear], endurance: 50, over_provisioning: Some(1.0), ..small() };
    let mut ssd = Ssd::new(&spec, CAPACITY, 1).unwrap();
    let units = CAPACITY / 4096;
    let retired = |ssd: &Ssd| ssd.report(0).ftl["retired_blocks"].as_u64().unwrap();
    let mut counts = Vec::new();
    for round in 0..3 {
        let start = ssd.now_for_tests();
        run(&mut ssd, start, 32, 12 * units, |index| {
            on(Operation::Write, stasis_block::splitmix::mix(index + (round << 40)) % units, 1)
        });
        counts.push(retired(&ssd));
    }
    let [first, second, third] = counts[..] else { unreachable!() };
    assert!(first < second - first && second - first < third - second, "{counts:?}");
    ssd.ftl().check();
}
