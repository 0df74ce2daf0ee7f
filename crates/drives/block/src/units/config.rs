//! Sizes and durations in configurations, for serde.

use std::borrow::Cow;

use crate::clock::Nanos;
use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

use super::{format_duration, format_size, parse, Kind, DURATION, SIZE};
#[cfg(doc)]
use super::{parse_duration, parse_size, UnitError};

/// Reads a value of `Kind` from a number or a string.
struct Value(&'static Kind);

impl<'de> Visitor<'de> for Value {
    type Value = u64;

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Kind { name, smallest, example, .. } = self.0;
        write!(f, "a {name} such as \"{example}\", or a number of {smallest}")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
        u64::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<u64, E> {
        parse(word, self.0).map_err(E::custom)
    }
}

/// Reads an optional value of `Kind`.
struct Optional(&'static Kind);

impl<'de> Visitor<'de> for Optional {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        Value(self.0).expecting(f)
    }

    fn visit_none<E: Error>(self) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Option<u64>, D::Error> {
        from.deserialize_any(Value(self.0)).map(Some)
    }
}

// The four below are types, not modules, so that `#[serde(with = "...")]` names the
// functions and, with the same word, the schema that schemars derives.

/// Sizes in configurations, for `#[serde(with = "stasis_block::units::size")]`:
/// a number of bytes or a string; written as a string.
#[allow(non_camel_case_types, reason = "named in serde's attribute, where modules are usual")]
#[derive(Debug)]
pub enum size {}

impl size {
    /// Writes the size with its unit.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(bytes: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_size(*bytes))
    }

    /// Reads a number of bytes, or a string that [`parse_size`] takes.
    ///
    /// # Errors
    /// The deserializer's, with a [`UnitError`]'s message among them.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        from.deserialize_any(Value(&SIZE))
    }
}

/// [`size`] for an `Option<u64>`, together with `#[serde(default)]`.
#[allow(non_camel_case_types, reason = "named in serde's attribute, where modules are usual")]
#[derive(Debug)]
pub enum size_option {}

impl size_option {
    /// Writes the size with its unit, if there is one.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(bytes: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        bytes.map(format_size).serialize(to)
    }

    /// Reads a number of bytes, a string that [`parse_size`] takes, or none.
    ///
    /// # Errors
    /// The deserializer's, with a [`UnitError`]'s message among them.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        from.deserialize_option(Optional(&SIZE))
    }
}

/// Durations in configurations, for
/// `#[serde(with = "stasis_block::units::duration")]`: a number of ns or a
/// string; written as a string.
#[allow(non_camel_case_types, reason = "named in serde's attribute, where modules are usual")]
#[derive(Debug)]
pub enum duration {}

impl duration {
    /// Writes the duration with its unit.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(duration: &Nanos, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_duration(*duration))
    }

    /// Reads a number of ns, or a string that [`parse_duration`] takes.
    ///
    /// # Errors
    /// The deserializer's, with a [`UnitError`]'s message among them.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
        from.deserialize_any(Value(&DURATION))
    }
}

/// [`duration`] for an `Option<Nanos>`, together with `#[serde(default)]`.
#[allow(non_camel_case_types, reason = "named in serde's attribute, where modules are usual")]
#[derive(Debug)]
pub enum duration_option {}

impl duration_option {
    /// Writes the duration with its unit, if there is one.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(duration: &Option<Nanos>, to: S) -> Result<S::Ok, S::Error> {
        duration.map(format_duration).serialize(to)
    }

    /// Reads a number of ns, a string that [`parse_duration`] takes, or none.
    ///
    /// # Errors
    /// The deserializer's, with a [`UnitError`]'s message among them.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Nanos>, D::Error> {
        from.deserialize_option(Optional(&DURATION))
    }
}

/// Schema of the values of `Kind`, for editors.
fn schema_of(kind: &Kind, title: &str) -> Schema {
    let mut units: Vec<&str> = kind.units.iter().map(|(unit, _)| *unit).collect();
    units.sort_by_key(|unit| std::cmp::Reverse(unit.len()));
    let number = "[0-9]+(\\.[0-9]+)?";
    // A bare 0 needs no unit.
    let bare = if kind.bare { format!("|{number}") } else { "|0+(\\.0+)?".into() };
    let Kind { smallest, example, .. } = kind;
    json_schema!({
        "description": format!("A {title}: a number and a unit, or a number of {smallest}."),
        "anyOf": [
            {
                "type": "string",
                "pattern": format!("^ *({number} *({}){bare}) *$", units.join("|")),
                "examples": [example]
            },
            { "type": "integer", "minimum": 0 }
        ]
    })
}

impl JsonSchema for size {
    fn schema_name() -> Cow<'static, str> {
        "size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema_of(&SIZE, "size")
    }
}

impl JsonSchema for duration {
    fn schema_name() -> Cow<'static, str> {
        "duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema_of(&DURATION, "duration")
    }
}

// A table without the key has none: TOML has no null.

impl JsonSchema for size_option {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        size::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<size>()
    }
}

impl JsonSchema for duration_option {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        duration::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<duration>()
    }
}
