//! Commands of the host's as a model tells them: the slowest, and while the drive is watched each
//! with the parts of its time.

use std::collections::{BTreeMap, VecDeque};

use crate::clock::Nanos;
use crate::inside::{Inside, LatencyMeans, Parts, SlowCommand, SumsByOperation};
use crate::slowest::SlowestByOperation;
use crate::timeline::{Cause, Span, Spans, Track, TrackKind, Tracks, Whom};
use crate::Operation;

/// The commands of a watched drive, as spans: of each its parts, one after the other, on a lane of
/// its own.
///
/// Invariant: of one lane, the spans of one command touch, and those of two do not.
#[derive(Debug)]
pub struct CommandSpans {
    track: u32,
    /// Time at which the last command of each lane ended (ns).
    lanes: Vec<Nanos>,
    spans: Spans,
}

impl CommandSpans {
    /// Announces the track of the commands of a drive.
    pub fn new(owner: &str, tracks: &mut Tracks) -> Self {
        let track = tracks.add(Track::new(TrackKind::Command, owner, "commands".into()));
        Self { track, lanes: Vec::new(), spans: Spans::default() }
    }

    /// Keeps a command; `own`: its number among the submissions, where that is known. `after`: the
    /// NAND operation whose end completed it, by its number, and for whom that was.
    pub fn push(&mut self, command: &SlowCommand, own: Option<u64>, after: Option<(u64, Cause)>) {
        let SlowCommand { operation, offset, bytes, begin, end, parts } = *command;
        debug_assert_eq!(sum(command), end - begin, "{command:?}");
        let parts = parts.steps();
        let kept = parts.iter().filter(|(_, time)| *time > 0).count();
        if kept == 0 {
            return;
        }
        let free = self.lanes.iter().position(|over| *over < begin);
        let lane = free.unwrap_or_else(|| {
            self.lanes.push(0);
            self.lanes.len() - 1
        });
        self.lanes[lane] = end;
        let (number, cause) = after.unwrap_or((0, Cause::None));
        let lane = u16::try_from(lane).unwrap_or(u16::MAX);
        let whole = Span::new(self.track, operation.into(), begin, begin);
        let whom = Whom { number: own.unwrap_or(0), commands: own.is_some().into(), ..whole.whom };
        let whole = Span { lane, number, cause, bytes, offset, whom, ..whole };
        let mut at = begin;
        let spans = parts.into_iter().filter(|(_, time)| *time > 0).map(|(step, time)| {
            let from = at;
            at += time;
            Span { step, begin: from, end: at, ..whole }
        });
        self.spans.push_all(spans, kept);
    }

    /// Hands over the spans.
    pub fn take(&mut self, spans: &mut Spans) {
        spans.append(&mut self.spans);
    }
}

/// All parts of a command's time (ns).
fn sum(command: &SlowCommand) -> Nanos {
    command.parts.steps().iter().map(|(_, time)| time).sum()
}

/// Commands that are counted before they end, up to which nobody looks for those that have ended
/// behind a longer one.
const ROOM: usize = 64;

/// Times of a model's commands: their sums, and the slowest. A model knows a command's end before it
/// comes; a power cut takes what has not ended.
#[derive(Debug, Clone, Default)]
pub struct CommandTimes {
    sums: SumsByOperation,
    slowest: SlowestByOperation<SlowCommand>,
    /// Commands in `sums` whose end was to come, as they were counted. They are not among `slowest`
    /// yet: what is too slow for those is forgotten.
    under_way: VecDeque<SlowCommand>,
    /// Number of these from which on all are looked at.
    room: usize,
}

impl CommandTimes {
    /// Takes a command that ends later than `now`.
    #[inline]
    pub fn record(&mut self, now: Nanos, command: SlowCommand) {
        self.settle(now);
        let SlowCommand { operation, begin, end, ref parts, .. } = command;
        self.sums.add(operation, end - begin, parts);
        self.under_way.push_back(command);
    }

    /// Takes a command that has ended, after so long; `command` describes it, where it is among the
    /// slowest.
    #[inline]
    pub fn record_ended(
        &mut self,
        operation: Operation,
        latency: Nanos,
        parts: &Parts<Nanos>,
        command: impl FnOnce() -> SlowCommand,
    ) {
        self.sums.add(operation, latency, parts);
        self.slowest.record(operation, latency, command);
    }

