//! A medium of which some pieces lie elsewhere: a drive that holds images which are separate files
//! on the host.

use std::os::fd::RawFd;

use slab::Slab;
use stasis_block::{Command, Operation, Request, Tag};

use crate::medium::check;
use crate::{Finished, HostMedium, Medium, MediumError};

/// A medium in which other media take the place of some of its bytes.
///
/// A flush covers all of them. Where not all read a discarded range as zeroes, a discard changes
/// nothing.
pub struct Pieces {
    // The whole one first.
    media: Vec<Box<dyn HostMedium>>,
    // In order, without gaps.
    spans: Vec<Span>,
    capacity: u64,
    discard_zeroes: bool,
    jobs: Slab<Job>,
    parts: Slab<Part>,
    // Done without a medium, or while another was looked for.
    early: Vec<Finished>,
    finished: Vec<Finished>,
}

/// Error of a piece at an impossible place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a piece of {length} bytes from {offset} on is past the medium's end, or meets another")]
pub struct PieceError {
    /// Its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// Bytes that lie together in one medium.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u64,
    end: u64,
    medium: usize,
    /// Place where the medium itself begins.
    origin: u64,
}

/// An I/O as it was submitted.
#[derive(Debug)]
struct Job {
    tag: Tag,
    // With its parts while those have it.
    data: Vec<u8>,
    pending: usize,
    error: Option<MediumError>,
}

/// One medium's part of an I/O.
#[derive(Debug)]
struct Part {
    job: usize,
    share: Share,
}

#[derive(Debug)]
enum Share {
    /// All of it, with its buffer.
    Whole,
    /// Data that was read goes to this place of its buffer.
    ReadTo(usize),
    /// Nothing comes back.
    Other,
}

impl Pieces {
    /// Lets each medium of `pieces` lie at its place in `whole`; nothing is under
    /// way in any.
    ///
    /// # Errors
    /// [`PieceError`] for one that does not fit, or meets another.
    pub fn new(
        whole: Box<dyn HostMedium>,
        pieces: Vec<(u64, Box<dyn HostMedium>)>,
    ) -> Result<Self, PieceError> {
        let capacity = whole.capacity();
        let discard_zeroes =
            whole.discard_zeroes() && pieces.iter().all(|(_, piece)| piece.discard_zeroes());
        let mut order: Vec<usize> = (0..pieces.len()).collect();
        order.sort_by_key(|&index| pieces[index].0);
        let (mut spans, mut at) = (Vec::new(), 0);
        let own = |start, end| Span { start, end, medium: 0, origin: 0 };
        for index in order {
            let (offset, length) = (pieces[index].0, pieces[index].1.capacity());
            let end = offset.checked_add(length).filter(|&end| at <= offset && end <= capacity);
            let Some(end) = end else { return Err(PieceError { offset, length }) };
            if at < offset {
                spans.push(own(at, offset));
            }
            spans.push(Span { start: offset, end, medium: index + 1, origin: offset });
            at = end;
        }
        if at < capacity {
            spans.push(own(at, capacity));
        }
        let media = std::iter::once(whole).chain(pieces.into_iter().map(|(_, piece)| piece));
        Ok(Self {
            media: media.collect(),
            spans,
            capacity,
            discard_zeroes,
            jobs: Slab::default(),
            parts: Slab::default(),
            early: Vec::new(),
            finished: Vec::new(),
        })
    }

    /// The number of the span with the byte at `offset`; of the last one for the
    /// end.
    fn span(&self, offset: u64) -> usize {
        self.spans
            .partition_point(|span| span.end <= offset)
            .min(self.spans.len().saturating_sub(1))
    }

    fn end(&mut self, tag: Tag, result: Result<(), MediumError>, data: Vec<u8>) {
        self.early.push(Finished { tag, result, data });
    }

    /// Submits all of an I/O to one medium.
    fn pass(&mut self, tag: Tag, medium: usize, command: Command, data: Vec<u8>) {
        let job = self.jobs.insert(Job { tag, data: Vec::new(), pending: 1, error: None });
        self.give(job, Share::Whole, medium, command, data);
    }

    fn give(&mut self, job: usize, share: Share, medium: usize, command: Command, data: Vec<u8>) {
        let part = self.parts.insert(Part { job, share });
        self.media[medium].submit(Request::new(part as Tag, command, data));
    }

    /// Submits the same to every medium.
    fn give_all(&mut self, tag: Tag, command: Command, data: Vec<u8>) {
        let pending = self.media.len();
        let job = self.jobs.insert(Job { tag, data, pending, error: None });
        for medium in 0..pending {
            self.give(job, Share::Other, medium, command, Vec::new());
        }
    }

