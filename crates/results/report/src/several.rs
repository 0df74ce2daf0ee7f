//! Fields of a summary that only runs of several machines have.

use serde::de::DeserializeOwned;
use stasis_results::Summary;
use stasis_run_events::{SharedOutcome, WorkloadOutcome};

/// The rows of a field that only runs of several machines have.
pub(crate) fn rows<T: DeserializeOwned>(summary: &Summary, name: &str) -> Vec<T> {
    let rows = summary.extra.get(name).cloned();
    rows.and_then(|rows| serde_json::from_value(rows).ok()).unwrap_or_default()
}

/// The host's workloads on all shared drives.
pub(crate) fn loads(summary: &Summary) -> Vec<WorkloadOutcome> {
    let shared: Vec<SharedOutcome> = rows(summary, "shared");
    shared.into_iter().flat_map(|one| one.workloads).collect()
}
