//! Media as a run finds them: opened and locked before anything boots, and none
//! with two owners.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use stasis_block::units::format_size;
use stasis_experiment::{DiskSpec, StateSpec};
use stasis_media::{
    Durability, Execution, HostMedium, ImageSettings, Medium, MediumSpec, OpenOptions,
};
use stasis_models::BuildContext;
use stasis_qcow2::{ImageError, Opening};

use crate::keep;
use crate::plan::PlannedDrive;

/// An open medium, which its lock keeps others from opening.
pub struct OpenMedium {
    /// The storage of the bytes: for an image, its files side by side.
    pub medium: Box<dyn HostMedium>,
    /// Capacity that the guest sees (bytes).
    pub capacity: u64,
    /// For an image: its files, from the top.
    pub links: Vec<stasis_qcow2::Link>,
    /// Warnings about the medium, for the user.
    pub warnings: Vec<String>,
}

impl OpenMedium {
    /// Opens `medium`, to be `written` or only read.
    pub fn open(medium: &MediumSpec, written: bool, base: &Path) -> Result<Self> {
        let options =
            OpenOptions { execution: Execution::Synchronous, delay: Duration::ZERO, base };
        if let MediumSpec::Qcow2 { path, .. } = medium {
            return Self::of_image(stasis_qcow2::open_files(path, written, &options)?);
        }
        let medium = medium.open(&options)?;
        Ok(Self { capacity: medium.capacity(), medium, links: Vec::new(), warnings: Vec::new() })
    }

    fn of_image((opening, medium): (Opening, Box<dyn HostMedium>)) -> Result<Self> {
        let newer = opening.found().newer_below()?;
        let warnings = newer.iter().map(|path| stasis_qcow2::newer_below(path)).collect();
        let mut links = opening.found().links.clone();
        for link in &mut links {
            link.path = whole(&link.path)?;
        }
        Ok(Self { medium, capacity: opening.size(), links, warnings })
    }

    /// Opens a file, an image or a device to be read only, and makes a file where it is missing: what
    /// is written is kept elsewhere.
    pub fn below(medium: &MediumSpec, base: &Path) -> Result<Self> {
        let options =
            OpenOptions { execution: Execution::Synchronous, delay: Duration::ZERO, base };
        if let MediumSpec::Qcow2 { path, .. } = medium {
            let links = stasis_qcow2::links(&base.join(path))?;
            return Self::of_image(stasis_qcow2::open_kept(links, &options)?);
        }
        if medium.path().is_some_and(|path| !base.join(path).exists()) {
            drop(Self::open(medium, true, base)?);
        }
        let medium = medium.open_below(&options)?;
        Ok(Self { capacity: medium.capacity(), medium, links: Vec::new(), warnings: Vec::new() })
    }

    /// Opens the image of a virtual disk, if it is one, to be written, or to be `kept`: only read.
    pub fn image(
        disk: &DiskSpec,
        kept: bool,
        base: &Path,
        owners: &mut MediumOwners,
    ) -> Result<Option<Self>> {
        let Some(medium) = disk.medium() else { return Ok(None) };
        let name = disk.name.as_deref().unwrap_or_default();
        owners.add(&medium, format!("disk {name}"))?;
        keep::check_plain(&medium, base, StateSpec::Keep)?;
        if kept {
            return Self::below(&medium, base).map(Some);
        }
        // If opening repairs the image, its file is longer afterwards, and so is its place on the
        // drive.
        drop(Self::open(&medium, true, base)?);
        Self::open(&medium, true, base).map(Some)
    }

    /// Refuses a disk that ends within a block.
    pub fn check_blocks(&self, size: u64) -> Result<()> {
        if !self.capacity.is_multiple_of(size) {
            bail!(
                "its medium has {}, which is no multiple of its block size {}",
                format_size(self.capacity),
                format_size(size)
            );
        }
        Ok(())
    }
}

/// Refuses an image whose way of keeping order needs barriers where `drive`, of
/// `capacity` bytes, has none.
pub fn check_order(settings: &ImageSettings, drive: &PlannedDrive, capacity: u64) -> Result<()> {
    if settings.durability == Durability::Flush || drive.spec.barrier.is_some() {
        return Ok(());
    }
    let model = drive.spec.model.build(&BuildContext { seed: 0, capacity, path: drive.path })?;
    if model.barrier().is_none() {
        return Err(ImageError::NoBarrier(settings.durability.name()).into());
    }
    Ok(())
}

/// Owners of the files and devices that are written.
pub struct MediumOwners<'a> {
    base: &'a Path,
    owned: Vec<(PathBuf, String)>,
}

impl<'a> MediumOwners<'a> {
    /// Creates an empty register; `base` is where relative paths start.
    pub fn new(base: &'a Path) -> Self {
        Self { base, owned: Vec::new() }
    }

    /// Registers the medium of `owner`.
    pub fn add(&mut self, medium: &MediumSpec, owner: String) -> Result<()> {
        let Some(path) = medium.path() else { return Ok(()) };
        let path = self.base.join(path);
        // A file that does not exist yet is compared by its path as given.
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        if let Some((_, other)) = self.owned.iter().find(|(owned, _)| *owned == path) {
            bail!(
                "{} is the medium of {other} already: give each its own, such as an image on top \
                 of it (`stasis image create --backing`) or a copy",
                path.display()
            );
        }
        self.owned.push((path, owner));
        Ok(())
    }
}

fn whole(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path).with_context(|| format!("cannot find {}", path.display()))
}

/// The medium with absolute paths, which do not depend on the opening process's folder.
pub fn absolute(medium: &MediumSpec, base: &Path) -> Result<MediumSpec> {
    let whole = |path: &Path| whole(&base.join(path));
    Ok(match medium {
        MediumSpec::Ram { size } => MediumSpec::Ram { size: *size },
        MediumSpec::File { path, size, direct } => {
            MediumSpec::File { path: whole(path)?, size: *size, direct: *direct }
        }
        MediumSpec::Qcow2 { path, settings } => {
            MediumSpec::Qcow2 { path: whole(path)?, settings: *settings }
        }
        MediumSpec::Ordered { path, size, settings } => {
            MediumSpec::Ordered { path: whole(path)?, size: *size, settings: *settings }
        }
        MediumSpec::Device { path, direct } => {
            MediumSpec::Device { path: whole(path)?, direct: *direct }
        }
    })
}
