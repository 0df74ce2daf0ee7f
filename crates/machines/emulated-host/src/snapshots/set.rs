//! The snapshots of one run: a folder with what they all begin from, and a folder for each.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::pages::{read_all, ReadError};
use super::search::passed;
use crate::kept::Kept;
use crate::{Error, StartAt};
use stasis_kept_files::Damage;
use stasis_run_events::Instant;

/// The files of a kept machine that a set begins from.
const BASE: [&str; 5] = ["ram", "state", "place", "firmware", "told"];
/// The name of a snapshot's description in its folder.
const ABOUT: &str = "about.json";
/// End of the name of a snapshot's folder while that is made.
const NEW: &str = "new";

/// Description of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    pub instant: Instant,
    /// The snapshot whose pages this one changes, by its time; the base's, where there is none.
    pub parent: Option<u64>,
}

/// The snapshots of a run.
pub(crate) struct Set {
    kept: Kept,
}

/// The way to a snapshot: folders, the last one's first.
pub(crate) struct Chain {
    pub instant: Instant,
    pub folders: Vec<PathBuf>,
}

impl Chain {
    /// Calls `put` with the offset and the bytes of all pages that differ from the base.
    pub(crate) fn read(
        &self,
        put: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> Result<(), ReadError> {
        read_all(self.folders.iter().map(PathBuf::as_path), put)
    }
}

impl Set {
    pub(crate) fn new(kept: Kept) -> Self {
        Self { kept }
    }

    /// Makes the folder of a set whose run begins as the machine in `base` is kept.
    pub(crate) fn make(folder: &Path, base: &Path) -> Result<(), Error> {
        fs::create_dir_all(folder).map_err(Error::io("cannot create", folder))?;
        // Nobody writes to the memory of a kept machine.
        BASE.iter().try_for_each(|name| link(&base.join(name), &folder.join(name)))
    }

    /// A remark for the user, where all snapshots are gone because what they begin from was damaged.
    pub(crate) fn note(&self) -> Option<String> {
        self.kept.note.clone()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.kept.folder
    }

    /// The folder of the snapshot at this time (ns).
    pub(super) fn snapshot(&self, at: u64) -> PathBuf {
        self.folder().join(at.to_string())
    }

    /// Returns the folder of the snapshot at this time (ns) while it is made.
    pub(super) fn new_snapshot(&self, at: u64) -> PathBuf {
        self.snapshot(at).with_extension(NEW)
    }

    pub(super) fn write_about(folder: &Path, about: &About) -> Result<(), Error> {
        let path = folder.join(ABOUT);
        let written = serde_json::to_vec(about).map_err(std::io::Error::other);
        written.and_then(|bytes| fs::write(&path, bytes)).map_err(Error::io("cannot write", &path))
    }

    /// Removes `snapshot`, a folder, and those that begin from it.
    pub(crate) fn discard(&self, snapshot: &Path) -> Result<(), Error> {
        let time = |path: &Path| path.file_name()?.to_str()?.parse::<u64>().ok();
        let mut gone: Vec<u64> = time(snapshot).into_iter().collect();
        while let Some(at) = gone.pop() {
            crate::kept::remove(&self.snapshot(at))?;
            let begins = |path: &PathBuf| about(path).is_ok_and(|about| about.parent == Some(at));
            gone.extend(self.snapshots().filter(begins).filter_map(|path| time(&path)));
        }
        Ok(())
    }

    /// The folders of all snapshots.
    fn snapshots(&self) -> impl Iterator<Item = PathBuf> {
        let is_time = |path: &PathBuf| {
            path.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok()).is_some()
        };
        crate::kept::entries(self.folder()).filter(is_time)
    }

    /// The snapshot from which a job is to begin, if there is one.
    pub(crate) fn find(&self, from: &StartAt) -> Result<Option<Chain>, Error> {
        let StartAt::Moment(moment) = from else { return self.last(from) };
        let Some(mut chain) = self.last(&StartAt::Last)? else { return Ok(None) };
        let passed = passed(moment, &self.told(Some(&chain)))?.unwrap_or(0);
        let remaining = chain.folders.len().saturating_sub(passed);
        chain.folders.drain(..remaining);
        let Some(folder) = chain.folders.first() else { return Ok(None) };
        chain.instant = about(folder)?.instant;
        Ok(Some(chain))
    }

    /// The last snapshot that `from` allows.
    ///
    /// # Errors
    /// [`Error::DamagedSnapshot`], of it or of one before it.
    fn last(&self, from: &StartAt) -> Result<Option<Chain>, Error> {
        let mut found: Option<Instant> = None;
        for path in self.snapshots().filter(|_| *from != StartAt::Begin) {
            let instant = about(&path)?.instant;
            if allows(from, &instant) && found.is_none_or(|found| found.turn < instant.turn) {
                found = Some(instant);
            }
        }
        let Some(instant) = found else { return Ok(None) };
        let (mut folders, mut next) = (Vec::new(), Some(instant.at));
        while let Some(at) = next {
            let folder = self.snapshot(at);
            stasis_kept_files::check(&folder).map_err(Error::DamagedSnapshot)?;
            // A parent was there before.
            next = about(&folder)?.parent.filter(|parent| *parent < at);
            folders.push(folder);
        }
        Ok(Some(Chain { instant, folders }))
    }

    /// The events of a run up to the snapshot at the end of the chain, in order.
    pub(crate) fn told(&self, chain: Option<&Chain>) -> Vec<PathBuf> {
        let folders = chain.iter().flat_map(|chain| chain.folders.iter().rev());
        let own = folders.map(|folder| folder.join("told"));
        [self.folder().join("told")].into_iter().chain(own).collect()
    }
}

/// The description of the snapshot in `folder`.
fn about(folder: &Path) -> Result<About, Error> {
    let path = folder.join(ABOUT);
    let read = fs::read(&path).and_then(|read| Ok(serde_json::from_slice(&read)?));
    read.map_err(|source| Error::DamagedSnapshot(Damage::File { path, source }))
}

/// Returns whether a job that begins `from` there may begin at the snapshot of `instant`.
fn allows(from: &StartAt, instant: &Instant) -> bool {
    match from {
        StartAt::Begin => false,
        StartAt::Before(time) => instant.ahead < *time,
        StartAt::Turn(turn) => instant.turn < *turn,
        StartAt::Moment(_) | StartAt::Last => true,
    }
}

/// Bytes of the pages in a set.
pub(super) fn bytes(folder: &Path) -> u64 {
    let pages = crate::kept::entries(folder).map(|path| path.join("pages"));
    pages.filter_map(|path| Some(fs::metadata(path).ok()?.len())).sum()
}

/// A second name of a file that nobody changes.
pub(crate) fn link(from: &Path, to: &Path) -> Result<(), Error> {
    let linked = fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop));
    linked.map_err(Error::io("cannot write", to))
}
