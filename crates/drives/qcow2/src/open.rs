//! Opening an image: its files found, locked and checked, then the image on the
//! drive that holds them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stasis_drive::{Drive, Layer};
use stasis_media::{Access, Execution, HostFile, HostFiles, HostMedium, OpenOptions};

use crate::chain::{self, Found, Link};
use crate::core::Core;
use crate::create::largest;
use crate::error::MARKED;
use crate::header::Source;
use crate::host::Shared;
use crate::kill_safety::KillSafety;
use crate::layer::Image;
use crate::opening::{length, Files, Opening};
use crate::repair;
use crate::{redo_log, Durability, ImageError, Settings, ZeroLatency};

/// Clusters that an image may need beside those of its disk and its tables.
const SPARE: u64 = 64;

/// Limit on the size of an image's file in bytes, if its disk gets `size` bytes.
fn room(found: &Found, length: u64, size: u64) -> u64 {
    let header = &found.header;
    let cluster = header.cluster_size();
    let total = size.div_ceil(cluster);
    let in_place = match found.snapshots.is_empty() {
        true => found.report.allocated - found.report.compressed,
        false => 0,
    };
    let data = total - in_place.min(total);
    let tables = 2 * total.div_ceil(header.shape().in_table());
    let clusters = length.div_ceil(cluster) + data + tables + SPARE;
    let blocks = clusters.div_ceil(header.refcounts_in_block()) + 1;
    (clusters + blocks + SPARE) * cluster
}

/// Finds the image at `path` with everything below it, and opens and locks the
/// files. An image that was not closed is repaired.
///
/// # Errors
/// An [`ImageError`] that names the file and the remedy.
pub fn find(
    path: &Path,
    writable: bool,
    options: &OpenOptions,
) -> Result<(Opening, Box<dyn HostMedium>), ImageError> {
    find_links(chain::links(&options.base.join(path))?, writable, options)
}

/// Makes the disk of the image at `path` larger, outside of time; the new part reads as zeroes,
/// whatever a file below or clusters behind the old end hold.
///
/// # Errors
/// An [`ImageError`] that names the file or the size; the image is then as it was.
pub fn grow(path: &Path, size: u64) -> Result<(), ImageError> {
    let options = OpenOptions {
        execution: Execution::Synchronous,
        delay: Duration::ZERO,
        base: Path::new(""),
    };
    let links = chain::links(path)?;
    check_growth(&chain::inspect(links.clone())?, size)?;
    let (opening, medium) = find_for(links, Access::Write, &options, size)?;
    let model = Box::new(ZeroLatency::default());
    let drive = Box::new(Drive::new(0, "image".into(), model, medium));
    let mut image = opening.open(drive, Settings::default())?;
    match image.grow(size) {
        Ok(()) => image.close(),
        Err(error) => {
            // Nothing of the larger disk is written.
            image.abandon();
            Err(error)
        }
    }
}

fn check_growth(found: &Found, size: u64) -> Result<(), ImageError> {
    let now = found.header.size;
    let most = largest(found.header.shape());
    let is = stasis_block::units::format_size;
    match () {
        () if size < now => Err(ImageError::Value(format!(
            "a size of {}: the disk has {}, and an image can only grow: what is behind the new \
             end would be lost",
            is(size),
            is(now)
        ))),
        () if !size.is_multiple_of(512) || size > most => Err(ImageError::Value(format!(
            "a size of {}: an image with these clusters has a multiple of 512 bytes, and at most {}",
            is(size),
            is(most)
        ))),
        () => Ok(()),
    }
}

/// Finds the image of the files named by `links`, from the top.
///
/// # Errors
/// An [`ImageError`] that names the file and the remedy.
pub fn find_links(
    links: Vec<Link>,
    writable: bool,
    options: &OpenOptions,
) -> Result<(Opening, Box<dyn HostMedium>), ImageError> {
    find_for(links, if writable { Access::Write } else { Access::Read }, options, 0)
}

/// Like [`find_links`], but the files are only read: written data stays in memory, and is gone with
/// the medium.
///
/// # Errors
/// An [`ImageError`] that names the file and the remedy, also where opening the image for writing
/// would change its file.
pub fn find_kept(
    links: Vec<Link>,
    options: &OpenOptions,
) -> Result<(Opening, Box<dyn HostMedium>), ImageError> {
    find_for(links, Access::Keep, options, 0)
}

/// Like [`find_links`], but with room for a disk of `size` bytes if the disk is smaller.
fn find_for(
    links: Vec<Link>,
    access: Access,
    options: &OpenOptions,
    size: u64,
) -> Result<(Opening, Box<dyn HostMedium>), ImageError> {
    let mut found = chain::inspect(links)?;
    if access != Access::Read {
        check_writable(&found)?;
    }
    let mut lengths = Vec::new();
    let mut files = Vec::new();
    for link in &found.links {
        lengths.push(length(&link.path)?);
        files.push(HostFile { path: link.path.clone(), room: 0, access: Access::Read });
    }
    if let (Some(file), Access::Write | Access::Keep) = (files.first_mut(), access) {
        file.access = access;
        file.room = room(&found, lengths[0], size.max(found.header.size));
    }
    // The paths are complete: their base is in them.
    let medium = HostFiles::open(&files, &OpenOptions { base: Path::new(""), ..*options })?;
    let places: Vec<_> = medium.places().collect();
    if access != Access::Read {
        if access == Access::Keep {
            if needs_recovery(&found, places[0].1) {
                return Err(ImageError::Unrepaired(found.links[0].path.clone()));
            }
        } else {
            recover(&mut found, places[0].1)?;
        }
    }
    let kill_safe = false;
    Ok((Opening { found, places, lengths, access, kill_safe }, Box::new(medium)))
}

