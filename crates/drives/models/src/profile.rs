//! Profiles: measurements of a drive, as a JSON file.
//!
//! ```json
//! {
//!   "format": "stasis-profile",
//!   "version": 1,
//!   "name": "my-drive",
//!   "source": "fio 3.33 on /dev/nvme0n1, 2026-11-21",
//!   "observed": "device",
//!   "interpolation": "linear",
//!   "operations": {
//!     "read": [
//!       { "block_size": 4096, "percentiles": [[0, 61000], [50, 68000], [99, 90000], [100, 400000]] },
//!       { "block_size": 131072, "samples": [98000, 99000, 102000] }
//!     ]
//!   },
//!   "bandwidth": { "read": 3200000000 }
//! }
//! ```
//!
//! - `observed`: `device` where the times begin and end at the drive (blktrace's
//!   D to C), `application` where they hold the software path as well (fio's
//!   completion latency). From the latter the path that the guest adds by
//!   itself is subtracted when the model is built.
//! - `operations`: `read`, `write`, `flush`, `discard`, `write-zeroes`, each with
//!   one entry per block size (bytes; 0 for `flush`). An entry has either
//!   `percentiles`, pairs of (percent, ns) that ascend in both, where 0 and 100
//!   are the minimum and the maximum, or `samples` in ns in any order.
//! - Between block sizes latencies are interpolated linearly in the length.
//!   Beyond the largest they grow by `bandwidth` (bytes/s) if it is given for the
//!   operation, else along the last two block sizes, else not at all; below the
//!   smallest they stay.
//! - Limits of several commands at once: `depth` in service, `rate` of a block size
//!   (commands/s), `bandwidth` (bytes/s). Commands of all operations share one pipeline. A command
//!   waits for it where more are in service than the `depth` with which its block size was measured
//!   (1): up to that its latencies are the measured ones.
//! - An operation without figures is refused: a profile without `write` is of a drive
//!   that can only be read. Without figures of their own a verify is a read, and a discard, a
//!   write-zeroes or a flush a write.
//! - `interpolation` between percentiles or samples: `linear` or `log`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::Operation;

use crate::distribution::Interpolation;

/// The value of the field `format` of a profile file.
pub const FORMAT: &str = "stasis-profile";
/// The version of the format that this crate reads and writes.
pub const VERSION: u32 = 1;

/// Where the times of a profile begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Observed {
    /// At the drive.
    #[default]
    Device,
    /// In the application, the software path included.
    Application,
}

/// A drive's latencies as measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
    pub version: u32,
    /// A short name.
    pub name: String,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// Where the times begin and end.
    #[serde(default)]
    pub observed: Observed,
    /// Between percentiles or samples.
    #[serde(default)]
    pub interpolation: Interpolation,
    /// Latencies per operation, by block size.
    pub operations: BTreeMap<Operation, Vec<Block>>,
    /// Maximum number of commands in flight during the measurement. A drive of the profile has no
    /// more in service at once; any number if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub depth: Option<u32>,
    /// Maximum transfer rate by operation (bytes/s), which also gives a command's time for each
    /// byte beyond the largest block size.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bandwidth: BTreeMap<Operation, u64>,
}

/// The latencies of one block size: either percentiles or samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Bytes per command.
    pub block_size: u64,
    /// Pairs of (percent, ns).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<(f64, f64)>,
    /// In ns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Nanos>,
    /// Maximum commands/s of this size, with several in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Commands that were in flight when its latencies were measured; 1 if not given. With no more than
    /// these a command takes just that long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub depth: Option<u32>,
}

/// Why a text is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Not JSON, or not of the documented form.
    #[error("not a profile: {0}; its format is documented in `stasis-models::profile`")]
    Json(#[from] serde_json::Error),
    /// Another format, or a version that this program does not support.
    #[error("`format` is `{format}` and `version` {version}: expected `{FORMAT}` and {VERSION}")]
    Version {
        /// The format it claims.
        format: String,
        /// The version it claims.
        version: u32,
    },
    /// There is not one latency in it.
    #[error("`operations` is empty: a profile needs the latencies of one operation at least")]
    Empty,
    /// A value that makes no sense.
    #[error("{place}: {problem}")]
    Value {
        /// Where, as a path of fields.
        place: String,
        /// The fault, and the values allowed.
        problem: &'static str,
    },
}

