//! A drive, in a `[[drive]]` table or a `--drive` word.

use std::path::Path;
use std::sync::OnceLock;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Doorbells};
use stasis_config::{Key, Words};
use stasis_media::MediumSpec;
use stasis_models::{ModelSpec, ResolveError};
use stasis_nvme::{Ocssd, Placement, Zones};
use stasis_scheduler::{LimitSpec, SchedulerSpec};

use crate::error::ExperimentError;
use crate::guest_drive::guest_drive;

/// Device interface through which the guest accesses the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interface {
    /// An NVMe controller.
    #[default]
    Nvme,
    /// A virtio block device.
    VirtioBlk,
}

impl Interface {
    /// Name of the interface in configurations and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::VirtioBlk => "virtio-blk",
        }
    }
}

/// Initial state of a drive beside the bytes on its medium: zones and chunks, the format of
/// namespaces, placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StateSpec {
    /// The state at the end of the last run on the medium. A drive with zones or chunks is refused
    /// if that run was cut off.
    #[default]
    Keep,
    /// The state at the end of the last run on the medium, or before that run if it was cut off.
    Last,
    /// The state of a new drive, whatever is on the medium.
    New,
}

guest_drive! {
    /// A drive: when its commands complete, and where its bytes live.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    #[schemars(transform = older_names)]
    pub struct DriveSpec (interface = "Interface::default") {
        /// Latency model, which sets when commands complete: a name, a word such as `fixed:100us`, or a
        /// table.
        #[schemars(extend("examples" = ["fixed:100us"]))]
        pub model: ModelSpec,
        /// Medium that stores the drive's data.
        #[schemars(extend("examples" = ["ram:1GiB"]))]
        pub medium: MediumSpec,
        /// Cost of a barrier (ns). A drive whose model has no barrier offers one if this is set.
        #[serde(default, with = "units::duration_option")]
        pub barrier: Option<Nanos>,
        /// Wall-clock delay added to each I/O on the medium (ns), which imitates a slow medium.
        #[serde(default, with = "units::duration")]
        pub delay: Nanos,
        /// Logical block size in bytes: 512 or 4096.
        #[serde(default = "default_block_size", with = "units::size")]
        pub block_size: u64,
        /// Namespaces, of equal size.
        #[serde(default = "default_namespaces")]
        #[schemars(range(min = 1, max = 128))]
        pub namespaces: u32,
        /// Data placement that the drive offers to the guest.
        #[serde(default)]
        pub placement: Placement,
        /// Scheduler of a shared drive, which selects the next waiting request. Without one, requests
        /// go to the drive in order of arrival.
        #[serde(default)]
        pub scheduler: Option<SchedulerSpec>,
        /// Time that the guest's software adds to each command (ns), subtracted from latencies that
        /// were measured by an application. By default the value measured for the engine.
        #[serde(default, with = "units::duration_option")]
        pub path: Option<Nanos>,
        /// Zones, for a drive with the Zoned Namespace command set.
        #[serde(default)]
        pub zones: Option<Zones>,
        /// Geometry of an Open-Channel drive: `GROUPSxUNITSxCHUNKSxSECTORS`, or a table.
        #[serde(default, with = "stasis_nvme::ocssd_option", alias = "physical")]
        pub ocssd: Option<Ocssd>,
        /// Initial state of the drive beside its data, such as zones: kept from an earlier run, or new.
        #[serde(default)]
        pub state: StateSpec,
    }
}

fn older_names(schema: &mut Schema) {
    stasis_config::older_name(schema, "ocssd", "physical");
}

fn default_block_size() -> u64 {
    512
}

fn default_namespaces() -> u32 {
    1
}

/// The keys of `--drive`, from the schema of the table.
fn words() -> &'static Words {
    static WORDS: OnceLock<Words> = OnceLock::new();
    WORDS.get_or_init(|| Words::new(stasis_config::schema::<DriveSpec>(), of_medium))
}

