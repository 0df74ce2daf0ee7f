//! Models as tables: how they are read and written, and their schema.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Error as _, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{json, Map, Value};
use stasis_block::{units, Link};
use stasis_config::{self as config, Tag};

use super::{registered, ModelSpec, Problem, SpecError};
use crate::kinds::KINDS;
use crate::named;

/// The keys that a table of every kind may have besides `kind` or `base`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Common {
    /// The model's name in results.
    label: Option<String>,
    /// The link of the drive's data sheet, which the drive reports to a guest.
    link: Option<Link>,
    /// The size of the drive: that of a new image without a given size.
    #[serde(with = "units::size_option")]
    capacity: Option<u64>,
}

/// The keys that determine the meaning of the rest of a table.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head {
    kind: Option<String>,
    base: Option<String>,
}

/// The name in errors of [`Common`] and [`Head`], in place of a kind.
const PLACE: &str = "model";
/// The key of a drive's size, which a kind can have among its own.
const CAPACITY: &str = "capacity";

/// Takes some keys of a table out and reads them.
fn take<T: DeserializeOwned>(
    table: &mut Map<String, Value>,
    keys: &[&str],
) -> Result<T, SpecError> {
    let taken: Map<_, _> = keys.iter().filter_map(|key| table.remove_entry(*key)).collect();
    config::read(taken.into()).map_err(|error| SpecError::of_table(PLACE, &error))
}

/// The right form of a table that has a kind in place of the key `kind`, such as `{ fixed = "1us" }`.
fn in_place_of_kind(table: &Map<String, Value>) -> String {
    let known = table.iter().find(|(key, _)| registered(key).is_ok());
    match known {
        Some((kind, Value::String(value))) => {
            format!("; `{kind}` is a kind: write the word `{kind}:{value}`, or `kind = \"{kind}\"` with its keys")
        }
        Some((kind, _)) => format!("; `{kind}` is a kind: write `kind = \"{kind}\"` with its keys"),
        None => String::new(),
    }
}

impl ModelSpec {
    /// Reads the form of a table.
    pub(super) fn of_table(mut table: Map<String, Value>) -> Result<Self, SpecError> {
        let Head { kind, base } = take(&mut table, &["kind", "base"])?;
        let Common { label, mut link, .. } = take(&mut table, &["label", "link"])?;
        let (kind, changed) = match (kind, base) {
            (None, None) => {
                return Err(SpecError::NoKind { instead: in_place_of_kind(&table) });
            }
            (Some(kind), None) => (kind, None),
            (kind, Some(base)) => {
                let base = Self::of_name(&base)?;
                let own = base.kind.name().to_string();
                if kind.is_some_and(|kind| kind != own) {
                    let problem = format!("is of kind `{own}`: leave `kind` out");
                    return Err(SpecError::of_check(PLACE, Problem::value("base", problem)));
                }
                let mut changed = base.label.clone();
                table.iter().for_each(|(key, _)| changed.push_str(&format!("+{key}")));
                link = link.or(base.link);
                let mut merged = base.kind.table().unwrap_or_default();
                merged.extend(base.capacity.map(|size| (CAPACITY.to_owned(), size.into())));
                merged.append(&mut table);
                table = merged;
                (own, Some(changed))
            }
        };
        let label = label.or(changed).unwrap_or_else(|| kind.clone());
        let registered = registered(&kind)?;
        let own_capacity = (registered.keys)().iter().any(|key| key == CAPACITY);
        let capacity =
            if own_capacity { None } else { take::<Common>(&mut table, &[CAPACITY])?.capacity };
        let kind = (registered.read)(table)?;
        Ok(Self { label, link, capacity, kind })
    }

