//! The service of a volume: commands wait for its limits, and take their latency.

use stasis_block::clock::Nanos;
use stasis_block::inside::Parts;
use stasis_block::{Command, Operation, Random, TimePerByte, TokenBucket};

use super::limits::Limits;
use crate::kinds::rated::Draw;
use crate::latency::{in_parts, Latency};
use crate::span::Span;

/// Times and I/Os of a volume's commands.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) read: Draw,
    pub(super) write: Draw,
    pub(super) flush: Span,
    pub(super) discard: Span,
    /// Bytes up to which a command counts as one I/O.
    pub(super) io_size: u64,
    /// True if a command that continues the last of its direction first fills up its I/O.
    pub(super) merge: bool,
}

/// A place where a command would continue the last one of its direction.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// First byte behind that one.
    next: u64,
    /// Bytes that still belong to its last I/O.
    room: u64,
}

/// A volume; see the [module](super).
#[derive(Debug)]
pub struct Volume {
    service: Service,
    ios: [Option<TokenBucket>; 2],
    bytes: [Option<TokenBucket>; 2],
    /// The last runs of reads and of writes.
    runs: [Option<Run>; 2],
    /// Time of a byte at the highest rate.
    transfer_time: Option<TimePerByte>,
    random: Random,
    /// Time at which the last command went: no later one goes before it.
    started: Nanos,
    // Parts of the last command's time: its wait for the limits, and the transfer beyond its latency.
    wait: Nanos,
    transfer: Nanos,
}

impl Volume {
    pub(super) fn new(service: Service, limits: &Limits, seed: u64) -> Self {
        Self {
            service,
            ios: limits.ios.map_or([None, None], |limit| limit.buckets()),
            bytes: limits.bytes.map_or([None, None], |limit| limit.buckets()),
            runs: [None, None],
            transfer_time: limits.bytes.map(|limit| limit.highest().time_per_byte()),
            random: Random::new(seed),
            started: 0,
            wait: 0,
            transfer: 0,
        }
    }

    /// I/Os that a command counts as.
    fn count(&mut self, command: &Command) -> u64 {
        let &mut Self { service: Service { io_size, merge, .. }, ref mut runs, .. } = self;
        let length = command.length;
        if !merge {
            return length.div_ceil(io_size).max(1);
        }
        let run = &mut runs[usize::from(command.operation != Operation::Read)];
        let room = run.filter(|run| run.next == command.offset).map_or(0, |run| run.room);
        let beyond = length.saturating_sub(room);
        let ios = beyond.div_ceil(io_size).max(u64::from(room == 0));
        let rest = ios.saturating_mul(io_size).saturating_sub(beyond);
        let room = room.saturating_sub(length).saturating_add(rest);
        *run = Some(Run { next: command.offset.saturating_add(length), room });
        ios
    }
}

impl Latency for Volume {
    fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    fn tells(&self) -> bool {
        true
    }

    fn parts(&self, latency: Nanos) -> Parts<Nanos> {
        in_parts(latency, self.wait, self.transfer)
    }

    fn latency(&mut self, now: Nanos, command: &Command) -> Nanos {
        (self.wait, self.transfer) = (0, 0);
        let own = match command.operation {
            Operation::Flush => return self.service.flush.sample(&mut self.random),
            Operation::Discard => return self.service.discard.sample(&mut self.random),
            // The drive around the model completes them.
            Operation::Barrier => return 0,
            Operation::Read | Operation::Verify => self.service.read.sample(&mut self.random),
            Operation::Write | Operation::WriteZeroes | Operation::Copy => {
                self.service.write.sample(&mut self.random)
            }
        };
        let ios = self.count(command);
        // A command that is a part of the last one's I/O does not wait for I/Os.
        let counted = self.ios.iter().filter(|_| ios > 0);
        let ready = counted.chain(&self.bytes).flatten().map(TokenBucket::ready_at).max();
        let start = ready.unwrap_or(0).max(self.started).max(now);
        self.started = start;
        self.ios.iter_mut().flatten().for_each(|bucket| bucket.take(start, ios));
        self.bytes.iter_mut().flatten().for_each(|bucket| bucket.take(start, command.length));
        let moved = self.transfer_time.map_or(0, |time| time.times(command.length));
        (self.wait, self.transfer) = (start - now, moved.saturating_sub(own));
        self.wait.saturating_add(own).saturating_add(self.transfer)
    }
}
