//! A drive reads, writes, trims and flushes, and takes as long as its parts.

use stasis_block::{Command, Fate, Operation};
use stasis_nand::OpKind;

use super::load::{alone, drain, on, run, shadowed};
use crate::spec::{ByLetter, Duration, GcSpec, Precondition, TimingSpec};
use crate::{Spec, Ssd};

const MIB: u64 = 1 << 20;

pub fn small() -> Spec {
    let time = |ns| Some(ByLetter::All(Duration(ns)));
    Spec {
        channels: 2,
        luns: 2,
        planes: 1,
        pages: Some(16),
        page_size: 4096,
        cells: "slc".into(),
        over_provisioning: Some(0.28),
        buffer: 0,
        controller: 1_000,
        precondition: Some(Precondition::None),
        gc: GcSpec { foreground: 3, ..GcSpec::default() },
        timing: TimingSpec {
            read: time(50_000),
            program: time(500_000),
            erase: Some(Duration(3_000_000)),
            bus: Some(serde_json::from_str("\"400MB/s\"").unwrap()),
            ..TimingSpec::default()
        },
        ..Spec::default()
    }
}

#[test]
fn a_drive_adapts_while_it_works_and_says_where_blocks_lie() {
    use stasis_block::Model;
    let mut ssd = shadowed(&small(), 16 * MIB, 1);
    assert_eq!(ssd.entry(4096).unwrap(), "unit 1, 4096 bytes from 4096: in no page");
    assert_eq!(alone(&mut ssd, 0, &on(Operation::Write, 0, 1)).1, 1_000 + 10_240 + 500_000);
    let description = ssd.entry(100).unwrap();
    assert!(description.starts_with("unit 0, 4096 bytes from 0: plane 0, block "), "{description}");
    assert!(
        description.contains("the block is open, 1 of its 16 units are valid"),
        "{description}"
    );
    assert_eq!(ssd.waiting(0).unwrap(), "the write buffer is empty");
    assert_eq!(alone(&mut ssd, MIB, &on(Operation::Read, 0, 1)).1, 1_000 + 50_000 + 10_240);
    let slower = Spec {
        controller: 7_000,
        timing: TimingSpec { read: Some(ByLetter::All(Duration(90_000))), ..small().timing },
        ..small()
    };
    assert!(ssd.adapt(&slower));
    assert_eq!(alone(&mut ssd, 2 * MIB, &on(Operation::Read, 0, 1)).1, 7_000 + 90_000 + 10_240);
    assert_eq!(ssd.entry(100).unwrap(), description, "what it holds stays where it is");
    assert!(!ssd.adapt(&"another model's"));
}

#[test]
fn what_a_buffer_holds_is_told() {
    use stasis_block::Model;
    let mut ssd = shadowed(&Spec { buffer: 1 << 20, ..small() }, 16 * MIB, 1);
    ssd.submit(0, 1, &on(Operation::Write, 3, 1));
    let mut done = Vec::new();
    while done.is_empty() {
        let at = ssd.next_event().unwrap();
        ssd.advance(at, &mut done);
    }
    let description = ssd.waiting(0).unwrap();
    assert!(
        description.starts_with("1 units of 4096 bytes, the oldest first: at 12288"),
        "{description}"
    );
    assert!(ssd.entry(12288).unwrap().contains("a newer version waits in the write buffer"));
    drain(&mut ssd);
}

