//! Rates of transfer as people write them: `3400MB/s`.

use std::borrow::Cow;
use std::fmt;

use crate::clock::Nanos;
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::{format_size, parse_size, UnitError};

/// ns per second.
const NS_PER_S: u128 = 1_000_000_000;
/// Binary places of ns that times per byte are kept with.
const PLACES: u32 = 32;

/// A rate of transfer in bytes per second, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(u64);

/// A word that is no rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// Not a size per second.
    #[error("`{word}` is no rate: write a size per second, such as `3400MB/s` or `10Gbit/s`")]
    PerSecond {
        /// The text as written.
        word: String,
    },
    /// The size is invalid.
    #[error(transparent)]
    Size(#[from] UnitError),
    /// The rate is 0.
    #[error("a rate must be more than 0")]
    Zero,
}

impl Rate {
    /// `bytes` per second, at least 1.
    pub const fn per_second(bytes: u64) -> Self {
        Self(if bytes == 0 { 1 } else { bytes })
    }

    /// Reads `3400MB/s`, or `10Gbit/s`.
    ///
    /// # Errors
    /// [`RateError`], which names the word.
    pub fn parse(word: &str) -> Result<Self, RateError> {
        let size = word.trim().strip_suffix("/s");
        let size = size.ok_or_else(|| RateError::PerSecond { word: word.into() })?;
        let bytes = match size.strip_suffix("bit") {
            // As many bytes, and an eighth of that: "10G" and "B".
            Some(bits) if bits.ends_with(|c: char| c.is_ascii_alphabetic()) => {
                parse_size(&format!("{bits}B"))? / 8
            }
            Some(bits) => parse_size(bits)? / 8,
            None => parse_size(size)?,
        };
        match bytes {
            0 => Err(RateError::Zero),
            bytes => Ok(Self(bytes)),
        }
    }

    /// In bytes per second.
    pub fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// For products without a division.
    pub fn time_per_byte(self) -> TimePerByte {
        let scaled = (NS_PER_S << PLACES) / u128::from(self.0);
        TimePerByte(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/s", format_size(self.0))
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reads;
        impl Visitor<'_> for Reads {
            type Value = Rate;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a rate such as \"3400MB/s\"")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Rate, E> {
                Rate::parse(word).map_err(E::custom)
            }
        }
        from.deserialize_str(Reads)
    }
}

impl JsonSchema for Rate {
    fn schema_name() -> Cow<'static, str> {
        "rate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A rate of transfer: a size per second.",
            "type": "string",
            "pattern": "^ *[0-9]+(\\.[0-9]+)? *[A-Za-z]*/s *$",
            "examples": ["3400MB/s", "10Gbit/s"]
        })
    }
}

/// The reciprocal of a [`Rate`], in 2^-32 ns per byte.
#[derive(Debug, Clone, Copy)]
pub struct TimePerByte(u64);

impl TimePerByte {
    /// The time (ns) that `bytes` take.
    pub fn times(self, bytes: u64) -> Nanos {
        let scaled = (u128::from(self.0) * u128::from(bytes)) >> PLACES;
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_their_times() {
        let rate = Rate::parse("500MB/s").unwrap();
        assert_eq!((rate.bytes_per_second(), rate.to_string()), (500_000_000, "500MB/s".into()));
        assert_eq!(rate.time_per_byte().times(4096), 8192);
        // A terabyte in 10,000 s: the error stays below a ns per 4 GB.
        let slow = Rate::per_second(100_000_000).time_per_byte();
        assert!(10_000_000_000_000u64.abs_diff(slow.times(1_000_000_000_000)) <= 250);
        assert_eq!(Rate::per_second(1).time_per_byte().times(u64::MAX), u64::MAX);
        for (word, bytes) in [
            ("10Gbit/s", 1_250_000_000),
            ("2.5 Gbit/s", 312_500_000),
            ("800bit/s", 100),
            ("100Mbit/s", 12_500_000),
        ] {
            assert_eq!(Rate::parse(word).unwrap().bytes_per_second(), bytes, "{word}");
        }
        for (word, expected) in [
            ("7bit/s", "more than 0"),
            ("9Gb/s", "did you mean"),
            ("500MB", "such as `3400MB/s`"),
            ("0MB/s", "more than 0"),
            ("5Mb/s", "did you mean `MB`"),
        ] {
            let error = Rate::parse(word).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
