//! Each thing that can be chosen makes the difference that it should.

use stasis_block::inside::{Inside, Parts};
use stasis_block::{Command, Completion, Model, Operation, LOG_STREAM};
use stasis_nand::OpKind;

use super::basics::small;
use super::load::{alone, drain, on, run, shadowed};
use crate::spec::{Blocking, GcSpec, Planes, Precondition, Rate, WearLevelling};
use crate::{Spec, Ssd};

const MIB: u64 = 1 << 20;

fn mean(done: &[Completion]) -> f64 {
    let last = done.iter().map(|completion| completion.at).max().unwrap_or(0);
    last as f64 / done.len() as f64
}

fn scattered(seed: u64, units: u64) -> impl FnMut() -> u64 {
    let mut place = seed;
    move || {
        place += 1;
        stasis_nand::hash::bits(99, place) % units
    }
}

#[test]
fn a_buffer_acknowledges_at_once_until_it_is_full() {
    let spec = Spec { buffer: 65_536, ..small() };
    let mut ssd = shadowed(&spec, 16 * MIB, 1);
    for unit in 0..16 {
        assert_eq!(alone(&mut ssd, unit, &on(Operation::Write, unit, 1)).1, 1_000);
    }
    // Sixteen units fill it; four planes write four each.
    let waits = alone(&mut ssd, 20_000, &on(Operation::Write, 100, 1)).1;
    assert!((400_000..600_000).contains(&waits), "{waits}");
    // A flush waits for all of them, and there is nothing left then.
    let flush = alone(&mut ssd, 700_000, &Command::flush()).1;
    assert!((1_000_000..2_500_000).contains(&flush), "{flush}");
    assert_eq!(alone(&mut ssd, 5_000_000, &Command::flush()).1, 1_000);
    // Forced through: the program's time.
    let fua = Command { fua: true, ..on(Operation::Write, 5, 1) };
    assert_eq!(alone(&mut ssd, 6_000_000, &fua).1, 511_240);
}

#[test]
fn protection_against_power_loss_makes_flushes_free_and_keeps_data() {
    let spec = Spec { buffer: 65_536, plp: true, ..small() };
    let mut ssd = shadowed(&spec, 16 * MIB, 1);
    let fua = Command { fua: true, ..on(Operation::Write, 0, 4) };
    assert_eq!(alone(&mut ssd, 0, &fua).1, 1_000);
    assert_eq!(alone(&mut ssd, 0, &Command::flush()).1, 1_000);
    assert_eq!(ssd.power_cut(5_000), []);
    drain(&mut ssd);
    alone(&mut ssd, 9_000_000, &on(Operation::Read, 0, 4));

    let mut ssd = shadowed(&Spec { plp: false, ..spec }, 16 * MIB, 1);
    alone(&mut ssd, 0, &on(Operation::Write, 0, 4));
    assert_eq!(ssd.power_cut(5_000), std::slice::from_ref(&(0..16_384)));
    assert_eq!(alone(&mut ssd, 6_000, &on(Operation::Read, 0, 4)).1, 1_000);
}

#[test]
fn units_smaller_than_a_page_share_it() {
    let spec = Spec { page_size: 16_384, buffer: 65_536, ..small() };
    let mut ssd = shadowed(&spec, 16 * MIB, 1);
    run(&mut ssd, 0, 1, 16, |n| on(Operation::Write, n * 5, 1));
    drain(&mut ssd);
    assert_eq!(ssd.context().statistics.ops(OpKind::Program), 4);
    // Three of them do not fill a page; a flush pads it.
    run(&mut ssd, 9_000_000, 1, 3, |n| on(Operation::Write, 100 + n, 1));
    assert_eq!(ssd.context().statistics.ops(OpKind::Program), 4);
    alone(&mut ssd, 20_000_000, &Command::flush());
    assert_eq!(ssd.context().statistics.ops(OpKind::Program), 5);
    // Units of one page are one read.
    alone(&mut ssd, 30_000_000, &on(Operation::Read, 100, 3));
    assert_eq!(ssd.context().statistics.ops(OpKind::Read), 1);
    // A part of a unit is read before it is written.
    alone(&mut ssd, 40_000_000, &Command::new(Operation::Write, 512, 512));
    assert_eq!(ssd.context().statistics.ops(OpKind::Read), 2);
}

