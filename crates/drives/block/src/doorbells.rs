//! Delivery of doorbells.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Delivery of the guest driver's doorbell writes, which announce commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Doorbells {
    /// Each submission's doorbell write leaves the guest: its time is exact.
    #[default]
    Exact,
    /// No doorbell write leaves the guest: a submission is noticed, and its time taken, at the
    /// guest's next exit, at most a quantum later.
    Lazy,
}
