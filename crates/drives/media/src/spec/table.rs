//! A medium as a table, and as configurations write it.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::units::{self, format_duration, format_size};

use super::{ordered, MediumSpec, KINDS};
use crate::{Durability, ImageSettings, SpecError};

impl Serialize for MediumSpec {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        match self {
            Self::Ram { size } => map.serialize_entry("ram", &format_size(*size))?,
            Self::File { path, size, direct } => {
                map.serialize_entry("file", path)?;
                if let Some(size) = size {
                    map.serialize_entry("size", &format_size(*size))?;
                }
                if *direct {
                    map.serialize_entry("direct", direct)?;
                }
            }
            Self::Qcow2 { path, settings } => {
                map.serialize_entry("qcow2", path)?;
                serialize_settings(&mut map, settings, &ImageSettings::default())?;
            }
            Self::Ordered { path, size, settings } => {
                map.serialize_entry("ordered", path)?;
                if let Some(size) = size {
                    map.serialize_entry("size", &format_size(*size))?;
                }
                serialize_settings(&mut map, settings, &ordered())?;
            }
            Self::Device { path, direct } => {
                map.serialize_entry("device", path)?;
                if !direct {
                    map.serialize_entry("direct", direct)?;
                }
            }
        }
        map.end()
    }
}

fn serialize_settings<M: SerializeMap>(
    map: &mut M,
    settings: &ImageSettings,
    usual: &ImageSettings,
) -> Result<(), M::Error> {
    if settings.durability != usual.durability {
        map.serialize_entry("durability", &settings.durability)?;
    }
    if settings.max_lag != usual.max_lag {
        map.serialize_entry("max-lag", &format_duration(settings.max_lag))?;
    }
    if settings.max_lag_bytes != usual.max_lag_bytes {
        map.serialize_entry("max-lag-bytes", &format_size(settings.max_lag_bytes))?;
    }
    Ok(())
}

impl<'de> Deserialize<'de> for MediumSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SpecVisitor)
    }
}

/// A medium as a table: exactly one of `ram`, `file`, `qcow2`, `ordered` and `device`, and its
/// further keys.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("oneOf" = [
    { "required": ["ram"] },
    { "required": ["file"] },
    { "required": ["qcow2"] },
    { "required": ["ordered"] },
    { "required": ["device"] },
]))]
struct Table {
    /// Memory of this size, gone at the end of the run.
    #[serde(with = "units::size_option")]
    ram: Option<u64>,
    /// A raw image.
    file: Option<PathBuf>,
    /// A block device.
    device: Option<PathBuf>,
    /// A disk image in qcow2.
    qcow2: Option<PathBuf>,
    /// A raw image in which the guest's flushes may be orders, for `stasis serve`.
    ordered: Option<PathBuf>,
    /// Condition for the end of a guest's flush, of an image in qcow2 or an ordered one.
    #[schemars(extend("x-word" = "durability"))]
    durability: Option<Durability>,
    /// Where a flush is an order: limit on the age of flushes that a crash can undo.
    #[serde(with = "units::duration_option")]
    #[schemars(extend("x-word" = "max-lag"))]
    max_lag: Option<Nanos>,
    /// Approximate limit, where a flush is an order, on the data written before those flushes and
    /// not yet durable.
    #[serde(with = "units::size_option")]
    max_lag_bytes: Option<u64>,
    /// Size of a raw image. With it, one that is not there is made.
    #[serde(with = "units::size_option")]
    #[schemars(extend("x-word" = "size"))]
    size: Option<u64>,
    /// Use of I/O past the host's page cache; by default for a block device only.
    direct: Option<bool>,
}

impl JsonSchema for MediumSpec {
    fn schema_name() -> Cow<'static, str> {
        "medium".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<Table>();
        json_schema!({
            "description": "Where a drive's bytes live.",
            "anyOf": [
                {
                    "type": "string",
                    "description": "The kind, a colon, and the size or the path.",
                    "pattern": format!("^ *({}) *:.", KINDS.join("|")),
                    "examples": ["ram:1GiB", "file:disk.img", "qcow2:disk.qcow2", "device:/dev/sdb"]
                },
                table
            ]
        })
    }
}

impl Table {
    fn into_spec(self) -> Result<MediumSpec, SpecError> {
        let Self { ram, file, device, qcow2, ordered: image, size, direct, .. } = self;
        let has_image_settings =
            self.durability.is_some() || self.max_lag.is_some() || self.max_lag_bytes.is_some();
        let settings = |usual: ImageSettings| ImageSettings {
            durability: self.durability.unwrap_or(usual.durability),
            max_lag: self.max_lag.unwrap_or(usual.max_lag),
            max_lag_bytes: self.max_lag_bytes.unwrap_or(usual.max_lag_bytes),
        };
        let misplaced = |present: bool, kind, key| match present {
            true => Err(SpecError::Misplaced { kind, key }),
            false => Ok(()),
        };
        misplaced(has_image_settings && qcow2.is_none() && image.is_none(), "raw", "durability")?;
        match (ram, file, device, qcow2, image) {
            (None, None, None, Some(path), None) => {
                misplaced(size.is_some(), "qcow2", "size")?;
                misplaced(direct.is_some(), "qcow2", "direct")?;
                Ok(MediumSpec::Qcow2 { path, settings: settings(ImageSettings::default()) })
            }
            (None, None, None, None, Some(path)) => {
                misplaced(direct.is_some(), "ordered", "direct")?;
                Ok(MediumSpec::Ordered { path, size, settings: settings(ordered()) })
            }
            (Some(bytes), None, None, None, None) => {
                misplaced(size.is_some(), "ram", "size")?;
                misplaced(direct.is_some(), "ram", "direct")?;
                Ok(MediumSpec::Ram { size: bytes })
            }
            (None, Some(path), None, None, None) => {
                Ok(MediumSpec::File { path, size, direct: direct.unwrap_or(false) })
            }
            (None, None, Some(path), None, None) => {
                misplaced(size.is_some(), "device", "size")?;
                Ok(MediumSpec::Device { path, direct: direct.unwrap_or(true) })
            }
            (ram, file, device, qcow2, image) => {
                let present = [
                    ram.is_some(),
                    file.is_some(),
                    qcow2.is_some(),
                    image.is_some(),
                    device.is_some(),
                ];
                let found: Vec<_> = KINDS
                    .iter()
                    .zip(present)
                    .filter(|(_, present)| *present)
                    .map(|(kind, _)| format!("`{kind}`"))
                    .collect();
                let found =
                    if found.is_empty() { "none of them".into() } else { found.join(" and ") };
                Err(SpecError::OneKind { found })
            }
        }
    }
}

struct SpecVisitor;

impl<'de> Visitor<'de> for SpecVisitor {
    type Value = MediumSpec;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a medium such as \"ram:1GiB\" or { file = \"disk.img\" }")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<MediumSpec, E> {
        MediumSpec::parse(word).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MediumSpec, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        table.into_spec().map_err(A::Error::custom)
    }
}
