//! Replay in a closed loop with a trace's think times: an I/O follows the completions that it
//! followed in the trace.
//!
//! An I/O waits for those of its process that had completed, in the trace, between the process's
//! I/O before it and itself. It is submitted when the last of them completes, and the time has
//! passed that had passed in the trace between the last of their completions and it: the think
//! time. If none had completed in between, it follows the process's I/O before it at the trace's
//! distance; a process's first one comes at its time in the trace. This is the dependency that
//! hfplayer infers (Haghdoost et al., "On the Accuracy and Scalability of Intensive I/O Workload
//! Replay", FAST 2017), within each process.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation};

use super::{End, Queued, Record};

/// I/Os that are read ahead: those of one process can be submitted long after another's that stand
/// behind them in the trace.
pub(super) const AHEAD: usize = 1 << 20;
/// Queued I/Os whose issue has not come yet.
const MAX_QUEUED: usize = 1 << 20;

/// An I/O that was read and not submitted.
#[derive(Debug)]
struct Pending {
    number: u64,
    record: Record,
    /// I/Os that it waits for and that have not completed.
    waits: usize,
    /// Time at which the last of those that have completed did.
    after: Option<Nanos>,
    /// From the last of their completions in the trace to it; without any, from the process's I/O
    /// before it.
    think: Nanos,
}

/// A process of the trace.
#[derive(Debug, Default)]
struct Process {
    /// Times at which its last I/O was issued in the trace, and submitted here.
    issued: Option<Nanos>,
    submitted: Option<Nanos>,
    /// Its I/Os that have completed in the trace since, and when the last of them did.
    ended: Vec<u64>,
    last_end: Nanos,
    pending: VecDeque<Pending>,
}

/// Dependencies of a trace's I/Os, and which of them can be submitted.
#[derive(Debug)]
pub(super) struct ThinkTimes {
    scale: f64,
    first: Option<Nanos>,
    now: Nanos,
    /// The number of the next I/O.
    next: u64,
    processes: BTreeMap<u32, Process>,
    /// I/Os under way in the trace: by their first byte and whether they are flushes, and whose.
    open: BTreeMap<(u64, bool), VecDeque<u64>>,
    owners: BTreeMap<u64, u32>,
    /// Completions whose times stand with the I/O.
    ends: BinaryHeap<Reverse<(Nanos, u64)>>,
    /// The process that queued an I/O: another may issue it.
    queued: BTreeMap<u64, u32>,
    /// I/Os that have completed here before anything that waits for them was read.
    completed: BTreeMap<u64, Nanos>,
    /// The process that waits for an I/O, and its I/O that does.
    waiters: BTreeMap<u64, (u32, u64)>,
    /// The next I/O of each process that waits for nothing: when, which, and whose.
    ready: BTreeSet<(Nanos, u64, u32)>,
    waiting: usize,
    /// Number of completions in the trace.
    completions: u64,
    backwards: u64,
    late: u64,
}

impl ThinkTimes {
    /// Makes an empty graph of dependencies; think times are multiplied by `scale`.
    pub(super) fn new(scale: f64) -> Self {
        Self {
            scale,
            first: None,
            now: 0,
            next: 0,
            processes: BTreeMap::new(),
            open: BTreeMap::new(),
            owners: BTreeMap::new(),
            ends: BinaryHeap::new(),
            queued: BTreeMap::new(),
            completed: BTreeMap::new(),
            waiters: BTreeMap::new(),
            ready: BTreeSet::new(),
            waiting: 0,
            completions: 0,
            backwards: 0,
            late: 0,
        }
    }

    /// Returns whether no more is to be read until some are submitted.
    pub(super) fn is_full(&self) -> bool {
        self.waiting >= AHEAD
    }

    /// Returns whether any completion has been read.
    pub(super) fn has_ends(&self) -> bool {
        self.completions > 0 || !self.ends.is_empty()
    }

    /// I/Os earlier in the trace than the one before them, and those that were read after the time
    /// at which they were due: more than [`AHEAD`] of others stood before them.
    pub(super) fn shifted(&self) -> (u64, u64) {
        (self.backwards, self.late)
    }

    /// A process has queued an I/O.
    pub(super) fn queued(&mut self, io: &Queued) {
        if self.queued.len() < MAX_QUEUED {
            self.queued.insert(io.offset, io.process);
        }
    }

    /// An I/O has completed in the trace.
    pub(super) fn ended(&mut self, end: &End) {
        self.ended_until(end.at);
        let key = (end.offset, end.flush);
        let Some(numbers) = self.open.get_mut(&key) else { return };
        let number = numbers.pop_front();
        if numbers.is_empty() {
            self.open.remove(&key);
        }
        number.into_iter().for_each(|number| self.end(number, end.at));
    }

