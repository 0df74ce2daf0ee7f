//! Definition of a function, as its TOML file describes it.

mod check;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serializer};
use stasis_block::units::{self, parse_duration, parse_size};
use stasis_guest_image::{Recipe, DEFAULT_KERNEL};

use crate::Error;

pub(crate) use check::is_name;

/// Debian packages of every function's guest.
const BASE: [&str; 9] =
    ["bash", "coreutils", "e2fsprogs", "iproute2", "kmod", "mount", "procps", "sed", "util-linux"];

/// A function.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Description of the function, in one line.
    #[serde(default)]
    pub about: String,
    /// Debian packages beside those of every function.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Kernel modules beside those for storage.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Package of the kernel.
    pub kernel: Option<String>,
    /// Processors.
    #[serde(default = "one")]
    pub vcpus: u32,
    /// Memory in bytes.
    #[serde(
        default = "memory",
        deserialize_with = "size",
        serialize_with = "units::size::serialize"
    )]
    #[schemars(with = "units::size")]
    pub memory: u64,
    /// Names of its drives, `/dev/vda` first.
    #[serde(default)]
    pub drives: Vec<String>,
    /// The scripts' environment, which a user can change.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Shell script that starts it.
    pub init: String,
    /// Longest that `init` may take.
    #[serde(default = "minute", deserialize_with = "duration", serialize_with = "written")]
    #[schemars(with = "units::duration")]
    pub init_deadline: Duration,
    /// Shell script that ends it in order.
    #[serde(default)]
    pub stop: String,
    /// Shell script whose output the status shows.
    #[serde(default)]
    pub report: String,
    /// Files of the guest.
    #[serde(default, rename = "file")]
    pub files: Vec<GuestFile>,
    /// TCP ports.
    #[serde(default, rename = "port")]
    pub ports: Vec<Port>,
    /// Check of the function's health.
    pub health: Health,
}

/// A file of the guest.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestFile {
    /// Path of the file in the guest.
    pub path: PathBuf,
    /// Content of the file.
    pub content: Option<String>,
    /// A file of the host with the content, relative to the definition.
    pub source: Option<PathBuf>,
    /// Its permissions, in octal.
    #[serde(default = "mode")]
    pub mode: String,
}

/// A TCP port of the guest.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its number in the guest.
    pub guest: u16,
    /// Its number on the host.
    pub host: u16,
    /// The name of the NBD export behind it, which appears as a file of that
    /// name on the host.
    pub disk: Option<String>,
}

/// Check of a function's health.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Shell script that ends with 0 while it is.
    pub command: String,
    /// Interval between two checks.
    #[serde(default = "two_seconds", deserialize_with = "duration", serialize_with = "written")]
    #[schemars(with = "units::duration")]
    pub every: Duration,
    /// Limit on the time of one check.
    #[serde(default = "ten_seconds", deserialize_with = "duration", serialize_with = "written")]
    #[schemars(with = "units::duration")]
    pub deadline: Duration,
}

fn one() -> u32 {
    1
}
fn memory() -> u64 {
    512 << 20
}
fn mode() -> String {
    "0644".into()
}
fn two_seconds() -> Duration {
    Duration::from_secs(2)
}
fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}
fn minute() -> Duration {
    Duration::from_secs(60)
}

fn size<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let word = String::deserialize(from)?;
    parse_size(&word).map_err(serde::de::Error::custom)
}

fn duration<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let word = String::deserialize(from)?;
    parse_duration(&word).map(Duration::from_nanos).map_err(serde::de::Error::custom)
}

/// A duration as definitions write it: the schema's defaults.
fn written<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    to.collect_str(&units::format_duration(nanos))
}

impl Definition {
    /// Reads a definition; `place` is where it stands, for messages.
    ///
    /// # Errors
    /// The text is no TOML, has unknown keys, or contradicts itself.
    pub fn parse(text: &str, place: &str) -> Result<Self, Error> {
        let wrong = |cause: String| Error::Definition { place: place.into(), cause };
        let definition: Self =
            stasis_config::read_text(text).map_err(|error| wrong(error.to_string()))?;
        definition.check().map_err(wrong)?;
        Ok(definition)
    }

    /// Reads a definition's file.
    ///
    /// # Errors
    /// As [`Definition::parse`], or the file cannot be read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// The guest's recipe.
    pub fn recipe(&self) -> Recipe {
        let base = BASE.map(String::from).to_vec();
        let mut recipe = Recipe { packages: base, ..Recipe::default() };
        recipe.kernel = self.kernel.clone().unwrap_or_else(|| DEFAULT_KERNEL.into());
        recipe.modules.clone_from(&self.modules);
        recipe.modules.sort_unstable();
        recipe.modules.dedup();
        recipe.with_packages(self.packages.iter().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINIMAL: &str = "init = \"true\"\nhealth = { command = \"true\" }\n";

    fn refused(more: &str) -> String {
        let text = format!("{more}\n{MINIMAL}");
        Definition::parse(&text, "f.toml").unwrap_err().to_string()
    }

    #[test]
    fn little_is_needed() {
        let definition = Definition::parse(MINIMAL, "f.toml").unwrap();
        assert_eq!((definition.vcpus, definition.memory), (1, 512 << 20));
        assert_eq!(definition.health.deadline, Duration::from_secs(10));
        assert!(definition.recipe().packages.contains(&"iproute2".to_string()));
        assert!(definition.recipe().modules.is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        for (text, part) in [
            ("vcpus = 0", "1 to 64"),
            ("memory = \"191MiB\"", "192MiB"),
            ("memory = \"1 GiBB\"", "GiB"),
            ("drives = [\"a\", \"a\"]", "each name once"),
            ("drives = [\"../x\"]", "drive's name"),
            ("packges = []", "line 1, column 1: unknown key `packges`; did you mean `packages`?"),
            ("settings = { \"a b\" = \"1\" }", "variable"),
            ("port = [{ name = \"a\", guest = 1, host = 2 }, { name = \"b\", guest = 1, host = 3 }]", "same number"),
            ("port = [{ name = \"a\", guest = 0, host = 2 }]", "no port"),
            ("port = [{ name = \"a\", guest = 70000, host = 2 }]", "70000"),
            ("file = [{ path = \"etc/x\", content = \"\" }]", "absolute"),
            ("file = [{ path = \"/a/../x\", content = \"\" }]", "without `..`"),
            ("file = [{ path = \"/x\" }]", "`content` or `source`"),
            ("file = [{ path = \"/x\", content = \"\", mode = \"9\" }]", "octal"),
            ("init_deadline = \"0\"", "above 0"),
        ] {
            let error = refused(text);
            assert!(error.starts_with("f.toml: ") && error.contains(part), "{text}: {error}");
        }
        let error = Definition::parse("init = \"\"", "g").unwrap_err().to_string();
        assert!(error.contains("health"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_a_definition_or_an_error(text in "[a-z\\[\\]{}=\" \\n0-9]{0,80}") {
            let _ = Definition::parse(&text, "x");
            let _ = Definition::parse(&format!("{text}\n{MINIMAL}"), "x");
        }
    }
}
