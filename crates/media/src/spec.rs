//! Which medium: as configurations and command lines say it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use stasis_block::units::{format_duration, format_size, parse_size};

use crate::delay::Delayed;
use crate::synchronous::Synchronous;
use crate::workers::Workers;
use crate::{
    open, Durability, Execution, ImageSettings, Medium, OpenError, Ram, SpecError,
    MINIMUM_CAPACITY, SECTOR,
};

/// The description of a medium: `ram:1GiB`, `file:disk.img`,
/// `qcow2:disk.qcow2`, `ordered:disk.img` or `device:/dev/sdb`, or a table such as
/// `{ file = "disk.img", size = "1GiB", direct = true }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediumSpec {
    /// Memory, gone at the end of the run.
    Ram {
        /// Bytes.
        size: u64,
    },
    /// A raw image.
    File {
        /// Where it is; relative to [`OpenOptions::base`].
        path: PathBuf,
        /// Its size in bytes. With it, a missing image is made.
        size: Option<u64>,
        /// Past the page cache.
        direct: bool,
    },
    /// A disk image in qcow2. It is opened by the image layer, on a medium of
    /// its files.
    Qcow2 {
        /// Where it is; relative to [`OpenOptions::base`].
        path: PathBuf,
        /// What the guest's flushes mean.
        settings: ImageSettings,
    },
    /// A raw image in which the guest's flushes may be orders, in real time.
    /// `stasis serve` opens it.
    Ordered {
        /// Where it is; relative to [`OpenOptions::base`].
        path: PathBuf,
        /// Its size in bytes. With it, a missing image is made.
        size: Option<u64>,
        /// What the guest's flushes mean.
        settings: ImageSettings,
    },
    /// A block device.
    Device {
        /// Its node, such as `/dev/sdb`.
        path: PathBuf,
        /// Past the page cache (the default).
        direct: bool,
    },
}

/// How to open a medium.
#[derive(Debug, Clone, Copy)]
pub struct OpenOptions<'a> {
    /// When it works on its I/Os.
    pub execution: Execution,
    /// Each I/O takes at least this real time.
    pub delay: Duration,
    /// The folder that relative paths start from.
    pub base: &'a Path,
}

const KINDS: [&str; 5] = ["ram", "file", "qcow2", "ordered", "device"];
const KEYS: [&str; 10] = [
    "ram",
    "file",
    "qcow2",
    "ordered",
    "device",
    "size",
    "direct",
    "durability",
    "max-lag",
    "max-lag-bytes",
];

/// Settings of an ordered disk where nothing is said.
fn ordered() -> ImageSettings {
    ImageSettings { durability: Durability::Ordered, ..ImageSettings::default() }
}