impl Profile {
    /// A profile without latencies yet.
    pub fn new(name: &str, source: &str, observed: Observed) -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            name: name.into(),
            source: source.into(),
            observed,
            interpolation: Interpolation::Linear,
            operations: BTreeMap::new(),
            depth: None,
            bandwidth: BTreeMap::new(),
        }
    }

    /// Reads and checks a profile file's text.
    ///
    /// # Errors
    /// [`ProfileError`], with the place.
    pub fn from_json(text: &str) -> Result<Self, ProfileError> {
        let mut profile: Self = serde_json::from_str(text)?;
        profile.check()?;
        Ok(profile)
    }

    /// The text of the profile's file.
    pub fn to_json(&self) -> String {
        // Plain data with string keys: there is nothing that JSON cannot hold.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Checks every value, and sorts block sizes and samples.
    ///
    /// # Errors
    /// [`ProfileError`], with the place.
    pub fn check(&mut self) -> Result<(), ProfileError> {
        if self.format != FORMAT || self.version != VERSION {
            let (format, version) = (self.format.clone(), self.version);
            return Err(ProfileError::Version { format, version });
        }
        if self.operations.is_empty() {
            return Err(ProfileError::Empty);
        }
        for (operation, blocks) in &mut self.operations {
            let place = format!("operations.{}", operation.name());
            blocks.sort_by_key(|block| block.block_size);
            if blocks.is_empty() {
                return Err(bad(place, "is empty: leave the operation out"));
            }
            if blocks.windows(2).any(|pair| pair[0].block_size == pair[1].block_size) {
                return Err(bad(place, "has a `block_size` twice"));
            }
            for block in blocks {
                block.check(&format!("{place}, block_size {}", block.block_size))?;
            }
        }
        if self.depth == Some(0) {
            return Err(bad("depth".into(), "must be 1 or more"));
        }
        for (operation, &bandwidth) in &self.bandwidth {
            if bandwidth == 0 {
                let place = format!("bandwidth.{}", operation.name());
                return Err(bad(place, "must be more than 0 bytes/s"));
            }
        }
        Ok(())
    }
}

impl Block {
    fn check(&mut self, place: &str) -> Result<(), ProfileError> {
        if self.percentiles.is_empty() == self.samples.is_empty() {
            return Err(bad(place.into(), "needs either `percentiles` or `samples`"));
        }
        if self.rate == Some(0) {
            return Err(bad(format!("{place}, rate"), "must be more than 0 commands/s"));
        }
        if self.depth == Some(0) {
            return Err(bad(format!("{place}, depth"), "must be 1 or more"));
        }
        self.samples.sort_unstable();
        for (i, &(percent, ns)) in self.percentiles.iter().enumerate() {
            let at = || format!("{place}, percentiles[{i}]");
            if !(0.0..=100.0).contains(&percent) {
                return Err(bad(at(), "the percentile must be from 0 to 100"));
            }
            // Beyond 2^63 ns (292 years) sums would no longer fit.
            if !(0.0..=i64::MAX as f64).contains(&ns) {
                return Err(bad(at(), "the latency must be from 0 to 2^63 ns"));
            }
            if i > 0 && (self.percentiles[i - 1].0 > percent || self.percentiles[i - 1].1 > ns) {
                return Err(bad(at(), "must not be less than the pair before it"));
            }
        }
        Ok(())
    }
}

fn bad(place: String, problem: &'static str) -> ProfileError {
    ProfileError::Value { place, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{"format": "stasis-profile", "version": 1, "name": "x",
        "operations": {"read": [{"block_size": 4096, "percentiles": [[0, 5], [100, 9]]},
                                {"block_size": 512, "samples": [3, 1, 2]}]}}"#;

    #[test]
    fn a_profile_reads_back() {
        let profile = Profile::from_json(SMALL).unwrap();
        let read = &profile.operations[&Operation::Read];
        assert_eq!((read[0].block_size, &read[0].samples[..]), (512, &[1, 2, 3][..]));
        assert_eq!(Profile::from_json(&profile.to_json()).unwrap(), profile);
    }

    #[test]
    fn errors_name_the_place() {
        for (from, to, expected) in [
            ("\"version\": 1", "\"version\": 2", "expected `stasis-profile` and 1"),
            ("[100, 9]", "[100, 4]", "operations.read, block_size 4096, percentiles[1]"),
            ("[100, 9]", "[101, 9]", "from 0 to 100"),
            ("[100, 9]", "[100, -9]", "from 0 to 2^63"),
            ("512", "4096", "twice"),
            ("\"samples\": [3, 1, 2]", "\"samples\": []", "either `percentiles` or `samples`"),
            ("\"samples\"", "\"sample\"", "unknown field `sample`"),
            ("\"read\"", "\"raed\"", "unknown variant `raed`"),
        ] {
            let text = SMALL.replace(from, to);
            assert_ne!(text, SMALL, "{from}");
            let error = Profile::from_json(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
