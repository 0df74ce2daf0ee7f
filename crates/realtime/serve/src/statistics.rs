//! Counters of a drive, and the durations of its operations.

use hdrhistogram::Histogram;
use serde::Serialize;
use stasis_block::clock::Nanos;
use stasis_block::Operation;
use stasis_run_events::IoRecord;

/// Counts since the server began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards and writes of zeroes.
    pub discards: u64,
    /// Failed ones of all these.
    pub failed: u64,
    /// Faults of the guest or the client that ended its queues or connection.
    pub faults: u64,
    /// Requests that an earlier server had left under way.
    pub resumed: u64,
    /// Clients that connected.
    pub connections: u64,
    /// Clients that were turned away.
    pub refused: u64,
    /// Accesses to a vfio-user device's registers that trapped into a message.
    pub trapped: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, record: &IoRecord) {
        self.failed += u64::from(record.failed());
        let bytes = if record.failed() { 0 } else { record.bytes };
        match record.operation {
            Operation::Read => {
                self.reads += 1;
                self.read_bytes += bytes;
            }
            Operation::Write => {
                self.writes += 1;
                self.written_bytes += bytes;
            }
            Operation::Flush => self.flushes += 1,
            _ => self.discards += 1,
        }
    }
}

/// Histogram of durations.
#[derive(Debug, Clone)]
pub struct Durations(Histogram<u64>);

/// Longest duration that is distinguished (ns): longer ones count as this.
const MAX_DURATION: u64 = 60_000_000_000;

impl Default for Durations {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_DURATION, 3);
        // The bounds are right: three digits, 1 to a minute.
        Self(histogram.unwrap_or_else(|_| Histogram::new(3).expect("three digits are possible")))
    }
}

impl Durations {
    pub(crate) fn add(&mut self, nanos: Nanos) {
        self.0.saturating_record(nanos.clamp(1, MAX_DURATION));
    }

    /// Summary of the distribution.
    pub fn summary(&self) -> Summary {
        let at = |quantile| self.0.value_at_quantile(quantile);
        Summary {
            count: self.0.len(),
            mean_ns: if self.0.is_empty() { 0.0 } else { self.0.mean() },
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.0.max(),
        }
    }
}

/// A distribution in a few numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Number of durations.
    pub count: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// Their median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The largest.
    pub max_ns: u64,
}

/// Durations of operations.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    read: Durations,
    write: Durations,
    flush: Durations,
    /// Difference from the model's time at which completions were seen in the ring.
    error: Durations,
    /// Sum of the delays of late completions, less the lead of early ones (ns).
    late: i128,
    /// Sum of the latencies that the model asked for (ns).
    wanted: u128,
}

impl Times {
    pub(crate) fn add(&mut self, operation: Operation, nanos: Nanos) {
        match operation {
            Operation::Read => self.read.add(nanos),
            Operation::Write => self.write.add(nanos),
            Operation::Flush => self.flush.add(nanos),
            _ => {}
        }
    }

    /// Counts a completion that was due at `due` and delivered at `delivered`.
    pub(crate) fn add_error(&mut self, submit: Nanos, due: Nanos, delivered: Nanos) {
        self.error.add(delivered.abs_diff(due));
        self.late += i128::from(delivered) - i128::from(due);
        self.wanted += u128::from(due.saturating_sub(submit));
    }

    /// The mean latency that the model has asked for (ns), once that is one of many I/Os.
    pub(crate) fn mean_wanted(&self) -> Option<Nanos> {
        /// I/Os whose mean says what the model is like.
        const MANY: u64 = 1_000;
        let count = self.error.0.len();
        (count >= MANY).then(|| (self.wanted / u128::from(count)) as Nanos)
    }
}

/// Report of a drive, for the control interface and the end of a run.
#[derive(Debug, Clone, Serialize)]
pub struct DriveReport {
    /// Its name.
    pub name: String,
    /// Its socket.
    pub socket: String,
    /// Its size in bytes.
    pub capacity: u64,
    /// Its model.
    pub model: String,
    /// Medium of its bytes.
    pub medium: String,
    /// The thread that serves it.
    pub thread: usize,
    /// True if a guest uses it now.
    pub in_use: bool,
    /// The guest's requests under way.
    pub in_flight: usize,
    /// Its counters.
    pub counts: Counts,
    /// Time from the sight of a read in the ring until that of its completion.
    pub read: Summary,
    /// Times of writes.
    pub write: Summary,
    /// Times of flushes.
    pub flush: Summary,
    /// Difference from the model's time, before or after it, at which completions were seen in the
    /// ring.
    pub timing_error: Option<Summary>,
    /// The mean of the same, with early completions as negative (ns).
    pub timing_bias_ns: Option<f64>,
    /// Shortest time of the way to the host, of an NVMe/TCP target: the shortest round trip that
    /// TCP has measured on an I/O queue's connection (ns). A host sees that much on top.
    pub way_ns: Option<u64>,
}

/// Present use of a drive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InUse {
    pub(crate) capacity: u64,
    pub(crate) in_use: bool,
    pub(crate) in_flight: usize,
    /// Shortest time of the way to the host, where it was measured.
    pub(crate) way: Option<Nanos>,
}

/// The part of a report that comes from the drive's thread.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) transport: InUse,
    pub(crate) counts: Counts,
    pub(crate) read: Summary,
    pub(crate) write: Summary,
    pub(crate) flush: Summary,
    pub(crate) timing_error: Option<Summary>,
    pub(crate) timing_bias_ns: Option<f64>,
}

impl Times {
    /// The snapshot of these durations, with the counters and the state of the transport.
    pub(crate) fn snapshot(&self, counts: Counts, transport: InUse) -> Snapshot {
        let error = self.error.summary();
        Snapshot {
            transport,
            counts,
            read: self.read.summary(),
            write: self.write.summary(),
            flush: self.flush.summary(),
            timing_bias_ns: (error.count > 0).then(|| self.late as f64 / error.count as f64),
            timing_error: (error.count > 0).then_some(error),
        }
    }
}
