//! Snapshots that are stored while a job runs.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::pages::{write_changed, Digests};
use super::set::{bytes, About, Set};
use crate::fd::try_lock;
use crate::saved::{paused, state, Machine};
use crate::Error;
use stasis_run_events::Instant;

/// Limit on the bytes of the pages of a run's snapshots: no more are taken then.
const MAX_SET: u64 = 4 << 30;

/// Stores the snapshots of a run.
pub(crate) struct Recorder {
    set: Set,
    /// Held while the run records: one at a time does.
    _lock: File,
    /// The machine's folder, and the memory there that it shares.
    folder: PathBuf,
    ram: File,
    digests: Digests,
    /// The snapshot that was stored last, by its time.
    parent: Option<u64>,
    /// The events since then.
    told: File,
    /// Bytes of pages that are stored.
    stored: u64,
}

impl Recorder {
    /// A recorder of the machine in `folder`, whose memory is `ram` and which continues from the
    /// snapshot `parent`. None where another run records the same.
    pub(crate) fn new(
        set: Set,
        folder: &Path,
        ram: File,
        parent: Option<u64>,
    ) -> Result<Option<Self>, Error> {
        let path = set.folder().join("recorded");
        let lock = File::create(&path).map_err(Error::io("cannot write", &path))?;
        if !try_lock(&lock) {
            return Ok(None);
        }
        let length = ram.metadata().map_err(Error::system("read a file's length"))?.len();
        let mut digests = Digests::new(length);
        digests.look(&ram, |_, _| Ok(())).map_err(Error::system("read the machine's memory"))?;
        let told = new_told(folder)?;
        let folder = folder.to_owned();
        let stored = bytes(set.folder());
        Ok(Some(Self { set, _lock: lock, folder, ram, digests, parent, told, stored }))
    }

    /// The next bytes of the job's events.
    pub(crate) fn told(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.told.write_all(bytes).map_err(Error::system("write a run's events"))
    }

    /// The machine pauses at `instant`: stores it, unless that snapshot is there. It is to be
    /// continued then.
    pub(crate) fn take(&mut self, machine: &mut Machine, instant: Instant) -> Result<(), Error> {
        paused(machine)?;
        let folder = self.set.snapshot(instant.at);
        if folder.is_dir() || self.stored > MAX_SET {
            return Ok(());
        }
        let new = self.set.new_snapshot(instant.at);
        // Remains of a program that was killed.
        let _ = fs::remove_dir_all(&new);
        fs::create_dir(&new).map_err(Error::io("cannot create", &new))?;
        let path = new.join("state");
        let state = state(machine, &self.folder)?;
        fs::write(&path, state).map_err(Error::io("cannot write", &path))?;
        let written = write_changed(&mut self.digests, &self.ram, &new);
        self.stored += written.map_err(Error::io("cannot write", &new))?;
        let told = told_path(&self.folder);
        fs::rename(&told, new.join("told")).map_err(Error::io("cannot move", &told))?;
        self.told = new_told(&self.folder)?;
        Set::write_about(&new, &About { instant, parent: self.parent })?;
        fs::rename(&new, &folder).map_err(Error::io("cannot create", &folder))?;
        self.parent = Some(instant.at);
        Ok(())
    }
}

fn told_path(folder: &Path) -> PathBuf {
    folder.join("told.new")
}

fn new_told(folder: &Path) -> Result<File, Error> {
    let path = told_path(folder);
    File::create(&path).map_err(Error::io("cannot write", &path))
}
