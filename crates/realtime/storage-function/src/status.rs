//! List of running functions: a folder for each, with a lock and its status.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;
use rustix::process::{kill_process, Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The file with the status.
const FILE: &str = "status.json";
/// The file that its supervisor locks.
const LOCK: &str = "lock";

/// State of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The function is on its way up.
    #[default]
    Starting,
    /// Its health check succeeds.
    Well,
    /// The function failed and is to be started again.
    Waiting,
    /// No supervisor watches the function.
    Stopped,
}

/// Status of a function.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Its description.
    pub about: String,
    /// Its state.
    pub state: State,
    /// Process id of its supervisor.
    pub process: u32,
    /// Process id of its QEMU; 0 if there is none.
    pub machine: u32,
    /// True if KVM runs it.
    pub kvm: bool,
    /// True if its memory is of huge pages.
    pub huge_pages: bool,
    /// Number of restarts.
    pub restarts: u64,
    /// Reason for the last restart.
    pub last_failure: String,
    /// Its ports: name and `ADDRESS:PORT`.
    pub ports: Vec<(String, String)>,
    /// Disks that it offers as files of the host.
    pub disks: Vec<PathBuf>,
    /// Output of its own report.
    pub report: String,
}

/// A function's folder, locked.
#[derive(Debug)]
pub struct LockedFolder {
    folder: PathBuf,
    _lock: Lock,
}

impl LockedFolder {
    /// Makes and locks the folder of the function `name` below `all`.
    ///
    /// # Errors
    /// One of the name runs, or the folder cannot be made.
    pub fn take(all: &Path, name: &str) -> Result<Self, Error> {
        let folder = all.join(name);
        fs::create_dir_all(&folder).map_err(Error::file("make the folder", &folder))?;
        match lock(&folder)? {
            Some(lock) => Ok(Self { folder, _lock: lock }),
            None => {
                let process = read(&folder).map_or(0, |status| status.process);
                Err(Error::Running { name: name.into(), process })
            }
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes the status, as a whole.
    ///
    /// # Errors
    /// The folder is full or gone.
    pub fn write(&self, status: &Status) -> Result<(), Error> {
        let path = self.folder.join(FILE);
        let new = self.folder.join("status.new");
        let text = serde_json::to_vec_pretty(status).unwrap_or_default();
        fs::write(&new, text).map_err(Error::file("write", &new))?;
        fs::rename(&new, &path).map_err(Error::file("write", &path))
    }
}

/// A locked file. Its lock ends with it, even while a child that is being started has a copy of
/// its descriptor.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // The file's end is the lock's too.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

fn lock(folder: &Path) -> Result<Option<Lock>, Error> {
    let path = folder.join(LOCK);
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    let file = opened.map_err(Error::file("open", &path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Lock(file))),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(Error::file("lock", path)(error.into())),
    }
}

fn read(folder: &Path) -> Option<Status> {
    serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()
}

/// Every function below `all`, those that have ended included.
pub fn list(all: &Path) -> Vec<Status> {
    let folders = fs::read_dir(all).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<Status> = folders.filter_map(|entry| current(&entry.path())).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// A function's status; `None` where there never was one.
pub fn of(all: &Path, name: &str) -> Option<Status> {
    current(&all.join(name))
}

fn current(folder: &Path) -> Option<Status> {
    let mut status = read(folder)?;
    if matches!(lock(folder), Ok(Some(_))) {
        status.state = State::Stopped;
        status.machine = 0;
    }
    Some(status)
}

/// Asks the function's supervisor to end it, and waits until it has. Returns whether there was one.
///
/// # Errors
/// This user may not ask the supervisor.
pub fn stop(all: &Path, name: &str) -> Result<bool, Error> {
    let Some(status) = of(all, name).filter(|status| status.state != State::Stopped) else {
        return Ok(false);
    };
    let process = Pid::from_raw(status.process as i32);
    process
        .map_or(Err(Errno::SRCH), |process| kill_process(process, Signal::TERM))
        .map_err(|error| Error::System { action: "signal the supervisor", source: error.into() })?;
    let path = all.join(name).join(LOCK);
    let file = File::open(&path).map_err(Error::file("open", &path))?;
    flock(&file, FlockOperation::LockExclusive)
        .map_err(|error| Error::file("lock", path)(error.into()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_runs_once_and_is_seen_to_end() {
        let all = tempfile::tempdir().unwrap();
        assert!(list(all.path()).is_empty() && !stop(all.path(), "f").unwrap());
        let place = LockedFolder::take(all.path(), "f").unwrap();
        let status =
            Status { name: "f".into(), state: State::Well, process: 7, ..Status::default() };
        place.write(&status).unwrap();
        let error = LockedFolder::take(all.path(), "f").unwrap_err().to_string();
        assert!(error.contains("process 7"), "{error}");
        assert_eq!(list(all.path()), [status]);
        drop(place);
        assert_eq!(of(all.path(), "f").unwrap().state, State::Stopped);
        assert!(!stop(all.path(), "f").unwrap());
        fs::write(all.path().join("f").join(FILE), "{ no").unwrap();
        assert!(list(all.path()).is_empty());
    }
}