    /// Commands end by `now`.
    #[inline]
    fn settle(&mut self, now: Nanos) {
        while let Some(command) = self.under_way.front().filter(|command| command.end <= now) {
            keep(&mut self.slowest, command);
            self.under_way.pop_front();
        }
        if self.under_way.len() >= self.room {
            self.settle_all(now);
        }
    }

    /// Like [`Self::settle`], but also for commands behind one that takes longer.
    #[cold]
    fn settle_all(&mut self, now: Nanos) {
        let Self { slowest, under_way, .. } = self;
        under_way.retain(|command| {
            let is_under_way = command.end > now;
            if !is_under_way {
                keep(slowest, command);
            }
            is_under_way
        });
        self.room = ROOM.max(2 * self.under_way.len());
    }

    /// The power fails at `now`: commands that have not ended do not end, and count for nothing.
    pub fn cut(&mut self, now: Nanos) {
        for command in std::mem::take(&mut self.under_way) {
            let SlowCommand { operation, begin, end, ref parts, .. } = command;
            match end > now {
                true => self.sums.remove(operation, end - begin, parts),
                false => keep(&mut self.slowest, &command),
            }
        }
    }

    /// The means of the operations that there were, by their names.
    pub fn means(&self) -> BTreeMap<String, LatencyMeans> {
        self.sums.means()
    }

    /// The slowest, of each operation the slowest first; those under way among them.
    pub fn slowest(&self) -> Vec<SlowCommand> {
        let mut slowest = self.slowest.clone();
        self.under_way.iter().for_each(|command| keep(&mut slowest, command));
        slowest.sorted()
    }

    /// Returns the times of the commands after `before`. The slowest ones are those since
    /// [`Self::begin`].
    #[must_use]
    pub fn since(self, before: &Self) -> Self {
        Self { sums: self.sums.since(&before.sums), ..self }
    }

    /// Forgets the slowest. What is under way stays in the sums, whatever becomes of it.
    pub fn begin(&mut self) {
        self.slowest.clear();
        self.under_way.clear();
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.begin();
        self.sums = SumsByOperation::default();
    }
}

/// Keeps a command that is among the slowest.
#[inline]
fn keep(slowest: &mut SlowestByOperation<SlowCommand>, command: &SlowCommand) {
    slowest.record(command.operation, command.end - command.begin, || *command);
}

/// A model's commands.
#[derive(Debug, Default)]
pub struct CommandLog {
    times: CommandTimes,
    spans: Option<Box<CommandSpans>>,
}

impl CommandLog {
    /// Takes a command, which may end later.
    #[inline]
    pub fn record(&mut self, command: SlowCommand) {
        if let Some(spans) = &mut self.spans {
            spans.push(&command, None, None);
        }
        self.times.record(command.begin, command);
    }

    /// The power fails at `now`, see [`CommandTimes::cut`].
    pub fn cut(&mut self, now: Nanos) {
        self.times.cut(now);
    }

    /// The report; none without a command.
    pub fn inside(&self) -> Option<Inside> {
        let latency = self.times.means();
        (!latency.is_empty()).then(|| Inside::Commands { latency, slowest: self.slowest() })
    }

    /// The slowest, of each operation the slowest first.
    pub fn slowest(&self) -> Vec<SlowCommand> {
        self.times.slowest()
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.times.clear();
    }

    /// Keeps each command from now on ([`crate::Model::watch`]).
    pub fn watch(&mut self, owner: &str, tracks: &mut Tracks) {
        self.spans = Some(Box::new(CommandSpans::new(owner, tracks)));
    }

