//! Activity of the processors on the virtual timeline, and the spans of everything else on their
//! way to the event stream. Owns the spans, and up to when each processor's are known.

use std::time::Duration;

use stasis_block::clock::Nanos;
use stasis_block::timeline::{Span, Spans, Track, TrackKind, Tracks, What};

use crate::freeze::Scale;

/// Spans that go to the event stream together.
const BATCH: usize = 4096;

/// Recorder of a run's timeline.
#[derive(Debug)]
pub(super) struct Watch {
    /// Spans on their way to the event stream.
    pub(super) spans: Spans,
    scale: Scale,
    /// The first processor's track; the others follow by place.
    processors: u32,
    /// For each processor, the time since which it runs, and up to which that is known (ticks).
    runs: Vec<Option<(u64, u64)>>,
    /// For each processor, the time up to which everything has been recorded (ticks).
    recorded: Vec<u64>,
    /// The first machine's track of freezes; the others follow.
    freezes: u32,
    /// Time for which each machine has stood still so far.
    frozen: Vec<Duration>,
    /// True if a freeze records its length.
    timed: bool,
}

impl Watch {
    /// Starts with machines of these names and numbers of processors.
    pub(super) fn new(
        machines: &[(String, usize)],
        scale: Scale,
        timed: bool,
        tracks: &mut Tracks,
    ) -> Self {
        let mut first = None;
        for (name, count) in machines {
            for number in 0..*count {
                let name = Track::new(TrackKind::Vcpu, owner(name), format!("vCPU {number}"));
                let track = tracks.add(name);
                first.get_or_insert(track);
            }
        }
        let mut freezes = None;
        for (name, _) in machines {
            let track = Track::new(TrackKind::Freeze, owner(name), "frozen".into());
            let track = tracks.add(track);
            freezes.get_or_insert(track);
        }
        let places = machines.iter().map(|(_, count)| count).sum();
        Self {
            spans: Spans::default(),
            scale,
            processors: first.unwrap_or_default(),
            runs: vec![None; places],
            recorded: vec![0; places],
            freezes: freezes.unwrap_or_default(),
            frozen: vec![Duration::ZERO; machines.len()],
            timed,
        }
    }

    /// The processor at `place` ran between these times (ticks). Slices that follow at once are
    /// one.
    pub(super) fn ran(&mut self, place: usize, (from, to): (u64, u64)) {
        if let Some((_, end)) = &mut self.runs[place] {
            if *end == from {
                *end = to;
                return;
            }
        }
        // Rewind sets a processor's time back: later events did not happen.
        self.record_run(place, from);
        self.record(place, What::Idle, from);
        let from = from.max(self.recorded[place]);
        self.runs[place] = Some((from, to.max(from)));
    }

    /// The run of a processor is over, at `until` at the latest (ticks).
    fn record_run(&mut self, place: usize, until: u64) {
        if let Some((_, end)) = self.runs[place].take() {
            self.record(place, What::Running, end.min(until));
        }
    }

    /// A processor did this from what was recorded last until `end` (ticks).
    fn record(&mut self, place: usize, activity: What, end: u64) {
        let begin = self.recorded[place];
        if begin < end {
            self.recorded[place] = end;
            let (begin, end) = (self.scale.to_ns(begin), self.scale.to_ns(end));
            self.spans.push(Span::new(self.processors + place as u32, activity, begin, end));
        }
    }

    /// A machine has stood still for so long in all, the last time now.
    pub(super) fn froze(&mut self, machine: usize, frozen: Duration, now: Nanos) {
        let took = frozen.saturating_sub(self.frozen[machine]);
        if took.is_zero() {
            return;
        }
        self.frozen[machine] = frozen;
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let number = if self.timed { took } else { 0 };
        let span = Span::new(self.freezes + machine as u32, What::Frozen, now, now);
        self.spans.push(Span { number, ..span });
    }

    /// The run is over at `now` (ticks).
    pub(super) fn finish(&mut self, now: u64) {
        for place in 0..self.runs.len() {
            self.record_run(place, u64::MAX);
            self.record(place, What::Idle, now);
        }
    }

    /// Returns whether there are enough spans for the event stream.
    pub(super) fn is_full(&self) -> bool {
        self.spans.kept().len() >= BATCH
    }

    /// Takes the spans to be emitted.
    pub(super) fn take(&mut self) -> Vec<Span> {
        let spans = self.spans.kept().to_vec();
        self.spans.clear();
        spans
    }
}

/// A machine that is alone has no name.
fn owner(name: &str) -> &str {
    if name.is_empty() {
        "machine"
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn watch() -> (Watch, Vec<Track>) {
        let mut tracks = Tracks::default();
        let machines = [("one".to_owned(), 2), (String::new(), 1)];
        let watch = Watch::new(&machines, Scale::new(1_000_000), true, &mut tracks);
        (watch, tracks.into_vec())
    }

    #[test]
    fn slices_that_follow_are_one_run_and_gaps_are_idle() {
        let (mut watch, tracks) = watch();
        let names: Vec<_> =
            tracks.iter().map(|track| (track.owner.as_str(), track.name.as_str())).collect();
        let own = [("one", "vCPU 0"), ("one", "vCPU 1"), ("machine", "vCPU 0")];
        assert_eq!(names[..3], own);
        assert_eq!(names[3..], [("one", "frozen"), ("machine", "frozen")]);
        for slice in [(0, 10), (10, 25), (40, 50)] {
            watch.ran(0, slice);
        }
        watch.ran(2, (5, 6));
        // Set back: the guest saw the time from 45 on only once.
        watch.ran(0, (45, 60));
        watch.froze(1, Duration::from_nanos(7), 50);
        watch.froze(1, Duration::from_nanos(7), 55);
        watch.finish(70);
        let recorded: Vec<_> = watch
            .take()
            .iter()
            .map(|span| (span.track, span.activity, span.begin, span.end, span.number))
            .collect();
        let (run, idle) = (What::Running, What::Idle);
        assert_eq!(
            recorded,
            [
                (0, run, 0, 25, 0),
                (0, idle, 25, 40, 0),
                (2, idle, 0, 5, 0),
                (0, run, 40, 45, 0),
                (4, What::Frozen, 50, 50, 7),
                (0, run, 45, 60, 0),
                (0, idle, 60, 70, 0),
                (1, idle, 0, 70, 0),
                (2, run, 5, 6, 0),
                (2, idle, 6, 70, 0),
            ]
        );
    }

    proptest! {
        /// A processor's time is recorded once and without gaps, for any rewinds.
        #[test]
        fn a_processors_time_is_told_once(
            slices in prop::collection::vec((0u64..30, 1u64..20, any::<bool>()), 1..50),
        ) {
            let (mut watch, _) = watch();
            let (mut at, mut most) = (0u64, 0);
            for (gap, took, back) in slices {
                at = if back { at.saturating_sub(gap) } else { at + gap };
                watch.ran(0, (at, at + took));
                at += took;
                most = most.max(at);
            }
            watch.finish(most + 5);
            let mut until = 0;
            for span in watch.take().iter().filter(|span| span.track == 0) {
                prop_assert_eq!(span.begin, until);
                prop_assert!(span.begin < span.end);
                until = span.end;
            }
            prop_assert_eq!(until, most + 5);
        }
    }
}
