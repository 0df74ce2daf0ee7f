//! Results of a run as files: every I/O as a row, what happened inside, a summary as JSON; and their readers.
//!
//! * [`ios`] has the I/Os as CSV or Parquet, [`spans`] what drives and processors did when, [`guest_ios`] the time of
//!   I/Os in the guest, [`faults`] what befell, [`history`] the operations of clients, [`pcapng`] frames.
//! * A run's records go to [`sink::Sinks`], a file each.
//! * [`statistics`] are the figures of the I/Os of a drive, and [`Summary`] those of a run.
//! * [`thresholds`] are what a run is expected to keep, [`trust`] reasons not to trust it.
//! * [`ResultsFolder`] is the folder: it belongs to one run at a time, and an earlier run's results move aside.
//!
//! Promises:
//! * Nothing here draws a page: `report` does, of these values.
//! * Memory is bounded however long the run is ([`EXACT_BOUND`]).
//! * Results are a function of the records: two runs with the same records and outcome give the same bytes, but for
//!   the fields named in [`INCIDENTAL_FIELDS`].
//! * Names and texts may hold anything. They are quoted for the file in which they end up.

pub mod columnar;
pub mod commands;
pub mod distribution;
mod drive_summary;
mod earlier;
mod error;
pub mod faults;
mod file_list;
pub mod files;
pub mod folder;
pub mod guest_ios;
pub mod history;
mod inputs;
pub mod interval;
pub mod ios;
pub mod jobs;
pub mod latency;
mod limits;
mod names;
pub mod over_time;
mod own_figure;
mod owner;
pub mod pcapng;
pub mod sample_file;
pub mod sink;
pub mod slowest;
pub mod so_far;
pub mod spans;
pub mod statistics;
pub mod summary;
pub mod symbols;
pub mod thresholds;
pub mod trust;
pub mod units;
pub mod waits;

use serde::{Deserialize, Serialize};

pub use commands::{ToldCommand, ToldCommands};
pub use distribution::EXACT_BOUND;
pub use earlier::{earlier_results, EARLIER_FOLDER};
pub use error::ResultsError;
pub use faults::{FaultCourse, FaultInterval, FaultSummary, PlannedFault, Returns};
pub use file_list::LIST_FILE;
pub use folder::{folder_of, ResultsFolder};
pub use guest_ios::GuestTimes;
pub use history::{is_of_history, Witnessed};
pub use inputs::keep_inputs;
pub use ios::{Ios, IosAsCsv, KeptIos};
pub use jobs::JobSummary;
pub use latency::{Latency, Method};
pub use limits::limit_of;
pub use names::names_of_run;
pub use own_figure::own_figure;
pub use owner::machine_of;
pub use sample_file::{KeptSample, KeptSamples};
pub use slowest::SlowIo;
pub use so_far::SoFar;
pub use spans::KeptSpans;
pub use summary::{
    comparable, exit_status, DriveSummary, FirstError, OperationSummary, Summary, INCIDENTAL_FIELDS,
};
pub use symbols::{Programs, Symbols};

/// Name of the file with one row per I/O.
pub const IOS_FILE: &str = "ios.csv";
/// Name of that file where it is compressed.
pub const COMPRESSED_IOS_FILE: &str = "ios.csv.zst";
/// Name of the file with one row per I/O by column.
pub const PARQUET_IOS_FILE: &str = "ios.parquet";
/// The names of the file with one row per I/O, of which a run keeps one.
pub const IOS_FILES: [&str; 3] = [IOS_FILE, COMPRESSED_IOS_FILE, PARQUET_IOS_FILE];
/// Name of the file with one row per fault that has happened, by column.
pub const FAULTS_FILE: &str = "faults.parquet";
/// Name of the file of what processors, flash drives and schedulers did when, by column.
pub const TIMELINE_FILE: &str = "timeline.parquet";
/// Name of the file of the time of I/Os in the guest's kernel, by column.
pub const GUEST_IOS_FILE: &str = "guest-ios.parquet";
/// File of the waits of guests' threads.
pub const WAITS_FILE: &str = "waits.parquet";
/// Name of the file of stacks in which processors were, with how many samples each has.
pub const PROFILE_FILE: &str = "profile.folded";
/// Name of the file of the samples of a profile, with their times, by column.
pub const SAMPLES_FILE: &str = "profile.parquet";
/// Name of the file of what machines of a cluster said and sent, and what befell them, by column.
pub const CLUSTER_FILE: &str = "cluster.parquet";
/// Name of the file of the operations of clients, a JSON object a line.
pub const HISTORY_FILE: &str = "history.jsonl";
/// Name of the file with the run's figures.
pub const SUMMARY_FILE: &str = "summary.json";
/// Name of the file with what a run's command printed: all of it, or its begin.
pub const OUTPUT_FILE: &str = "output.txt";
/// Name of the page.
pub const REPORT_FILE: &str = "report.html";
/// Name of the file with published and measured figures.
pub const FIGURES_FILE: &str = "figures.json";

