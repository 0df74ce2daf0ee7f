//! Choice of a medium, as configurations and command lines describe it: its value alone, such as
//! `file:disk.img`. Keys beside it, such as `size`, are in `spec/table.rs`; the words of `--drive` are
//! split in `crates/experiments/experiment/src/drive_option.rs`, and the whole drive is in `drive.rs` there.

mod table;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use stasis_block::units::{format_size, parse_size};
use stasis_config::nearest;

use crate::delay::Delayed;
use crate::overlay::{Overlay, MAX_OVERLAY};
use crate::synchronous::{InPlace, Synchronous};
use crate::workers::Workers;
use crate::{
    open, size, Durability, Execution, HostMedium, ImageSettings, OpenError, Ram, SpecError,
    MIN_CAPACITY, SECTOR,
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
        /// Path of the file; relative to [`OpenOptions::base`].
        path: PathBuf,
        /// Its size in bytes. With it, a missing image is made.
        size: Option<u64>,
        /// Past the page cache.
        direct: bool,
    },
    /// A disk image in qcow2. It is opened by the image layer, on a medium of
    /// its files.
    Qcow2 {
        /// Path of the file; relative to [`OpenOptions::base`].
        path: PathBuf,
        /// Effect of the guest's flushes.
        settings: ImageSettings,
    },
    /// A raw image in which the guest's flushes may be orders, in real time.
    /// `stasis serve` opens it.
    Ordered {
        /// Path of the file; relative to [`OpenOptions::base`].
        path: PathBuf,
        /// Its size in bytes. With it, a missing image is made.
        size: Option<u64>,
        /// Effect of the guest's flushes.
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

/// Options for opening a medium.
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
/// Default settings of an ordered disk.
fn ordered() -> ImageSettings {
    ImageSettings { durability: Durability::Ordered, ..ImageSettings::default() }
}

impl MediumSpec {
    /// Reads `ram:SIZE`, `file:PATH`, `qcow2:PATH`, `ordered:PATH` or `device:PATH`. Other keys,
    /// such as `size`, are the table's (`spec/table.rs`).
    ///
    /// # Errors
    /// A [`SpecError`] that names the fault and the nearest right word.
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

    /// Returns the medium's file or device, where it has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Ram { .. } => None,
            Self::File { path, .. }
            | Self::Qcow2 { path, .. }
            | Self::Ordered { path, .. }
            | Self::Device { path, .. } => Some(path),
        }
    }

    /// Has a relative path begin in `folder`.
    pub fn anchor(&mut self, folder: &Path) {
        match self {
            Self::Ram { .. } => {}
            Self::File { path, .. }
            | Self::Qcow2 { path, .. }
            | Self::Ordered { path, .. }
            | Self::Device { path, .. } => *path = folder.join(&*path),
        }
    }

    /// Returns the medium with `new` bytes as the size of a raw image that does not exist yet and
    /// has no size of its own. `base` is where relative paths start.
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
    /// An [`OpenError`] that names the path, the cause and the remedy.
    pub fn open(&self, options: &OpenOptions) -> Result<Box<dyn HostMedium>, OpenError> {
        let backing = match self {
            &Self::Ram { size } => {
                if size < MIN_CAPACITY || size % SECTOR != 0 {
                    return Err(OpenError::RamSize { size });
                }
                let ram = Ram::new(size);
                return Ok(match options.execution {
                    Execution::Polled => delayed(ram.divided(), options),
                    _ => delayed(ram, options),
                });
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
            Execution::Synchronous => delayed(Synchronous::of(InPlace::new(backing)), options),
            Execution::Asynchronous => delayed(Workers::new(backing), options),
            Execution::Polled => crate::uring::polled(backing)?,
        })
    }
}

impl MediumSpec {
    /// Opens a file or device to be read only, beside others that read it. What is written stays in
    /// memory, at most [`MAX_OVERLAY`], and is gone with the medium.
    ///
    /// # Errors
    /// An [`OpenError`] that names the path, the cause and the remedy. Other media have no overlay:
    /// they open as always.
    pub fn open_below(&self, options: &OpenOptions) -> Result<Box<dyn HostMedium>, OpenError> {
        let (path, size) = match self {
            Self::File { path, size, .. } => (path, *size),
            Self::Device { path, .. } => {
                open::check_unused(&options.base.join(path))?;
                (path, None)
            }
            _ => return self.open(options),
        };
        let (label, path) = (self.label(), options.base.join(path));
        let backing = open::host_file(&path, &label, 0, false)?;
        size::check_size(&path, backing.capacity(), false)?;
        if let Some(wanted) = size.filter(|wanted| *wanted != backing.capacity()) {
            return Err(OpenError::OtherSize { path, size: backing.capacity(), wanted });
        }
        let overlay = Overlay::new(InPlace::new(backing), label.into(), MAX_OVERLAY);
        Ok(delayed(Synchronous::of(overlay), options))
    }
}

pub(crate) fn delayed(
    medium: impl HostMedium + 'static,
    options: &OpenOptions,
) -> Box<dyn HostMedium> {
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

#[cfg(test)]
mod tests;