#[test]
fn planes_in_lockstep_write_together() {
    let spec =
        |plane_mode| Spec { planes: 2, plane_mode, stripe: "plane,lun,channel".into(), ..small() };
    let took = |plane_mode| {
        let mut ssd = shadowed(&spec(plane_mode), 16 * MIB, 1);
        alone(&mut ssd, 0, &on(Operation::Write, 0, 2)).1
    };
    // One program time for both, as if they were independent.
    assert!(took(Planes::Lockstep) < 600_000, "{}", took(Planes::Lockstep));
    assert_eq!(took(Planes::Lockstep), took(Planes::Independent));
}

#[test]
fn a_link_carries_one_transfer_after_another() {
    let spec = Spec { interface_rate: Some(Rate::per_second(1_000_000_000)), ..small() };
    let mut ssd = shadowed(&spec, 16 * MIB, 1);
    let write = alone(&mut ssd, 0, &on(Operation::Write, 0, 1)).1;
    assert_eq!(write, 4_096 + 1_000 + 10_240 + 500_000);
    let read = alone(&mut ssd, 10_000_000, &on(Operation::Read, 0, 1)).1;
    assert_eq!(read, 1_000 + 50_000 + 10_240 + 4_096);
    // A verify moves nothing over it.
    assert_eq!(alone(&mut ssd, 20_000_000, &on(Operation::Verify, 0, 1)).1, 61_240);
    let copy = Command { source: 0, ..on(Operation::Copy, 64, 1) };
    assert_eq!(alone(&mut ssd, 30_000_000, &copy).1, 61_240 + 510_240);
}

#[test]
fn reads_pass_writes_that_wait_for_the_buffers_memory_and_flushes_do_not() {
    let spec = Spec { buffer_rate: Some(Rate::per_second(4_096_000)), buffer: 1 << 20, ..small() };
    let mut ssd = shadowed(&spec, 16 * MIB, 1);
    let commands = [
        on(Operation::Write, 0, 1),
        on(Operation::Write, 1, 1),
        on(Operation::Read, 100, 1),
        Command::flush(),
        on(Operation::Read, 200, 1),
    ];
    (0..).zip(&commands).for_each(|(tag, command)| ssd.submit(0, tag, command));
    let mut done = Vec::new();
    while let Some(now) = ssd.next_event() {
        ssd.advance(now, &mut done);
    }
    let at = |tag| done.iter().find(|completion| completion.tag == tag).unwrap().at;
    assert_eq!((at(0), at(1)), (1_001_000, 2_001_000), "one after another");
    assert!(at(2) < 200_000 && at(4) < 200_000, "{} {}", at(2), at(4));
    assert!(at(3) > 2_001_000 + 500_000, "behind both writes: {}", at(3));
}

/// Mean time per read of random reads beside random writes that collect.
fn beside_collection(gc: GcSpec) -> f64 {
    let spec = Spec {
        gc,
        precondition: Some(Precondition::Steady),
        over_provisioning: Some(0.16),
        channels: 4,
        pages: Some(32),
        ..small()
    };
    let capacity = 32 * MIB;
    let mut ssd = Ssd::new(&spec, capacity, 1).unwrap();
    let mut draw = scattered(1, capacity / 4096);
    let done = run(&mut ssd, 0, 16, 8_000, |n| {
        on(if n % 4 == 0 { Operation::Write } else { Operation::Read }, draw(), 1)
    });
    assert!(ssd.context().statistics.collections > 20);
    ssd.ftl().check();
    mean(&done)
}

