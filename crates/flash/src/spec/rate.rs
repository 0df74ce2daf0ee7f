//! Rates in descriptions: `400MB/s`.

use std::borrow::Cow;
use std::fmt;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::{de, Deserialize, Deserializer, Serialize, Serializer};
use stasis_block::units::{format_size, parse_size};

/// Bytes per second, at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(u64);

impl Rate {
    /// `bytes` per second, at least 1.
    pub fn per_second(bytes: u64) -> Self {
        Self(bytes.max(1))
    }

    /// In bytes per second.
    pub fn bytes_per_second(self) -> u64 {
        self.0
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
        let word = String::deserialize(from)?;
        let size = word.strip_suffix("/s").ok_or_else(|| {
            de::Error::custom(format!("`{word}` is no rate: write a size per second, `400MB/s`"))
        })?;
        match parse_size(size).map_err(de::Error::custom)? {
            0 => Err(de::Error::custom(format!("`{word}`: a rate is more than nothing"))),
            bytes => Ok(Self(bytes)),
        }
    }
}

impl JsonSchema for Rate {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "rate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "/s$", "examples": ["400MB/s"] })
    }
}
