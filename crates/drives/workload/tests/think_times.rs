//! Replay of traces with their think times kept, to the nanosecond.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use stasis_block::Fate;
use stasis_workload::trace::{Merged, Pace, Placed, Reader, Replay, ReplayOptions};
use stasis_workload::{TraceError, Workload};

const OPTIONS: ReplayOptions = ReplayOptions {
    pace: Pace::ThinkTimes(1.0),
    capacity: None,
    wrap: false,
    block_size: 512,
    path: 0,
    length: None,
};

/// Submissions by their first sector, if the I/O at a sector takes `latency(sector)`.
fn replayed(
    reader: impl Into<Merged<&'static [u8]>>,
    options: ReplayOptions,
    latency: impl Fn(u64) -> u64,
) -> (Vec<(u64, u64)>, Placed) {
    let mut replay = Replay::new(reader, options).unwrap();
    let (mut submissions, mut flying) = (Vec::new(), BTreeSet::new());
    let mut ios = BTreeMap::new();
    loop {
        match (replay.next_at(), flying.first().copied()) {
            (None, None) => return (submissions, replay.placed()),
            (next, Some((end, number))) if next.is_none_or(|next| end <= next) => {
                flying.pop_first();
                replay.complete(end, &ios[&number], Fate::Done);
            }
            (next, _) => {
                let at = next.unwrap();
                let io = replay.take().unwrap().unwrap();
                let sector = io.command.offset / 512;
                submissions.push((sector, at));
                flying.insert((at + latency(sector), io.number));
                ios.insert(io.number, io);
            }
        }
    }
}

