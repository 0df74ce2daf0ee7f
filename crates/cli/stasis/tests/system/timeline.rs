//! Spans of a run, as `--timeline` keeps them.

use std::collections::BTreeMap;

use stasis_block::timeline::{Span, Track, TrackKind, What};
use stasis_results::{KeptIos, KeptSpans, SlowIo, ToldCommands};

use crate::support::Bench;

const EXPERIMENT: &str = r#"
engine  = "exact"
seed    = 3
command = ["sh", "-c", "dd if=/dev/zero of=/dev/vda bs=64k count=80 oflag=direct 2>/dev/null"]

[[drive]]
name      = "disk"
model     = { base = "flash-tlc", buffer = "0" }
medium    = "ram:32MiB"
scheduler = { kind = "bfq", depth = 2 }

[[machine]]
name = "desk"
[[machine.disk]]
on   = "disk"
size = "16MiB"

[[workload]]
name    = "readers"
pattern = "1r-seq"
offset  = "16MiB"
"#;

fn spans(bench: &Bench, folder: &str) -> Vec<(Track, Span)> {
    let mut kept = KeptSpans::open(&bench.path(folder)).unwrap().expect("it was asked for");
    let mut all = Vec::new();
    while let Some((track, span)) = kept.next_span().unwrap() {
        all.push((track.clone(), span));
    }
    all
}

/// Checks that a processor's time has no gap, and is as long as in the summary, from the command on.
pub fn processors_times_are_whole(bench: &Bench, folder: &str) {
    let summary = bench.json(&format!("{folder}/summary.json"));
    let mut all = spans(bench, folder);
    all.retain(|(track, _)| track.kind == TrackKind::Vcpu);
    let mut until = BTreeMap::new();
    for (track, span) in &all {
        let last = until.insert((span.track, span.lane), span.end).unwrap_or(0);
        assert_eq!(last, span.begin, "{track:?}: {span:?}");
    }
    let begin = (summary["boot_virtual_seconds"].as_f64().unwrap() * 1e9).round() as u64;
    let running = |number: u64| -> u64 {
        let name = format!("vCPU {number}");
        let runs = all.iter().filter(|(track, span)| {
            track.name == name && span.activity == What::Running && span.end > begin
        });
        runs.map(|(_, span)| span.end - span.begin.max(begin)).sum()
    };
    for processor in summary["processors"].as_array().unwrap() {
        let reported = processor["running_seconds"].as_f64().unwrap() * 1e9;
        let number = processor["number"].as_u64().unwrap();
        // The agent runs for a while after the command's end.
        let kept = running(number) as f64;
        assert!(
            kept >= reported * 0.999,
            "vCPU {number}: {kept} ns, but {reported} ns in the summary"
        );
    }
}

#[test]
fn what_happens_inside_is_told_and_changes_nothing() {
    let bench = Bench::new();
    std::fs::write(bench.path("shared.toml"), EXPERIMENT).unwrap();
    for (results, more) in [("plain", None), ("one", Some("--timeline"))] {
        let results = format!("--results={results}");
        let words: Vec<_> = ["shared.toml", &results].into_iter().chain(more).collect();
        bench.run(&words).expect(0);
    }
    assert!(!bench.path("plain/timeline.parquet").exists());
    for name in
        ["ios.csv", "ios.parquet"].iter().filter(|name| bench.path("plain").join(name).exists())
    {
        let bytes_of = |folder: &str| bench.bytes(&format!("{folder}/{name}"));
        assert!(bytes_of("plain") == bytes_of("one"), "to be told changes an I/O");
    }

    let summary = bench.json("one/summary.json");
    let all = spans(&bench, "one");
    assert_eq!(summary["timeline"]["spans"], all.len());
    assert_eq!(summary["timeline"]["lost"], 0);
    let mut until: BTreeMap<(u32, u16), u64> = BTreeMap::new();
    for (track, span) in &all {
        let last = until.insert((span.track, span.lane), span.end).unwrap_or(0);
        assert!(last <= span.begin && span.begin <= span.end, "{track:?}: {span:?} after {last}");
    }
    let of_kind = |kind: TrackKind| all.iter().filter(move |(track, _)| track.kind == kind);
    let programs =
        of_kind(TrackKind::Nand).filter(|(_, span)| span.activity == What::Program).count();
    assert!(programs > 100, "{programs} programs");
    assert!(of_kind(TrackKind::Channel).count() >= programs);
    for name in ["desk.disk", "readers"] {
        let named = |kind| of_kind(kind).filter(|(track, _)| track.name.contains(name)).count();
        let (turns, requests) = (named(TrackKind::Turn), named(TrackKind::Request));
        let known =
            all.iter().map(|(track, _)| &track.name).collect::<std::collections::BTreeSet<_>>();
        assert!(turns > 1 && requests >= turns, "{name}: {turns}, {requests} of {known:?}");
    }

    // Each ns of each I/O, of which the host's scheduler has some.
    let folder = bench.path("one");
    let mut commands = ToldCommands::read(&folder).unwrap().expect("it was asked for");
    let (mut ios, mut found, mut scheduled) = (KeptIos::open(&folder).unwrap(), 0, 0);
    while let Some(io) = ios.next().transpose().unwrap() {
        let name = ios.drives()[usize::from(io.drive)].clone();
        let Some((drive, command)) = commands.take(&name, &io) else { continue };
        assert_eq!(drive, "disk");
        let io = SlowIo::told(&io, Some(&command));
        let parts: u64 = io.named().iter().map(|(_, time)| time).sum();
        assert_eq!(parts, io.latency(), "{io:?}");
        found += 1;
        scheduled += u64::from(io.scheduled_ns > 0);
    }
    assert!(found > 80 && scheduled > 10, "{found} I/Os, of which {scheduled} waited");

    processors_times_are_whole(&bench, "one");
}
