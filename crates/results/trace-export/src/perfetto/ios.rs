//! A drive's I/Os as slices, on as many tracks as there were I/Os at once, and how many of
//! them were under way as a counter.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use stasis_run_events::{IoRecord, Kind, COLUMN_COUNT};

use super::packets::{Note, Trace};

/// A slice's edge, in the order in which edges are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    time: u64,
    /// Ends come first, so that a track's next slice is not inside its last one.
    begins: bool,
    io: usize,
    lane: u32,
}

/// Writes the I/Os of a drive.
pub(super) fn write(drive: &str, ios: &[IoRecord], trace: &mut Trace<'_>) -> io::Result<()> {
    let (edges, lanes) = edges(ios);
    let under_way = trace.counter(drive, "I/Os under way", "", 0)?;
    let mut tracks = Vec::with_capacity(lanes as usize);
    for lane in 1..=lanes {
        tracks.push(trace.track(drive, &format!("I/O {lane}"), lane.into())?);
    }
    let mut depth = 0_u64;
    for Edge { time, begins, io, lane } in edges {
        let track = tracks[lane as usize];
        if begins {
            depth += 1;
            begin(track, &ios[io], trace)?;
        } else {
            depth -= 1;
            trace.end(track, time)?;
        }
        trace.count(under_way, time, depth)?;
    }
    Ok(())
}

fn begin(track: u64, record: &IoRecord, trace: &mut Trace<'_>) -> io::Result<()> {
    let mut notes = Vec::with_capacity(COLUMN_COUNT);
    let mut phase = "";
    for (column, number) in IoRecord::COLUMNS.iter().zip(record.numbers()) {
        match (column.name, column.kind) {
            // The track, the slice and its begin have these.
            ("drive" | "operation" | "submit_ns", _) => {}
            ("image_ns" | "limited_ns" | "scheduled_ns" | "fault_ns", _) if number == 0 => {}
            ("phase", Kind::Word(words)) => phase = words[number as usize],
            (name, Kind::Word(words)) => notes.push(Note::Text(name, words[number as usize])),
            (name, _) => notes.push(Note::Number(name, number)),
        }
    }
    trace.begin((track, record.submit), (phase, record.operation.name()), &notes)
}

/// The edges of all slices in the order of time, and how many lanes they take.
fn edges(ios: &[IoRecord]) -> (Vec<Edge>, u32) {
    let mut order: Vec<usize> = (0..ios.len()).collect();
    order.sort_by_key(|&io| (ios[io].submit, ios[io].order));
    let mut free = BinaryHeap::new();
    let mut busy = BinaryHeap::new();
    let mut lanes = 0;
    let mut edges = Vec::with_capacity(ios.len() * 2);
    for io in order {
        let IoRecord { submit, delivered, .. } = ios[io];
        // A slice is never shorter than nothing.
        let end = delivered.max(submit);
        while let Some(Reverse((until, lane))) = busy.peek().copied() {
            if until > submit {
                break;
            }
            busy.pop();
            free.push(Reverse(lane));
        }
        let lane = free.pop().map_or_else(
            || {
                lanes += 1;
                lanes - 1
            },
            |Reverse(lane)| lane,
        );
        // An I/O that takes no time leaves its lane at the next instant, or its end would be before
        // its begin.
        busy.push(Reverse((end.max(submit + 1), lane)));
        edges.push(Edge { time: submit, begins: true, io, lane });
        edges.push(Edge { time: end.max(submit + 1), begins: false, io, lane });
    }
    edges.sort_unstable();
    (edges, lanes)
}
