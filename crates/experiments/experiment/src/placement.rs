//! Data placement of a drive, by which a guest groups data, as a word.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::units;

/// Data placement that a drive offers to the guest: `none`, `streams:MAX`, or `fdp:HANDLESxUNIT` or
/// `fdp:GROUPSxHANDLESxUNIT` with the size of a reclaim unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = "^(none|streams:[0-9]+|fdp:([0-9]+x)?[0-9]+x[0-9.]+ *[A-Za-z]*)$"))]
pub enum PlacementSpec {
    /// No data placement.
    #[default]
    None,
    /// The streams directive.
    Streams {
        /// Maximum number of streams open at a time.
        max: u16,
    },
    /// Flexible Data Placement.
    Fdp {
        /// Reclaim groups.
        reclaim_groups: u16,
        /// Reclaim unit handles.
        handles: u16,
        /// Size of a reclaim unit in bytes.
        reclaim_unit: u64,
    },
}

impl PlacementSpec {
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
            return Ok(Self::Streams { max: number(max, 1024)? });
        }
        let parts: Vec<&str> = word.strip_prefix("fdp:").ok_or_else(wrong)?.split('x').collect();
        let (groups, handles, unit) = match parts[..] {
            [handles, unit] => ("1", handles, unit),
            [groups, handles, unit] => (groups, handles, unit),
            _ => return Err(wrong()),
        };
        let reclaim_unit =
            units::parse_size(unit).map_err(|error| format!("{}: {error}", wrong()))?;
        if reclaim_unit == 0 || reclaim_unit % 4096 != 0 {
            return Err(format!("{}: the unit must be a multiple of 4096 bytes", wrong()));
        }
        Ok(Self::Fdp {
            reclaim_groups: number(groups, 64)?,
            handles: number(handles, 128)?,
            reclaim_unit,
        })
    }
}

impl TryFrom<String> for PlacementSpec {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        Self::parse(&word)
    }
}

impl From<PlacementSpec> for String {
    fn from(spec: PlacementSpec) -> Self {
        match spec {
            PlacementSpec::None => "none".into(),
            PlacementSpec::Streams { max } => format!("streams:{max}"),
            PlacementSpec::Fdp { reclaim_groups, handles, reclaim_unit } => {
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
            assert_eq!(String::from(PlacementSpec::parse(word).unwrap()), word);
        }
        let short = PlacementSpec::parse("fdp:8x64MiB").unwrap();
        assert_eq!(short, PlacementSpec::parse("fdp:1x8x64MiB").unwrap());
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
            let message = PlacementSpec::parse(word).unwrap_err();
            assert!(message.contains(expected), "{word}: {message}");
        }
    }
}