    /// Hands over the spans of the commands.
    pub fn take_spans(&mut self, spans: &mut Spans) {
        if let Some(own) = &mut self.spans {
            own.take(spans);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::timeline::Step;

    fn command(begin: Nanos, parts: Parts<Nanos>) -> SlowCommand {
        let mut command = SlowCommand {
            operation: Operation::Read,
            offset: 512,
            bytes: 4096,
            begin,
            end: 0,
            parts,
        };
        command.end = begin + sum(&command);
        command
    }

    #[test]
    fn a_command_is_its_parts_one_after_the_other() {
        let (mut tracks, mut log) = (Tracks::default(), CommandLog::default());
        log.record(command(0, Parts { service: 1, ..Parts::default() }));
        log.watch("d", &mut tracks);
        let parts = Parts { gc: 5, cell: 7, controller: 2, ..Parts::default() };
        log.record(command(10, parts));
        // At the same time, when it has ended, and a moment later; one that takes no time.
        log.record(command(20, parts));
        log.record(command(24, parts));
        log.record(command(25, parts));
        log.record(command(50, Parts::default()));
        let mut spans = Spans::default();
        log.take_spans(&mut spans);
        let shown: Vec<_> = spans.kept().iter().map(|s| (s.lane, s.step, s.begin, s.end)).collect();
        let first =
            [(0, Step::Controller, 10, 12), (0, Step::Gc, 12, 17), (0, Step::Cells, 17, 24)];
        assert_eq!(shown[..3], first);
        let lanes: Vec<_> = shown.chunks(3).map(|spans| spans[0].0).collect();
        assert_eq!(lanes, [0, 1, 2, 0]);
        assert!(spans.kept().iter().all(|span| (span.offset, span.bytes) == (512, 4096)));
        assert_eq!(log.slowest().len(), 6);
        let Some(Inside::Commands { latency, .. }) = log.inside() else { panic!("six commands") };
        let read = latency["read"];
        assert_eq!((read.count, read.latency, read.parts.cell), (6, 9.5, 4.667));
        log.clear();
        assert_eq!(log.inside(), None);
    }

    /// At `begin`, and for so long.
    fn lasting(begin: Nanos, service: Nanos) -> SlowCommand {
        command(begin, Parts { service, ..Parts::default() })
    }

    #[test]
    fn a_power_cut_takes_what_has_not_ended() {
        let mut times = CommandTimes::default();
        // Many of 5 ns; 30 of 1 us, of which those from the 10th on have not ended.
        (0..100).for_each(|number| times.record(10 * number, lasting(10 * number, 5)));
        (0..30).for_each(|number| times.record(1000 + number, lasting(1000 + number, 1000)));
        let read = |times: &CommandTimes| times.means()["read"];
        assert_eq!((read(&times).count, times.slowest()[0].end), (130, 2000));
        times.cut(2009);
        assert_eq!((read(&times).count, read(&times).latency), (110, 95.455));
        // Commands that were pushed out of the slowest are there again.
        let ends: Vec<_> = times.slowest().iter().map(|command| command.end).collect();
        assert_eq!((&ends[..10], ends.len()), (&(2000..2010).collect::<Vec<_>>()[..], 20));
        // Commands before the measurement are not taken twice.
        let mut later = times.clone();
        later.record(3000, lasting(3000, 100));
        later.begin();
        let before = later.clone();
        later.record(3001, lasting(3001, 100));
        later.cut(3050);
        assert!(later.clone().since(&before).means().is_empty());
        assert!(later.slowest().is_empty());
    }

    proptest! {
        /// Without a power cut the slowest are those of all, in whatever order they end.
        #[test]
        fn the_slowest_are_those_of_all(
            all in prop::collection::vec((0u64..20, 1u64..5_000), 0..300),
            cut in 0u64..4_000,
        ) {
            let (mut times, mut slowest) = (CommandTimes::default(), Vec::new());
            let mut now = 0;
            for (gap, service) in all {
                now += gap;
                times.record(now, lasting(now, service));
                slowest.push(lasting(now, service));
            }
            let latencies = |all: &[SlowCommand]| {
                let mut all: Vec<_> = all.iter().map(|one| one.end - one.begin).collect();
                all.sort_unstable_by(|a, b| b.cmp(a));
                all.truncate(20);
                all
            };
            prop_assert_eq!(latencies(&times.slowest()), latencies(&slowest));
            let at = now.saturating_add(cut);
            times.cut(at);
            slowest.retain(|command| command.end <= at);
            prop_assert_eq!(latencies(&times.slowest()), latencies(&slowest));
            let count = times.means().get("read").map_or(0, |means| means.count);
            prop_assert_eq!(count, slowest.len() as u64);
        }
    }
}
