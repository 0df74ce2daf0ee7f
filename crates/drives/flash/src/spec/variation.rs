//! Differences between cells in a description.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::{Nanos, SECOND};
use stasis_block::units;
use stasis_nand::{CellTimes, Retry, Variation};

/// How cell times are distributed around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Times {
    /// Each operation takes its place's time.
    #[default]
    Fixed,
    /// Each operation draws from an exponential distribution.
    Exponential,
}

/// When reads must be repeated; see [`Retry`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySpec {
    /// Repetitions at the rated number of erases.
    pub wear: f64,
    /// Erases that a block is rated for.
    pub rated_erases: u32,
    /// Repetitions at the rated age.
    pub retention: f64,
    /// The time that data is rated to stay readable (ns).
    #[serde(with = "units::duration")]
    pub rated_age: Nanos,
    /// The age of the data on the drive when the run begins (ns).
    #[serde(with = "units::duration")]
    pub age: Nanos,
    /// Repetitions after which a read is given up.
    pub limit: u8,
}

impl Default for RetrySpec {
    fn default() -> Self {
        Self {
            wear: 0.0,
            rated_erases: 3_000,
            retention: 0.0,
            // A year, for which client drives are rated (JESD218).
            rated_age: 365 * 24 * 3_600 * SECOND,
            age: 0,
            limit: 7,
        }
    }
}

/// How cells differ; see [`Variation`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VariationSpec {
    /// Between LUNs: a standard deviation as a share of the time.
    pub chip: f64,
    /// Between blocks of a LUN.
    pub block: f64,
    /// Between pages of a block.
    pub page: f64,
    /// From one operation to the next.
    pub times: Times,
    /// Repeated reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetrySpec>,
}

impl VariationSpec {
    /// Returns the variation as the array takes it.
    pub fn variation(&self) -> Variation {
        Variation {
            chip: self.chip,
            block: self.block,
            page: self.page,
            times: match self.times {
                Times::Fixed => CellTimes::Fixed,
                Times::Exponential => CellTimes::Exponential,
            },
            retry: self.retry.as_ref().map(|retry| Retry {
                wear: retry.wear,
                rated_erases: retry.rated_erases,
                retention: retry.retention,
                rated_age: retry.rated_age,
                age: retry.age,
                limit: retry.limit,
            }),
        }
    }
}
