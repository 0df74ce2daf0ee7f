//! Thresholds of an experiment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_report::thresholds::Threshold;

use crate::Experiment;

/// A threshold of the run, which is met or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Expectation {
    /// The threshold, `FIGURE OPERATOR VALUE`, such as `read.p99 < 1ms`.
    pub that: String,
    /// Its name on the page and among tests; by default the threshold.
    #[serde(default)]
    pub name: Option<String>,
}

impl Expectation {
    /// One without a name.
    pub fn of(that: impl Into<String>) -> Self {
        Self { that: that.into(), name: None }
    }
}

impl Experiment {
    /// The thresholds of a run.
    ///
    /// # Errors
    /// A sentence about one that is none, or that is of a drive which there is not.
    pub fn thresholds(&self) -> Result<Vec<Threshold>, String> {
        let machines = self.machine.several().iter();
        let own = machines.clone().flat_map(|machine| &machine.drives);
        let drives = self.drives.iter().chain(own).filter_map(|drive| drive.name.as_deref());
        let disks = machines.flat_map(|machine| &machine.disks);
        let disks = disks.filter_map(|disk| disk.name.as_deref());
        let owners: Vec<&str> = drives.chain(disks).collect();
        let threshold = |one: &Expectation| {
            let threshold = Threshold::parse(&one.that)?.named(one.name.clone());
            threshold.check(&owners).map(|()| threshold)
        };
        let thresholds = self.expectations.iter().map(threshold).collect::<Result<_, _>>();
        thresholds.map_err(|error| error.to_string())
    }
}
