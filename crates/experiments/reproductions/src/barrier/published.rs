//! The publication's figures: `published.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::published_data::published;

pub static PUBLISHED: LazyLock<Published> =
    LazyLock::new(|| published(include_str!("published.toml")));

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// By workload.
    pub throughput: BTreeMap<String, Throughput>,
    pub flushes: Flushes,
}

/// Throughput against stock QEMU.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// Gain from a barrier on the host (%).
    pub host_b_percent: f64,
    /// Throughput with barriers from the guest to the drive, as a factor.
    pub all_b_times: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flushes {
    pub guest: f64,
    /// By configuration.
    pub host: BTreeMap<String, f64>,
}

#[test]
fn the_file_is_read() {
    for workload in &super::WORKLOADS {
        assert!(PUBLISHED.throughput.contains_key(workload.name), "{}", workload.name);
    }
}