#[test]
fn collection_that_blocks_more_takes_longer() {
    let with =
        |blocking| beside_collection(GcSpec { blocking, foreground: 3, ..GcSpec::default() });
    let controller = with(Blocking::Controller);
    let channel = with(Blocking::Channel);
    let plane = with(Blocking::Plane);
    // FEMU, FAST 2018, figure 6a.
    assert!(controller > 1.1 * channel, "{controller} {channel}");
    assert!(channel > 1.1 * plane, "{channel} {plane}");
}

#[test]
fn copyback_leaves_the_channel_alone() {
    let spec =
        Spec { gc: GcSpec { copyback: Some(true), foreground: 3, ..GcSpec::default() }, ..small() };
    let mut ssd = shadowed(&spec, 16 * MIB, 1);
    let mut draw = scattered(1, 4096);
    run(&mut ssd, 0, 16, 20_000, |_| on(Operation::Write, draw(), 1));
    let statistics = &ssd.context().statistics;
    assert!(statistics.ops(OpKind::Copyback) > 1_000);
    assert_eq!(statistics.ops(OpKind::Read), 0);
}

#[test]
fn an_idle_drive_collects_ahead() {
    let gc = GcSpec { background: 12, foreground: 3, idle: 1_000_000, ..GcSpec::default() };
    let spec = Spec { gc, ..small() };
    let mut ssd = shadowed(&spec, 16 * MIB, 1);
    let mut draw = scattered(1, 4096);
    run(&mut ssd, 0, 16, 12_000, |_| on(Operation::Write, draw(), 1));
    let before = ssd.report(0).ftl["free_blocks"].as_u64().unwrap();
    drain(&mut ssd);
    let after = ssd.report(0).ftl["free_blocks"].as_u64().unwrap();
    assert!(before < 4 * 5 && after >= 4 * 12, "{before} {after}");
}

/// The spread of erases, and write amplification, where a tenth of the drive is
/// written all the time.
fn worn(spec: &Spec) -> (u32, f64) {
    let mut ssd = shadowed(spec, 8 * MIB, 1);
    run(&mut ssd, 0, 16, 2_048, |n| on(Operation::Write, n, 1));
    let mut draw = scattered(1, 2_048 / 10);
    run(&mut ssd, 1 << 40, 16, 60_000, |_| on(Operation::Write, draw(), 1));
    drain(&mut ssd);
    let wear = ssd.report(0).wear;
    let (first, last) = (wear.first().unwrap(), wear.last().unwrap());
    ssd.ftl().check();
    (last.to - first.from, ssd.context().write_amplification())
}

#[test]
fn static_levelling_wears_blocks_evenly() {
    let with = |wear_levelling| worn(&Spec { wear_levelling, ..small() }).0;
    let (dynamic, even) = (with(WearLevelling::Dynamic), with(WearLevelling::Static));
    assert!(even < 40 && dynamic > 2 * even, "{even} {dynamic}");
}

#[test]
fn streams_and_heat_keep_apart_what_dies_apart() {
    // Half of the writes go to a twentieth of the drive.
    let amplification = |spec: &Spec, streams: bool| {
        let mut ssd = shadowed(spec, 16 * MIB, 1);
        let mut draw = scattered(1, 4_096);
        run(&mut ssd, 0, 16, 4_096, |n| on(Operation::Write, n, 1));
        run(&mut ssd, 1 << 40, 16, 60_000, |n| {
            let hot = n % 10 != 0;
            let unit = if hot { draw() / 20 } else { draw() };
            let stream = u16::from(hot && streams);
            Command { stream, ..on(Operation::Write, unit, 1) }
        });
        ssd.context().write_amplification()
    };
    let base = Spec { pages: Some(32), ..small() };
    let together = amplification(&base, false);
    let apart = amplification(&Spec { streams: 2, ..base.clone() }, true);
    let heat = amplification(&Spec { hot_cold: true, ..base }, false);
    assert!(apart < 0.95 * together, "{apart} {together}");
    assert!(heat < 0.97 * together, "{heat} {together}");
}

