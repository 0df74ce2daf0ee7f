//! A drive, in a `[[drive]]` table or a `--drive` word.

use serde::{Deserialize, Serialize};
use stasis_block::units;
use stasis_clock::Nanos;
use stasis_media::MediumSpec;
use stasis_models::ModelSpec;
use stasis_scheduler::SchedulerSpec;

use crate::error::{nearest, ExperimentError};
use crate::layout::{PhysicalSpec, ZonesSpec};
use crate::placement::PlacementSpec;

mod words;

/// What a drive looks like to the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interface {
    /// An NVMe controller.
    #[default]
    Nvme,
    /// A virtio block device.
    VirtioBlk,
}

impl Interface {
    /// Every interface.
    const ALL: [Self; 2] = [Self::Nvme, Self::VirtioBlk];

    fn parse(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|interface| interface.name() == word);
        found.ok_or_else(|| {
            let nearest = nearest(word, Self::ALL.map(Self::name).into_iter());
            format!("unknown interface `{word}`; did you mean `{nearest}`?")
        })
    }

    /// Its name in configurations and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::VirtioBlk => "virtio-blk",
        }
    }
}

/// How the guest's driver announces commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doorbells {
    /// Each submission's doorbell write leaves the guest: its time is exact.
    #[default]
    Exact,
    /// None does: a submission is seen at the guest's next exit, at most a
    /// quantum later, and its time is that.
    Lazy,
}

/// A drive: when its commands complete, and where its bytes live.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DriveSpec {
    /// Its name in the results; by default `drive0`, `drive1`, ...
    #[serde(default)]
    pub name: Option<String>,
    /// What it looks like to the guest.
    #[serde(default)]
    pub interface: Interface,
    /// When its commands complete.
    pub model: ModelSpec,
    /// Where its bytes live.
    pub medium: MediumSpec,
    /// What a barrier costs (ns): makes a drive offer one whose model does not.
    #[serde(default, with = "units::duration_option")]
    pub barrier: Option<Nanos>,
    /// A real wait for each I/O on the medium (ns): plays a slow one.
    #[serde(default, with = "units::duration")]
    pub delay: Nanos,
    /// I/O queues or queue pairs; by default one for each vCPU.
    #[serde(default)]
    pub queues: Option<u16>,
    /// Whether submissions leave the guest.
    #[serde(default)]
    pub doorbells: Doorbells,
    /// Logical block size in bytes: 512 or 4096.
    #[serde(default = "default_block_size", with = "units::size")]
    pub block_size: u64,
    /// Namespaces, of equal size.
    #[serde(default = "default_namespaces")]
    pub namespaces: u32,
    /// How the guest can say which data belongs together.
    #[serde(default)]
    pub placement: PlacementSpec,
    /// Which of the requests that wait it gets next; without one, it gets each
    /// as it comes.
    #[serde(default)]
    pub scheduler: Option<SchedulerSpec>,
    /// Serial number, as the guest sees it.
    #[serde(default)]
    pub serial: Option<String>,
    /// What the guest's own software adds to each command (ns): taken off
    /// latencies that were measured by an application. By default what was
    /// measured for the engine.
    #[serde(default, with = "units::duration_option")]
    pub path: Option<Nanos>,
    /// Its zones, if it is of the Zoned Namespace command set.
    #[serde(default)]
    pub zones: Option<ZonesSpec>,
    /// Its geometry, if it is an Open-Channel drive.
    #[serde(default)]
    pub physical: Option<PhysicalSpec>,
}

fn default_block_size() -> u64 {
    512
}

fn default_namespaces() -> u32 {
    1
}

impl DriveSpec {
    /// The keys that [`Self::parse`] takes, in the order in which help lists them.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        words::names()
    }

    /// Reads `KEY=VALUE,...` as `--drive` takes it.
    ///
    /// # Errors
    /// Names the word that is wrong and the nearest right one.
    pub fn parse(word: &str) -> Result<Self, ExperimentError> {
        let drive = words::parse(word).and_then(|drive| drive.check().map(|()| drive));
        drive.map_err(|message| ExperimentError::Drive { word: word.to_owned(), message })
    }

    /// What serde cannot say.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !matches!(self.block_size, 512 | 4096) {
            return Err(format!("block-size is {}, but must be 512 or 4096", self.block_size));
        }
        if !(1..=128).contains(&self.namespaces) {
            return Err("namespaces must be a number from 1 to 128".into());
        }
        let plain = self.namespaces == 1 && self.placement == PlacementSpec::None;
        if self.interface != Interface::Nvme && !plain {
            return Err("namespaces and placement are of interface=nvme only".into());
        }
        if self.queues.is_some_and(|queues| !(1..=64).contains(&queues)) {
            return Err("queues must be a number from 1 to 64".into());
        }
        if self.interface != Interface::Nvme && (self.zones.is_some() || self.physical.is_some()) {
            return Err("zones and physical need the interface nvme".into());
        }
        if self.zones.is_some() && self.physical.is_some() {
            return Err("zones and physical exclude each other; take one away".into());
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
        assert_eq!((drive.namespaces, drive.placement), (2, PlacementSpec::Streams { max: 4 }));
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
        let words = "model=null,medium=ram:1GiB,physical=4x2x32x1024";
        let table: DriveSpec = toml::from_str(
            "model='null'\nmedium={ram='1GiB'}\n\
             physical={groups=4,units=2,chunks=32,sectors=1024}",
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
    fn every_key_that_is_listed_is_taken() {
        let keys: Vec<_> = DriveSpec::keys().collect();
        assert_eq!(keys.len(), 22);
        for key in &keys {
            let message = match DriveSpec::parse(&format!("{key}=?")) {
                Ok(_) => String::new(),
                Err(error) => error.to_string(),
            };
            assert!(!message.contains("unknown key"), "{key}: {message}");
        }
        let wrong = DriveSpec::parse("sise=1").unwrap_err().to_string();
        assert!(wrong.contains("unknown key `sise`"), "{wrong}");
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
            ("model=null,medium=ram:1GiB,zone-size=64MiB,max-open-zones=a", "a number"),
            ("model=null,medium=ram:1GiB,physical=4x2x32", "GROUPSxUNITSxCHUNKSxSECTORS"),
            ("model=null,medium=ram:1GiB,physical=1x1x1x1,zone-size=1MiB", "exclude"),
        ] {
            let message = DriveSpec::parse(word).unwrap_err().to_string();
            assert!(message.contains(expected), "{word}: {message}");
        }
    }
}
