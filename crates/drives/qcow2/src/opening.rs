//! Files of an image, and what is read of them before it is open: the disk and its tables.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stasis_block::{Command, Operation, Status};
use stasis_drive::Layer;
use stasis_media::Access;

use crate::below::Below;
use crate::chain::{self, Found, Link};
use crate::core::Core;
use crate::disk::{Backing, Disk};
use crate::header::Source;
use crate::host::Shared;
use crate::kill_safety::KillSafety;
use crate::repair;
use crate::tables::{Tables, Write};
use crate::{layout, Header, ImageError, Snapshot};

/// An image whose files are found, locked and checked. The locks are those of
/// the medium it came with.
#[derive(Debug)]
pub struct Opening {
    pub(crate) found: Found,
    /// Offset of each file on the drive, and the limit on its size.
    pub(crate) places: Vec<(u64, u64)>,
    /// Length of each file.
    pub(crate) lengths: Vec<u64>,
    pub(crate) access: Access,
    pub(crate) kill_safe: bool,
}

/// Length of a file in bytes.
pub(crate) fn length(path: &Path) -> Result<u64, ImageError> {
    let os = |source| ImageError::Os { path: path.to_owned(), action: "read it", source };
    let file = std::fs::File::open(path).map_err(os)?;
    Ok(Source::new(&file).map_err(os)?.length)
}

/// The files of an image that is open, by which it starts again after a power cut.
pub(crate) struct Files {
    pub(crate) links: Vec<Link>,
    pub(crate) places: Vec<(u64, u64)>,
    pub(crate) access: Access,
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
    pub(crate) fn is_writable(&self) -> bool {
        self.access != Access::Read
    }

    /// Path of the image's own file.
    pub(crate) fn path(&self) -> PathBuf {
        self.found.links[0].path.clone()
    }

    /// The disk, as it is or as it was at a snapshot, with the tables that have to be known from
    /// the beginning.
    pub(crate) fn disk(
        &self,
        lower: &mut dyn Layer,
        then: Option<&Snapshot>,
    ) -> Result<Disk, ImageError> {
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
    pub(crate) fn mark(&self, lower: &mut dyn Layer, shared: &Shared) -> Result<(), ImageError> {
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

    /// The snapshot of a name or number.
    pub(crate) fn snapshot(&self, name: &str) -> Result<&Snapshot, ImageError> {
        let all = &self.found.snapshots;
        all.iter().find(|one| one.name == name || one.id == name).ok_or_else(|| {
            let names = all.iter().map(|one| one.name.clone()).collect();
            ImageError::NoSnapshot { path: self.path(), name: name.into(), names }
        })
    }
}
