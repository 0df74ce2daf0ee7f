//! An Open-Channel geometry as a word: `GROUPSxUNITSxCHUNKSxSECTORS`.

use std::borrow::Cow;
use std::fmt;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::config::Ocssd;

impl Ocssd {
    /// Reads `GROUPSxUNITSxCHUNKSxSECTORS`.
    ///
    /// # Errors
    /// Returns the invalid word and its required form.
    fn parse(word: &str) -> Result<Self, String> {
        let mut numbers = word.split('x').map(|number| number.parse::<u32>().ok());
        let mut next = || numbers.next().flatten();
        let parsed = (|| {
            let (groups, units) = (u16::try_from(next()?).ok()?, u16::try_from(next()?).ok()?);
            Some(Self::new(groups, units, next()?, next()?))
        })();
        match parsed.filter(|_| word.split('x').count() == 4) {
            Some(parsed) => Ok(parsed),
            None => Err(format!(
                "ocssd is `{word}`, but must be GROUPSxUNITSxCHUNKSxSECTORS, such as \
                 4x2x64x1024"
            )),
        }
    }
}

/// For `#[serde(with = "stasis_nvme::ocssd_option")]`: an optional [`Ocssd`], as a word or as a
/// table.
#[allow(non_camel_case_types, reason = "named in serde's attribute, where modules are usual")]
#[derive(Debug)]
pub enum ocssd_option {}

impl ocssd_option {
    /// Writes the geometry as a table.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(spec: &Option<Ocssd>, to: S) -> Result<S::Ok, S::Error> {
        spec.serialize(to)
    }

    /// Reads a word, a table, or none.
    ///
    /// # Errors
    /// The deserializer's, and for a word its required form.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Ocssd>, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Option<Ocssd>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a geometry such as \"4x2x64x1024\", or a table")
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
                Ocssd::parse(word).map(Some).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Ocssd::deserialize(MapAccessDeserializer::new(map)).map(Some)
            }
        }
        from.deserialize_any(Reads)
    }
}

impl JsonSchema for ocssd_option {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ocssd".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<Ocssd>();
        json_schema!({
            "anyOf": [
                {
                    "type": "string",
                    "pattern": "^[0-9]+x[0-9]+x[0-9]+x[0-9]+$",
                    "examples": ["4x2x64x1024"]
                },
                table
            ]
        })
    }
}
