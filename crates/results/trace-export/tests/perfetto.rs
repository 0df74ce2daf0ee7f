//! Files written for Perfetto, decoded again.

use std::collections::HashMap;

use serde_json::json;
use stasis_block::timeline::{Cause, Span, Step, Track, TrackKind, What};
use stasis_block::{Command, Health, Operation};
use stasis_report::{KeptMoments, ResultsWriter};
use stasis_results::sink::Records;
use stasis_results::{FaultCourse, KeptSamples, KeptSpans, PlannedFault, Summary, Symbols};
use stasis_run_events::{FaultRecord, IoRecord, Outcome, PacketRecord, Sample, NAMED};
use stasis_trace_export::{counters, perfetto, ClusterMoments, Counter, Inside};

/// A field of a message: its number, and its value.
#[derive(Debug, Clone)]
enum Field {
    Number(u64),
    Double(f64),
    Bytes(Vec<u8>),
}

impl Field {
    fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            other => panic!("{other:?}"),
        }
    }

    fn message(&self) -> HashMap<u64, Vec<Field>> {
        match self {
            Self::Bytes(bytes) => fields(bytes),
            other => panic!("{other:?}"),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

fn fields(mut bytes: &[u8]) -> HashMap<u64, Vec<Field>> {
    let mut all: HashMap<u64, Vec<Field>> = HashMap::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (eight, rest) = bytes.split_first_chunk().unwrap();
                bytes = rest;
                Field::Double(f64::from_le_bytes(*eight))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (part, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(part.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        all.entry(key >> 3).or_default().push(field);
    }
    all
}

/// Tracks by their numbers, and events as (track, time, kind, value).
struct Trace {
    tracks: HashMap<u64, (String, Option<u64>)>,
    events: Vec<(u64, u64, u64, Option<f64>)>,
}

fn read(bytes: &[u8]) -> Trace {
    let mut trace = Trace { tracks: HashMap::new(), events: Vec::new() };
    for packet in &fields(bytes)[&1] {
        let packet = packet.message();
        if let Some(track) = packet.get(&60) {
            let track = track[0].message();
            let name = match track.get(&2) {
                Some(name) => name[0].text(),
                None => track[&3][0].message()[&6][0].text(),
            };
            let parent = track.get(&5).map(|parent| parent[0].number());
            assert!(trace.tracks.insert(track[&1][0].number(), (name, parent)).is_none());
        } else {
            let event = packet[&11][0].message();
            let value = match (event.get(&44), event.get(&30)) {
                (Some(value), _) => match value[0] {
                    Field::Double(value) => Some(value),
                    ref other => panic!("{other:?}"),
                },
                (None, Some(value)) => Some(value[0].number() as f64),
                (None, None) => None,
            };
            let (track, time) = (event[&11][0].number(), packet[&8][0].number());
            assert!(trace.tracks.contains_key(&track), "an event of a track that is none");
            trace.events.push((track, time, event[&9][0].number(), value));
        }
    }
    trace
}

fn io(order: u64, submit: u64, delivered: u64) -> IoRecord {
    IoRecord {
        queue: 1,
        order,
        submit,
        target: delivered,
        delivered,
        ..IoRecord::of(&Command::new(Operation::Read, 4096, 512))
    }
}

#[test]
fn each_io_is_a_slice_on_a_track_of_its_own_time() {
    // The second begins within the first, the third after both.
    let ios = vec![vec![io(0, 100, 400), io(1, 200, 300), io(2, 500, 600)]];
    let mut out = Vec::new();
    let exported = perfetto(&["fast".to_owned()], &ios, &[], None, None, None, &mut out).unwrap();
    assert_eq!(exported.ios, 3);
    let trace = read(&out);
    let named = |name: &str| *trace.tracks.iter().find(|(_, track)| track.0 == name).unwrap().0;
    let times = |track: u64| {
        let events = trace.events.iter().filter(move |event| event.0 == track);
        events.map(|(_, time, kind, value)| (*time, *kind, *value)).collect::<Vec<_>>()
    };
    let slices = [(100, 1, None), (400, 2, None), (500, 1, None), (600, 2, None)];
    assert_eq!(times(named("I/O 1")), slices);
    assert_eq!(times(named("I/O 2")), [(200, 1, None), (300, 2, None)]);
    let depth: Vec<_> = times(named("I/Os under way")).iter().map(|event| event.2).collect();
    assert_eq!(depth, [1.0, 2.0, 1.0, 0.0, 1.0, 0.0].map(Some));
}

#[test]
fn what_is_sampled_is_a_counter_wherever_it_changes() {
    let counter = Counter {
        group: "Inside fast".into(),
        name: "channel 0 in use".into(),
        unit: "%",
        begin: 1000,
        step: 10,
        values: vec![25.0, 25.0, 50.0, 0.0],
    };
    let other = Counter { name: "channel 1 in use".into(), values: vec![1.5], ..counter.clone() };
    let mut out = Vec::new();
    perfetto(&[], &[], &[counter, other], None, None, None, &mut out).unwrap();
    let trace = read(&out);
    let parents: Vec<_> = trace.tracks.values().filter(|track| track.1.is_none()).collect();
    assert_eq!(parents, [&("Inside fast".to_owned(), None)], "one process for the group");
    let values: Vec<_> = trace.events.iter().map(|event| (event.1, event.3.unwrap())).collect();
    assert_eq!(values, [(1000, 25.0), (1020, 50.0), (1030, 0.0), (1000, 1.5), (1010, 0.0)]);
}

fn outcome() -> Outcome {
    let outcome = serde_json::from_value(
        json!({ "ending": { "exited": 0 }, "virtual_ns": 1, "boot_virtual_ns": 0,
        "boot_wall_ns": 0, "wall_ns": 0, "frozen_ns": 0, "skipped_ns": 0, "exits": summary().exits_by_reason,
        "overshoot": { "p50": 0, "p99": 0, "max": 0 }, "calibration": [], "tsc_khz": 1, "lost_spans": 3 }),
    );
    outcome.unwrap()
}

/// Spans, kept as a run keeps them.
fn kept(tracks: Vec<Track>, spans: &[Span]) -> KeptSpans {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::create(folder.path(), Vec::new()).unwrap();
    writer.keep_timeline().unwrap();
    writer.take(Records::Tracks(&tracks)).unwrap();
    writer.take(Records::Spans(spans)).unwrap();
    writer.finish(&outcome(), "exact", Default::default(), Default::default()).unwrap();
    let kept = KeptSpans::open(folder.path()).unwrap().unwrap();
    assert_eq!(kept.lost(), 3);
    kept
}

#[test]
fn what_happened_inside_is_on_tracks_of_its_own() {
    let lun = |kind, lun| Track {
        channel: Some(lun / 2),
        lun: Some(lun),
        ..Track::new(kind, "fast", format!("channel {}, LUN {lun}", lun / 2))
    };
    let tracks = vec![
        lun(TrackKind::Nand, 2),
        lun(TrackKind::Collection, 2),
        Track::new(TrackKind::Request, "disk", "web".into()),
        Track::new(TrackKind::Vcpu, "machine", "vCPU 0".into()),
        Track::new(TrackKind::Freeze, "machine", "frozen".into()),
        Track::new(TrackKind::Turn, "other", "web".into()),
        Track::new(TrackKind::Command, "fast", "commands".into()),
    ];
    let program = Span {
        step: Step::Cells,
        cause: Cause::Housekeeping,
        block: 7,
        page: 9,
        ..Span::new(0, What::Program, 100, 400)
    };
    let spans = [
        // Over by the time from which on spans are wanted.
        Span::new(3, What::Running, 0, 50),
        program,
        Span { step: Step::Suspend, ..Span::new(0, What::Program, 400, 450) },
        Span { block: 7, ..Span::new(1, What::Collection, 20, 900) },
        Span { lane: 0, ..Span::new(2, What::Read, 60, 90) },
        Span { lane: 1, ..Span::new(2, What::Write, 70, 80) },
        Span::new(3, What::Idle, 50, 60),
        Span { number: 5, ..Span::new(4, What::Frozen, 60, 60) },
        Span::new(5, What::Turn, 60, 90),
        Span { step: Step::Controller, ..Span::new(6, What::Read, 60, 65) },
        Span { step: Step::Gc, lane: 1, ..Span::new(6, What::Read, 65, 90) },
    ];
    let mut inside = Inside {
        kept: kept(tracks, &spans),
        from: 50,
        wanted: &|track: &Track| track.owner != "other",
    };
    let mut out = Vec::new();
    let exported = perfetto(&[], &[], &[], Some(&mut inside), None, None, &mut out).unwrap();
    assert_eq!((exported.ios, exported.spans), (0, 9));
    let trace = read(&out);
    let process = |track: u64| {
        let parent = trace.tracks[&track].1.unwrap();
        format!("{}: {}", trace.tracks[&parent].0, trace.tracks[&track].0)
    };
    let events: Vec<_> =
        trace.events.iter().map(|event| (process(event.0), event.1, event.2)).collect();
    let events: Vec<_> =
        events.iter().map(|(track, time, kind)| (track.as_str(), *time, *kind)).collect();
    let (lun, collection) =
        ("Inside fast: channel 1, LUN 2", "Inside fast: channel 1, LUN 2: collection");
    let [one, other] = ["Scheduler of disk: web: request 1", "Scheduler of disk: web: request 2"];
    let processors = ["Processors of machine: vCPU 0", "Processors of machine: frozen"];
    assert_eq!(
        events,
        [
            (lun, 100, 1),
            (lun, 400, 2),
            (lun, 400, 1),
            (lun, 450, 2),
            (collection, 20, 1),
            (collection, 900, 2),
            (one, 60, 1),
            (one, 90, 2),
            (other, 70, 1),
            (other, 80, 2),
            (processors[0], 50, 1),
            (processors[0], 60, 2),
            (processors[1], 60, 3),
            ("Commands of fast: commands 1", 60, 1),
            ("Commands of fast: commands 1", 65, 2),
            ("Commands of fast: commands 2", 65, 1),
            ("Commands of fast: commands 2", 90, 2),
        ]
    );
}

/// A summary with what is left out of others.
fn summary() -> Summary {
    let latency = json!({ "mean": 0.0, "min": 0, "p1": 0, "p5": 0, "p10": 0, "p25": 0, "p50": 0, "p75": 0,
        "p90": 0, "p95": 0, "p99": 0, "p99.9": 0, "p99.99": 0, "max": 0 });
    let operation = json!({ "count": 0, "bytes": 0, "errors": 0, "percentiles": "exact",
        "max_error_percent": null, "target_ns": latency, "delivered_ns": latency });
    let mut drive = json!({ "name": "fast", "model": "m", "interface": "nvme", "medium": "ram", "boot_ios": 0,
        "inside": { "channels": { "bucket": 100, "busy": [[0.5, 0.25], [1.0, 0.0]] },
                    "luns": { "bucket": 100, "busy": [[0.123456, 0.0]] }, "at": 0,
                    "write_amplification": 1.0, "host_units": 0, "programmed_units": 0,
                    "moved_units": 0, "collections": 0, "collection_time": 0.0, "operations": {},
                    "latency": {}, "wear": [], "health": Health::default(), "ftl": null } });
    for name in ["read", "write", "flush", "discard", "write-zeroes", "copy", "verify", "barrier"] {
        drive[name] = operation.clone();
    }
    let exits = json!({ "total": 0, "io": 0, "mmio": 0, "doorbell": 0, "msr": 0, "halt": 0,
        "interrupt_window": 0, "kick": 0, "other": 0 });
    serde_json::from_value(json!({
        "engine": "exact", "ending": "exited", "exit_status": 0, "virtual_seconds": 1.0,
        "boot_virtual_seconds": 2.0, "wall_seconds": 0.0, "boot_wall_seconds": 0.0,
        "engine_wall_seconds": 0.0, "frozen_seconds": 0.0, "skipped_seconds": 0.0, "exits": 0,
        "exits_by_reason": exits, "overshoot_ns": { "p50": 0, "p99": 0, "max": 0 },
        "calibration_ticks": [], "tsc_khz": 1, "drives": [drive],
        "processors": [{ "machine": 0, "number": 1, "running_seconds": 0.5, "utilization": 0.5,
            "step_seconds": 0.5, "shares": [0.75, 0.25] }],
        "shared": [{ "name": "disk", "workloads": [{ "name": "load", "bytes_per_second_each_2s": [1e6, 2e6] }] }],
    }))
    .unwrap()
}

#[test]
fn a_summary_has_processors_resources_and_workloads() {
    let all = counters(&summary(), |_| true);
    let fields: Vec<_> = all
        .iter()
        .map(|one| (one.name.as_str(), one.unit, one.begin, one.step, one.values.clone()))
        .collect();
    assert_eq!(
        fields,
        [
            ("vCPU 1 running", "%", 2_000_000_000, 500_000_000, vec![75.0, 25.0]),
            ("channel 0 in use", "%", 0, 100, vec![50.0, 25.0]),
            ("channel 1 in use", "%", 0, 100, vec![100.0, 0.0]),
            ("LUN 0 in use", "%", 0, 100, vec![12.346, 0.0]),
            ("load", "B/s", 0, 2_000_000_000, vec![1e6, 2e6]),
        ]
    );
    assert_eq!(counters(&summary(), |name| name != "fast").len(), 2);
}

#[test]
fn a_cluster_has_a_track_for_each_machine_and_a_flow_for_each_message() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::create(folder.path(), Vec::new()).unwrap();
    let names = ["a", "b"].map(str::to_owned);
    writer.of_machines(names.to_vec(), Vec::new()).unwrap();
    writer.add_network("lan", &names, false).unwrap();
    let course = FaultCourse::Each { length: Some(0) };
    let kill = PlannedFault { kind: "kill".into(), target: "b".into(), course };
    writer.keep_faults(vec![kill]).unwrap();
    let packet = |port, outgoing, at| PacketRecord {
        network: 0,
        port,
        outgoing,
        at,
        length: 60,
        bytes: vec![8; 60],
    };
    writer.take(Records::Packets(&[packet(0, true, 100), packet(1, false, 150)])).unwrap();
    writer.take(Records::Output(1, 170, true, b"oh\nno\n")).unwrap();
    let fault = FaultRecord { fault: 0, at: 180, order: None, offset: 0, length: 0 };
    writer.take(Records::Faults(&[fault])).unwrap();
    writer.finish(&outcome(), "exact", Default::default(), Default::default()).unwrap();
    let moments = || {
        let mut kept = KeptMoments::open(folder.path()).unwrap().unwrap();
        std::iter::from_fn(|| kept.next_moment().unwrap()).collect::<Vec<_>>()
    };
    let rows: Vec<_> = moments()
        .iter()
        .map(|one| (one.machine.clone(), one.kind.name(), one.at, one.text.clone()))
        .collect();
    let row = |machine: &str, kind, at, text: &str| (machine.to_owned(), kind, at, text.to_owned());
    assert_eq!(
        rows,
        [
            row("a", "message", 100, "other"),
            row("b", "error", 170, "oh"),
            row("b", "error", 170, "no"),
            row("b", "fault", 180, "kill of b"),
        ]
    );
    assert_eq!(moments()[0].arrival, Some(("b".to_owned(), 150, 60)));
    let kept = KeptMoments::open(folder.path()).unwrap().unwrap();
    let mut cluster = ClusterMoments { kept, from: 0 };
    let mut out = Vec::new();
    let exported = perfetto(&[], &[], &[], None, Some(&mut cluster), None, &mut out).unwrap();
    assert_eq!(exported.moments, 4);
    let trace = read(&out);
    let name = |track: u64| trace.tracks[&track].0.as_str();
    let events: Vec<_> =
        trace.events.iter().map(|event| (name(event.0), event.1, event.2)).collect();
    assert_eq!(events, [("a", 100, 3), ("b", 150, 3), ("b", 170, 3), ("b", 170, 3), ("b", 180, 3)]);
}

/// A profile's stacks are slices in each other, which end where another stack begins.
#[test]
fn samples_are_slices_in_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::create(folder.path(), Vec::new()).unwrap();
    let kernel = 1u64 << 63 | 1 << 40;
    let functions = [(kernel, "a"), (kernel + 16, "b"), (kernel + 32, "c")];
    let functions = functions.map(|(address, name)| (address, name.to_owned()));
    writer.keep_profile(Symbols::new(functions.to_vec()), 10, &["vCPU 0".into()]).unwrap();
    writer.take(Records::Names(&["[fio]".into()])).unwrap();
    let sample =
        |at, count, frames: &[u64]| Sample { at, processor: 0, count, frames: frames.to_vec() };
    let samples = [
        sample(100, 1, &[kernel + 17, kernel + 1, NAMED]),
        sample(110, 2, &[kernel + 33, kernel + 1, NAMED]),
        sample(130, 5, &[]),
        sample(180, 1, &[0x40_0000]),
    ];
    writer.take(Records::Samples(&samples)).unwrap();
    let outcome = outcome();
    writer.finish(&outcome, "exact", std::time::Duration::ZERO, serde_json::Map::new()).unwrap();
    let mut kept = KeptSamples::open(folder.path()).unwrap().unwrap();
    let mut out = Vec::new();
    let exported = perfetto(&[], &[], &[], None, None, Some(&mut kept), &mut out).unwrap();
    assert_eq!(exported.samples, 4);
    let trace = read(&out);
    let edges: Vec<_> = trace.events.iter().map(|event| (event.1, event.2)).collect();
    let (begin, end) = (1, 2);
    assert_eq!(
        edges,
        [
            (100, begin),
            (100, begin),
            (100, begin),
            (110, end),
            (110, begin),
            (130, end),
            (130, end),
            (130, end),
            (180, begin),
            (190, end)
        ]
    );
    let text = String::from_utf8_lossy(&out).into_owned();
    for name in ["Functions", "vCPU 0", "[fio]", "[program]"] {
        assert!(text.contains(name), "{name}");
    }
}
