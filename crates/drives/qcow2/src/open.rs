//! Opening an image: its files found, locked and checked, then the image on the
//! drive that holds them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use stasis_block::{Command, Operation, Status};
use stasis_drive::{Drive, Layer};
use stasis_media::{Access, Execution, HostFile, HostFiles, HostMedium, OpenOptions};

use crate::below::Below;
use crate::chain::{self, Found, Link};
use crate::core::Core;
use crate::create::largest;
use crate::disk::{Backing, Disk};
use crate::header::Source;
use crate::host::Shared;
use crate::kill_safety::KillSafety;
use crate::layer::Image;
use crate::repair;
use crate::tables::{Tables, Write};
use crate::{layout, redo_log, Durability, Header, ImageError, Settings, Snapshot, ZeroLatency};

/// Clusters that an image may need beside those of its disk and its tables.
const SPARE: u64 = 64;

/// An image whose files are found, locked and checked. The locks are those of
/// the medium it came with.
#[derive(Debug)]
pub struct Opening {
    found: Found,
    // Offset of each file on the drive, and the limit on its size.
    places: Vec<(u64, u64)>,
    // Length of each file.
    lengths: Vec<u64>,
    access: Access,
    kill_safe: bool,
}

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
    let tables = 2 * total.div_ceil(cluster / 8);
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
    let most = largest(found.header.cluster_size());
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
        if found.header.bitmaps() {
            let feature = "a bitmap of changed blocks".to_owned();
            return Err(ImageError::Unsupported { path: found.links[0].path.clone(), feature });
        }
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

