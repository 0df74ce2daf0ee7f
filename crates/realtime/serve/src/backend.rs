//! A drive below the carrier of its requests: its store, and its counters.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stasis_block::clock::Nanos;
use stasis_block::{BlockLayout, Command, Refused};
use stasis_drive::{Done, DriveFault};
use stasis_run_events::{FaultRecord, IoRecord};

use crate::compensation::{LatencyCompensation, MAX_BY_MEMORY, MAX_BY_SOCKET};
use crate::io_records::IoRecordSender;
use crate::statistics::{Counts, Times};
use crate::store::Store;
use crate::ServeError;

/// Time that requests may take to end where their drive is to change, and those that a model
/// holds back where a block device is to end.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// A drive as all its carriers see it.
pub(crate) struct Backend {
    /// Its name, for messages.
    pub(crate) name: Arc<str>,
    pub(crate) store: Store,
    pub(crate) counts: Counts,
    pub(crate) times: Times,
    /// True if a model holds completions back.
    timed: bool,
    compensation: LatencyCompensation,
    /// Destination of its I/O records, if they are written.
    record: Option<IoRecordSender>,
    said_errors: u64,
    /// Faults of which it was said that they have happened, and records on their way.
    said_faults: Vec<u16>,
    fault_records: Vec<FaultRecord>,
    /// Number of changes of its NVMe state that the layout takes into account, and the layout of
    /// the host's blocks.
    known_changes: Option<u64>,
    layout: BlockLayout,
    pub(crate) epoll: Arc<OwnedFd>,
}

impl Backend {
    pub(crate) fn new(
        name: Arc<str>,
        store: Store,
        record: Option<IoRecordSender>,
        epoll: Arc<OwnedFd>,
    ) -> Result<Self, ServeError> {
        store.register(&epoll)?;
        let timed = store.drive.lock().is_timed();
        let (counts, times) = Default::default();
        let compensation = LatencyCompensation::new(MAX_BY_MEMORY);
        let (said_errors, known_changes, layout) = (0, None, BlockLayout::default());
        Ok(Self {
            name,
            store,
            counts,
            times,
            timed,
            compensation,
            record,
            said_errors,
            said_faults: Vec::new(),
            fault_records: Vec::new(),
            known_changes,
            layout,
            epoll,
        })
    }

    /// Makes the drive one whose completions are sent by sockets.
    pub(crate) fn with_sockets(self) -> Self {
        Self { compensation: LatencyCompensation::new(MAX_BY_SOCKET), ..self }
    }

    /// Updates the layout of the host's blocks, which formats change: `changes` of the NVMe state
    /// in all.
    pub(crate) fn look_at_layout(&mut self, changes: u64, layout: impl FnOnce() -> BlockLayout) {
        if self.known_changes.replace(changes) == Some(changes) {
            return;
        }
        let layout = layout();
        if layout != self.layout {
            self.store.set_layout(&layout);
            self.layout = layout;
        }
    }

