//! Models as tables: how they are read and written, and their schema.

use std::borrow::Cow;
use std::fmt;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Error as _, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{json, Map, Value};
use stasis_block::{units, Link};
use stasis_config::{self as config, tagged, Tag};

use super::{
    unknown_kind, CardSpec, DiskSpec, ModelSpec, ModelTable, ProfileSpec, RatedSpec, SpansSpec,
    SpecError, KINDS,
};
use crate::named;

/// The keys that a table of every kind may have besides `kind` or `base`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Common {
    /// The model's name in results.
    label: Option<String>,
    /// The link of the drive's data sheet, which a guest is told of.
    link: Option<Link>,
    /// The size of the drive: that of a new image, where nothing else is said.
    #[serde(with = "units::size_option")]
    capacity: Option<u64>,
}

/// The keys that say what the rest of a table is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head {
    kind: Option<String>,
    base: Option<String>,
}

/// A kind of model without parameters.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NullSpec {}

/// What errors in [`Common`] and [`Head`] name in place of a kind.
const PLACE: &str = "model";
/// The key of a drive's size; a disk has it among its own.
const CAPACITY: &str = "capacity";
/// The kind whose own key that is.
const DISK: &str = KINDS[5];

/// Takes some keys of a table out and reads them.
fn take<T: DeserializeOwned>(
    table: &mut Map<String, Value>,
    keys: &[&str],
) -> Result<T, SpecError> {
    let taken: Map<_, _> = keys.iter().filter_map(|key| table.remove_entry(*key)).collect();
    config::read(taken.into()).map_err(|error| SpecError::of_table(PLACE, &error))
}

impl ModelSpec {
    /// Reads the form of a table.
    pub(super) fn of_table(mut table: Map<String, Value>) -> Result<Self, SpecError> {
        let Head { kind, base } = take(&mut table, &["kind", "base"])?;
        let Common { label, mut link, .. } = take(&mut table, &["label", "link"])?;
        let (kind, changed) = match (kind, base) {
            (None, None) => {
                return Err(SpecError::Missing { place: PLACE.into(), key: "kind".into() });
            }
            (Some(kind), None) => (kind, None),
            (kind, Some(base)) => {
                let base = Self::of_name(&base)?;
                let own = base.table.kind().to_string();
                if kind.is_some_and(|kind| kind != own) {
                    let problem = format!("is of kind `{own}`: leave `kind` out");
                    return Err(SpecError::value(PLACE, ("base", problem)));
                }
                let mut changed = base.label.clone();
                table.iter().for_each(|(key, _)| changed.push_str(&format!("+{key}")));
                link = link.or(base.link);
                let mut merged = base.parameters().unwrap_or_default();
                merged.extend(base.capacity.map(|size| (CAPACITY.to_owned(), size.into())));
                merged.append(&mut table);
                table = merged;
                (own, Some(changed))
            }
        };
        let label = label.or(changed).unwrap_or_else(|| kind.clone());
        let capacity =
            if kind == DISK { None } else { take::<Common>(&mut table, &[CAPACITY])?.capacity };
        let table = ModelTable::read(&kind, table)?;
        Ok(Self { label, link, capacity, table })
    }

    /// The keys of its kind.
    fn parameters(&self) -> Result<Map<String, Value>, serde_json::Error> {
        let table = match &self.table {
            ModelTable::Null => serde_json::to_value(NullSpec {})?,
            ModelTable::Fixed(spec) | ModelTable::Uniform(spec) => serde_json::to_value(spec)?,
            ModelTable::Profile(spec) => serde_json::to_value(spec)?,
            ModelTable::Rated(spec) => serde_json::to_value(spec)?,
            ModelTable::Disk(spec) => serde_json::to_value(spec)?,
            ModelTable::Card(spec) => serde_json::to_value(spec)?,
            ModelTable::Flash(spec) => serde_json::to_value(spec)?,
        };
        serde_json::from_value(table)
    }

    pub(super) fn to_map(&self) -> Result<Map<String, Value>, serde_json::Error> {
        let mut map = Map::new();
        map.insert("label".into(), self.label.clone().into());
        map.insert("kind".into(), self.table.kind().into());
        if let Some(link) = self.link {
            map.insert("link".into(), link.to_string().into());
        }
        if let Some(capacity) = self.capacity {
            map.insert(CAPACITY.into(), capacity.into());
        }
        map.append(&mut self.parameters()?);
        Ok(map)
    }
}

