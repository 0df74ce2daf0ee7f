//! Statistics of a drive's I/Os, kept until the end of a run.

use stasis_block::clock::Nanos;
use stasis_block::slowest::SlowestByOperation;
use stasis_block::Operation;
use stasis_run_events::IoRecord;

use crate::distribution::Distribution;
use crate::drive_summary::{DriveSummary, FirstError, OperationSummary};
use crate::over_time::{OverTime, Point};
use crate::slowest::SlowIo;
use crate::Drive;

/// Gaps between two I/Os of an operation: a mix at random ends later than one of its operations by more
/// in less than one of a hundred cases (e^-5).
const EDGE_GAPS: u64 = 5;
/// The part of an operation's time by which its mix can be longer at each end.
const EDGE_SHARE: u64 = 20;

/// The time in which I/Os were under way: from the first submission to the last completion.
#[derive(Debug, Clone, Copy, Default)]
pub struct ActiveTime(Option<(Nanos, Nanos)>);

impl ActiveTime {
    /// Adds an I/O.
    pub fn record(&mut self, record: &IoRecord) {
        let (first, last) = self.0.unwrap_or((record.submit, record.delivered));
        self.0 = Some((first.min(record.submit), last.max(record.delivered)));
    }

    /// Returns the time that rates are over: of `count` I/Os of one operation in a mix with others, of
    /// these `spans`. A mix begins and ends with any of its operations, as fio counts it. So the ends of
    /// others count where these are as near as chance makes them: [`EDGE_GAPS`] of this operation's own
    /// mean gaps, at most one [`EDGE_SHARE`]th of its time. An operation that comes before or after
    /// another one keeps its own time.
    fn mixed_with(self, count: u64, spans: &[Self]) -> Self {
        let Some((first, last)) = self.0 else { return self };
        let span = last.saturating_sub(first);
        let slack = (span / count.max(1)).saturating_mul(EDGE_GAPS).min(span / EDGE_SHARE);
        let others = || spans.iter().filter_map(|other| other.0);
        let begins =
            others().map(|(begin, _)| begin).filter(|begin| begin.saturating_add(slack) >= first);
        let ends = others().map(|(_, end)| end).filter(|end| *end <= last.saturating_add(slack));
        Self(Some((begins.fold(first, Nanos::min), ends.fold(last, Nanos::max))))
    }