/// Returns an error for an image that can only be read.
fn check_writable(found: &Found) -> Result<(), ImageError> {
    let path = found.links[0].path.clone();
    match () {
        () if found.header.corrupt() => Err(ImageError::ReadOnly { path, reason: MARKED }),
        () if found.header.bitmaps() => {
            let feature = "a bitmap of changed blocks".to_owned();
            Err(ImageError::Unsupported { path, feature })
        }
        () => Ok(()),
    }
}

/// Returns whether [`recover`] changes the image's file, which may have `room` bytes.
fn needs_recovery(found: &Found, room: u64) -> bool {
    let header = &found.header;
    redo_log::is_marked(header) || header.dirty() || !repair::reaches(header, room)
}

/// Repairs an image that was not closed, whose file may have `room` bytes.
fn recover(found: &mut Found, room: u64) -> Result<(), ImageError> {
    if redo_log::recover(&found.links[0].path, &found.header)? {
        *found = chain::inspect(found.links.clone())?;
    }
    if found.header.dirty() || !repair::reaches(&found.header, room) {
        repair::refcounts(found, room)?;
        *found = chain::inspect(found.links.clone())?;
    }
    Ok(())
}

impl Opening {
    /// Size of the disk in bytes.
    pub fn size(&self) -> u64 {
        self.found.header.size
    }

    /// Properties found in the image's files.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// The image's files, from the top.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.found.links.iter().map(|link| link.path.as_path())
    }

    /// Has everything that is acknowledged survive when the program is killed, and not only flushed
    /// writes: needed by a caller that continues where a killed program stopped. For images in
    /// files of this host.
    pub fn kill_safe(self) -> Self {
        Self { kill_safe: true, ..self }
    }

    /// Opens the image on `lower`, a drive with the medium that the opening came
    /// with.
    ///
    /// # Errors
    /// An [`ImageError`] if `lower` cannot read it, or lacks an operation that `settings` need.
    pub fn open(self, lower: Box<dyn Layer>, settings: Settings) -> Result<Image, ImageError> {
        self.open_at(lower, settings, None)
    }

    /// Opens the image as it was at a snapshot, to be read.
    ///
    /// # Errors
    /// As [`Opening::open`], and if there is no snapshot of that name or number.
    pub fn open_snapshot(self, lower: Box<dyn Layer>, name: &str) -> Result<Image, ImageError> {
        self.open_at(lower, Settings::default(), Some(name))
    }

    fn open_at(
        self,
        mut lower: Box<dyn Layer>,
        settings: Settings,
        snapshot: Option<&str>,
    ) -> Result<Image, ImageError> {
        if settings.durability != Durability::Flush && lower.properties().barrier.is_none() {
            return Err(ImageError::NoBarrier(settings.durability.name()));
        }
        let header = &self.found.header;
        let snapshot = snapshot.map(|name| self.snapshot(name)).transpose()?;
        let writable = self.is_writable() && snapshot.is_none();
        let disk = self.disk(&mut *lower, snapshot)?;
        let size = disk.size;
        let shared = Shared::new(disk);
        let barriers = lower.properties().barrier.is_some();
        let kill_safety = match self.kill_safe && writable {
            true => KillSafety::everything(&self.path(), header.version > 2),
            false => KillSafety::default(),
        };
        if kill_safety.is_logged() {
            self.mark(&mut *lower, &shared)?;
        }
        let zeroes = header.version > 2;
        let core = Core::new(shared, settings, kill_safety, writable, zeroes, barriers);
        let path = self.path();
        let Self { places, access, .. } = self;
        let files = writable.then_some(Files { links: self.found.links, places, access });
        Ok(Image::new(lower, Arc::new(core), path, size, files))
    }
}

/// Limit on the length of the file of an image in bytes. `links` are its files, from the top.
///
/// # Errors
/// An [`ImageError`] that names the file.
pub fn largest_length(links: &[Link]) -> Result<u64, ImageError> {
    let found = chain::inspect(links.to_vec())?;
    check_writable(&found)?;
    let length = length(&found.links[0].path)?;
    Ok(room(&found, length, found.header.size))
}

/// Makes the file of an image as long as it may become, for it to be used as a
/// device that does not grow. `links` are its files, from the top.
///
/// # Errors
/// An [`ImageError`] that names the file.
pub fn make_room(links: &[Link]) -> Result<(), ImageError> {
    let found = chain::inspect(links.to_vec())?;
    check_writable(&found)?;
    let path = &found.links[0].path;
    let os = |source| ImageError::Os { path: path.clone(), action: "enlarge it", source };
    let file = std::fs::File::options().write(true).open(path).map_err(os)?;
    let length = Source::new(&file).map_err(os)?.length;
    let room = room(&found, length, found.header.size);
    if !repair::reaches(&found.header, room) {
        repair::refcounts(&found, room)?;
    }
    let length = Source::new(&file).map_err(os)?.length;
    if file.metadata().map_err(os)?.is_file() {
        file.set_len(room.max(length)).map_err(os)?;
    }
    Ok(())
}

/// Cuts the file of an image after its last used cluster.
///
/// # Errors
/// An [`ImageError`] that names the file.
pub fn trim(path: &Path) -> Result<(), ImageError> {
    let (_, report, _) = chain::examine(path)?;
    let os = |source| ImageError::Os { path: path.into(), action: "shorten it", source };
    let file = std::fs::File::options().write(true).open(path).map_err(os)?;
    let metadata = file.metadata().map_err(os)?;
    if metadata.is_file() && report.is_sound() && report.end < metadata.len() {
        file.set_len(report.end).map_err(os)?;
    }
    Ok(())
}