impl ModelTable {
    /// Reads the keys of a kind.
    fn read(kind: &str, table: Map<String, Value>) -> Result<Self, SpecError> {
        fn of<T: DeserializeOwned>(kind: &str, table: Map<String, Value>) -> Result<T, SpecError> {
            config::read(table.into()).map_err(|error| SpecError::of_table(kind, &error))
        }
        let mut read = match kind {
            "null" => of::<NullSpec>(kind, table).map(|_| Self::Null)?,
            "fixed" => Self::Fixed(of(kind, table)?),
            "uniform" => Self::Uniform(of(kind, table)?),
            "profile" => Self::Profile(of(kind, table)?),
            "rated" => Self::Rated(of(kind, table)?),
            "disk" => Self::Disk(of(kind, table)?),
            "card" => Self::Card(of(kind, table)?),
            "flash" => Self::Flash(of(kind, table)?),
            kind => return Err(unknown_kind(kind)),
        };
        if let Some(key) = read.missing() {
            return Err(SpecError::Missing { place: kind.into(), key: key.into() });
        }
        read.check().map_err(|problem| SpecError::value(kind, problem))?;
        Ok(read)
    }

    /// A key that has to be there, unless others are, and is not.
    fn missing(&self) -> Option<&'static str> {
        match self {
            Self::Fixed(spec) | Self::Uniform(spec) => spec.missing(),
            Self::Profile(spec) => spec.missing(),
            _ => None,
        }
    }

    /// Checks what the types of the values do not say, and completes what follows from others. A
    /// flash SSD is checked where its size is known.
    fn check(&mut self) -> Result<(), super::Problem> {
        match self {
            Self::Null | Self::Flash(_) => Ok(()),
            Self::Fixed(spec) => spec.check(true),
            Self::Uniform(spec) => spec.check(false),
            Self::Profile(spec) => {
                let checked = spec.profile.as_mut().map_or(Ok(()), crate::Profile::check);
                checked.map_err(|error| ("profile", error.to_string()))?;
                spec.check()
            }
            Self::Rated(spec) => spec.check(),
            Self::Disk(spec) => {
                spec.complete();
                spec.check()
            }
            Self::Card(spec) => spec.check(),
        }
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
        let mut words = vec![json!({
            "pattern": "^(fixed|uniform|profile):.",
            "description": "The same for every command, or a profile's file.",
            "examples": ["fixed:100us", "uniform:200us-400us", "profile:my-drive.json"]
        })];
        let mut tables = Vec::new();
        let common = match Common::json_schema(generator).remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Map::new(),
        };
        for kind in KINDS {
            let tag = Tag { key: "kind", words: &[kind], partial: false };
            tables.push(of_kind(generator, kind, &tag, &common));
            let named: Vec<_> = named::names_of_kind(kind).collect();
            let summary = |(name, named): &(&str, &named::NamedModel)| json!({ "const": name, "description": named.summary });
            words.extend(named.iter().map(summary));
            let names: Vec<_> = named.iter().map(|(name, _)| *name).collect();
            if !names.is_empty() {
                let mut common = common.clone();
                common.insert("kind".into(), json!({ "const": kind }));
                let tag = Tag { key: "base", words: &names, partial: true };
                tables.push(of_kind(generator, kind, &tag, &common));
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

/// The schema of tables of a kind.
fn of_kind(
    generator: &mut SchemaGenerator,
    kind: &str,
    tag: &Tag,
    common: &Map<String, Value>,
) -> Schema {
    match kind {
        "null" => tagged::<NullSpec>(generator, tag, common),
        "fixed" | "uniform" => tagged::<SpansSpec>(generator, tag, common),
        "profile" => tagged::<ProfileSpec>(generator, tag, common),
        "rated" => tagged::<RatedSpec>(generator, tag, common),
        "disk" => tagged::<DiskSpec>(generator, tag, common),
        "card" => tagged::<CardSpec>(generator, tag, common),
        _ => tagged::<stasis_flash::Spec>(generator, tag, common),
    }
}
