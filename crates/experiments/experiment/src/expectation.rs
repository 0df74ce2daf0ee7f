//! Thresholds of an experiment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_config::Mistake;
use stasis_results::thresholds::Threshold;

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

/// The thresholds of a run with drives of these names.
///
/// # Errors
/// A sentence about one that is none, or that is of a drive which there is not.
pub(crate) fn thresholds(
    expectations: &[Expectation],
    drives: &[&str],
) -> Result<Vec<Threshold>, Mistake> {
    let threshold = |one: &Expectation| {
        let threshold = Threshold::parse(&one.that)?.named(one.name.clone());
        threshold.check(drives).map(|()| threshold)
    };
    let placed = |(index, one): (usize, &Expectation)| {
        threshold(one)
            .map_err(|error| Mistake::at("that", error.to_string()).inside(index).inside("expect"))
    };
    expectations.iter().enumerate().map(placed).collect()
}
