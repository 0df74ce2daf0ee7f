//! The publication's figures: `published.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::published_data::published;

pub static PUBLISHED: LazyLock<Published> =
    LazyLock::new(|| published(include_str!("published.toml")));

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Initial and optimized (us).
    pub write_total: [f64; 2],
    /// Initial and optimized (us).
    pub write_added: [f64; 2],
    /// Read and write (times).
    pub improvement: [f64; 2],
    /// Read and write, a second.
    pub iops: [f64; 2],
    /// Without polling and with it (us).
    pub ping_bare: [f64; 2],
    /// Without polling and with it (us).
    pub ping_guest: [f64; 2],
}

#[test]
fn the_file_is_read() {
    assert!(PUBLISHED.write_added[1] < PUBLISHED.write_total[1]);
}