    /// Returns the time at which a completion is to be begun, so that its host has it on time.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let early = if self.timed { self.compensation.nanos() } else { 0 };
        self.store.next_event().map(|at| at.saturating_sub(early))
    }

    /// Returns whether a model holds completions back, from now on.
    pub(crate) fn set_timed(&mut self, timed: bool) {
        self.timed = timed;
    }

    /// Handles the requests that have ended by `now`, or will have once the guest can see it;
    /// returns whether anything happened.
    pub(crate) fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) -> bool {
        let compensation = if self.timed { self.compensation.nanos() } else { 0 };
        let work = self.store.advance(now + compensation, done);
        if self.store.has_faults() {
            self.report_faults();
        }
        work
    }

    /// The drive has one more fault from `now` (ns) on.
    ///
    /// # Errors
    /// The reason why it cannot have it.
    pub(crate) fn add_fault(&mut self, now: Nanos, fault: DriveFault) -> Result<(), String> {
        let (number, kind) = (fault.number, fault.kind.name());
        self.store.add_fault(now, fault)?;
        crate::log::say(&self.name, &format!("fault {number} begins: {kind}"));
        Ok(())
    }

    /// Ends a fault at `now` (ns). Returns how often it has happened.
    ///
    /// # Errors
    /// Names the faults that there are, if it is none of them.
    pub(crate) fn end_fault(&mut self, number: u16, now: Nanos) -> Result<u64, String> {
        self.report_faults();
        let Some(happened) = self.store.end_fault(number, now) else {
            let there: Vec<_> =
                self.store.faults().iter().map(|one| one.number.to_string()).collect();
            return Err(match there.is_empty() {
                true => format!("it has no fault {number}, and no other"),
                false => format!("it has no fault {number}: it has {}", there.join(", ")),
            });
        };
        self.said_faults.retain(|one| *one != number);
        let message = format!("fault {number} is over; it has happened {happened} times");
        crate::log::say(&self.name, &message);
        Ok(happened)
    }

    /// Writes the faults that have happened down, and says so once of each.
    fn report_faults(&mut self) {
        self.store.take_faults(&mut self.fault_records);
        for record in self.fault_records.drain(..) {
            if !self.said_faults.contains(&record.fault) {
                self.said_faults.push(record.fault);
                let FaultRecord { fault, offset, length, .. } = record;
                let message = format!(
                    "fault {fault} has happened, first to {length} bytes at {offset} (said once; each is \
                     in the results)"
                );
                crate::log::say(&self.name, &message);
            }
            if let Some(records) = &self.record {
                records.put_fault(record);
            }
        }
    }

    /// Hands requests back to the guest, each by `to`, and counts it as of when the guest can see it.
    pub(crate) fn hand_back(
        &mut self,
        done: &mut Vec<Done>,
        clock: &impl Fn() -> Nanos,
        mut to: impl FnMut(Done),
    ) {
        for done in done.drain(..) {
            let counted = Counted::from(&done);
            to(done);
            self.count(&counted, clock());
        }
    }

    /// Counts a request, whose completion is visible as of `delivered`.
    pub(crate) fn count(&mut self, done: &Counted, delivered: Nanos) {
        let mut record = IoRecord { delivered, ..done.0 };
        if !self.layout.is_plain() {
            let on_drive = Command::new(record.operation, record.offset, record.bytes);
            let IoRecord { offset, bytes, .. } = IoRecord::of(&self.layout.of_data(&on_drive));
            (record.offset, record.bytes) = (offset, bytes);
        }
        self.counts.add(&record);
        self.times.add(record.operation, delivered.saturating_sub(record.submit));
        if self.timed {
            self.times.add_error(record.submit, record.target, delivered);
            self.compensation.learn(record.target, delivered);
        }
        if let Some(records) = &self.record {
            records.put(record);
        }
    }

    /// The mean latency that the model has asked for (ns), once that is one of many I/Os.
    pub(crate) fn mean_wanted(&self) -> Option<Nanos> {
        self.times.mean_wanted().filter(|_| self.timed)
    }

    /// Counts a request that the device has refused at `now`.
    pub(crate) fn count_refused(&mut self, refused: &Refused, now: Nanos) {
        let record = IoRecord::of_refused(refused, now);
        self.counts.add(&record);
        if let Some(records) = &self.record {
            records.put(record);
        }
    }

    /// Logs the first error of the medium.
    pub(crate) fn report_errors(&mut self) {
        if let Some(error) = self.store.take_error() {
            // The first error stands for all.
            self.said_errors += 1;
            if self.said_errors == 1 {
                let message = format!("{error} (said once; later ones are counted)");
                crate::log::warn(&self.name, &message);
            }
        }
    }

    /// Waits until nothing is under way in the store, `limit` at most; `complete` gets the requests
    /// that end meanwhile. Returns whether nothing is left.
    pub(crate) fn quiesce(
        &mut self,
        clock: &impl Fn() -> Nanos,
        limit: Instant,
        mut complete: impl FnMut(&mut Self, &mut Vec<Done>),
    ) -> bool {
        let mut done = Vec::new();
        while self.store.in_flight() > 0 {
            let work = self.advance(clock(), &mut done);
            complete(self, &mut done);
            done.clear();
            if !work {
                if Instant::now() > limit {
                    return false;
                }
                std::thread::yield_now();
            }
        }
        true
    }

    /// Has the model and faults hold nothing back any more: requests that the medium has done are done.
    pub(crate) fn release(&mut self, now: Nanos) {
        let faults: Vec<_> = self.store.faults().iter().map(|fault| fault.number).collect();
        for number in faults {
            let _ = self.end_fault(number, now);
        }
        self.set_timed(false);
        self.store.drive.lock().set_model(now, None);
    }

    /// Makes all durable and closes it. `idle`: nothing is under way.
    pub(crate) fn finish(mut self, idle: bool) -> Result<(), String> {
        if !idle {
            return Err(format!(
                "{} requests have not ended in time; what was not flushed may be lost",
                self.store.in_flight()
            ));
        }
        match self.store.flush() {
            true => Ok(()),
            false => Err("the last flush failed; what was not flushed may be lost".into()),
        }
    }
}

/// Counted part of a request, without the time when the guest sees its end.
pub(crate) struct Counted(IoRecord);

impl From<&Done> for Counted {
    fn from(done: &Done) -> Self {
        let record = done.record();
        Self(IoRecord { code: record.failed().into(), ..record })
    }
}