fn nearest<const N: usize>(word: &str, among: [&'static str; N]) -> &'static str {
    let distance = |right: &&str| strsim::damerau_levenshtein(&word.to_lowercase(), right);
    among.into_iter().min_by_key(distance).unwrap_or("")
}

impl MediumSpec {
    /// Reads `ram:SIZE`, `file:PATH`, `qcow2:PATH`, `ordered:PATH` or `device:PATH`.
    ///
    /// # Errors
    /// A [`SpecError`] that names what is wrong and the nearest right word.
    pub fn parse(word: &str) -> Result<Self, SpecError> {
        let (kind, value) = match word.split_once(':') {
            Some((kind, value)) => (kind.trim(), value.trim()),
            None => (word.trim(), ""),
        };
        if !KINDS.contains(&kind) {
            let nearest = nearest(kind, KINDS);
            return Err(SpecError::Kind { word: word.into(), kind: kind.into(), nearest });
        }
        if value.is_empty() {
            return Err(SpecError::Incomplete { word: word.into() });
        }
        let path = PathBuf::from(value);
        Ok(match kind {
            "ram" => Self::Ram {
                size: parse_size(value)
                    .map_err(|source| SpecError::Size { word: word.into(), source })?,
            },
            "file" => Self::File { path, size: None, direct: false },
            "qcow2" => Self::Qcow2 { path, settings: ImageSettings::default() },
            "ordered" => Self::Ordered { path, size: None, settings: ordered() },
            _ => Self::Device { path, direct: true },
        })
    }

    /// The medium as results name it, such as `file:disk.img`.
    pub fn label(&self) -> String {
        match self {
            Self::Ram { size } => format!("ram:{}", format_size(*size)),
            Self::File { path, .. } => format!("file:{}", path.display()),
            Self::Qcow2 { path, .. } => format!("qcow2:{}", path.display()),
            Self::Ordered { path, .. } => format!("ordered:{}", path.display()),
            Self::Device { path, .. } => format!("device:{}", path.display()),
        }
    }

    /// Its file or device, where it has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Ram { .. } => None,
            Self::File { path, .. }
            | Self::Qcow2 { path, .. }
            | Self::Ordered { path, .. }
            | Self::Device { path, .. } => Some(path),
        }
    }

    /// The same, but a raw image that is not there yet and has no size of its
    /// own is made with `size` bytes; `base` is where relative paths start.
    #[must_use]
    pub fn or_size(&self, new: Option<u64>, base: &Path) -> Self {
        let mut spec = self.clone();
        if let Self::File { path, size, .. } | Self::Ordered { path, size, .. } = &mut spec {
            if !base.join(path).exists() {
                *size = size.or(new);
            }
        }
        spec
    }

    /// Opens the medium, locks it, and makes it ready for I/O.
    ///
    /// # Errors
    /// An [`OpenError`] that names the path, the cause and what to do.
    pub fn open(&self, options: &OpenOptions) -> Result<Box<dyn Medium>, OpenError> {
        let backing = match self {
            &Self::Ram { size } => {
                if size < MINIMUM_CAPACITY || size % SECTOR != 0 {
                    return Err(OpenError::RamSize { size });
                }
                return Ok(delayed(Ram::new(size), options));
            }
            Self::File { path, size, direct } => {
                open::file(&options.base.join(path), &self.label(), *size, *direct)?
            }
            Self::Qcow2 { path, .. } => return Err(OpenError::Image(path.clone())),
            Self::Ordered { path, .. } => return Err(OpenError::RealTime(path.clone())),
            Self::Device { path, direct } => {
                open::device(&options.base.join(path), &self.label(), *direct)?
            }
        };
        Ok(match options.execution {
            Execution::Synchronous => delayed(Synchronous::new(backing), options),
            Execution::Asynchronous => delayed(Workers::new(backing), options),
            Execution::Polled => crate::uring::polled(backing)?,
        })
    }
}

pub(crate) fn delayed(medium: impl Medium + 'static, options: &OpenOptions) -> Box<dyn Medium> {
    if options.delay.is_zero() {
        Box::new(medium)
    } else {
        Box::new(Delayed::new(medium, options.delay, options.execution))
    }
}

impl fmt::Display for MediumSpec {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.label())
    }
}

impl FromStr for MediumSpec {
    type Err = SpecError;

    fn from_str(word: &str) -> Result<Self, SpecError> {
        Self::parse(word)
    }
}

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

