//! An experiment: its keys, and its places and drives by their names.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::units;
use stasis_config::{guess, listed, Mistake, Step};
use stasis_network::NetworkSpec;

use crate::{
    DriveSpec, Engine, Expectation, ExperimentError, ExploreSpec, FaultSpace, GuestSpec, Machines,
    ScheduledFault, ServeSpec, Source, WorkloadSpec,
};

/// Default time limit of a check.
const MAX_CHECK: Duration = Duration::from_secs(120);

/// An experiment. Its form in TOML:
///
/// ```toml
/// engine        = "auto"          # auto, kvm, softkvm, exact
/// seed          = 1
/// command       = ["fio", "--version"]
/// check         = "fsck.ext4 -fn /dev/vda"  # after a power cut; see docs/reference/power-cuts.md
/// check-limit   = "120s"          # longest that it may take on one state
/// strict        = false           # true: a flush covers nothing that is in flight
/// results       = "results"
/// virtual-limit = "10s"           # most virtual time of the command
/// wall-limit    = "10min"         # most wall-clock time of everything
///
/// [machine]
/// vcpus     = 1
/// memory    = "1GiB"
/// cpu-speed = "5GHz"
///
/// [guest]
/// packages = ["stress-ng"]        # beside the usual ones
/// files    = ["job.fio"]          # copied into the guest's /root
///
/// [serve]                         # for `stasis serve` only
/// sockets = "/run/stasis"         # each drive's is NAME.sock in there
/// poll    = "adaptive"            # always, adaptive, never
/// threads = 1
///
/// [[drive]]
/// name   = "fast"
/// model  = "dcpmm"
/// medium = { ram = "1GiB" }
/// scheduler = "bfq"
///
/// [[workload]]
/// pattern = "5r-seq"
///
/// [[expect]]
/// that = "read.p99 < 1ms"
/// ```
///
/// Several machines stand in tables `[[machine]]`, networks between them in `[[network]]`, faults in
/// `[[fault]]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Experiment {
    /// Engine that runs the machine.
    pub engine: Engine,
    /// Seed of everything random: the guest's and the models'.
    pub seed: u64,
    /// Command that runs in the guest.
    pub command: Vec<String>,
    /// Shell command that checks the drives after a power cut.
    pub check: Option<String>,
    /// Time limit of the check on one state (ns of virtual time in the guest that checks); by
    /// default 120 s.
    #[serde(with = "units::duration_option")]
    pub check_limit: Option<Nanos>,
    /// Whether, in a crash test, a flush covers nothing that was in flight when it was submitted.
    pub strict: bool,
    /// Folder for the results.
    pub results: Option<PathBuf>,
    /// Limit on the command's virtual time (ns).
    #[serde(with = "units::duration_option")]
    pub virtual_limit: Option<Nanos>,
    /// Limit on the wall-clock time of the whole run (ns).
    #[serde(with = "units::duration_option")]
    pub wall_limit: Option<Nanos>,
    /// The machine, or several.
    pub machine: Machines,
    /// The guest's system.
    pub guest: GuestSpec,
    /// Settings of `stasis serve`.
    pub serve: ServeSpec,
    /// The drives, in order.
    #[serde(rename = "drive")]
    pub drives: Vec<DriveSpec>,
    /// Host workloads on the drives.
    #[serde(rename = "workload")]
    pub workloads: Vec<WorkloadSpec>,
    /// Networks between several machines.
    #[serde(rename = "network")]
    pub networks: Vec<NetworkSpec>,
    /// Faults that are to happen.
    #[serde(rename = "fault")]
    pub faults: Vec<ScheduledFault>,
    /// Faults that can happen, of which the seed draws some.
    pub fault_space: Option<FaultSpace>,
    /// Failures that `stasis explore` looks for.
    pub explore: ExploreSpec,
    /// True if the commands of several machines write a history: operations of clients, a JSON
    /// object a line of output, as Jepsen and Maelstrom have them.
    pub history: bool,
    /// Thresholds that the run is expected to meet.
    #[serde(rename = "expect")]
    pub expectations: Vec<Expectation>,
    /// Notes for its user on the file that it was made of, and that has what it has not.
    #[serde(skip)]
    #[schemars(skip)]
    pub notes: Vec<String>,
    /// The file that it was read from, for the places of mistakes.
    #[serde(skip)]
    #[schemars(skip)]
    pub source: Source,
}

impl Experiment {
    /// Time limit of the check on one state, in virtual time of the guest that checks.
    pub fn check_limit(&self) -> Duration {
        self.check_limit.map_or(MAX_CHECK, Duration::from_nanos)
    }

    /// The place of a machine among [`Machines::all`].
    pub(crate) fn machine_place(&self, index: usize) -> Vec<Step> {
        match self.machine.several() {
            [] => vec!["machine".into()],
            _ => vec!["machine".into(), index.into()],
        }
    }

    /// The experiment as a table.
    pub(crate) fn table(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The experiment as a table, if a file is there to compare it with.
    pub(crate) fn said(&self) -> serde_json::Value {
        match self.source.is_file() {
            true => self.table(),
            false => serde_json::Value::Null,
        }
    }

    /// The error of a mistake in the experiment, found before [`Self::finish`]: with file and line, if
    /// its file says what is wrong.
    pub fn error(&self, mistake: Mistake) -> ExperimentError {
        self.source.error(mistake, &self.said())
    }

    /// The place among the drives of the one with this name.
    ///
    /// # Errors
    /// Names the nearest.
    pub fn drive_named(&self, name: &str) -> Result<usize, String> {
        let names = || self.drives.iter().filter_map(|drive| drive.name.as_deref());
        names().position(|other| other == name).ok_or_else(|| {
            let guess = match names().next() {
                None => "there is no [[drive]]".into(),
                Some(_) => format!("{}there are {}", guess(name, names()), listed(names())),
            };
            format!("there is no drive `{name}` to share; {guess}")
        })
    }

    /// The place among the drives of the one that a workload is on.
    ///
    /// # Errors
    /// If `load` names an unknown drive, or no drive where there are several.
    pub fn drive_of(&self, load: &WorkloadSpec) -> Result<usize, String> {
        match (&load.drive, self.drives.len()) {
            (Some(name), _) => self.drive_named(name),
            (None, 1) => Ok(0),
            (None, count) => Err(format!("say which drive it is on: there are {count}")),
        }
    }
}