/// Length of a file in bytes.
fn length(path: &Path) -> Result<u64, ImageError> {
    let os = |source| ImageError::Os { path: path.to_owned(), action: "read it", source };
    let file = std::fs::File::open(path).map_err(os)?;
    Ok(Source::new(&file).map_err(os)?.length)
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

/// The files of an image that is open, by which it starts again after a power cut.
pub(crate) struct Files {
    links: Vec<Link>,
    places: Vec<(u64, u64)>,
    access: Access,
}

impl Files {
    /// Length of each file; that of a medium that keeps what is written is all of its room.
    fn lengths(&self) -> Result<Vec<u64>, ImageError> {
        let mut lengths = Vec::new();
        for (link, (_, room)) in self.links.iter().zip(&self.places) {
            let is_kept = lengths.is_empty() && self.access == Access::Keep;
            lengths.push(if is_kept { *room } else { length(&link.path)? });
        }
        Ok(lengths)
    }

    /// The image as `lower` holds it, repaired there if it has to be.
    fn found(&self, lower: &mut dyn Layer) -> Result<Found, ImageError> {
        let (path, room) = (&self.links[0].path, self.places[0].1);
        let below = Below::new(lower, 0, room);
        let inspect = || {
            let length = self.lengths()?[0];
            let source = Source { file: &below, length };
            let examine = |path: &Path| chain::examine_source(&source, path);
            Ok::<_, ImageError>((chain::inspect_with(self.links.clone(), examine)?, length))
        };
        let (found, length) = inspect()?;
        if !found.header.dirty() && repair::reaches(&found.header, room) {
            return Ok(found);
        }
        let os = |source| ImageError::Os { path: path.clone(), action: "repair it", source };
        repair::rewrite(&below, &found, room, (length, room)).map_err(os)?;
        Ok(inspect()?.0)
    }

    /// Starts the image again from what its files hold on `lower`: nothing of it is in memory any
    /// more, and nothing waits for what was under way.
    pub(crate) fn start_again(
        &self,
        lower: &mut dyn Layer,
        core: &Core,
    ) -> Result<Core, ImageError> {
        let (found, lengths) = (self.found(lower)?, self.lengths()?);
        let (places, access) = (self.places.clone(), self.access);
        let again = Opening { found, places, lengths, access, kill_safe: false };
        core.shared.lock().start_again(again.disk(lower, None)?);
        let (shared, barriers) = (Arc::clone(&core.shared), lower.properties().barrier.is_some());
        let zeroes = again.found.header.version > 2;
        Ok(Core::new(shared, core.settings, KillSafety::default(), true, zeroes, barriers))
    }
}

impl Opening {
    /// Returns whether the disk can be written.
    fn is_writable(&self) -> bool {
        self.access != Access::Read
    }

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

    fn path(&self) -> PathBuf {
        self.found.links[0].path.clone()
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

    /// The disk, as it is or as it was at a snapshot, with the tables that have to be known from
    /// the beginning.
    fn disk(&self, lower: &mut dyn Layer, then: Option<&Snapshot>) -> Result<Disk, ImageError> {
        let (header, room) = (&self.found.header, self.places[0].1);
        let mut tables = Tables::new(header, 0, room);
        let mut head = self.read(lower, 0, 0, header.cluster_size())?;
        let (mut size, mut l1) = (header.size, (header.l1_offset, header.l1_entries));
        if let Some(then) = then {
            (size, l1) = (then.size, (then.l1_offset, then.l1_entries));
            let changed = || self.failed("its header has changed meanwhile");
            let head = layout::header_mut(&mut head).ok_or_else(changed)?;
            (head.size, head.l1_offset, head.l1_entries) = (size.into(), l1.0.into(), l1.1.into());
        }
        tables.load(0, head);
        self.load(lower, 0, &mut tables, (l1.0, 8 * u64::from(l1.1)))?;
        if self.is_writable() && then.is_none() {
            self.load_refcounts(lower, &mut tables)?;
            tables.clear_features();
        }
        let mut below = Vec::new();
        for (index, header) in self.found.headers_below.iter().enumerate() {
            let ((start, _), length) = (self.places[index + 1], self.lengths[index + 1]);
            let image = header.as_ref().map(|header| self.image_below(lower, index + 1, header));
            below.push(Backing { start, length, image: image.transpose()? });
        }
        Ok(Disk { size, room, tables, below })
    }

    /// Size of the disk in the image that is this file of the chain, and its tables.
    fn image_below(
        &self,
        lower: &mut dyn Layer,
        file: usize,
        header: &Header,
    ) -> Result<(u64, Tables), ImageError> {
        let mut tables = Tables::new(header, file, 0);
        self.load(lower, file, &mut tables, (0, 1))?;
        self.load(lower, file, &mut tables, (header.l1_offset, 8 * u64::from(header.l1_entries)))?;
        Ok((header.size, tables))
    }

    /// Reads a file of the chain; behind its end are zeroes.
    fn read(
        &self,
        lower: &mut dyn Layer,
        file: usize,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, ImageError> {
        let (start, room) = self.places[file];
        let end = if file == 0 { room } else { self.lengths[file] };
        let below = Below::new(lower, start, end);
        let bytes = Source { file: &below, length: end }.bytes(offset, length as usize);
        bytes.map_err(|source| ImageError::Format { path: self.path(), source })
    }

    /// Marks the image's header: a log exists.
    fn mark(&self, lower: &mut dyn Layer, shared: &Shared) -> Result<(), ImageError> {
        let Some(Write { offset, data }) = shared.lock().disk.tables.log() else { return Ok(()) };
        let command = Command::new(Operation::Write, offset, data.len() as u64);
        match lower.instant(command, data).0 {
            Status::Ok => Ok(()),
            _ => Err(self.failed("the drive below cannot write it")),
        }
    }

    fn failed(&self, reason: &str) -> ImageError {
        ImageError::Format { path: self.path(), source: std::io::Error::other(reason) }
    }

    /// Takes over the clusters of a file that hold a table of `bytes` bytes from `start` on.
    fn load(
        &self,
        lower: &mut dyn Layer,
        file: usize,
        tables: &mut Tables,
        (start, bytes): (u64, u64),
    ) -> Result<(), ImageError> {
        let cluster = tables.size() as u64;
        for offset in (start..start + bytes).step_by(cluster as usize) {
            tables.load(offset, self.read(lower, file, offset, cluster)?);
        }
        Ok(())
    }

    /// Takes over the tables that count the uses of clusters.
    fn load_refcounts(&self, lower: &mut dyn Layer, tables: &mut Tables) -> Result<(), ImageError> {
        let header = &self.found.header;
        let cluster = header.cluster_size();
        let length = cluster * u64::from(header.reftable_clusters);
        self.load(lower, 0, tables, (header.reftable_offset, length))?;
        for &block in self.found.report.blocks.iter().flatten() {
            tables.load_block(block * cluster, self.read(lower, 0, block * cluster, cluster)?);
        }
        Ok(())
    }

    fn snapshot(&self, name: &str) -> Result<&Snapshot, ImageError> {
        let all = &self.found.snapshots;
        all.iter().find(|one| one.name == name || one.id == name).ok_or_else(|| {
            let names = all.iter().map(|one| one.name.clone()).collect();
            ImageError::NoSnapshot { path: self.path(), name: name.into(), names }
        })
    }
}

/// Limit on the length of the file of an image in bytes. `links` are its files, from the top.
///
/// # Errors
/// An [`ImageError`] that names the file.
pub fn largest_length(links: &[Link]) -> Result<u64, ImageError> {
    let found = chain::inspect(links.to_vec())?;
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