/// A size as [`stasis_block::units::size`] reads it.
#[derive(Deserialize)]
#[serde(transparent)]
struct Size(#[serde(with = "stasis_block::units::size")] u64);

/// A duration as [`stasis_block::units::duration`] reads it.
#[derive(Deserialize)]
#[serde(transparent)]
struct Lag(#[serde(with = "stasis_block::units::duration")] u64);

#[derive(Default)]
struct Table {
    ram: Option<u64>,
    file: Option<PathBuf>,
    device: Option<PathBuf>,
    qcow2: Option<PathBuf>,
    ordered: Option<PathBuf>,
    durability: Option<Durability>,
    max_lag: Option<u64>,
    max_lag_bytes: Option<u64>,
    size: Option<u64>,
    direct: Option<bool>,
}

impl Table {
    fn into_spec(self) -> Result<MediumSpec, SpecError> {
        let Self { ram, file, device, qcow2, ordered: image, size, direct, .. } = self;
        let said =
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
        misplaced(said && qcow2.is_none() && image.is_none(), "raw", "durability")?;
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

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MediumSpec, A::Error> {
        let mut table = Table::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "ram" => table.ram = Some(map.next_value::<Size>()?.0),
                "file" => table.file = Some(map.next_value()?),
                "device" => table.device = Some(map.next_value()?),
                "ordered" => table.ordered = Some(map.next_value()?),
                "qcow2" => table.qcow2 = Some(map.next_value()?),
                "durability" => {
                    table.durability = Some(map.next_value()?);
                }
                "max-lag" => {
                    table.max_lag = Some(map.next_value::<Lag>()?.0);
                }
                "max-lag-bytes" => {
                    table.max_lag_bytes = Some(map.next_value::<Size>()?.0);
                }
                "size" => table.size = Some(map.next_value::<Size>()?.0),
                "direct" => table.direct = Some(map.next_value()?),
                _ => {
                    let nearest = nearest(&key, KEYS);
                    return Err(A::Error::custom(SpecError::Key { key, nearest }));
                }
            }
        }
        table.into_spec().map_err(A::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Drive {
        medium: MediumSpec,
    }

    fn read(value: &str) -> Result<MediumSpec, String> {
        let text = format!("medium = {value}");
        toml::from_str::<Drive>(&text).map(|drive| drive.medium).map_err(|error| error.to_string())
    }

    #[test]
    fn words_and_tables_say_the_same() {
        let ram = MediumSpec::Ram { size: 1 << 30 };
        let file = |size, direct| MediumSpec::File { path: "disk.img".into(), size, direct };
        let image = |durability, max_lag| MediumSpec::Qcow2 {
            path: "disk.qcow2".into(),
            settings: ImageSettings { durability, max_lag, ..ImageSettings::default() },
        };
        let ordered = |size, durability| MediumSpec::Ordered {
            path: "disk.img".into(),
            size,
            settings: ImageSettings { durability, ..ImageSettings::default() },
        };
        let device = |direct| MediumSpec::Device { path: "/dev/sdb".into(), direct };
        for (text, spec) in [
            ("'ram:1GiB'", ram.clone()),
            ("{ ram = '1GiB' }", ram.clone()),
            ("{ ram = 1073741824 }", ram),
            ("'file:disk.img'", file(None, false)),
            ("{ file = 'disk.img' }", file(None, false)),
            ("{ file = 'disk.img', size = '1MiB' }", file(Some(1 << 20), false)),
            ("{ file = 'disk.img', direct = true }", file(None, true)),
            ("'qcow2:disk.qcow2'", image(Durability::Flush, 50_000_000)),
            ("{ qcow2 = 'disk.qcow2' }", image(Durability::Flush, 50_000_000)),
            (
                "{ qcow2 = 'disk.qcow2', durability = 'ordered', max-lag = '10ms' }",
                image(Durability::Ordered, 10_000_000),
            ),
            ("'ordered:disk.img'", ordered(None, Durability::Ordered)),
            (
                "{ ordered = 'disk.img', size = '1MiB' }",
                ordered(Some(1 << 20), Durability::Ordered),
            ),
            (
                "{ ordered = 'disk.img', durability = 'barrier' }",
                ordered(None, Durability::Barrier),
            ),
            ("'device:/dev/sdb'", device(true)),
            ("{ device = '/dev/sdb' }", device(true)),
            ("{ device = '/dev/sdb', direct = false }", device(false)),
        ] {
            let drive = Drive { medium: read(text).unwrap() };
            assert_eq!(drive.medium, spec, "{text}");
            let written = toml::to_string(&drive).unwrap();
            assert_eq!(toml::from_str::<Drive>(&written).unwrap(), drive, "{written}");
        }
        for word in ["ram:1GiB", "file:disk.img", "file:a:b", "qcow2:d.qcow2", "device:/dev/sdb"] {
            assert_eq!(MediumSpec::parse(word).unwrap().label(), word);
        }
    }

    #[test]
    fn wrong_ones_name_the_word_and_the_nearest() {
        for (text, parts) in [
            ("'rma:1GiB'", ["`rma`", "did you mean `ram`"]),
            ("'fil:disk.img'", ["`fil`", "did you mean `file`"]),
            ("'disk.img'", ["`disk.img`", "file:PATH"]),
            ("'ram'", ["`ram`", "ram:SIZE"]),
            ("'file:'", ["`file:`", "file:PATH"]),
            ("'ram:1gib'", ["`ram:1gib`", "did you mean `GiB`"]),
            ("{ ram = '1gib' }", ["unit `gib`", "did you mean `GiB`"]),
            ("{ fiel = 'x' }", ["`fiel`", "did you mean `file`"]),
            ("{ size = '1GiB' }", ["exactly one of", "none of them"]),
            ("{ ram = '1GiB', file = 'x' }", ["exactly one of", "`ram` and `file`"]),
            ("{ ram = '1GiB', direct = true }", ["`ram` medium", "no `direct`"]),
            ("{ ordered = 'x', direct = true }", ["`ordered` medium", "no `direct`"]),
            ("{ device = '/dev/sdb', size = 1 }", ["`device` medium", "no `size`"]),
            ("{ file = 'x', durability = 'flush' }", ["`raw` medium", "no `durability`"]),
            ("{ qcow2 = 'x', durability = 'flsh' }", ["flsh", "ordered"]),
            ("7", ["invalid type", "a medium such as"]),
        ] {
            let message = read(text).unwrap_err();
            for part in parts {
                assert!(message.contains(part), "{text}: {message}");
            }
        }
    }
}
