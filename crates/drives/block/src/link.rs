//! The link of a PCI Express device, as data sheets write it: `PCIe 4.0 x4`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The newest generation whose speed Max Link Speed names (PCI Express Base Specification 6.0,
/// 7.5.3.6).
const GENERATIONS: u8 = 6;

/// Speed and width of a link, as reported to the guest. The model, not the link, decides how long a
/// transfer takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    generation: u8,
    lanes: u8,
}

/// A text that does not describe a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no link: write it as data sheets do, `PCIe 4.0 x4`, with a generation from 1.0 to \
     6.0 and 1, 2, 4, 8, 12, 16 or 32 lanes"
)]
pub struct LinkError(String);

impl Link {
    /// A link of PCI Express `generation`.0 with `lanes` lanes (Maximum Link Width, 7.5.3.6), if
    /// there is one.
    pub const fn new(generation: u8, lanes: u8) -> Option<Self> {
        let known = 1 <= generation && generation <= GENERATIONS;
        if known && matches!(lanes, 1 | 2 | 4 | 8 | 12 | 16 | 32) {
            return Some(Self { generation, lanes });
        }
        None
    }

    /// The specification's major revision that brought the speed: 1 for 2.5 GT/s,
    /// 2 for 5, 3 for 8, 4 for 16, 5 for 32, 6 for 64. Registers number speeds
    /// the same (7.5.3.6, Max Link Speed).
    pub fn generation(self) -> u8 {
        self.generation
    }

    /// Number of lanes.
    pub fn lanes(self) -> u8 {
        self.lanes
    }
}

impl Default for Link {
    /// The usual link of NVMe drives of the last ten years: PCIe 3.0 x4.
    fn default() -> Self {
        Self { generation: 3, lanes: 4 }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PCIe {}.0 x{}", self.generation, self.lanes)
    }
}

impl FromStr for Link {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let read = || {
            let words = text.trim();
            let words = words.strip_prefix("PCIe").unwrap_or(words).trim_start();
            let (revision, lanes) = words.split_once('x')?;
            let (major, minor) = revision.trim_end().split_once('.')?;
            // The minor revision (3.1) has the same speed as its major one.
            minor.parse::<u8>().ok()?;
            Self::new(major.parse().ok()?, lanes.parse().ok()?)
        };
        read().ok_or_else(|| LinkError(text.into()))
    }
}

impl Serialize for Link {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Link {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Link {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "link".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^ *(PCIe)? *[1-6]\\.[0-9] *x(1|2|4|8|12|16|32) *$",
            "examples": ["PCIe 4.0 x4"]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_as_data_sheets_write_them() {
        for (text, generation, lanes) in
            [("PCIe 4.0 x4", 4, 4), ("3.1 x4", 3, 4), ("PCIe 5.0x16", 5, 16), (" 1.0 x1 ", 1, 1)]
        {
            let link: Link = text.parse().unwrap();
            assert_eq!((link.generation(), link.lanes()), (generation, lanes), "{text}");
            assert_eq!(link.to_string().parse(), Ok(link));
        }
        assert_eq!(Link::default().to_string(), "PCIe 3.0 x4");
    }

    #[test]
    fn what_is_no_link_is_named() {
        for text in ["", "PCIe", "PCIe 4.0", "7.0 x4", "0.0 x4", "4.0 x3", "4 x4", "SATA 6 Gb/s"] {
            let message = text.parse::<Link>().unwrap_err().to_string();
            assert!(message.starts_with(&format!("`{text}` is no link")), "{message}");
        }
    }
}