/// The parts of the slowest commands of an operation: their sum is the time, and nothing of it is
/// left without a name.
fn slowest(ssd: &Ssd, operation: Operation) -> Vec<Parts<u64>> {
    let slowest = ssd.report(u64::MAX / 2).slowest;
    let commands = slowest.iter().filter(|one| one.operation == operation);
    commands
        .map(|one| {
            let sum: u64 = one.parts.named().iter().map(|(_, part)| part).sum();
            assert_eq!((sum, one.parts.other), (one.end - one.begin, 0), "{one:?}");
            one.parts
        })
        .collect()
}

#[test]
fn the_slowest_commands_tell_where_their_time_went() {
    // A read alone, and one behind a program of its plane.
    let mut ssd = shadowed(&small(), 16 * MIB, 1);
    alone(&mut ssd, 0, &on(Operation::Write, 0, 1));
    alone(&mut ssd, MIB, &on(Operation::Read, 0, 1));
    let read = Parts { controller: 1_000, cell: 50_000, channel: 10_240, ..Parts::default() };
    assert_eq!(slowest(&ssd, Operation::Read), [read]);
    // A write that finds the buffer full of the host's data.
    let buffered = Spec { buffer: 65_536, ..small() };
    let mut ssd = shadowed(&buffered, 16 * MIB, 1);
    (0..16).for_each(|unit| {
        alone(&mut ssd, unit, &on(Operation::Write, unit, 1));
    });
    let (_, waits) = alone(&mut ssd, 20_000, &on(Operation::Write, 100, 1));
    let write = Parts { controller: 1_000, buffer: waits - 1_000, ..Parts::default() };
    assert_eq!(slowest(&ssd, Operation::Write)[0], write);
    // A part of a unit is read before it is written.
    let mut ssd = shadowed(&small(), 16 * MIB, 1);
    alone(&mut ssd, 0, &on(Operation::Write, 0, 1));
    alone(&mut ssd, MIB, &Command::new(Operation::Write, 512, 512));
    let part = slowest(&ssd, Operation::Write)[0];
    assert_eq!((part.cell, part.channel), (550_000, 2 * 10_240));
    // Full of collections: nearly all that the slowest writes wait for is that.
    let mut ssd = shadowed(&Spec { over_provisioning: Some(0.1), ..buffered }, 16 * MIB, 1);
    run(&mut ssd, 0, 16, 4_096, |n| on(Operation::Write, n, 1));
    let mut draw = scattered(1, 4_096);
    ssd.start(1 << 40);
    run(&mut ssd, 1 << 40, 4, 20_000, |_| on(Operation::Write, draw(), 1));
    let writes = slowest(&ssd, Operation::Write);
    let sum = |selected_part: fn(&Parts<u64>) -> u64| writes.iter().map(selected_part).sum::<u64>();
    let (behind, full) = (sum(|parts| parts.buffer_gc), sum(|parts| parts.buffer));
    assert!(writes.len() == 20 && behind > full, "{behind} {full}");
    // Commands before the drive's start are not among them.
    assert!(ssd.report(0).slowest.iter().all(|one| one.begin >= 1 << 40));
}