#[test]
fn commands_take_the_time_of_their_parts() {
    let mut ssd = shadowed(&small(), 16 * MIB, 1);
    // Nothing was ever written: there is nothing to read.
    assert_eq!(alone(&mut ssd, 0, &on(Operation::Read, 0, 1)).1, 1_000);
    // Controller, 4096 bytes at 400 MB/s, program.
    assert_eq!(alone(&mut ssd, 10_000, &on(Operation::Write, 0, 1)).1, 1_000 + 10_240 + 500_000);
    assert_eq!(alone(&mut ssd, 10 * MIB, &on(Operation::Read, 0, 1)).1, 1_000 + 50_000 + 10_240);
    // Four planes at two channels: the second transfer of each waits.
    let four = alone(&mut ssd, 20 * MIB, &on(Operation::Write, 8, 4)).1;
    assert_eq!(four, 1_000 + 2 * 10_240 + 500_000);
    assert_eq!(alone(&mut ssd, 30 * MIB, &Command::flush()).1, 1_000);
    assert_eq!(alone(&mut ssd, 40 * MIB, &on(Operation::Discard, 0, 1)).1, 1_000);
    assert_eq!(alone(&mut ssd, 50 * MIB, &on(Operation::Read, 0, 1)).1, 1_000);
    assert_eq!(ssd.context().statistics.ops(OpKind::Program), 5);
    // The first read and the last met nothing that was written.
    let inside = ssd.report(60 * MIB);
    assert_eq!((inside.read_units, inside.unwritten_units), (3, 2));
}

#[test]
fn a_drive_begins_written_unless_it_is_to_be_new() {
    let mut ssd =
        Ssd::new(&Spec { precondition: Spec::default().precondition, ..small() }, 16 * MIB, 1)
            .unwrap();
    for unit in [0, 1_234, 4_095] {
        let read = alone(&mut ssd, unit * MIB, &on(Operation::Read, unit, 1)).1;
        assert_eq!(read, 1_000 + 50_000 + 10_240, "unit {unit}");
    }
    let inside = ssd.report(5_000 * MIB);
    assert_eq!((inside.read_units, inside.unwritten_units), (3, 0));
    ssd.ftl().check();
}

/// One write of each size to each unit size: programs of whole pages, by what the
/// host wrote.
#[test]
fn write_amplification_is_media_bytes_by_host_bytes() {
    for (page, unit, write, amplification, unit_padding) in [
        (16 << 10, 16 << 10, 4096, 4.0, 12 << 10),
        (4096, 4096, 512, 8.0, 3584),
        (16 << 10, 4096, 16 << 10, 1.0, 0),
        // A page of which three of four units are empty.
        (16 << 10, 4096, 4096, 4.0, 0),
    ] {
        let spec = Spec { page_size: page, mapping_unit: unit, ..small() };
        let mut ssd = shadowed(&spec, 16 * MIB, 1);
        for number in 0..10 {
            let command = Command::new(Operation::Write, number * 64 * 1024, write);
            alone(&mut ssd, number * MIB, &command);
        }
        let inside = ssd.report(100 * MIB);
        assert_eq!((inside.host_bytes, inside.media_bytes), (10 * write, 10 * page));
        assert!((inside.write_amplification - amplification).abs() < 1e-9, "{inside:?}");
        assert_eq!(inside.unit_padding, 10 * unit_padding);
        assert_eq!(inside.page_padding, 10 * (page - unit.max(write)));
        assert_eq!(inside.health.media_bytes_written, inside.media_bytes);
    }
}

#[test]
fn random_overwrites_collect_garbage_and_lose_nothing() {
    let capacity = 16 * MIB;
    let mut ssd = shadowed(&small(), capacity, 1);
    let units = capacity / 4096;
    let mut state = 1u64;
    let mut draw = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % units
    };
    let done = run(&mut ssd, 0, 32, 8 * units, |n| {
        let operation = if n % 3 == 0 { Operation::Read } else { Operation::Write };
        on(operation, draw(), 1)
    });
    assert!(done.iter().all(|completion| completion.fate == Fate::Done));
    drain(&mut ssd);
    ssd.ftl().check();
    let statistics = &ssd.context().statistics;
    assert!(statistics.collections > 100, "{}", statistics.collections);
    let amplification = ssd.context().write_amplification();
    assert!(amplification > 1.2, "{amplification}");
    let shadow = ssd.context().shadow.as_ref().unwrap();
    assert!(shadow.erases > 100);
}
