//! Commands of the host's as a model tells them: the slowest, and while the drive is watched each
//! with the parts of its time.

use crate::clock::Nanos;
use crate::inside::{Inside, SlowCommand, SumsByOperation};
use crate::slowest::SlowestByOperation;
use crate::timeline::{Cause, Span, Spans, Track, TrackKind, Tracks, Whom};

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

/// A model's commands.
#[derive(Debug, Default)]
pub struct CommandLog {
    slowest: SlowestByOperation<SlowCommand>,
    sums: SumsByOperation,
    spans: Option<Box<CommandSpans>>,
}

impl CommandLog {
    /// Takes a command.
    #[inline]
    pub fn record(&mut self, command: SlowCommand) {
        let SlowCommand { operation, begin, end, ref parts, .. } = command;
        self.sums.add(operation, end - begin, parts);
        if let Some(spans) = &mut self.spans {
            spans.push(&command, None, None);
        }
        self.slowest.record(operation, end - begin, || command);
    }

    /// The report; none without a command.
    pub fn inside(&self) -> Option<Inside> {
        let latency = self.sums.means();
        (!latency.is_empty()).then(|| Inside::Commands { latency, slowest: self.slowest() })
    }

    /// The slowest, of each operation the slowest first.
    pub fn slowest(&self) -> Vec<SlowCommand> {
        self.slowest.sorted()
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.slowest.clear();
        self.sums = SumsByOperation::default();
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
    use super::*;
    use crate::inside::Parts;
    use crate::timeline::Step;
    use crate::Operation;

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
}