#[test]
fn the_slowest_commands_of_each_layer_add_up() {
    for (ftl, buffer) in [("page", 65_536), ("dftl", 65_536), ("dftl", 0), ("hybrid", 0)] {
        let spec = Spec { ftl: ftl.into(), buffer, mapping_cache: 4_096, ..small() };
        let mut ssd = shadowed(&spec, 16 * MIB, 1);
        let mut draw = scattered(7, 4_000);
        run(&mut ssd, 0, 16, 8_000, |n| match n % 64 {
            0 => Command::flush(),
            1 => Command {
                operation: Operation::Copy,
                source: draw() * 4096,
                ..on(Operation::Copy, draw(), 2)
            },
            2 => Command { fua: true, ..on(Operation::Write, draw(), 3) },
            3 => Command::new(Operation::Write, draw() * 4096 + 512, 5_000),
            n if n % 2 == 0 => on(Operation::Read, draw(), 4),
            _ => on(Operation::Write, draw(), 1),
        });
        // Twenty of each operation that there was, and of none another number.
        for operation in Operation::ALL {
            let kept = slowest(&ssd, operation).len();
            let there = matches!(operation, Operation::Read | Operation::Write) || kept > 0;
            assert_eq!(kept, if there { 20 } else { 0 }, "{ftl} {operation:?}");
        }
        for (name, means) in &ssd.report(0).latency {
            assert!(means.parts.other.abs() < 1.0, "{ftl} {name} {means:?}");
        }
    }
}

#[test]
fn trimmed_units_are_not_moved() {
    let with = |trim: bool| {
        let mut ssd = shadowed(&small(), 16 * MIB, 1);
        run(&mut ssd, 0, 16, 4_096, |n| on(Operation::Write, n, 1));
        if trim {
            alone(&mut ssd, 1 << 40, &on(Operation::Discard, 2_048, 2_048));
        }
        let mut draw = scattered(1, 2_048);
        run(&mut ssd, 1 << 41, 16, 20_000, |_| on(Operation::Write, draw(), 1));
        ssd.context().write_amplification()
    };
    assert!(with(true) < 1.1 && with(false) > 1.2, "{} {}", with(true), with(false));
}

#[test]
fn the_inside_adds_up() {
    let mut ssd = shadowed(&small(), 16 * MIB, 1);
    let mut draw = scattered(1, 4_096);
    let done = run(&mut ssd, 0, 16, 20_000, |n| {
        on(if n % 2 == 0 { Operation::Write } else { Operation::Read }, draw(), 1)
    });
    let end = done.last().unwrap().at;
    let inside = ssd.report(end);
    let text = serde_json::to_string(&ssd.inside(end)).unwrap();
    let read: Inside = serde_json::from_str(&text).unwrap();
    assert!(read == Inside::Flash(Box::new(inside.clone())));
    for (name, means) in &inside.latency {
        let parts: f64 = means.parts.named().iter().map(|(_, part)| part).sum();
        assert!((parts - means.latency).abs() < 1e-3 * means.latency, "{name}");
        assert!(means.count == 10_000 && means.parts.gc > 0.0, "{name} {means:?}");
    }
    assert!((inside.latency["write"].parts.cell - 500_000.0).abs() < 1.0);
    let blocks: u64 = inside.wear.iter().map(|level| level.blocks).sum();
    assert_eq!(blocks, inside.ftl["blocks"].as_u64().unwrap());
    for busy in inside.luns.busy.iter().chain(&inside.channels.busy) {
        assert!(busy.iter().all(|&share| (0.0..=1.0001).contains(&share)), "{busy:?}");
        assert!(busy.len() <= 128 && busy.iter().sum::<f64>() > 0.0);
    }
    assert_eq!(inside.operations["program"].host, 10_000);
    let course = &inside.course;
    let sums = [&course.host_bytes, &course.media_bytes, &course.collections]
        .map(|steps| steps.iter().sum::<u64>());
    assert_eq!(sums, [inside.host_bytes, inside.media_bytes, inside.collections]);
    assert_eq!(course.free_blocks.last().copied(), inside.ftl["free_blocks"].as_u64());
    // Written once, the drive has few free blocks: collections keep them.
    let (first, last) = (course.free_blocks[0], course.free_blocks[course.free_blocks.len() - 1]);
    assert!(inside.collections > 0 && last < first / 2, "{first} {last}");
}

