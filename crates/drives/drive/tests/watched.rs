//! The numbers by which a watched drive's spans name commands, through layers that keep some back.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use stasis_block::timeline::{Purpose, Span, Spans, Track, TrackKind, Tracks};
use stasis_block::{Command, Operation, Request};
use stasis_drive::{Done, Drive, DriveFault, DriveFaultKind, Faults, Layer, Scheduled};
use stasis_flash::{Spec, Ssd};
use stasis_media::{Execution, MediumSpec, OpenOptions};
use stasis_scheduler::SchedulerSpec;

const CAPACITY: u64 = 8 << 20;

/// A flash drive with barriers.
fn drive() -> Drive {
    let options = OpenOptions {
        execution: Execution::Synchronous,
        delay: Duration::ZERO,
        base: Path::new("/"),
    };
    let medium = MediumSpec::Ram { size: CAPACITY }.open(&options).unwrap();
    let spec = Spec {
        channels: 2,
        luns: 1,
        planes: 1,
        pages: Some(16),
        cells: "slc".into(),
        buffer: 0,
        over_provisioning: Some(0.6),
        ..Spec::default()
    };
    let model = Box::new(Ssd::new(&spec, CAPACITY, 1).unwrap());
    Drive::new(0, "disk".into(), model, medium).with_barrier(0)
}

/// Reads, writes, barriers and flushes, four at a time; returns the completions and the spans.
fn work(layer: &mut dyn Layer) -> (Vec<Done>, Vec<(TrackKind, Span)>) {
    let (mut tracks, mut spans, mut done) = (Tracks::default(), Spans::default(), Vec::new());
    layer.control().watch(&mut tracks);
    layer.control().start(0);
    let tracks: Vec<Track> = tracks.into_vec();
    let (mut now, mut all_spans) = (0, Vec::new());
    for tag in 0..400u32 {
        let place = u64::from(tag * 5 % 64) * 4096;
        let command = match tag % 7 {
            0 => Command::flush(),
            3 => Command::barrier(),
            1 | 4 => Command::new(Operation::Read, place, 4096),
            _ => Command::new(Operation::Write, place, 4096),
        };
        layer.submit(now, Request::new(tag, command, vec![0; command.length as usize]));
        while layer.in_flight() >= 4 {
            now = layer.next_event().unwrap().max(now);
            layer.advance(now, &mut done);
        }
        layer.control().take_spans(&mut spans);
        all_spans.extend(spans.kept().iter().map(|span| (tracks[span.track as usize].kind, *span)));
        spans.clear();
    }
    assert_eq!(spans.lost(), 0);
    (done, all_spans)
}

/// Returns the begin and the bytes of each command of these spans, by its number.
fn numbered(spans: &[(TrackKind, Span)], kind: TrackKind) -> BTreeMap<u64, (u64, u64)> {
    let mut all = BTreeMap::new();
    for (_, span) in spans.iter().filter(|(track_kind, _)| *track_kind == kind) {
        let number = span.whom.first_command().expect("it has a number");
        all.entry(number).or_insert((span.begin, span.bytes));
    }
    all
}

#[test]
fn commands_have_the_numbers_of_their_ios_where_some_never_reach_the_model() {
    let fault = DriveFault {
        operations: vec![Operation::Flush],
        ..DriveFault::new(0, DriveFaultKind::LostFlush)
    };
    let mut layer = Faults::new(Box::new(drive()), vec![fault], 7);
    let (done, spans) = work(&mut layer);
    let commands = numbered(&spans, TrackKind::Command);
    let of_them = |done: &&Done| done.command.length > 0;
    let (mut checked, mut after) = (0, 0);
    for io in done.iter().filter(of_them) {
        // An unwritten unit is read at once, and has no row.
        let Some(&(begin, bytes)) = commands.get(&io.order) else { continue };
        assert_eq!((begin, bytes), (io.submit, io.command.length), "{}", io.order);
        checked += 1;
        after += u64::from(io.order > 100);
    }
    assert!(checked > 200 && after > 100, "{checked}, {after}");
    let orders: Vec<u64> = done.iter().filter(of_them).map(|io| io.order).collect();
    let operations = spans.iter().filter(|(kind, _)| *kind == TrackKind::Nand);
    let operations = operations.filter(|(_, span)| span.whom.purpose == Purpose::Command);
    let (mut known, mut count) = (0, 0);
    for (_, span) in operations {
        known += u64::from(orders.contains(&span.whom.number));
        count += 1;
    }
    // Those of the last are still under way.
    assert!(count > 200 && known + 4 >= count, "{known} of {count} are of an I/O");
}

#[test]
fn a_request_has_the_number_of_its_command_behind_the_scheduler() {
    let spec = SchedulerSpec { depth: 2, ..SchedulerSpec::parse("bfq").unwrap() };
    let mut layer = Scheduled::new(&spec, Box::new(drive()));
    let (_, spans) = work(&mut layer);
    let requests = numbered(&spans, TrackKind::Request);
    let commands = numbered(&spans, TrackKind::Command);
    let both = commands.iter().filter_map(|(number, one)| Some((one, requests.get(number)?)));
    let both: Vec<_> = both.collect();
    assert!(both.len() > 200, "{}", both.len());
    assert!(both.iter().all(|(command, request)| command == request), "{both:?}");
}
