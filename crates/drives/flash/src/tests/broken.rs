//! The effects of faults on the host.

use stasis_block::{Command, Fate, Model, Operation, Status};

use super::basics::small;
use super::load::{alone, drain, on, run, shadowed};
use crate::spec::{FaultKind, FaultSpec};
use crate::Spec;

const MIB: u64 = 1 << 20;

fn with(fault: FaultSpec) -> Spec {
    Spec { faults: vec![fault], ..small() }
}

fn at(kind: FaultKind, offset: u64, length: u64) -> FaultSpec {
    FaultSpec { offset, length: Some(length), ..FaultSpec::new(kind) }
}

#[test]
fn faults_by_address_strike_what_they_name() {
    let mut ssd = shadowed(&with(at(FaultKind::Uncorrectable, 8192, 4096)), 16 * MIB, 1);
    let fate = |ssd: &mut crate::Ssd, now, command: &Command| alone(ssd, now, command).0.fate;
    alone(&mut ssd, 0, &on(Operation::Write, 0, 8));
    let error = |at| Fate::Failed { status: Status::ReadError, at };
    assert_eq!(fate(&mut ssd, 10 * MIB, &on(Operation::Read, 0, 2)), Fate::Done);
    assert_eq!(fate(&mut ssd, 20 * MIB, &on(Operation::Read, 1, 2)), error(4096));
    assert_eq!(fate(&mut ssd, 30 * MIB, &on(Operation::Verify, 2, 1)), error(0));
    assert_eq!(fate(&mut ssd, 40 * MIB, &on(Operation::Write, 2, 1)), Fate::Done);

    let once = FaultSpec { count: Some(1), ..at(FaultKind::Corrupt, 8192, 512) };
    let mut ssd = shadowed(&with(once), 16 * MIB, 1);
    let Fate::Corrupted { seed } = fate(&mut ssd, 0, &on(Operation::Read, 1, 4)) else {
        panic!("it is corrupted")
    };
    // The bit lies in the faulty sector.
    assert!((4096 * 8..4608 * 8).contains(&seed), "{seed}");
    assert_eq!(fate(&mut ssd, MIB, &on(Operation::Read, 1, 4)), Fate::Done);

    let mut ssd = shadowed(&with(at(FaultKind::FailedWrite, 0, 4096)), 16 * MIB, 1);
    let error = Fate::failed(Status::WriteError);
    assert_eq!(fate(&mut ssd, 0, &on(Operation::Write, 0, 1)), error);
    assert_eq!(fate(&mut ssd, MIB, &on(Operation::Write, 1, 1)), Fate::Done);
}

#[test]
fn a_stuck_command_never_completes_and_hinders_no_other() {
    let mut ssd = shadowed(&with(at(FaultKind::StuckCommand, 0, 4096)), 16 * MIB, 1);
    ssd.submit(0, 7, &on(Operation::Read, 0, 1));
    ssd.submit(0, 8, &on(Operation::Write, 1, 1));
    let done = drain(&mut ssd);
    assert_eq!(done.iter().map(|completion| completion.tag).collect::<Vec<_>>(), [8]);
}

#[test]
fn a_failed_program_costs_a_block_and_no_data() {
    let fault =
        FaultSpec { count: Some(3), rate: 0.01, ..FaultSpec::new(FaultKind::FailedProgram) };
    let mut ssd = shadowed(&with(fault), 16 * MIB, 1);
    let done = run(&mut ssd, 0, 8, 4096, |n| on(Operation::Write, n * 7 % 4096, 1));
    assert!(done.iter().all(|completion| completion.fate == Fate::Done));
    drain(&mut ssd);
    let report = ssd.report(0);
    assert_eq!(report.ftl["retired_blocks"], 3);
    assert!(report.health.available_spare < 100 && !report.health.read_only);
    let done = run(&mut ssd, 1 << 40, 8, 4096, |n| on(Operation::Read, n, 1));
    assert!(done.iter().all(|completion| completion.fate == Fate::Done));
    ssd.ftl().check();
}

