//! Parts of the time of each I/O: the commands of a timeline, and the I/Os that they were.

use std::collections::btree_map::BTreeMap;
use std::collections::VecDeque;
use std::path::Path;

use stasis_block::clock::Nanos;
use stasis_block::inside::Parts;
use stasis_block::timeline::{Cause, Span, TrackKind, What};
use stasis_run_events::IoRecord;

use crate::{KeptSpans, ResultsError};

/// A command of the host's at a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToldCommand {
    /// Its operation.
    pub activity: What,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Time at which the drive got it (ns).
    pub begin: Nanos,
    /// Time at which the drive completed it (ns).
    pub end: Nanos,
    /// Parts of its time (ns).
    pub parts: Parts<Nanos>,
    /// The NAND operation whose end completed it, by its number, and for whom that was.
    pub after: Option<(u64, Cause)>,
    /// Its number among the drive's submissions, where the timeline has it.
    pub number: Option<u64>,
}

impl ToldCommand {
    fn of(span: &Span) -> Self {
        let &Span { activity, offset, bytes, begin, end, number, cause, whom, .. } = span;
        let after = (cause != Cause::None).then_some((number, cause));
        let (parts, number) = (Parts::default(), whom.first_command());
        Self { activity, offset, bytes, begin, end, parts, after, number }
    }

    fn add(&mut self, span: &Span) {
        self.end = span.end;
        if let Some(part) = self.parts.of_step(span.step) {
            *part += span.end - span.begin;
        }
    }
}

/// The commands of one drive, or of all, from the spans of a timeline one after the other.
#[derive(Debug, Default)]
pub struct Collector {
    /// Command of each track and lane whose parts come.
    under_way: BTreeMap<(u32, u16), ToldCommand>,
}

impl Collector {
    /// Takes the next span of a command's track; the command before it on its lane, which is whole
    /// now.
    pub fn take(&mut self, span: &Span) -> Option<ToldCommand> {
        let lane = self.under_way.entry((span.track, span.lane));
        let command = lane.or_insert_with(|| ToldCommand::of(span));
        if command.begin == span.begin || command.end == span.begin {
            command.add(span);
            return None;
        }
        let whole = std::mem::replace(command, ToldCommand::of(span));
        command.add(span);
        Some(whole)
    }

    /// Returns the commands that are under way.
    pub fn rest(self) -> impl Iterator<Item = ToldCommand> {
        self.under_way.into_values()
    }
}

/// By which a command and an I/O are known as one, besides its place: operation, length, and when it
/// ended.
type Key = (u8, u64, Nanos);

/// A request at a shared drive.
#[derive(Debug, Clone, Copy)]
struct Request {
    /// Its number among the drive's submissions.
    number: Option<u64>,
    /// Time at which it was sent (ns).
    sent: Nanos,
}

impl Request {
    /// Returns whether it is this command, of the same length and end.
    fn is(&self, command: &ToldCommand) -> bool {
        match (self.number, command.number) {
            (Some(number), Some(other)) => number == other,
            _ => command.begin == self.sent,
        }
    }
}

/// The commands of a whole timeline, to be found by their I/Os.
#[derive(Debug, Default)]
pub struct ToldCommands {
    drives: BTreeMap<String, BTreeMap<Key, VecDeque<ToldCommand>>>,
    /// The drive that served each request to a disk on a shared one, by the disk's name and the
    /// request's number there.
    requests: BTreeMap<(String, u64), (String, Request)>,
}

impl ToldCommands {
    /// Reads the commands of a folder of results; `None` where the folder has no timeline.
    ///
    /// # Errors
    /// If the timeline cannot be read.
    pub fn read(folder: &Path) -> Result<Option<Self>, ResultsError> {
        Self::read_those(folder, |_| true)
    }

    /// Like [`Self::read`], but reads only the commands that `keeps` takes.
    pub fn read_those(
        folder: &Path,
        keeps: impl Fn(&ToldCommand) -> bool,
    ) -> Result<Option<Self>, ResultsError> {
        let Some(mut spans) = KeptSpans::open(folder)? else { return Ok(None) };
        let mut all = Self::default();
        let mut collectors: BTreeMap<String, Collector> = BTreeMap::new();
        while let Some((track, span)) = spans.next_span()? {
            if track.kind == TrackKind::Request {
                let key = (track.name.clone(), span.number);
                let request = Request { number: span.whom.first_command(), sent: span.begin };
                all.requests.insert(key, (track.owner.clone(), request));
            }
            if track.kind != TrackKind::Command {
                continue;
            }
            let collector = collectors.entry(track.owner.clone()).or_default();
            if let Some(command) = collector.take(&span).filter(&keeps) {
                all.add(&track.owner.clone(), command);
            }
        }
        for (drive, collector) in collectors {
            collector.rest().filter(&keeps).for_each(|command| all.add(&drive, command));
        }
        Ok(Some(all))
    }

    fn add(&mut self, drive: &str, command: ToldCommand) {
        let key = (command.activity as u8, command.bytes, command.end);
        let drive = self.drives.entry(drive.to_owned()).or_default();
        drive.entry(key).or_default().push_back(command);
    }

    /// The command that an I/O of a drive, or of a disk on one, was, and the drive; each is found
    /// once.
    pub fn take(&mut self, drive: &str, io: &IoRecord) -> Option<(String, ToldCommand)> {
        let key = (What::from(io.operation) as u8, io.bytes, io.model_end());
        let request = self.requests.get(&(drive.to_owned(), io.order));
        let (owner, request) = match request {
            Some((owner, request)) => (owner.clone(), Some(*request)),
            None => (drive.to_owned(), None),
        };
        let same = self.drives.get_mut(&owner)?.get_mut(&key)?;
        // Rows of earlier versions have no times of layers.
        let begins = |command: &ToldCommand| match io.model_begin() {
            begin if begin > io.submit => command.begin == begin,
            begin => begin <= command.begin,
        };
        let is = |command: &ToldCommand| match &request {
            // The disk has its own offsets.
            Some(request) => begins(command) && request.is(command),
            None => begins(command) && command.offset == io.offset,
        };
        let place = same.iter().position(is)?;
        same.remove(place).map(|command| (owner, command))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stasis_block::timeline::Step;

    #[test]
    fn commands_are_told_apart_on_their_lanes() {
        let span = |lane, step, begin, end| Span {
            lane,
            step,
            offset: 512,
            bytes: 4096,
            ..Span::new(3, What::Read, begin, end)
        };
        let mut collector = Collector::default();
        for part in [
            span(0, Step::Controller, 0, 2),
            span(0, Step::Queue, 2, 9),
            span(1, Step::Cells, 9, 12),
            span(0, Step::Cells, 9, 10),
        ] {
            assert_eq!(collector.take(&part), None, "{part:?}");
        }
        let first = collector.take(&Span {
            number: 7,
            cause: Cause::HostRead,
            ..span(0, Step::Gc, 11, 19)
        });
        let first = first.unwrap();
        let parts = Parts { controller: 2, queue: 7, cell: 1, ..Parts::default() };
        assert_eq!((first.begin, first.end, first.parts, first.after), (0, 10, parts, None));
        let rest: Vec<_> = collector.rest().map(|one| (one.begin, one.end, one.after)).collect();
        assert_eq!(rest, [(11, 19, Some((7, Cause::HostRead))), (9, 12, None)]);
    }
}