    /// Returns the length of the period in seconds.
    pub fn seconds(self) -> f64 {
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
pub struct Latencies {
    target: Option<Distribution>,
    /// As they were delivered.
    pub delivered: Distribution,
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

    /// Returns the latencies that the model asked for.
    pub fn target(&self) -> &Distribution {
        self.target.as_ref().unwrap_or(&self.delivered)
    }

    fn sort(&mut self) {
        self.target.iter_mut().for_each(Distribution::sort);
        self.delivered.sort();
    }
}

/// One operation of one drive.
pub struct OperationStatistics {
    /// Number of I/Os.
    pub count: u64,
    bytes: u64,
    errors: u64,
    active: ActiveTime,
    /// Waits for a limit and for the scheduler, together (ns).
    waited: Nanos,
    /// Their latencies.
    pub latencies: Latencies,
    /// The I/Os over time.
    pub over_time: OverTime,
}

impl OperationStatistics {
    /// No I/O yet; so many are kept one by one.
    pub fn new(bound: usize) -> Self {
        Self {
            count: 0,
            bytes: 0,
            errors: 0,
            active: ActiveTime::default(),
            waited: 0,
            latencies: Latencies::new(bound),
            over_time: OverTime::new(),
        }
    }

    /// Adds an I/O.
    pub fn record(&mut self, record: &IoRecord) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(record.bytes);
        self.errors += u64::from(record.failed());
        self.active.record(record);
        self.waited = self.waited.saturating_add(record.limited).saturating_add(record.scheduled);
        let latency = record.delivered.saturating_sub(record.submit);
        self.latencies.record(record.target.saturating_sub(record.submit), latency);
        let IoRecord { offset, bytes, order, .. } = *record;
        self.over_time.record(Point { at: record.delivered, latency, offset, bytes, order });
    }

    /// I/Os that failed.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Brings the latencies in order, as every figure wants them.
    pub fn sort(&mut self) {
        self.latencies.sort();
    }

    /// The figures, after [`Self::sort`], with rates over `time`.
    pub fn summary(&self, time: ActiveTime) -> OperationSummary {
        let target = self.latencies.target().latency();
        let delivered = self.latencies.delivered.latency();
        OperationSummary {
            count: self.count,
            bytes: self.bytes,
            errors: self.errors,
            active_seconds: time.seconds(),
            iops: time.rate(self.count),
            bytes_per_second: time.rate(self.bytes),
            percentiles: self.latencies.delivered.method(),
            max_error_percent: delivered.largest_error_percent(&target),
            target_ns: target,
            delivered_ns: delivered,
            waited_ns: self.waited as f64 / self.count.max(1) as f64,
            way_percent: None,
        }
    }
}

/// One drive.
pub struct DriveStatistics {
    /// The drive.
    pub drive: Drive,
    boot_ios: u64,
    refused: u64,
    first_error: Option<FirstError>,
    active: ActiveTime,
    slowest: SlowestByOperation<IoRecord>,
    /// In the order of [`Operation::ALL`].
    pub operations: [OperationStatistics; Operation::ALL.len()],
}

impl DriveStatistics {
    /// No I/O yet; so many are kept one by one.
    pub fn new(drive: Drive, bound: usize) -> Self {
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

    /// Adds an I/O, where it belongs to what is measured.
    pub fn record(&mut self, record: &IoRecord) {
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
    pub fn last(&self) -> Option<Nanos> {
        self.active.0.map(|(_, last)| last)
    }

    /// Brings the latencies in order, as every figure wants them.
    pub fn sort(&mut self) {
        self.operations.iter_mut().for_each(OperationStatistics::sort);
    }

    /// The figures, after [`Self::sort`].
    pub fn summary(&self) -> DriveSummary {
        let spans = self.operations.each_ref().map(|operation| operation.active);
        let [read, write, flush, discard, write_zeroes, copy, verify, barrier] =
            self.operations.each_ref().map(|operation| {
                operation.summary(operation.active.mixed_with(operation.count, &spans))
            });
        let (boot_ios, refused) = (self.boot_ios, self.refused);
        DriveSummary {
            described: self.drive.clone(),
            boot_ios,
            refused,
            cut_ios: 0,
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

    /// A mix has one time; what comes one after the other has its own; what is not done has none.
    #[test]
    fn operations_of_a_mix_share_its_time() {
        let span = |first, last| ActiveTime(Some((first, last)));
        let all = [span(0, 1_000_000), span(8_000, 990_000), ActiveTime(None)];
        assert_eq!(all[1].mixed_with(90, &all).0, Some((0, 1_000_000)));
        assert_eq!(all[0].mixed_with(210, &all).0, Some((0, 1_000_000)));
        assert_eq!(all[2].mixed_with(0, &all).0, None);
        // 982,000 ns with 5,000 writes: its gaps are 196 ns, and 8,000 are no chance.
        assert_eq!(all[1].mixed_with(5_000, &all).0, Some((8_000, 990_000)));
        let phases = [span(0, 10_000), span(10_000, 100_000)];
        for (phase, count) in phases.into_iter().zip([100, 900]) {
            assert_eq!(phase.mixed_with(count, &phases).0, phase.0);
        }
        // Few I/Os have wide gaps: no more than a twentieth at each end.
        let few = [span(100, 200), span(0, 206)];
        assert_eq!(few[0].mixed_with(2, &few).0, Some((100, 200)));
    }

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