/// Name of the file with the standard input that a run's command was given.
pub const STDIN_FILE: &str = "stdin";
/// Name of the file with the trace of a crash test.
pub const TRACE_FILE: &str = "run.record";
/// Name of the file with the findings of a crash test.
pub const CRASH_TEST_FILE: &str = "crash-test.json";
/// Name of the page of a crash test.
pub const CRASH_TEST_PAGE: &str = "crash-test.html";
/// Name of the file with the findings of an exploration.
pub const EXPLORATION_FILE: &str = "explore.json";
/// Name of the page of an exploration.
pub const EXPLORATION_PAGE: &str = "explore.html";
/// Name of the file with the runs of an exploration, a JSON object a line.
pub const EXPLORATION_RUNS: &str = "explore.jsonl";
/// Name of the file with the differences of a comparison.
pub const COMPARISON_FILE: &str = "comparison.json";
/// Name of the page of a comparison.
pub const COMPARISON_PAGE: &str = "comparison.html";

/// Files that runs leave, with their contents: the one place in which their names stand.
pub const FILES: [(&str, &str); 24] = [
    (SUMMARY_FILE, "the run in figures"),
    (REPORT_FILE, "the page"),
    (PARQUET_IOS_FILE, "one row for each I/O"),
    (IOS_FILE, "one row for each I/O"),
    (COMPRESSED_IOS_FILE, "one row for each I/O"),
    (TIMELINE_FILE, "what processors, flash drives and schedulers did when"),
    (GUEST_IOS_FILE, "the time of I/Os in the guest"),
    (WAITS_FILE, "the waits of the guest's threads"),
    (PROFILE_FILE, "stacks in which processors were"),
    (SAMPLES_FILE, "samples of a profile, with their times"),
    (FAULTS_FILE, "faults that have happened"),
    (CLUSTER_FILE, "output, faults and messages of machines"),
    (FIGURES_FILE, "published and measured figures"),
    (OUTPUT_FILE, "the command's output"),
    (HISTORY_FILE, "the operations of clients"),
    (STDIN_FILE, "the command's standard input"),
    (TRACE_FILE, "the trace of a crash test"),
    (CRASH_TEST_FILE, "the findings of a crash test"),
    (CRASH_TEST_PAGE, "the page of a crash test"),
    (EXPLORATION_FILE, "the findings of an exploration"),
    (EXPLORATION_PAGE, "the page of an exploration"),
    (EXPLORATION_RUNS, "the runs of an exploration"),
    (COMPARISON_FILE, "the differences of a comparison"),
    (COMPARISON_PAGE, "the page of a comparison"),
];

/// Differences of a model from the one that it is derived from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The name of a model, or `kind = "KIND"` for the defaults of that kind.
    pub from: String,
    /// Each key that differs (`gc.policy`), with its value there and here; null where it is not
    /// given.
    pub keys: std::collections::BTreeMap<String, [serde_json::Value; 2]>,
}

/// A drive as results describe it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drive {
    /// Its name in the experiment.
    pub name: String,
    /// The model that decides when its commands complete.
    pub model: String,
    /// The model with all its parameters, as a table of an experiment has them; null where there are
    /// none.
    #[serde(skip_serializing_if = "serde_json::Value::is_null", default)]
    pub parameters: serde_json::Value,
    /// Parameters that differ from those it is derived from; none where it has no such.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub changes: Option<Changes>,
    /// The interface that the guest sees, such as `nvme`.
    pub interface: String,
    /// The medium that holds its bytes.
    pub medium: String,
}