#[test]
fn writes_that_wait_are_written_after_a_trimmed_units_program_failed() {
    // Room for one unit, and pages of four: no page fills by itself.
    let fault = FaultSpec { count: Some(1), ..FaultSpec::new(FaultKind::FailedProgram) };
    let spec = Spec { buffer: 4096, page_size: 16_384, mapping_unit: 4096, ..with(fault) };
    let mut ssd = shadowed(&spec, 4 * MIB, 1);
    // The second write waits for room, so that the first is programmed.
    ssd.submit(0, 0, &on(Operation::Write, 0, 1));
    ssd.submit(0, 1, &on(Operation::Write, 1, 3));
    // The program that fails need not be repeated: nothing is under way then.
    ssd.submit(0, 2, &on(Operation::Discard, 0, 1));
    let mut tags: Vec<_> = drain(&mut ssd).iter().map(|completion| completion.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, [0, 1, 2], "every command completes");
    assert_eq!(alone(&mut ssd, MIB << 10, &on(Operation::Verify, 1, 3)).0.fate, Fate::Done);
    ssd.ftl().check();
}

#[test]
fn a_drive_without_spare_can_only_be_read() {
    let fault = FaultSpec { from: 100_000_000, ..FaultSpec::new(FaultKind::FailedErase) };
    for buffer in [0, 65_536] {
        let spec = Spec { buffer, ..with(fault.clone()) };
        let mut ssd = shadowed(&spec, 4 * MIB, 1);
        let units = 4 * MIB / 4096;
        run(&mut ssd, 0, 8, units, |n| on(Operation::Write, n, 1));
        let mut now = 200_000_000;
        let mut failed = false;
        for n in 0..20 * units {
            let (completion, took) = alone(&mut ssd, now, &on(Operation::Write, n * 31 % units, 1));
            now += took + 1_000;
            failed |= completion.fate == Fate::failed(Status::WriteError);
            if failed {
                break;
            }
        }
        assert!(failed && ssd.health().read_only, "{failed} {:?} {now}", ssd.health());
        assert_eq!(ssd.health().available_spare, 0);
        // Acknowledged data is still there: the shadow array compares.
        let done = run(&mut ssd, now + 1_000_000_000, 8, units, |n| on(Operation::Read, n, 1));
        assert!(done.iter().all(|completion| completion.fate == Fate::Done));
        let flush = alone(&mut ssd, now + 9_000_000_000, &Command::flush()).0.fate;
        let owes = ssd.report(now).ftl["buffered_units"] != 0 && buffer > 0;
        let expected = if owes { Fate::failed(Status::WriteError) } else { Fate::Done };
        assert_eq!(flush, expected);
        ssd.ftl().check();
    }
}

#[test]
fn a_dead_die_takes_its_data_and_the_drive_goes_on() {
    let fault = FaultSpec {
        channel: Some(1),
        lun: Some(0),
        from: 1_000_000_000,
        ..FaultSpec::new(FaultKind::DeadDie)
    };
    let spec = Spec { over_provisioning: Some(1.0), ..with(fault) };
    let mut ssd = shadowed(&spec, 4 * MIB, 1);
    let units = 4 * MIB / 4096;
    run(&mut ssd, 0, 8, units, |n| on(Operation::Write, n, 1));
    let done = run(&mut ssd, 2_000_000_000, 8, units, |n| on(Operation::Read, n, 1));
    let lost = done.iter().filter(|c| c.fate == Fate::failed(Status::ReadError)).count() as u64;
    // One of four LUNs.
    assert_eq!(lost, units / 4);
    // A longer read says where the first of what it lost lies.
    let fates: Vec<_> = (0..16).map(|n| on(Operation::Read, n, 1)).collect();
    let mut now = 2_500_000_000;
    let mut fate = |command: &Command| {
        now += 1_000_000;
        alone(&mut ssd, now, command).0.fate
    };
    let first = fates.iter().position(|command| fate(command) != Fate::Done).unwrap() as u64;
    let failed = Fate::Failed { status: Status::ReadError, at: first * 4096 };
    assert_eq!(fate(&on(Operation::Read, 0, 16)), failed);
    let done = run(&mut ssd, 3_000_000_000, 8, units, |n| on(Operation::Write, n, 1));
    assert!(done.iter().all(|completion| completion.fate == Fate::Done));
    let done = run(&mut ssd, 90_000_000_000, 8, units, |n| on(Operation::Read, n, 1));
    assert!(done.iter().all(|completion| completion.fate == Fate::Done));
}
