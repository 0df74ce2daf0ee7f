//! A volume of a cloud: network storage whose provider bounds its I/Os and bytes a second.
//!
//! A limit is a rate, which may follow from the volume's size, with an optional bucket of credits:
//! these are spent at the burst's rate and come back at the limit's own (Amazon EBS User Guide,
//! "General Purpose SSD volumes": the burst bucket). A bucket is full at the start. Commands wait
//! for all limits in the order of submission, and complete one latency after they went, no sooner
//! than their bytes have moved at the highest rate. A command counts as one I/O for each `io_size`
//! bytes; with `merge` one that continues the last of its direction first fills up the I/O that
//! that one began. Providers do not say how evenly they let commands go: here they go at even
//! distances.

mod limits;
mod spec;

use stasis_block::clock::Nanos;
use stasis_block::inside::Parts;
use stasis_block::{Command, Operation, Random, TimePerByte, TokenBucket};

use self::limits::Limits;
pub use self::spec::{VolumeSpec, VolumeTier};
use crate::kinds::rated::Draw;
use crate::latency::Latency;
use crate::span::Span;

/// A place where a command would continue the last one of its direction.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// First byte behind that one.
    next: u64,
    /// Bytes that still belong to its last I/O.
    room: u64,
}

/// A volume; see the [module](self).
#[derive(Debug)]
pub struct Volume {
    read: Draw,
    write: Draw,
    flush: Span,
    discard: Span,
    ios: [Option<TokenBucket>; 2],
    bytes: [Option<TokenBucket>; 2],
    io_size: u64,
    /// Of reads and writes, where I/Os are merged.
    runs: Option<[Option<Run>; 2]>,
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
    fn new(spec: &VolumeSpec, limits: &Limits, seed: u64) -> Self {
        Self {
            read: spec.read.draw(),
            write: spec.write.draw(),
            flush: spec.flush,
            discard: spec.discard,
            ios: limits.ios.map_or([None, None], |limit| limit.buckets()),
            bytes: limits.bytes.map_or([None, None], |limit| limit.buckets()),
            io_size: spec.io_size.unwrap_or(u64::MAX),
            runs: spec.merge.then_some([None, None]),
            transfer_time: limits.bytes.map(|limit| limit.highest().time_per_byte()),
            random: Random::new(seed),
            started: 0,
            wait: 0,
            transfer: 0,
        }
    }

    /// I/Os that a command counts as.
    fn count(&mut self, command: &Command) -> u64 {
        let whole = |length: u64| length.div_ceil(self.io_size);
        let rest = |ios: u64, length: u64| ios.saturating_mul(self.io_size).saturating_sub(length);
        let Some(runs) = &mut self.runs else { return whole(command.length).max(1) };
        let run = &mut runs[usize::from(!matches!(command.operation, Operation::Read))];
        let room = run.filter(|run| run.next == command.offset).map_or(0, |run| run.room);
        let beyond = command.length.saturating_sub(room);
        let ios = if room > 0 { whole(beyond) } else { whole(beyond).max(1) };
        let room = room.saturating_sub(command.length).saturating_add(rest(ios, beyond));
        *run = Some(Run { next: command.offset.saturating_add(command.length), room });
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
        let (queue, transfer) = (self.wait, self.transfer);
        let service = latency.saturating_sub(queue.saturating_add(transfer));
        Parts { queue, transfer, service, ..Parts::default() }
    }

    fn latency(&mut self, now: Nanos, command: &Command) -> Nanos {
        (self.wait, self.transfer) = (0, 0);
        let own = match command.operation {
            Operation::Flush => return self.flush.sample(&mut self.random),
            Operation::Discard => return self.discard.sample(&mut self.random),
            // The drive around the model completes them.
            Operation::Barrier => return 0,
            Operation::Read | Operation::Verify => self.read.sample(&mut self.random),
            Operation::Write | Operation::WriteZeroes | Operation::Copy => {
                self.write.sample(&mut self.random)
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
