//! A part of a whole in configurations: a number from 0 to 1, kept in millionths.

use std::borrow::Cow;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// Millionths in a whole.
const WHOLE: f64 = 1e6;

/// For `#[serde(with = "share")]`; a type, so that schemars finds the schema by the same word.
#[allow(non_camel_case_types, reason = "named in serde's attribute, where modules are usual")]
#[derive(Debug)]
pub enum share {}

impl share {
    pub fn serialize<S: Serializer>(millionths: &u32, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(f64::from(*millionths) / WHOLE)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
        let part = f64::deserialize(from)?;
        if (0.0..=1.0).contains(&part) {
            Ok((part * WHOLE).round() as u32)
        } else {
            Err(D::Error::custom(format_args!("`{part}`: write a part from 0 to 1")))
        }
    }
}

impl JsonSchema for share {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}
