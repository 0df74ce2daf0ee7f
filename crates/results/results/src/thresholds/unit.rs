//! Units of figures: from their names in `summary.json`, and of the values that they are compared
//! with.

use serde::{Deserialize, Serialize};
use stasis_block::units::{parse_duration, parse_size};

use crate::units;

/// A unit of a figure of `summary.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// A plain number.
    #[serde(rename = "")]
    Number,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Bytes a second.
    #[serde(rename = "B/s")]
    BytesPerSecond,
    /// Hundredths.
    #[serde(rename = "%")]
    Percent,
}

/// Figures of a flash drive whose names do not end with their unit.
const TIMES: [&str; 2] = ["inside.at", "inside.collection_time"];
const SIZES: [&str; 5] =
    ["bytes", "inside.capacity", "inside.unit", "inside.unit_padding", "inside.page_padding"];

impl Unit {
    /// The unit of the figure at this place of `summary.json`.
    pub(super) fn of(path: &str) -> Self {
        let part = |ending: &str| path.split('.').any(|part| part.ends_with(ending));
        if path.ends_with("bytes_per_second") {
            Self::BytesPerSecond
        } else if part("_ns") || TIMES.contains(&path) {
            Self::Nanoseconds
        } else if part("_seconds") {
            Self::Seconds
        } else if part("_bytes") || SIZES.contains(&path) {
            Self::Bytes
        } else if part("_percent") {
            Self::Percent
        } else {
            Self::Number
        }
    }

    /// Reads a value to compare a figure with, in this unit; of seconds in ns, in which they are
    /// exact.
    ///
    /// # Errors
    /// A sentence about a word that is no value of this unit.
    pub(super) fn parse(self, word: &str) -> Result<f64, String> {
        let number = |word: &str, form: &str| match word.trim().parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(format!("`{word}` is not {form}")),
        };
        match self {
            Self::Number => number(word, "a plain number, such as `100000` or `1.5`"),
            Self::Nanoseconds | Self::Seconds => {
                parse_duration(word).map(|ns| ns as f64).map_err(|error| error.to_string())
            }
            Self::Bytes => {
                parse_size(word).map(|bytes| bytes as f64).map_err(|error| error.to_string())
            }
            Self::BytesPerSecond => match word.strip_suffix("/s") {
                Some(size) => {
                    parse_size(size).map(|bytes| bytes as f64).map_err(|error| error.to_string())
                }
                None => Err(format!("`{word}` is not a rate, such as `100MB/s` or `1GiB/s`")),
            },
            Self::Percent => {
                let form = "a percentage, such as `1%`";
                let share = word.strip_suffix('%').ok_or(format!("`{word}` is not {form}"))?;
                number(share, form).map_err(|_| format!("`{word}` is not {form}"))
            }
        }
    }

    /// A figure as it is compared with what [`Self::parse`] has read.
    pub(super) fn compared(self, value: f64) -> f64 {
        if self == Self::Seconds {
            (value * 1e9).round()
        } else {
            value
        }
    }

    /// A figure for a reader.
    pub(super) fn shown(self, value: f64) -> String {
        match self {
            Self::Number if value.fract() == 0.0 => units::decimals(value, 0),
            Self::Number => units::significant(value, 6),
            Self::Nanoseconds => units::duration(value),
            Self::Seconds => units::duration(value * 1e9),
            Self::Bytes => units::bytes(value as u64),
            Self::BytesPerSecond => units::bandwidth(value),
            Self::Percent => format!("{} %", units::significant(value, 4)),
        }
    }

    /// A figure for a reader to the last digit.
    pub(super) fn exact(self, value: f64) -> String {
        let (scale, symbol) = match self {
            Self::Number => (1.0, ""),
            Self::Nanoseconds => (1.0, " ns"),
            Self::Seconds => (1e9, " ns"),
            Self::Bytes => (1.0, " B"),
            Self::BytesPerSecond => (1.0, " B/s"),
            Self::Percent => (1.0, " %"),
        };
        format!("{}{symbol}", units::decimals(value * scale, 6))
    }
}
