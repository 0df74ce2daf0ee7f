//! Snapshots that are stored while a job runs.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::pages::{write_changed, Digests, BYTES};
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
    events: File,
    /// Bytes of pages that are stored.
    stored: u64,
    /// The reason why no more are stored, if so.
    pub off: Option<String>,
}

/// Remark where another run stores the same snapshots.
pub(crate) const TAKEN: &str = "another run stores the snapshots of the same: this one stores none";

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
        digests.look(&ram, |_, _, _| Ok(())).map_err(Error::system("read the machine's memory"))?;
        let events = new_told(folder)?;
        let folder = folder.to_owned();
        let stored = bytes(set.folder());
        Ok(Some(Self { set, _lock: lock, folder, ram, digests, parent, events, stored, off: None }))
    }

    /// The next bytes of the job's events.
    pub(crate) fn told(&mut self, bytes: &[u8]) {
        if self.off.is_none() {
            let written = self.events.write_all(bytes);
            self.store(|_| written.map_err(Error::system("write a run's events")));
        }
    }

    /// The machine pauses at `instant`: stores it, unless that snapshot is there. It is to be
    /// continued then.
    pub(crate) fn take(&mut self, machine: &mut Machine, instant: Instant) -> Result<(), Error> {
        paused(machine)?;
        if self.off.is_some() || self.set.snapshot(instant.at).is_dir() {
            return Ok(());
        }
        let state = state(machine, &self.folder)?;
        self.store(|recorder| recorder.write(&state, instant));
        if self.stored > MAX_SET {
            let (limit, at) = (MAX_SET >> 30, instant.at as f64 / 1e9);
            self.off = Some(format!(
                "the last snapshot is that at {at:.3} s: a run's snapshots take at most {limit} GiB"
            ));
        }
        Ok(())
    }

    /// Stores a part of a snapshot. The run goes on where that fails.
    fn store(&mut self, part: impl FnOnce(&mut Self) -> Result<(), Error>) {
        if let Err(error) = part(self) {
            self.off = Some(format!("no more snapshots are stored: {error}"));
        }
    }

    /// Writes the snapshot of `instant`, whole or not at all.
    fn write(&mut self, state: &[u8], instant: Instant) -> Result<(), Error> {
        let new = self.set.new_snapshot(instant.at);
        // Remains of a program that was killed.
        let _ = fs::remove_dir_all(&new);
        let written = self.write_new(&new, state, instant).and_then(|()| {
            let folder = self.set.snapshot(instant.at);
            fs::rename(&new, &folder).map_err(Error::io("cannot create", &folder))
        });
        match &written {
            Ok(()) => self.parent = Some(instant.at),
            // The error is the one to report.
            Err(_) => drop(fs::remove_dir_all(&new)),
        }
        written
    }

    fn write_new(&mut self, new: &Path, state: &[u8], instant: Instant) -> Result<(), Error> {
        fs::create_dir(new).map_err(Error::io("cannot create", new))?;
        let path = new.join("state");
        fs::write(&path, state).map_err(Error::io("cannot write", &path))?;
        let written = write_changed(&mut self.digests, &self.ram, new);
        self.stored += written.map_err(Error::io("cannot write", new))?;
        let path_of_events = told_path(&self.folder);
        fs::rename(&path_of_events, new.join("told"))
            .map_err(Error::io("cannot move", &path_of_events))?;
        self.events = new_told(&self.folder)?;
        Set::write_about(new, &About { instant, parent: self.parent })?;
        // The pages have digests of their own.
        stasis_kept_files::seal(new, &[BYTES]).map_err(Error::io("cannot read", new))
    }
}

fn told_path(folder: &Path) -> PathBuf {
    folder.join("told.new")
}

fn new_told(folder: &Path) -> Result<File, Error> {
    let path = told_path(folder);
    File::create(&path).map_err(Error::io("cannot write", &path))
}
