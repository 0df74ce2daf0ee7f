//! The host's drive and the settings of its BFQ.

use std::fs;
use std::path::{Path, PathBuf};

use crate::saved_state::SavedState;
use crate::Error;

/// Settings that are changed while a guest is helped: the drive gets one request at a time, and
/// waits for the next request of the queue that has its turn. Else a helped guest's
/// request is behind those of others in the drive. The second changes with the
/// first (block/bfq-iosched.c, `bfq_strict_guarantees_store`).
const SETTINGS: [&str; 2] = ["strict_guarantees", "slice_idle"];

/// A drive whose BFQ is strict while a guest is helped. Dropping it restores the original settings.
#[derive(Debug)]
pub struct Drive {
    folder: PathBuf,
    saved: SavedState,
    // The original values of the settings, while they are changed.
    original: Option<[String; 2]>,
}

impl Drive {
    /// Finds a drive by its name below /sys/block. If an earlier process has left
    /// it strict, that is undone. `state` is the folder for saved state.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open(name: &str, state: &Path) -> Result<Self, Error> {
        check(Some(name))?;
        let block = Path::new("/sys/block").join(short(name));
        Self::of(&block, state)
    }

    /// As [`Drive::open`], by its folder.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn of(block: &Path, state: &Path) -> Result<Self, Error> {
        let (saved, leftover) = SavedState::open(state, block)?;
        let lines = leftover.lines().map(str::to_owned).collect::<Vec<_>>();
        let original = <[String; 2]>::try_from(lines).ok();
        let mut drive = Self { folder: block.join("queue/iosched"), saved, original };
        drive.restore()?;
        Ok(drive)
    }

    /// Makes the drive's BFQ strict.
    ///
    /// # Errors
    /// The settings cannot be read, saved or written.
    pub fn tighten(&mut self) -> Result<(), Error> {
        if self.original.is_some() {
            return Ok(());
        }
        let [strict, idle] = SETTINGS.map(|name| self.read(name));
        let original = [strict?, idle?];
        if original[0] == "1" {
            return Ok(());
        }
        self.saved.write(&format!("{}\n{}\n", original[0], original[1]))?;
        self.original = Some(original);
        self.write(SETTINGS[0], "1")
    }

    /// Restores the original settings, unless another program has done so.
    ///
    /// # Errors
    /// The settings cannot be read or written.
    pub fn restore(&mut self) -> Result<(), Error> {
        let Some(original) = self.original.clone() else { return Ok(()) };
        if self.read(SETTINGS[0])? == "1" {
            for (name, value) in SETTINGS.iter().zip(&original) {
                self.write(name, value)?;
            }
        }
        self.original = None;
        self.saved.clear()
    }

    fn read(&self, name: &str) -> Result<String, Error> {
        let path = self.folder.join(name);
        let text = fs::read_to_string(&path);
        let text = text.map_err(|source| Error::Weight { action: "read", path, source })?;
        Ok(text.trim().to_owned())
    }

    fn write(&self, name: &str, value: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        fs::write(&path, value).map_err(|source| Error::Weight { action: "write", path, source })
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        // The saved state stays if this fails.
        let _ = self.restore();
    }
}

fn short(name: &str) -> &str {
    name.strip_prefix("/dev/").unwrap_or(name)
}

/// The schedulers of the host's drives; of one, if it is named.
///
/// # Errors
/// There is no such drive, or it has another scheduler than bfq.
pub fn check(drive: Option<&str>) -> Result<bool, Error> {
    let scheduler = |name: &str| {
        let file = Path::new("/sys/block").join(name).join("queue/scheduler");
        fs::read_to_string(file).ok()
    };
    let Some(drive) = drive else {
        let drives = fs::read_dir("/sys/block").into_iter().flatten().filter_map(Result::ok);
        let mut names = drives.map(|entry| entry.file_name());
        return Ok(names.any(|name| {
            scheduler(&name.to_string_lossy()).is_some_and(|text| chosen(&text) == "bfq")
        }));
    };
    let drive = short(drive);
    let text = scheduler(drive).ok_or_else(|| Error::NoDrive(drive.to_owned()))?;
    match chosen(&text) {
        "bfq" => Ok(true),
        other => Err(Error::Scheduler { drive: drive.into(), scheduler: other.into() }),
    }
}

/// The one in brackets.
fn chosen(text: &str) -> &str {
    let word = text.split_whitespace().find_map(|word| word.strip_prefix('['));
    word.and_then(|word| word.strip_suffix(']')).unwrap_or("none")
}
