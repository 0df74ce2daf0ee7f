//! Configuration of data placement, by which a guest groups data, as users write it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::units;

/// Limit on the streams that are open at a time.
pub const STREAMS: u16 = 1024;
/// Limit on reclaim groups.
pub const RECLAIM_GROUPS: u16 = 64;
/// Limit on reclaim unit handles.
pub const HANDLES: u16 = 128;
/// The size of a reclaim unit is a multiple of this (bytes).
pub const UNIT_STEP: u64 = 4096;

/// Data placement that a drive offers to the guest: `none`, `streams:MAX`, or `fdp:HANDLESxUNIT` or
/// `fdp:GROUPSxHANDLESxUNIT` with the size of a reclaim unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = "^(none|streams:[0-9]+|fdp:([0-9]+x)?[0-9]+x[0-9.]+ *[A-Za-z]*)$"))]
pub enum Placement {
    /// No data placement.
    #[default]
    None,
    /// The streams directive (NVMe 1.4 section 9.3).
    Streams {
        /// Maximum number of streams open at a time.
        max: u16,
    },
    /// Flexible Data Placement (NVMe TP4146).
    Fdp {
        /// Reclaim groups.
        reclaim_groups: u16,
        /// Reclaim unit handles.
        handles: u16,
        /// Size of a reclaim unit in bytes.
        reclaim_unit: u64,
    },
}

impl Placement {
    /// Reads a word.
    ///
    /// # Errors
    /// Returns the invalid word and its allowed forms.
    pub fn parse(word: &str) -> Result<Self, String> {
        let wrong =
            || format!("placement is `{word}`, but must be none, streams:16 or fdp:8x64MiB, say");
        let number = |word: &str, most: u16| match word.parse() {
            Ok(number) if (1..=most).contains(&number) => Ok(number),
            _ => Err(format!("{}: `{word}` is no number from 1 to {most}", wrong())),
        };
        if word == "none" {
            return Ok(Self::None);
        }
        if let Some(max) = word.strip_prefix("streams:") {
            return Ok(Self::Streams { max: number(max, STREAMS)? });
        }
        let parts: Vec<&str> = word.strip_prefix("fdp:").ok_or_else(wrong)?.split('x').collect();
        let (groups, handles, unit) = match parts[..] {
            [handles, unit] => ("1", handles, unit),
            [groups, handles, unit] => (groups, handles, unit),
            _ => return Err(wrong()),
        };
        let reclaim_unit =
            units::parse_size(unit).map_err(|error| format!("{}: {error}", wrong()))?;
        if reclaim_unit == 0 || !reclaim_unit.is_multiple_of(UNIT_STEP) {
            return Err(format!("{}: the unit must be a multiple of {UNIT_STEP} bytes", wrong()));
        }
        Ok(Self::Fdp {
            reclaim_groups: number(groups, RECLAIM_GROUPS)?,
            handles: number(handles, HANDLES)?,
            reclaim_unit,
        })
    }
}

impl TryFrom<String> for Placement {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        Self::parse(&word)
    }
}

impl From<Placement> for String {
    fn from(spec: Placement) -> Self {
        match spec {
            Placement::None => "none".into(),
            Placement::Streams { max } => format!("streams:{max}"),
            Placement::Fdp { reclaim_groups, handles, reclaim_unit } => {
                format!("fdp:{reclaim_groups}x{handles}x{}", units::format_size(reclaim_unit))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were_read() {
        for word in ["none", "streams:1", "streams:1024", "fdp:2x8x64MiB", "fdp:64x128x4KiB"] {
            assert_eq!(String::from(Placement::parse(word).unwrap()), word);
        }
        let short = Placement::parse("fdp:8x64MiB").unwrap();
        assert_eq!(short, Placement::parse("fdp:1x8x64MiB").unwrap());
    }

    #[test]
    fn wrong_words_say_what_would_be_right() {
        for (word, expected) in [
            ("fpd:8x64MiB", "fdp:8x64MiB"),
            ("streams", "streams:16"),
            ("streams:0", "1 to 1024"),
            ("streams:x", "1 to 1024"),
            ("fdp:8", "fdp:8x64MiB"),
            ("fdp:0x64MiB", "1 to 128"),
            ("fdp:65x8x64MiB", "1 to 64"),
            ("fdp:8x5000", "multiple of 4096"),
            ("fdp:8x0", "multiple of 4096"),
            ("fdp:8x64mib", "MiB"),
        ] {
            let message = Placement::parse(word).unwrap_err();
            assert!(message.contains(expected), "{word}: {message}");
        }
    }
}
