//! Drives that show their inside: zones, or the geometry of an Open-Channel
//! drive. Whether they fit the drive is seen when its size is known.

use serde::{Deserialize, Serialize};
use stasis_block::units;

/// The zones of a zoned namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ZonesSpec {
    /// From one zone's start to the next's, in bytes: a power of two.
    #[serde(with = "units::size")]
    pub size: u64,
    /// How much of a zone can be written, in bytes; by default all of it.
    #[serde(default, with = "units::size_option")]
    pub capacity: Option<u64>,
    /// Most open zones; by default as many as may be active.
    #[serde(default)]
    pub max_open: Option<u32>,
    /// Most active zones, that is open or closed; by default no limit.
    #[serde(default)]
    pub max_active: Option<u32>,
    /// Bytes that the host can attach to a zone.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ZrwaSpec {
    /// Size of an area in bytes.
    #[serde(with = "units::size")]
    pub size: u64,
    /// The write pointer moves in steps of this many bytes.
    #[serde(with = "units::size")]
    pub granularity: u64,
    /// How many zones can have one at a time.
    pub count: u32,
}

/// The geometry of an Open-Channel 2.0 drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PhysicalSpec {
    /// Groups.
    pub groups: u16,
    /// Parallel units in each group.
    pub units: u16,
    /// Chunks in each unit.
    pub chunks: u32,
    /// Sectors, of the drive's block size, in each chunk.
    pub sectors: u32,
    /// Least sectors of a write.
    #[serde(default = "one")]
    pub write_min: u32,
    /// Sectors of the fastest write; by default the least.
    #[serde(default)]
    pub write_optimal: Option<u32>,
    /// Sectors before the write pointer of an open chunk that cannot be read.
    #[serde(default)]
    pub cached: u32,
    /// Most open chunks; by default no limit.
    #[serde(default)]
    pub max_open: Option<u32>,
    /// Most open chunks of a unit; by default no limit.
    #[serde(default)]
    pub max_open_per_unit: Option<u32>,
    /// Resets that a chunk endures, for its wear-level index; by default
    /// endless.
    #[serde(default)]
    pub endurance: Option<u32>,
}

fn one() -> u32 {
    1
}

impl PhysicalSpec {
    /// Reads `GROUPSxUNITSxCHUNKSxSECTORS`.
    ///
    /// # Errors
    /// What it must be.
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
                "physical is `{word}`, but must be GROUPSxUNITSxCHUNKSxSECTORS, such as \
                 4x2x64x1024"
            )),
        }
    }
}

/// The words about zones of a `--drive`.
#[derive(Debug, Default)]
pub(crate) struct ZoneWords {
    size: Option<u64>,
    capacity: Option<u64>,
    max_open: Option<u32>,
    max_active: Option<u32>,
}

impl ZoneWords {
    /// Takes the value of `zone-size`.
    pub fn size(&mut self, value: &str) -> Result<(), String> {
        self.size = Some(units::parse_size(value).map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Takes the value of `zone-capacity`.
    pub fn capacity(&mut self, value: &str) -> Result<(), String> {
        self.capacity = Some(units::parse_size(value).map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Takes the value of `max-open-zones`.
    pub fn max_open(&mut self, value: &str) -> Result<(), String> {
        self.max_open = Some(count("max-open-zones", value)?);
        Ok(())
    }

    /// Takes the value of `max-active-zones`.
    pub fn max_active(&mut self, value: &str) -> Result<(), String> {
        self.max_active = Some(count("max-active-zones", value)?);
        Ok(())
    }

    /// The zones that the words describe, if any does.
    pub fn finish(self) -> Result<Option<ZonesSpec>, String> {
        let Self { size, capacity, max_open, max_active } = self;
        let Some(size) = size else {
            return match (capacity, max_open, max_active) {
                (None, None, None) => Ok(None),
                _ => Err("zone-size is missing; for example zone-size=64MiB".into()),
            };
        };
        Ok(Some(ZonesSpec {
            size,
            capacity,
            max_open,
            max_active,
            extension_size: 0,
            zrwa: None,
            reads_cross_zones: false,
        }))
    }
}

fn count(key: &str, value: &str) -> Result<u32, String> {
    value.parse().map_err(|_| format!("{key} is `{value}`, but must be a number"))
}
