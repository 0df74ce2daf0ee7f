//! Reports of a shared drive about its scheduler's turns and its tenants' requests.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use crate::common::Latencies;
use stasis_block::timeline::{Span, Spans, Track, TrackKind, Tracks, What};
use stasis_block::{Command, Operation, Request};
use stasis_drive::{Control, Drive, Layer, LoadSpec, Region, SharedDrive};
use stasis_media::{Execution, MediumSpec, OpenOptions};
use stasis_scheduler::{QueueSpec, SchedulerSpec, KINDS};
use stasis_workload::JobFile;

const PART: u64 = 64 * 4096;
/// Long enough for those schedulers that serve one for a tenth of a second at a time.
const END: u64 = 1_000_000_000;

fn shared(kind: &str, depth: u32) -> SharedDrive {
    let options = OpenOptions {
        execution: Execution::Synchronous,
        delay: Duration::ZERO,
        base: Path::new("."),
    };
    let medium = MediumSpec::Ram { size: 4 * PART }.open(&options).unwrap();
    let drive = Drive::new(3, "shared".into(), Latencies::new(1, 50_000), medium);
    let spec = SchedulerSpec { depth, ..SchedulerSpec::parse(kind).unwrap() };
    let shared = SharedDrive::new(&spec, Box::new(drive));
    let jobs = "[r]\nrw=read\nbs=4k\nnumjobs=2\nsize=128k\noffset_increment=128k\ntime_based=1\n\
                runtime=100d\nthinktime=300us\n";
    shared
        .add_load(&LoadSpec {
            name: "load".into(),
            jobs: JobFile::parse(jobs, &|_| None).unwrap(),
            region: Region { offset: 2 * PART, length: 2 * PART },
            queue: QueueSpec::weighted(100),
            group: None,
            seed: 1,
        })
        .unwrap();
    shared
}

/// Runs a disk with up to four requests in flight; returns its completions, and the spans.
fn work(shared: &SharedDrive, watch: bool) -> (Vec<(u64, u64)>, Vec<Track>, Vec<Span>) {
    let region = Region { offset: 0, length: PART };
    let mut disk = shared.disk(0, "disk".into(), region, &QueueSpec::default());
    let (mut tracks, mut spans, mut all_spans) = (Tracks::default(), Spans::default(), Vec::new());
    if watch {
        disk.watch(&mut tracks);
        let mut again = Tracks::default();
        disk.watch(&mut again);
        assert!(again.into_vec().is_empty(), "its tracks are announced once");
    }
    shared.start(0);
    let (mut now, mut tag, mut done, mut completions) = (0, 0, Vec::new(), Vec::new());
    while now < END {
        while disk.in_flight() < 1 + tag as usize % 4 {
            let operation = if tag % 3 == 0 { Operation::Write } else { Operation::Read };
            let command = Command::new(operation, u64::from(tag * 7 % 64) * 4096, 4096);
            disk.submit(now, Request::new(tag, command, vec![0; 4096]));
            tag += 1;
        }
        now = disk.next_event().unwrap().max(now);
        disk.advance(now, &mut done);
        completions.extend(done.drain(..).map(|done| (done.order, done.at)));
        disk.take_spans(&mut spans);
        all_spans.extend_from_slice(spans.kept());
        spans.clear();
        // Now and then nobody asks for anything.
        now += if tag % 50 == 0 { 5_000_000 } else { 0 };
    }
    assert_eq!(spans.lost(), 0);
    (completions, tracks.into_vec(), all_spans)
}

#[test]
fn turns_follow_one_another_and_hold_what_is_sent_in_them() {
    for (kind, depth) in KINDS.iter().flat_map(|kind| [(kind.name, 1), (kind.name, 4)]) {
        let (unseen, _, nothing) = work(&shared(kind, depth), false);
        assert!(nothing.is_empty(), "{kind}: kept, though nobody asked");
        let (completions, tracks, spans) = work(&shared(kind, depth), true);
        assert_eq!(unseen, completions, "{kind}: to be told changes something");

        let kind_of = |span: &Span| tracks[span.track as usize].kind;
        let turns: Vec<_> =
            spans.iter().filter(|span| kind_of(span) == TrackKind::Turn).copied().collect();
        assert!(turns.len() > 4, "{kind}: {} turns", turns.len());
        assert!(turns.iter().all(|turn| turn.activity == What::Turn && turn.begin <= turn.end));
        let follows = |pair: &[Span]| pair[0].end <= pair[1].begin;
        assert!(turns.windows(2).all(follows), "{kind}: two are served at once");

        let names: Vec<_> = tracks.iter().map(|track| track.name.as_str()).collect();
        let owners = ["disk", "load, thread 1", "load, thread 2"];
        assert_eq!(names, owners.map(|name| [name, name]).concat());
        let mut until: HashMap<(u32, u16), u64> = HashMap::new();
        let mut requests = [0; 6];
        for span in spans.iter().filter(|span| kind_of(span) == TrackKind::Request) {
            let last = until.insert((span.track, span.lane), span.end).unwrap_or(0);
            assert!(last <= span.begin && usize::from(span.lane) < depth as usize, "{kind}");
            // It was sent in a turn of its tenant's. Several begin at the same time where the
            // drive has room for several; the last of all may not have ended.
            let begun = turns.partition_point(|turn| turn.begin <= span.begin);
            let over = turns.partition_point(|turn| turn.end < span.begin);
            let own = |turn: &Span| turn.track + 1 == span.track;
            let last = turns.last().is_some_and(|turn| span.begin >= turn.end);
            let then = &turns[over..begun];
            assert!(last || then.iter().any(own), "{kind}: {span:?} in none of {then:?}");
            assert_eq!(span.bytes, 4096);
            requests[span.track as usize] += 1;
        }
        assert_eq!(requests[1], completions.len(), "{kind}: the disk's");
        assert!(requests[3].min(requests[5]) > 50, "{kind}: the workload's: {requests:?}");
    }
}
