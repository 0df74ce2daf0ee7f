//! Figures of a drive in `summary.json`.

use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use stasis_block::inside::Inside;
use stasis_block::Operation;

use crate::latency::{Latency, Method};
use crate::slowest::SlowIo;
use crate::Drive;

/// A drive's I/Os after boot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // the operations are what their names say
pub struct DriveSummary {
    /// The drive.
    #[serde(flatten)]
    pub described: Drive,
    /// I/Os of the guest's boot, which are in no other figure.
    pub boot_ios: u64,
    /// Commands that its controller refused; they are in no other figure.
    #[serde(default)]
    pub refused: u64,
    /// I/Os that were under way when their machine failed, as in a power cut: they have no end and no
    /// row, and are in no other figure.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_ios: u64,
    /// From its first submission to its last completion.
    #[serde(default)]
    pub active_seconds: f64,
    pub read: OperationSummary,
    pub write: OperationSummary,
    pub flush: OperationSummary,
    pub discard: OperationSummary,
    #[serde(rename = "write-zeroes")]
    pub write_zeroes: OperationSummary,
    pub copy: OperationSummary,
    pub verify: OperationSummary,
    pub barrier: OperationSummary,
    /// Shortest time of the way from its server to the host (ns), where it was measured: the host
    /// sees that much more than is delivered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub way_ns: Option<u64>,
    /// The first I/O that failed, where one did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_error: Option<FirstError>,
    /// The slowest I/Os of each operation, the slowest first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub slowest: Vec<SlowIo>,
    /// Internal activity of the drive, where it reports any.
    #[serde(serialize_with = "by_name", skip_serializing_if = "Option::is_none", default)]
    pub inside: Option<Inside>,
}

impl DriveSummary {
    /// The way to its host takes so much at least (ns).
    pub fn set_way(&mut self, way: u64) {
        self.way_ns = Some(way);
        let operations = [
            &mut self.read,
            &mut self.write,
            &mut self.flush,
            &mut self.discard,
            &mut self.write_zeroes,
            &mut self.copy,
            &mut self.verify,
            &mut self.barrier,
        ];
        for figures in operations.into_iter().filter(|figures| figures.count > 0) {
            let way = way as f64;
            figures.way_percent = Some(100.0 * way / (way + figures.delivered_ns.mean));
        }
    }

    /// The figures of each operation, in the order of [`Operation::ALL`].
    pub fn operations(&self) -> [(Operation, &OperationSummary); 8] {
        [
            (Operation::Read, &self.read),
            (Operation::Write, &self.write),
            (Operation::Flush, &self.flush),
            (Operation::Discard, &self.discard),
            (Operation::WriteZeroes, &self.write_zeroes),
            (Operation::Copy, &self.copy),
            (Operation::Verify, &self.verify),
            (Operation::Barrier, &self.barrier),
        ]
    }

    /// The operations that were used.
    pub fn used(&self) -> impl Iterator<Item = (Operation, &OperationSummary)> {
        self.operations().into_iter().filter(|(_, summary)| summary.count > 0)
    }
}

/// The first I/O of a drive that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FirstError {
    /// Its operation.
    pub operation: String,
    /// The status that the guest got: [`stasis_run_events::IoRecord::code`].
    pub code: u16,
    /// The first failure of the drive's medium, with its reason. None where the model let the I/O
    /// fail.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
}

/// One operation on one drive. Failed I/Os count in every field.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationSummary {
    /// Number of I/Os.
    pub count: u64,
    /// Their lengths together.
    pub bytes: u64,
    /// Number of those that failed.
    pub errors: u64,
    /// From its first submission to its last completion: the time of its rates.
    #[serde(default)]
    pub active_seconds: f64,
    /// I/Os a second of `active_seconds`.
    #[serde(default)]
    pub iops: f64,
    /// Bytes a second, over the same time.
    #[serde(default)]
    pub bytes_per_second: f64,
    /// Computation of the percentiles below.
    pub percentiles: Method,
    /// Largest deviation of a delivered percentile from its target, p1 to
    /// p99.9, in percent with its sign; `null` where the target is 0 ns.
    pub max_error_percent: Option<f64>,
    /// Latencies that the model asked for: target - submit.
    pub target_ns: Latency,
    /// Latencies that the guest got: delivered - submit.
    pub delivered_ns: Latency,
    /// The mean wait for a limit and for the scheduler of a shared drive, part of the latency.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub waited_ns: f64,
    /// The part of what the host saw on average that was the way's, in percent, where the way was
    /// measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub way_percent: Option<f64>,
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Writes fields in the order of their names.
fn by_name<S: Serializer>(value: &impl Serialize, to: S) -> Result<S::Ok, S::Error> {
    serde_json::to_value(value).map_err(S::Error::custom)?.serialize(to)
}
