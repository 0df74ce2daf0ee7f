//! A publication's figures: read from its data file, and beside ours.

use serde::de::DeserializeOwned;
use stasis_report::published_vs_measured::{Figure, Relation};

/// A figure beside its publication's.
pub fn figure(
    id: &str,
    title: impl Into<String>,
    unit: &str,
    published: impl Into<Option<f64>>,
    measured: Option<f64>,
) -> Figure {
    Figure {
        id: id.to_owned(),
        what: title.into(),
        unit: unit.to_owned(),
        published: published.into(),
        relation: Relation::Value,
        closed_form: None,
        measured,
        missing: None,
    }
}

/// The figures of a publication, from the data file in its folder.
///
/// # Panics
/// If the file, which is part of the program, is not one; each has a test that reads it.
pub fn published<T: DeserializeOwned>(file: &str) -> T {
    // By way of a value: the types are compiled for one reader, which measurements have as well.
    let value = toml::from_str(file).map_err(|error| error.to_string());
    let read =
        value.and_then(|value| serde_json::from_value(value).map_err(|error| error.to_string()));
    read.expect("a data file of the program's own is as its test has read it")
}