fn of_text(text: &'static str) -> Merged<&'static [u8]> {
    Reader::new(text.as_bytes(), None).unwrap().into()
}

/// Times in the trace are in microseconds after 1 s. Process 100 reads one after the other, and
/// thinks for 30 us and 50 us; process 200 has two in flight, and goes on 40 us after the second. A
/// kernel thread issues what both have queued.
const TWO: &str = "\
8,0 0 1 1.000000000 100 Q R 100 + 8 [a]
8,0 0 2 1.000000000 36 D R 100 + 8 [kworker/0:1H]
8,0 1 1 1.000009000 200 Q R 200 + 8 [b]
8,0 0 3 1.000010000 36 D R 200 + 8 [kworker/0:1H]
8,0 1 2 1.000011000 200 Q R 208 + 8 [b]
8,0 0 4 1.000012000 36 D R 208 + 8 [kworker/0:1H]
8,0 0 5 1.000100000 0 C R 100 + 8 [0]
8,0 0 6 1.000129000 100 Q R 108 + 8 [a]
8,0 0 7 1.000130000 36 D R 108 + 8 [kworker/0:1H]
8,0 0 8 1.000200000 0 C R 208 + 8 [0]
8,0 0 9 1.000260000 0 C R 200 + 8 [0]
8,0 1 3 1.000299000 200 Q W 216 + 8 [b]
8,0 0 10 1.000300000 36 D W 216 + 8 [kworker/0:1H]
8,0 0 11 1.000400000 0 C R 108 + 8 [0]
8,0 0 12 1.000450000 36 D R 116 + 8 [kworker/0:1H]
";

#[test]
fn an_io_follows_the_completions_that_it_followed_in_the_trace() {
    // The last I/O has no queue event: it is the kernel thread's own, which comes at its time.
    let us = |times: &[(u64, u64)]| times.iter().map(|(s, at)| (*s, at * 1000)).collect::<Vec<_>>();
    let (slow, placed) = replayed(of_text(TWO), OPTIONS, |_| 1_000_000);
    let expected = [(100, 0), (200, 10), (208, 12), (116, 450), (108, 1030), (216, 1052)];
    assert_eq!(slow, us(&expected));
    assert_eq!(placed, Placed { submitted: 6, ..Placed::default() });
    let (fast, _) = replayed(of_text(TWO), OPTIONS, |_| 1_000);
    let expected = [(100, 0), (200, 10), (208, 12), (108, 31), (216, 53), (116, 450)];
    assert_eq!(fast, us(&expected));
    // The last of two in flight to complete here counts, whichever it was in the trace.
    let (odd, _) =
        replayed(of_text(TWO), OPTIONS, |sector| if sector == 208 { 70_000 } else { 5_000 });
    assert!(odd.contains(&(216, 12_000 + 70_000 + 40_000)), "{odd:?}");
    // Think times and distances are scaled together.
    let half = ReplayOptions { pace: Pace::ThinkTimes(0.5), ..OPTIONS };
    let (half, _) = replayed(of_text(TWO), half, |_| 1_000_000);
    let expected = [(100, 0), (200, 5), (208, 6), (116, 225), (108, 1015), (216, 1026)];
    assert_eq!(half, us(&expected));
}

#[test]
fn formats_with_response_times_are_one_process() {
    // Ticks of 100 ns: 0 to 50 us, then 10 us of thought; then one during the other.
    const MSR: &str = "\
10000,hm,1,Read,51200,4096,500
10600,hm,1,Read,102400,4096,500
10700,hm,1,Write,153600,4096,200
";
    let (submissions, _) = replayed(of_text(MSR), OPTIONS, |_| 7_000);
    assert_eq!(submissions, [(100, 0), (200, 17_000), (300, 27_000)]);
}

#[test]
fn traces_without_completions_are_refused() {
    const ALIBABA: &str = "419,W,8792731648,16384,1577808144360767\n";
    const ISSUES: &str = "8,0 0 1 1.000000000 100 D R 100 + 8 [a]\n";
    for text in [ALIBABA, ISSUES] {
        let error = Replay::new(of_text(text), OPTIONS).unwrap_err();
        assert!(matches!(error, TraceError::NoCompletions), "{error}");
    }
}

/// An event of blktrace.
fn event(action: u32, category: u32, at: u64, sector: u64, process: u32, cpu: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(0x6561_7407_u32.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(at.to_le_bytes());
    bytes.extend(sector.to_le_bytes());
    for field in [4096, category << 16 | action, process, 8 << 20, cpu, 0] {
        bytes.extend(u32::to_le_bytes(field));
    }
    assert_eq!(bytes.len(), 48);
    bytes
}

#[test]
fn completions_that_another_processor_saw_count() {
    const READ: u32 = 1;
    // Issued on one processor, completed on another.
    let first = [event(7, READ, 1_000, 8, 5, 0), event(7, READ, 61_000, 16, 5, 0)].concat();
    let second = event(8, READ, 41_000, 8, 0, 1);
    let files = [("t.blktrace.0", first), ("t.blktrace.1", second)]
        .map(|(name, bytes)| (name.to_owned(), &*Box::leak(bytes.into_boxed_slice())));
    let (submissions, _) = replayed(Merged::new(files, None).unwrap(), OPTIONS, |_| 3_000);
    assert_eq!(submissions, [(8, 0), (16, 23_000)]);
}

proptest! {
    /// On a drive that is as fast as the traced one each I/O comes at its time in the trace.
    #[test]
    fn the_same_drive_gives_the_same_times(
        raw in prop::collection::vec((0u64..2_000, 1u64..3_000, 1u32..4), 1..200),
    ) {
        let mut lines = Vec::new();
        let mut at = 0;
        let mut latencies = BTreeMap::new();
        for (number, (gap, latency, process)) in raw.iter().enumerate() {
            at += gap;
            let sector = number as u64 * 8;
            latencies.insert(sector, *latency);
            lines.push((at, 1, format!("{process} D R {sector} + 8 [x]")));
            lines.push((at + latency, 0, format!("0 C R {sector} + 8 [0]")));
        }
        lines.sort();
        let text: String = lines
            .iter()
            .map(|(at, _, rest)| format!("8,0 0 1 0.{at:09} {rest}\n"))
            .collect();
        let text = Box::leak(text.into_boxed_str());
        let (submissions, placed) = replayed(of_text(text), OPTIONS, |sector| latencies[&sector]);
        let first = raw[0].0;
        let mut at = 0;
        let expected: Vec<_> = raw.iter().enumerate().map(|(number, (gap, ..))| {
            at += gap;
            (number as u64 * 8, at - first)
        }).collect();
        let mut submissions = submissions;
        submissions.sort();
        prop_assert_eq!(submissions, expected);
        prop_assert_eq!((placed.late, placed.backwards), (0, 0));
    }

    /// Lines that are left out, doubled, or out of place.
    #[test]
    fn a_damaged_trace_never_panics(places in prop::collection::vec(0usize..15, 0..40)) {
        let lines: Vec<_> = TWO.lines().collect();
        let text: String = places.iter().map(|place| format!("{}\n", lines[*place])).collect();
        let reader = Reader::new(text.as_bytes(), None);
        let Ok(mut replay) = reader.and_then(|reader| Replay::new(reader, OPTIONS)) else {
            return Ok(());
        };
        let mut flying: Vec<(u64, stasis_workload::Io)> = Vec::new();
        let mut taken = 0;
        while let Some(at) = replay.next_at().or(flying.first().map(|(at, _)| *at)) {
            match flying.first().copied().filter(|(end, _)| *end <= at) {
                Some((end, io)) => {
                    flying.remove(0);
                    replay.complete(end, &io, Fate::Done);
                }
                None => {
                    let Ok(io) = replay.take() else { break };
                    taken += 1;
                    flying.extend(io.map(|io| (at + 1_000, io)));
                }
            }
        }
        let issued = text.lines().filter(|line| line.contains(" D ")).count();
        // All come, unless there are only queued ones.
        prop_assert!(taken == issued || issued == 0, "{taken} of {issued}");
    }
}