/// Turns `file:a.img` into a table's `file = "a.img"` if other words set more keys of the medium.
fn of_medium(key: &str, word: &str) -> Option<(String, String)> {
    let (kind, value) = word.split_once(':').filter(|_| key == "medium")?;
    Some((kind.trim().to_owned(), value.trim().to_owned()))
}

impl DriveSpec {
    /// The keys of [`Self::parse`]: those of the schema that are no tables, and those of the tables
    /// in it that are of one form, as `TABLE.KEY` or by a shorter name.
    pub fn keys() -> &'static [Key] {
        words().keys()
    }

    /// Reads `KEY=VALUE,...` as `--drive` takes it.
    ///
    /// # Errors
    /// Names the word that is wrong and the nearest right one.
    pub fn parse(word: &str) -> Result<Self, ExperimentError> {
        let drive: Self = words()
            .read(word, "model=fixed:100us,medium=ram:1GiB")
            .map_err(|error| ExperimentError::Words { word: word.to_owned(), error })?;
        drive
            .check()
            .map_err(|message| ExperimentError::Drive { word: word.to_owned(), message })?;
        Ok(drive)
    }

    /// Reads a table, as the control interface of `stasis serve` takes it.
    ///
    /// # Errors
    /// Returns the key, the value found, the allowed ones and the nearest.
    pub fn from_table(table: serde_json::Value) -> Result<Self, ExperimentError> {
        let wrong = |message| ExperimentError::Value(format!("the drive's table: {message}"));
        let drive: Self =
            stasis_config::read_table(table).map_err(|error| wrong(error.to_string()))?;
        drive.check().map_err(wrong)?;
        Ok(drive)
    }

    /// Has its relative paths begin in `folder`: its medium's, and its model's, whose files are
    /// read.
    ///
    /// # Errors
    /// [`ResolveError`], which names the file that cannot be read.
    pub fn anchor(&mut self, folder: &Path) -> Result<(), ResolveError> {
        self.medium.anchor(folder);
        self.model.resolve(folder)
    }

    /// Checks ranges and combinations that serde does not.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !matches!(self.block_size, 512 | 4096) {
            return Err(format!("block-size is {}, but must be 512 or 4096", self.block_size));
        }
        if !(1..=128).contains(&self.namespaces) {
            return Err("namespaces must be a number from 1 to 128".into());
        }
        let plain = self.namespaces == 1 && self.placement == Placement::None;
        if self.interface != Interface::Nvme && !plain {
            return Err("namespaces and placement are of interface=nvme only".into());
        }
        self.check_guest_side()?;
        if self.interface != Interface::Nvme && (self.zones.is_some() || self.ocssd.is_some()) {
            return Err("zones and ocssd need the interface nvme".into());
        }
        if self.zones.is_some() && self.ocssd.is_some() {
            return Err("zones and ocssd exclude each other; take one away".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_tables_say() {
        let drive = DriveSpec::parse("model=dcpmm,medium=file:disk.img,delay=5ms").unwrap();
        assert_eq!(drive.delay, 5_000_000);
        assert_eq!(drive.model.label(), "dcpmm");
        let table: DriveSpec =
            toml::from_str("model='dcpmm'\nmedium={file='disk.img'}\ndelay='5ms'").unwrap();
        assert_eq!(drive, table);
        let drive = DriveSpec::parse("model=null,medium=file:disk.img,size=1GiB").unwrap();
        let table = "model='null'\nmedium={file='disk.img',size='1GiB'}";
        assert_eq!(drive, toml::from_str(table).unwrap());
        let word = "model=null,medium=ram:1GiB,namespaces=2,placement=streams:4";
        let table = "model='null'\nmedium='ram:1GiB'\nnamespaces=2\nplacement='streams:4'";
        let drive = DriveSpec::parse(word).unwrap();
        assert_eq!(drive, toml::from_str(&table.replace("'ram:1GiB'", "{ram='1GiB'}")).unwrap());
        assert_eq!((drive.namespaces, drive.placement), (2, Placement::Streams { max: 4 }));
    }

    #[test]
    fn tables_of_programs_are_checked() {
        let table = |text: &str| DriveSpec::from_table(serde_json::from_str(text).unwrap());
        let drive = table(r#"{"model": "null", "medium": "ram:1GiB", "queues": 2}"#).unwrap();
        assert_eq!(drive, DriveSpec::parse("model=null,medium=ram:1GiB,queues=2").unwrap());
        for (key, expected) in [
            (r#""queues": 65"#, "from 1 to 64"),
            (r#""modle": "null""#, "did you mean `model`?"),
            (r#""block-size": 1024"#, "512 or 4096"),
            (r#""zones": {"sice": 1}"#, "did you mean `size`?"),
        ] {
            let text = format!(r#"{{"model": "null", "medium": "ram:1GiB", {key}}}"#);
            let message = table(&text).unwrap_err().to_string();
            assert!(message.contains(expected), "{key}: {message}");
        }
    }

    #[test]
    fn layouts_come_from_words_and_tables() {
        let words = "model=null,medium=ram:1GiB,zone-size=64MiB,zone-capacity=48MiB,\
                     max-open-zones=8,max-active-zones=14";
        let table: DriveSpec = toml::from_str(
            "model='null'\nmedium={ram='1GiB'}\n\
             zones={size='64MiB',capacity='48MiB',max-open=8,max-active=14}",
        )
        .unwrap();
        assert_eq!(DriveSpec::parse(words).unwrap(), table);
        assert_eq!(table.zones.unwrap().capacity, Some(48 << 20));
        let words = "model=null,medium=ram:1GiB,ocssd=4x2x32x1024";
        let table: DriveSpec = toml::from_str(
            "model='null'\nmedium={ram='1GiB'}\n\
             ocssd={groups=4,units=2,chunks=32,sectors=1024}",
        )
        .unwrap();
        assert_eq!(DriveSpec::parse(words).unwrap(), table);
        let zrwa: DriveSpec = toml::from_str(
            "model='null'\nmedium={ram='1GiB'}\nzones={size='64MiB',extension-size=64,\
             zrwa={size='1MiB',granularity='16KiB',count=4},reads-cross-zones=true}",
        )
        .unwrap();
        assert_eq!(zrwa.zones.unwrap().zrwa.unwrap().granularity, 16384);
    }

    #[test]
    fn older_names_are_read_and_not_listed() {
        let new = DriveSpec::parse("model=null,medium=ram:1GiB,ocssd=4x2x32x1024").unwrap();
        let old = DriveSpec::parse("model=null,medium=ram:1GiB,physical=4x2x32x1024").unwrap();
        assert_eq!(old, new);
        let table = "model='null'\nmedium={ram='1GiB'}\nphysical='4x2x32x1024'";
        assert_eq!(toml::from_str::<DriveSpec>(table).unwrap(), new);
        let words = "physical.groups=1,physical.units=1,physical.chunks=1,physical.sectors=8";
        let drive = DriveSpec::parse(&format!("model=null,medium=ram:1GiB,{words}")).unwrap();
        assert_eq!(drive.ocssd.unwrap().sectors, 8);
        assert!(DriveSpec::keys().iter().all(|key| !key.name.contains("physical")));
        let near = DriveSpec::parse("model=null,medium=ram:1GiB,physicals=1").unwrap_err();
        assert!(!near.to_string().contains("did you mean `physical`"), "{near}");
    }

    #[test]
    fn every_key_of_the_table_can_be_a_word_and_the_other_way_round() {
        let schema = stasis_config::schema::<DriveSpec>();
        let table = schema["properties"].as_object().unwrap();
        let keys = DriveSpec::keys();
        for (key, schema) in table {
            if schema["deprecated"] == true {
                let word = format!("model=null,medium=ram:1GiB,{key}=?");
                let message = DriveSpec::parse(&word).unwrap_err().to_string();
                assert!(!message.contains("unknown key"), "{key}: {message}");
                continue;
            }
            let of_table = |listed: &Key| listed.path().next() == Some(key);
            assert!(keys.iter().any(of_table), "{key}");
        }
        for key in keys {
            assert!(key.path().next().is_some_and(|first| table.contains_key(first)), "{key:?}");
            let message = match DriveSpec::parse(&format!("{}=?", key.name)) {
                Ok(_) => String::new(),
                Err(error) => error.to_string(),
            };
            assert!(!message.contains("unknown key"), "{key:?}: {message}");
            // The nearest to a word with a slip of the finger is the word.
            let slip = format!("{}x", key.name);
            let message = DriveSpec::parse(&format!("{slip}=1")).unwrap_err().to_string();
            assert!(message.contains(&format!("did you mean `{}`?", key.name)), "{message}");
        }
        for name in [
            "size",
            "durability",
            "max-lag",
            "zone-size",
            "zone-capacity",
            "max-open-zones",
            "max-active-zones",
            "ocssd",
            "zones.zrwa.size",
        ] {
            assert!(keys.iter().any(|key| key.name == name), "{name}");
        }
    }

    #[test]
    fn words_of_tables_in_the_table() {
        let words = "model=null,medium=file:d.img,medium.direct=true,zone-size=64MiB,\
                     zones.zrwa.size=1MiB,zones.zrwa.granularity=16KiB,zones.zrwa.count=4";
        let table = "model='null'\nmedium={file='d.img',direct=true}\n\
                     zones={size='64MiB',zrwa={size='1MiB',granularity='16KiB',count=4}}";
        assert_eq!(DriveSpec::parse(words).unwrap(), toml::from_str(table).unwrap());
        let words = "model=null,medium=ordered:d.img,size=1MiB,durability=barrier,max-lag=3ms";
        let table =
            "model='null'\nmedium={ordered='d.img',size='1MiB',durability='barrier',max-lag='3ms'}";
        assert_eq!(DriveSpec::parse(words).unwrap(), toml::from_str(table).unwrap());
    }

    #[test]
    fn wrong_words_are_named() {
        for (word, expected) in [
            ("modle=null,medium=ram:1GiB", "did you mean `model`?"),
            ("model=null", "medium is missing"),
            ("model=null,medium=ram:1GiB,size=1GiB", "ram:SIZE"),
            ("model=null,medium=file:d,size=1GX", "1GX"),
            ("model=null,medium=ram:1GiB,block-size=1024", "512 or 4096"),
            ("model=null,medium=ram:1GiB,queues=0", "1 to 64"),
            ("model=null,medium=ram:1GiB,doorbells=lasy", "did you mean `lazy`?"),
            ("model=null,medium=ram:1GiB,interface=virtio", "did you mean `virtio-blk`?"),
            ("model=null,medium=ram:1GiB,namespaces=0", "1 to 128"),
            ("model=null,medium=ram:1GiB,namespaces=2,interface=virtio-blk", "interface=nvme"),
            ("model=null,medium=ram:1GiB,namespaces=two", "1 to 128"),
            ("model=null,medium=ram:1GiB,placement=fpd:8x1MiB", "fdp:8x64MiB"),
            ("model=dcpm,medium=ram:1GiB", "dcpmm"),
            ("model=fixed:100uss,medium=ram:1GiB", "us"),
            ("model=null,medium=qcow2:d,durability=orderd", "did you mean `ordered`?"),
            ("model=null,medium=ram:1GiB,durability=ordered", "medium=qcow2:PATH"),
            ("model=null,medium=ram:1GiB,scheduler=bfg", "did you mean `bfq`?"),
            ("nonsense", "KEY=VALUE"),
            ("model=null,medium=ram:1GiB,zone-sice=64MiB", "did you mean `zone-size`?"),
            ("model=null,medium=ram:1GiB,zone-capacity=64MiB", "zone-size is missing"),
            ("model=null,medium=ram:1GiB,zone-size=64MiB,max-open-zones=a", "a whole number"),
            ("model=null,medium=ram:1GiB,ocssd=4x2x32", "GROUPSxUNITSxCHUNKSxSECTORS"),
            ("model=null,medium=ram:1GiB,ocssd=1x1x1x1,zone-size=1MiB", "exclude"),
        ] {
            let message = DriveSpec::parse(word).unwrap_err().to_string();
            assert!(message.contains(expected), "{word}: {message}");
        }
    }
}
