//! Drives that show their inside: zones, or the geometry of an Open-Channel
//! drive. Whether they fit the drive is seen when its size is known.

use std::borrow::Cow;
use std::fmt;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use stasis_block::units;

/// The zones of a zoned namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ZonesSpec {
    /// Distance from one zone's start to the next's, in bytes: a power of two.
    #[schemars(extend("x-word" = "zone-size", "examples" = ["64MiB"]))]
    #[serde(with = "units::size")]
    pub size: u64,
    /// Writable capacity of a zone, in bytes; by default the zone's size.
    #[schemars(extend("x-word" = "zone-capacity"))]
    #[serde(default, with = "units::size_option")]
    pub capacity: Option<u64>,
    /// Maximum number of open zones; by default that of active zones.
    #[schemars(extend("x-word" = "max-open-zones"))]
    #[serde(default)]
    pub max_open: Option<u32>,
    /// Maximum number of active zones, that is open or closed ones; by default no limit.
    #[schemars(extend("x-word" = "max-active-zones"))]
    #[serde(default)]
    pub max_active: Option<u32>,
    /// Size of a zone's descriptor extension, data that the host can attach to the zone, in bytes.
    #[serde(default, with = "units::size")]
    pub extension_size: u64,
    /// Zone random write areas.
    #[serde(default)]
    pub zrwa: Option<ZrwaSpec>,
    /// Whether one read may cover several zones.
    #[serde(default)]
    pub reads_cross_zones: bool,
}

/// Zone random write areas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ZrwaSpec {
    /// Size of an area in bytes.
    #[serde(with = "units::size")]
    pub size: u64,
    /// Granularity of the write pointer's steps in bytes.
    #[serde(with = "units::size")]
    pub granularity: u64,
    /// Maximum number of zones with an area at a time.
    pub count: u32,
}

/// The geometry of an Open-Channel 2.0 drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OcssdSpec {
    /// Groups.
    pub groups: u16,
    /// Parallel units in each group.
    pub units: u16,
    /// Chunks in each unit.
    pub chunks: u32,
    /// Sectors, of the drive's block size, in each chunk.
    pub sectors: u32,
    /// Minimum number of sectors of a write.
    #[serde(default = "one")]
    pub write_min: u32,
    /// Optimal number of sectors of a write; by default the minimum.
    #[serde(default)]
    pub write_optimal: Option<u32>,
    /// Sectors before the write pointer of an open chunk that cannot be read.
    #[serde(default)]
    pub cached: u32,
    /// Maximum number of open chunks; by default no limit.
    #[serde(default)]
    pub max_open: Option<u32>,
    /// Maximum number of open chunks of a unit; by default no limit.
    #[serde(default)]
    pub max_open_per_unit: Option<u32>,
    /// Resets that a chunk endures, for its wear-level index; by default no limit.
    #[serde(default)]
    pub endurance: Option<u32>,
}

fn one() -> u32 {
    1
}

impl OcssdSpec {
    /// Reads `GROUPSxUNITSxCHUNKSxSECTORS`.
    ///
    /// # Errors
    /// Returns the invalid word and its required form.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        let mut numbers = word.split('x').map(|number| number.parse::<u32>().ok());
        let mut next = || numbers.next().flatten();
        let parsed = (|| {
            let (groups, units) = (u16::try_from(next()?).ok()?, u16::try_from(next()?).ok()?);
            Some(Self {
                groups,
                units,
                chunks: next()?,
                sectors: next()?,
                write_min: 1,
                write_optimal: None,
                cached: 0,
                max_open: None,
                max_open_per_unit: None,
                endurance: None,
            })
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

/// For `#[serde(with = "ocssd_option")]`: a [`OcssdSpec`] as a word or as a table.
#[allow(non_camel_case_types, reason = "named in serde's attribute, where modules are usual")]
#[derive(Debug)]
pub(crate) enum ocssd_option {}

impl ocssd_option {
    pub(crate) fn serialize<S: Serializer>(
        spec: &Option<OcssdSpec>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        spec.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<OcssdSpec>, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Option<OcssdSpec>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a geometry such as \"4x2x64x1024\", or a table")
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
                OcssdSpec::parse(word).map(Some).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                OcssdSpec::deserialize(MapAccessDeserializer::new(map)).map(Some)
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
        let table = generator.subschema_for::<OcssdSpec>();
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