/// A drive that is half full has much room, discards give room back at once, and a full drive has
/// what lies beyond its capacity.
#[test]
fn the_effective_over_provisioning_follows_what_is_valid() {
    const WHOLE: u64 = 4096;
    for ftl in ["page", "dftl", "hybrid"] {
        let spec = Spec { ftl: ftl.into(), over_provisioning: None, ..small() };
        let mut ssd = shadowed(&spec, 16 * MIB, 1);
        assert_eq!(ssd.report(0).effective_over_provisioning, None, "{ftl}");
        let mut now = 0;
        for (operation, from, to, valid) in [
            (Operation::Write, 0, WHOLE / 2, WHOLE / 2),
            (Operation::Write, 0, WHOLE, WHOLE),
            (Operation::Discard, WHOLE / 4, WHOLE / 2, WHOLE / 4 * 3),
        ] {
            let done = run(&mut ssd, now, 1, to - from, |n| on(operation, from + n, 1));
            now = done.last().unwrap().at;
            let inside = ssd.report(now);
            let course = &inside.course;
            assert_eq!(course.valid_bytes.len(), course.host_bytes.len(), "{ftl}");
            let (held, usable) =
                (*course.valid_bytes.last().unwrap(), *course.usable_bytes.last().unwrap());
            // A map in flash is valid as well.
            let map = inside.ftl["mapping"]["programmed_units"].as_u64().unwrap_or(0);
            let more = held - 4096 * valid;
            assert!(more <= (4096 * map).min(MIB), "{ftl}: {held}, of the host {valid} units");
            let share = (usable - held) as f64 / held as f64;
            let effective = inside.effective_over_provisioning.unwrap();
            assert!((effective - share).abs() < 1e-6, "{ftl}: {effective} {share}");
            let whole = (valid, more) == (WHOLE, 0);
            let same = (effective - inside.over_provisioning).abs() < 1e-6;
            assert_eq!(same, whole, "{ftl}: {effective} {}", inside.over_provisioning);
        }
    }
}

/// Parts of units that the ends of a log of pairs write wait in the buffer until units are whole; a
/// flush takes them as they are.
#[test]
fn parts_of_units_of_a_log_are_gathered() {
    let spec = Spec { buffer: 1 << 20, page_size: 16_384, precondition: None, ..small() };
    let spec = spec.for_pairs();
    assert_eq!(spec.initial(), Precondition::None);
    let mut ssd = shadowed(&spec, 16 * MIB, 1);
    let part = |offset, stream| Command { stream, ..Command::new(Operation::Write, offset, 1024) };
    let programs = |ssd: &mut Ssd, commands: Vec<Command>| {
        let before = ssd.context.statistics.programmed_units;
        let now = ssd.now_for_tests();
        run(ssd, now, 1, commands.len() as u64, |number| commands[number as usize]);
        drain(ssd);
        ssd.context.statistics.programmed_units - before
    };
    let slots = u64::from(spec.slots());
    let unit = spec.mapping_unit;
    // All but the last part of each unit, of twice as many units as a page has; then these.
    let parts = |last: bool| {
        let writes_of_unit = move |unit_number: u64| {
            let parts = if last { 3..4 } else { 0..3 };
            parts.map(move |part_number| part(unit_number * unit + part_number * 1024, LOG_STREAM))
        };
        (0..2 * slots).flat_map(writes_of_unit).collect::<Vec<_>>()
    };
    assert_eq!(programs(&mut ssd, parts(false)), 0);
    assert_eq!(programs(&mut ssd, parts(true)), 2 * slots);
    assert_eq!(programs(&mut ssd, vec![part(MIB, LOG_STREAM + 1)]), 0);
    assert_eq!(programs(&mut ssd, vec![Command::flush()]), 1);
    // Others are programmed as soon as they are a page's.
    let others = (0..slots).map(|number| on(Operation::Write, 1024 + number, 1)).collect();
    assert_eq!(programs(&mut ssd, others), slots);
}
