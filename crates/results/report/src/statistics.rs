//! Statistics of a drive's I/Os, kept until the end of a run.

use stasis_block::clock::Nanos;
use stasis_block::slowest::SlowestByOperation;
use stasis_block::Operation;
use stasis_run_events::IoRecord;

use crate::distribution::Distribution;
use crate::slowest::SlowIo;
use crate::summary::{DriveSummary, FirstError, OperationSummary};
use crate::timeline::{Point, Timeline};
use crate::Drive;

/// The time in which I/Os were under way: from the first submission to the last completion.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ActiveTime(Option<(Nanos, Nanos)>);

impl ActiveTime {
    pub(crate) fn record(&mut self, record: &IoRecord) {
        let (first, last) = self.0.unwrap_or((record.submit, record.delivered));
        self.0 = Some((first.min(record.submit), last.max(record.delivered)));
    }

    pub(crate) fn seconds(self) -> f64 {
        self.0.map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e9)
    }

    /// An amount for each second of it; 0 where it has no length.
    fn rate(self, amount: u64) -> f64 {
        match self.seconds() {
            0.0 => 0.0,
            seconds => amount as f64 / seconds,
        }
    }
}

/// Latencies as the model asked for them and as they were delivered. They are one distribution until
/// one differs, which none does where time stands still: half of the memory and of the sorting.
pub(crate) struct Latencies {
    target: Option<Distribution>,
    pub(crate) delivered: Distribution,
}

impl Latencies {
    fn new(bound: usize) -> Self {
        Self { target: None, delivered: Distribution::new(bound) }
    }

    fn record(&mut self, target: Nanos, delivered: Nanos) {
        if target != delivered && self.target.is_none() {
            self.target = Some(self.delivered.clone());
        }
        if let Some(targets) = &mut self.target {
            targets.record(target);
        }
        self.delivered.record(delivered);
    }

    pub(crate) fn target(&self) -> &Distribution {
        self.target.as_ref().unwrap_or(&self.delivered)
    }

    fn sort(&mut self) {
        self.target.iter_mut().for_each(Distribution::sort);
        self.delivered.sort();
    }
}

/// One operation of one drive.
pub(crate) struct OperationStatistics {
    pub(crate) count: u64,
    bytes: u64,
    errors: u64,
    active: ActiveTime,
    pub(crate) latencies: Latencies,
    pub(crate) timeline: Timeline,
}

impl OperationStatistics {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            count: 0,
            bytes: 0,
            errors: 0,
            active: ActiveTime::default(),
            latencies: Latencies::new(bound),
            timeline: Timeline::new(),
        }
    }

    pub(crate) fn record(&mut self, record: &IoRecord) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(record.bytes);
        self.errors += u64::from(record.failed());
        self.active.record(record);
        let latency = record.delivered.saturating_sub(record.submit);
        self.latencies.record(record.target.saturating_sub(record.submit), latency);
        let IoRecord { offset, bytes, order, .. } = *record;
        self.timeline.record(Point { at: record.delivered, latency, offset, bytes, order });
    }

    /// I/Os that failed.
    pub(crate) fn errors(&self) -> u64 {
        self.errors
    }

    /// Brings the latencies in order, as every figure wants them.
    pub(crate) fn sort(&mut self) {
        self.latencies.sort();
    }

    /// The figures, after [`Self::sort`].
    pub(crate) fn summary(&self) -> OperationSummary {
        let target = self.latencies.target().latency();
        let delivered = self.latencies.delivered.latency();
        OperationSummary {
            count: self.count,
            bytes: self.bytes,
            errors: self.errors,
            active_seconds: self.active.seconds(),
            iops: self.active.rate(self.count),
            bytes_per_second: self.active.rate(self.bytes),
            percentiles: self.latencies.delivered.method(),
            max_error_percent: delivered.largest_error_percent(&target),
            target_ns: target,
            delivered_ns: delivered,
            way_percent: None,
        }
    }
}

/// One drive.
pub(crate) struct DriveStatistics {
    pub(crate) drive: Drive,
    boot_ios: u64,
    refused: u64,
    first_error: Option<FirstError>,
    active: ActiveTime,
    slowest: SlowestByOperation<IoRecord>,
    /// In the order of [`Operation::ALL`].
    pub(crate) operations: [OperationStatistics; Operation::ALL.len()],
}

impl DriveStatistics {
    pub(crate) fn new(drive: Drive, bound: usize) -> Self {
        let operations = std::array::from_fn(|_| OperationStatistics::new(bound));
        Self {
            drive,
            boot_ios: 0,
            refused: 0,
            first_error: None,
            active: ActiveTime::default(),
            slowest: SlowestByOperation::default(),
            operations,
        }
    }

    pub(crate) fn record(&mut self, record: &IoRecord) {
        if record.boot {
            self.boot_ios += 1;
        } else if record.refused() {
            // Nothing of it is a drive's: no latency, no bytes.
            self.refused += 1;
        } else {
            if record.failed() && self.first_error.is_none() {
                let operation = record.operation.name().to_owned();
                self.first_error = Some(FirstError { operation, code: record.code, cause: None });
            }
            self.active.record(record);
            let latency = record.delivered.saturating_sub(record.submit);
            self.slowest.record(record.operation, latency, || *record);
            self.operations[record.operation as usize].record(record);
        }
    }

    /// Returns the time at which its last I/O was delivered (ns).
    pub(crate) fn last(&self) -> Option<Nanos> {
        self.active.0.map(|(_, last)| last)
    }

    /// Brings the latencies in order, as every figure wants them.
    pub(crate) fn sort(&mut self) {
        self.operations.iter_mut().for_each(OperationStatistics::sort);
    }

    /// The figures, after [`Self::sort`].
    pub(crate) fn summary(&self) -> DriveSummary {
        let [read, write, flush, discard, write_zeroes, copy, verify, barrier] =
            std::array::from_fn(|index| self.operations[index].summary());
        let (boot_ios, refused) = (self.boot_ios, self.refused);
        DriveSummary {
            described: self.drive.clone(),
            boot_ios,
            refused,
            active_seconds: self.active.seconds(),
            read,
            write,
            flush,
            discard,
            write_zeroes,
            copy,
            verify,
            barrier,
            way_ns: None,
            first_error: self.first_error.clone(),
            slowest: self.slowest.sorted().iter().map(SlowIo::of).collect(),
            inside: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whenever the first one differs, both are what two distributions would be.
        #[test]
        fn targets_are_apart_from_the_first_that_differs(
            all in prop::collection::vec((0u64..50, 0u64..50), 1..60),
            equal in 0usize..60,
            bound in 1usize..80,
        ) {
            let mut latencies = Latencies::new(bound);
            let mut both = [Distribution::new(bound), Distribution::new(bound)];
            for (index, (target, late)) in all.into_iter().enumerate() {
                let delivered = if index < equal { target } else { target + late };
                latencies.record(target, delivered);
                both[0].record(target);
                both[1].record(delivered);
            }
            latencies.sort();
            both.iter_mut().for_each(Distribution::sort);
            prop_assert_eq!(latencies.target().latency(), both[0].latency());
            prop_assert_eq!(latencies.delivered.latency(), both[1].latency());
            prop_assert_eq!(latencies.target().curve(), both[0].curve());
        }
    }
}
