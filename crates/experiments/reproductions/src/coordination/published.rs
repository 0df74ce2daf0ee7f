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
    pub idle_xterm: f64,
    pub one_on_host: Range,
    pub same: f64,
    pub throughput: f64,
    /// By the guest's workload.
    pub cfq: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    pub least: f64,
    pub most: f64,
}

#[test]
fn the_file_is_read() {
    assert_eq!(PUBLISHED.cfq.len(), 3);
}