    /// Parameters that differ from those that it is derived from: the name of that model, or
    /// `kind = "KIND"` for a kind's defaults, and each key (`gc.policy`) with its value there and
    /// here, null where it is not given. None of a model that is not derived: of a kind whose keys
    /// have no defaults.
    pub fn changes(&self) -> Option<(String, BTreeMap<String, [Value; 2]>)> {
        // The label of a changed model begins with the name of the other.
        let base = self.label.split('+').next().and_then(named::find);
        let base = base.filter(|base| base.kind().name() == self.kind.name());
        let (from, there) = match base {
            Some(base) => (base.name.to_owned(), base.kind().table().ok()?),
            None => {
                let defaults = registered(self.kind.name()).ok()?;
                let defaults = (defaults.read)(Map::new()).ok()?;
                (format!("kind = \"{}\"", self.kind.name()), defaults.table().ok()?)
            }
        };
        let mut keys = BTreeMap::new();
        flatten("", &there.into(), &mut |key, value| {
            keys.entry(key).or_insert([Value::Null, Value::Null])[0] = value;
        });
        flatten("", &self.kind.table().ok()?.into(), &mut |key, value| {
            keys.entry(key).or_insert([Value::Null, Value::Null])[1] = value;
        });
        keys.retain(|_, [there, here]| there != here);
        Some((from, keys))
    }

    pub(super) fn to_map(&self) -> Result<Map<String, Value>, serde_json::Error> {
        let mut map = Map::new();
        map.insert("label".into(), self.label.clone().into());
        map.insert("kind".into(), self.kind.name().into());
        if let Some(link) = self.link {
            map.insert("link".into(), link.to_string().into());
        }
        if let Some(capacity) = self.capacity {
            map.insert(CAPACITY.into(), capacity.into());
        }
        map.append(&mut self.kind.table()?);
        Ok(map)
    }
}

/// Hands out each value of a table by its path, `gc.policy`.
pub(super) fn flatten(path: &str, value: &Value, out: &mut impl FnMut(String, Value)) {
    let Value::Object(table) = value else { return out(path.to_owned(), value.clone()) };
    for (key, value) in table {
        let dot = if path.is_empty() { "" } else { "." };
        flatten(&format!("{path}{dot}{key}"), value, out);
    }
}

impl Serialize for ModelSpec {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.to_map().map_err(S::Error::custom)?.serialize(to)
    }
}

impl<'de> Deserialize<'de> for ModelSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SpecVisitor)
    }
}

struct SpecVisitor;

impl<'de> Visitor<'de> for SpecVisitor {
    type Value = ModelSpec;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a model: a word such as \"fixed:100us\", or a table with a `kind`")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<ModelSpec, E> {
        ModelSpec::parse(word).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ModelSpec, A::Error> {
        let table = Map::deserialize(MapAccessDeserializer::new(map))?;
        ModelSpec::of_table(table).map_err(A::Error::custom)
    }
}

impl JsonSchema for ModelSpec {
    fn schema_name() -> Cow<'static, str> {
        "model".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let of_word = KINDS.iter().filter_map(|kind| Some((kind.name, kind.word?)));
        let (kinds, examples): (Vec<_>, Vec<_>) = of_word.unzip();
        let mut words = vec![json!({
            "pattern": format!("^({}):.", kinds.join("|")),
            "description": "The same for every command, or a profile's file.",
            "examples": examples
        })];
        let mut tables = Vec::new();
        let common = match Common::json_schema(generator).remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Map::new(),
        };
        for kind in KINDS {
            let tag = Tag { key: "kind", words: &[kind.name], partial: false };
            tables.push((kind.schema)(generator, &tag, &common));
            let named: Vec<_> = named::names_of_kind(kind.name).collect();
            let summary = |(name, named): &(&str, &named::NamedModel)| json!({ "const": name, "description": named.summary });
            words.extend(named.iter().map(summary));
            let names: Vec<_> = named.iter().map(|(name, _)| *name).collect();
            if !names.is_empty() {
                let mut common = common.clone();
                common.insert("kind".into(), json!({ "const": kind.name }));
                let tag = Tag { key: "base", words: &names, partial: true };
                tables.push((kind.schema)(generator, &tag, &common));
            }
        }
        json_schema!({
            "description": "When a drive's commands complete.",
            "anyOf": [
                { "type": "string", "anyOf": words },
                { "type": "object", "oneOf": tables }
            ]
        })
    }
}