    fn end(&mut self, number: u64, at: Nanos) {
        let Some(owner) = self.owners.remove(&number) else { return };
        self.completions += 1;
        let process = self.processes.entry(owner).or_default();
        process.last_end = if process.ended.is_empty() { at } else { process.last_end.max(at) };
        process.ended.push(number);
    }

    fn ended_until(&mut self, at: Nanos) {
        while let Some(&Reverse((end, number))) = self.ends.peek().filter(|end| end.0 .0 <= at) {
            self.ends.pop();
            self.end(number, end);
        }
    }

    /// The next I/O of the trace, as the trace has it; `command` is what it becomes here.
    pub(super) fn issued(&mut self, record: &Record, command: Command) {
        self.ended_until(record.at);
        let first = *self.first.get_or_insert(record.at);
        let number = self.next;
        self.next += 1;
        let owner = self.queuer(&record.command).unwrap_or(record.process);
        match record.ended {
            Some(end) => self.ends.push(Reverse((end, number))),
            None => {
                let flush = record.command.operation == Operation::Flush;
                self.open.entry((record.command.offset, flush)).or_default().push_back(number);
            }
        }
        self.owners.insert(number, owner);
        let process = self.processes.entry(owner).or_default();
        let before = match process.ended.is_empty() {
            false => process.last_end,
            true => process.issued.unwrap_or(first),
        };
        self.backwards += u64::from(process.issued.is_some_and(|issued| record.at < issued));
        process.issued = Some(process.issued.map_or(record.at, |issued| issued.max(record.at)));
        let think = (record.at.saturating_sub(before) as f64 * self.scale) as Nanos;
        let mut pending = Pending {
            number,
            record: Record { command, early: false, ..*record },
            waits: 0,
            after: None,
            think: if self.scale == 1.0 { record.at.saturating_sub(before) } else { think },
        };
        for ended in process.ended.drain(..) {
            match self.completed.remove(&ended) {
                Some(at) => pending.after = pending.after.max(Some(at)),
                None => {
                    pending.waits += 1;
                    self.waiters.insert(ended, (owner, number));
                }
            }
        }
        process.pending.push_back(pending);
        self.waiting += 1;
        if process.pending.len() == 1 {
            self.arm(owner, true);
        }
    }

    /// The process that queued the I/O, or the first part of it.
    fn queuer(&mut self, command: &Command) -> Option<u32> {
        let end = command.offset.saturating_add(command.length.max(1));
        let parts: Vec<_> = self.queued.range(command.offset..end).map(|(&at, _)| at).collect();
        let removed: Vec<_> = parts.iter().filter_map(|at| self.queued.remove(at)).collect();
        removed.first().copied()
    }

    /// Makes the process's next I/O ready, if it waits for nothing.
    fn arm(&mut self, owner: u32, read: bool) {
        let Some(process) = self.processes.get(&owner) else { return };
        let Some(next) = process.pending.front().filter(|next| next.waits == 0) else { return };
        let from = next.after.or(process.submitted).unwrap_or(0);
        let due = from.saturating_add(next.think);
        self.late += u64::from(read && due < self.now);
        let at = due.max(process.submitted.unwrap_or(0)).max(self.now);
        self.ready.insert((at, next.number, owner));
    }

    /// Time at which the next I/O is submitted.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.ready.first().map(|(at, ..)| *at)
    }

    /// Takes it, with its number.
    pub(super) fn take(&mut self) -> Option<(u64, Record)> {
        let (at, number, owner) = self.ready.pop_first()?;
        self.now = self.now.max(at);
        let process = self.processes.get_mut(&owner)?;
        let taken = process.pending.pop_front()?;
        debug_assert_eq!(taken.number, number);
        process.submitted = Some(self.now);
        self.waiting -= 1;
        self.arm(owner, false);
        Some((number, taken.record))
    }

    /// The I/O of this number has completed here.
    pub(super) fn complete(&mut self, at: Nanos, number: u64) {
        self.now = self.now.max(at);
        let Some((owner, waiter)) = self.waiters.remove(&number) else {
            self.completed.insert(number, at);
            return;
        };
        let Some(process) = self.processes.get_mut(&owner) else { return };
        let place = process.pending.partition_point(|one| one.number < waiter);
        let Some(waiting) = process.pending.get_mut(place) else { return };
        waiting.waits -= 1;
        waiting.after = waiting.after.max(Some(at));
        if place == 0 {
            self.arm(owner, false);
        }
    }
}
