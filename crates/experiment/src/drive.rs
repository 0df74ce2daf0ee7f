//! A drive, in a `[[drive]]` table or a `--drive` word.

use serde::{Deserialize, Serialize};
use stasis_block::units;
use stasis_clock::Nanos;
use stasis_media::{Durability, MediumSpec};
use stasis_models::ModelSpec;
use stasis_scheduler::SchedulerSpec;

use crate::error::{nearest, ExperimentError};
use crate::layout::{PhysicalSpec, ZoneWords, ZonesSpec};
use crate::placement::PlacementSpec;

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

const KEYS: [&str; 21] = [
    "name",
    "interface",
    "model",
    "medium",
    "durability",
    "max-lag",
    "barrier",
    "delay",
    "queues",
    "doorbells",
    "block-size",
    "namespaces",
    "placement",
    "scheduler",
    "serial",
    "path",
    "physical",
    "zone-size",
    "zone-capacity",
    "max-open-zones",
    "max-active-zones",
];

impl DriveSpec {
    /// Reads `KEY=VALUE,...` as `--drive` takes it.
    ///
    /// # Errors
    /// Names the word that is wrong and the nearest right one.
    pub fn parse(word: &str) -> Result<Self, ExperimentError> {
        let wrong = |message: String| ExperimentError::Drive { word: word.to_owned(), message };
        let (mut model, mut medium) = (None, None);
        let (mut name, mut interface, mut delay) = (None, Interface::default(), 0);
        let (mut queues, mut block_size, mut serial) = (None, default_block_size(), None);
        let (mut path, mut doorbells) = (None, Doorbells::default());
        let (mut barrier, mut durability, mut max_lag) = (None, None, None);
        let (mut namespaces, mut placement) = (default_namespaces(), PlacementSpec::default());
        let (mut zones, mut physical, mut scheduler) = (ZoneWords::default(), None, None);
        for pair in word.split(',') {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(wrong(format!(
                    "`{pair}` is not KEY=VALUE; for example model=fixed:100us,medium=ram:1GiB"
                )));
            };
            match key {
                "model" => {
                    model =
                        Some(ModelSpec::parse(value).map_err(|error| wrong(error.to_string()))?);
                }
                "medium" => {
                    medium =
                        Some(MediumSpec::parse(value).map_err(|error| wrong(error.to_string()))?);
                }
                "barrier" => {
                    barrier = Some(
                        units::parse_duration(value).map_err(|error| wrong(error.to_string()))?,
                    );
                }
                "max-lag" => {
                    max_lag = Some(
                        units::parse_duration(value).map_err(|error| wrong(error.to_string()))?,
                    );
                }
                "durability" => {
                    durability = Some(Durability::parse(value).ok_or_else(|| {
                        let names = Durability::ALL.map(Durability::name);
                        let nearest = nearest(value, names.into_iter());
                        wrong(format!(
                            "durability is `{value}`, but must be flush, barrier or ordered; did \
                             you mean `{nearest}`?"
                        ))
                    })?);
                }
                "name" => name = Some(value.to_owned()),
                "interface" => {
                    interface = Interface::parse(value).map_err(wrong)?;
                }
                "delay" => {
                    delay =
                        units::parse_duration(value).map_err(|error| wrong(error.to_string()))?;
                }
                "queues" => {
                    queues = Some(value.parse().map_err(|_| {
                        wrong(format!("queues is `{value}`, but must be a number from 1 to 64"))
                    })?);
                }
                "block-size" => {
                    block_size =
                        units::parse_size(value).map_err(|error| wrong(error.to_string()))?;
                }
                "namespaces" => {
                    namespaces = value.parse().map_err(|_| {
                        wrong(format!(
                            "namespaces is `{value}`, but must be a number from 1 to 128"
                        ))
                    })?;
                }
                "placement" => placement = PlacementSpec::parse(value).map_err(wrong)?,
                "doorbells" => {
                    doorbells = match value {
                        "exact" => Doorbells::Exact,
                        "lazy" => Doorbells::Lazy,
                        _ => {
                            let nearest = nearest(value, ["exact", "lazy"].into_iter());
                            let message = format!(
                                "doorbells is `{value}`, but must be exact or lazy; did you mean \
                                 `{nearest}`?"
                            );
                            return Err(wrong(message));
                        }
                    };
                }
                "path" => {
                    path = Some(
                        units::parse_duration(value).map_err(|error| wrong(error.to_string()))?,
                    );
                }
                "physical" => physical = Some(PhysicalSpec::parse(value).map_err(wrong)?),
                key if ZoneWords::KEYS.contains(&key) => zones.take(key, value).map_err(wrong)?,
                "scheduler" => {
                    scheduler = Some(
                        SchedulerSpec::parse(value).map_err(|error| wrong(error.to_string()))?,
                    );
                }
                "serial" => serial = Some(value.to_owned()),
                other => {
                    let nearest = nearest(other, KEYS.into_iter());
                    return Err(wrong(format!("unknown key `{other}`; did you mean `{nearest}`?")));
                }
            }
        }
        let Some(model) = model else {
            return Err(wrong("model is missing; for example model=fixed:100us".into()));
        };
        let Some(mut medium) = medium else {
            return Err(wrong("medium is missing; for example medium=ram:1GiB".into()));
        };
        match &mut medium {
            MediumSpec::Qcow2 { settings, .. } | MediumSpec::Ordered { settings, .. } => {
                settings.durability = durability.unwrap_or(settings.durability);
                settings.max_lag = max_lag.unwrap_or(settings.max_lag);
            }
            _ if durability.is_some() || max_lag.is_some() => {
                return Err(wrong(
                    "durability and max-lag are for images; write medium=qcow2:PATH or medium=ordered:PATH"
                        .into(),
                ))
            }
            _ => {}
        }
        let drive = Self {
            barrier,
            name,
            interface,
            model,
            medium,
            delay,
            queues,
            doorbells,
            block_size,
            namespaces,
            placement,
            scheduler,
            serial,
            path,
            zones: zones.finish().map_err(wrong)?,
            physical,
        };
        drive.check().map_err(wrong)?;
        Ok(drive)
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
    fn wrong_words_are_named() {
        for (word, expected) in [
            ("modle=null,medium=ram:1GiB", "did you mean `model`?"),
            ("model=null", "medium is missing"),
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
