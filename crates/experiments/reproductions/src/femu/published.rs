//! The publication's figures: `published.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::published_data::published;

pub static PUBLISHED: LazyLock<Published> =
    LazyLock::new(|| published(include_str!("published.toml")));

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub raw_50us: f64,
    pub grid_slowest: f64,
    pub grid_fastest: f64,
    pub basic_error: BasicError,
    pub threads: Vec<Latency>,
}

/// Error of the basic model (%).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BasicError {
    pub least: f64,
    pub most: f64,
}

/// A mean latency.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    pub threads: u32,
    pub who: String,
    pub us: f64,
}

#[test]
fn the_file_is_read() {
    assert_eq!(PUBLISHED.threads.len(), 6);
}