    /// Submits its share of a range to each medium.
    fn divide(&mut self, tag: Tag, command: Command, data: Vec<u8>) {
        let end = command.offset + command.length;
        let (first, last) = (self.span(command.offset), self.span(end.saturating_sub(1)));
        if first >= last {
            let Span { medium, origin, .. } = self.spans[first];
            let command = Command { offset: command.offset - origin, ..command };
            return self.pass(tag, medium, command, data);
        }
        let pending = last - first + 1;
        let job = self.jobs.insert(Job { tag, data, pending, error: None });
        for number in first..=last {
            let span = self.spans[number];
            let (from, to) = (span.start.max(command.offset), span.end.min(end));
            let share = Command { offset: from - span.origin, length: to - from, ..command };
            let place = (from - command.offset) as usize;
            let length = share.length as usize;
            let (kind, buffer) = match command.operation {
                Operation::Read => (Share::ReadTo(place), vec![0; length]),
                Operation::Write => {
                    let data = self.jobs.get_mut(job).map_or(&[][..], |job| &job.data);
                    (Share::Other, data[place..place + length].to_vec())
                }
                _ => (Share::Other, Vec::new()),
            };
            self.give(job, kind, span.medium, share, buffer);
        }
    }

    fn copy(&mut self, tag: Tag, command: Command, data: Vec<u8>) {
        let Command { source, offset, length, .. } = command;
        let place = |at: u64| {
            let span = self.spans[self.span(at)];
            (at + length <= span.end).then_some((span.medium, span.origin))
        };
        match (place(source), place(offset)) {
            (Some(from), Some(to)) if from == to => {
                let (medium, origin) = to;
                let (source, offset) = (source - origin, offset - origin);
                self.pass(tag, medium, Command { source, offset, ..command }, data);
            }
            _ => self.end(
                tag,
                Err(MediumError::Apart { source_offset: source, offset, length }),
                data,
            ),
        }
    }

    /// Brings the media's finished parts to their I/Os.
    fn settle(&mut self, done: &mut Vec<Finished>) {
        for Finished { tag, result, data } in self.finished.drain(..) {
            let part = self.parts.try_remove(tag as usize);
            let Some(Part { job: number, share }) = part else {
                debug_assert!(false, "a medium finished what it was not given");
                continue;
            };
            let Some(job) = self.jobs.get_mut(number) else { continue };
            match (share, &result) {
                (Share::Whole, _) => job.data = data,
                (Share::ReadTo(at), Ok(())) => job.data[at..at + data.len()].copy_from_slice(&data),
                _ => {}
            }
            if let Err(error) = result {
                job.error.get_or_insert(error);
            }
            job.pending -= 1;
            if job.pending == 0 {
                let Job { tag, data, error, .. } = self.jobs.remove(number);
                done.push(Finished { tag, result: error.map_or(Ok(()), Err), data });
            }
        }
    }
}

impl Medium for Pieces {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn submit(&mut self, request: Request) {
        let Request { tag, command, data, .. } = request;
        if let Err(error) = check(&command, data.len(), self.capacity) {
            return self.end(tag, Err(error), data);
        }
        match command.operation {
            Operation::Flush => self.give_all(tag, command, data),
            // Order is the drive's.
            Operation::Barrier => self.end(tag, Ok(()), data),
            Operation::Discard if !self.discard_zeroes => match command.fua {
                true => self.give_all(tag, Command::flush(), data),
                false => self.end(tag, Ok(()), data),
            },
            Operation::Copy => self.copy(tag, command, data),
            _ => self.divide(tag, command, data),
        }
    }

    fn poll(&mut self, done: &mut Vec<Finished>) {
        done.append(&mut self.early);
        self.media.iter_mut().for_each(|medium| medium.poll(&mut self.finished));
        self.settle(done);
    }

    fn wait(&mut self, done: &mut Vec<Finished>) {
        let before = done.len();
        self.poll(done);
        while done.len() == before {
            let busy = self.media.iter_mut().find(|medium| medium.in_flight() > 0);
            let Some(medium) = busy else { return };
            medium.wait(&mut self.finished);
            self.settle(done);
        }
    }

    fn in_flight(&self) -> usize {
        self.early.len() + self.jobs.len()
    }
    fn discard_zeroes(&self) -> bool {
        self.discard_zeroes
    }
}

impl HostMedium for Pieces {
    fn needs_poll(&self) -> bool {
        !self.early.is_empty() || self.media.iter().any(|medium| medium.needs_poll())
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.media.iter().flat_map(|medium| medium.descriptors()).collect()
    }
}
