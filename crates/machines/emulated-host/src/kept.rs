//! Machines that are kept for later runs: a folder for each, named by what it
//! depends on.
//!
//! Beside a folder `KEY` lies `KEY.lock`: held exclusively while the machine is
//! made or removed, and shared while a run starts from it. So runs of one
//! machine wait for the first that makes it, and runs of others do not.
//!
//! A machine comes and goes as a whole: it is made as `KEY.new` and removed as
//! `*.gone`, names from which nobody starts, and is `KEY` from one rename to another.
//! A run that finds its machine damaged may take it away under its shared lock: none can be
//! made in its place before that lock is let go.

use crate::fd::{free, lock, try_lock, Lock};
use crate::Error;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// End of the names of what is being removed.
const GONE: &str = ".gone";
/// Machines that are kept of each kind; one takes 300 to 600 MiB of disk.
const KEPT: usize = 4;
/// Room on the disk that one needs, for its maker not to end for lack of it (bytes).
const ROOM: u64 = 1 << 30;
/// Time for which a machine that was wanted once is remembered.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Everything that a kept machine depends on, hashed.
pub(crate) struct Key(Sha256);

impl Key {
    /// `kind`: of what, and in which form it is kept.
    pub(crate) fn new(kind: &str) -> Self {
        let mut key = Self(Sha256::new());
        key.part(kind.as_bytes());
        key
    }

    pub(crate) fn part(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// A file, by its name, its length, and when it and its inode were changed last: a file that
    /// was written to or replaced is another one. A block device, by its attachment and by how much
    /// has been written to it since.
    pub(crate) fn file(&mut self, path: &Path) -> Result<(), Error> {
        let metadata = fs::metadata(path).map_err(Error::io("cannot read", path))?;
        self.part(path.as_os_str().as_bytes());
        if metadata.file_type().is_block_device() {
            self.device(path, metadata.rdev())
                .map_err(Error::io("cannot tell the state of", path))?;
        }
        let inode = (metadata.dev(), metadata.ino());
        let written = (metadata.mtime(), metadata.mtime_nsec());
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        self.part(format!("{inode:?} {} {written:?} {changed:?}", metadata.len()).as_bytes());
        Ok(())
    }

    /// A block device of this number: Linux, Documentation/ABI/stable/sysfs-block, `diskseq`, `stat`
    /// (sectors written and discarded) and `loop/backing_file`.
    fn device(&mut self, path: &Path, number: u64) -> io::Result<()> {
        // Writes that the page cache still holds are not counted.
        File::open(path)?.sync_all()?;
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let device = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        // A partition is in the folder of its disk, which has a number of its attachment.
        let disk = match device.join("partition").exists() {
            true => device.join(".."),
            false => device.clone(),
        };
        self.part(&fs::read("/proc/sys/kernel/random/boot_id")?);
        self.part(&fs::read(disk.join("diskseq"))?);
        let stat = fs::read_to_string(device.join("stat"))?;
        let counts: Vec<&str> = stat.split_whitespace().collect();
        for place in [6, 13] {
            self.part(counts.get(place).unwrap_or(&"").as_bytes());
        }
        if let Ok(file) = fs::read_to_string(disk.join("loop/backing_file")) {
            let metadata = fs::metadata(file.trim_end_matches('\n'))?;
            let written = (metadata.mtime(), metadata.mtime_nsec());
            self.part(format!("{written:?}").as_bytes());
        }
        Ok(())
    }

    fn name(self) -> String {
        self.0.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The machines of one kind.
pub(crate) struct Store {
    folder: PathBuf,
}

/// A kept machine; a private one is removed when dropped.
pub(crate) struct Kept {
    pub folder: PathBuf,
    /// A remark for the user, where it was made again because it was damaged.
    pub note: Option<String>,
    private: bool,
    /// Keeps others from removing it until the restored machine has it open.
    _lock: File,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.private {
            // Remains are removed when the next machine is made.
            let _ = remove(&self.folder);
            let _ = fs::remove_file(self.folder.with_extension("lock"));
        }
    }
}

impl Kept {
    /// Removes a machine that cannot be restored. That another run has removed it is no error.
    pub(crate) fn discard(self) -> Result<(), Error> {
        remove(&self.folder)
    }
}

/// Removes a machine's folder, if it is there: nobody finds a part of it.
pub(crate) fn remove(folder: &Path) -> Result<(), Error> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let gone = folder.with_extension(format!("{}-{number}{GONE}", std::process::id()));
        match fs::rename(folder, &gone) {
            Ok(()) => return remove_all(&gone),
            Err(error) => match error.kind() {
                ErrorKind::NotFound => return Ok(()),
                // A program that was killed had this number.
                ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => {}
                _ => return Err(Error::io("cannot remove", folder)(error)),
            },
        }
    }
}

/// Removes what nobody starts from any more. Several may do so at once, and a run that has just
/// started from it may still write there.
fn remove_all(path: &Path) -> Result<(), Error> {
    const TRIES: u32 = 100;
    let mut removed = fs::remove_dir_all(path);
    for _ in 0..TRIES {
        match removed.as_ref().map_err(io::Error::kind) {
            // One of two does not find what the other took first, and stops there.
            Err(ErrorKind::NotFound) if fs::symlink_metadata(path).is_err() => return Ok(()),
            Err(ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => {}
            _ => break,
        }
        removed = fs::remove_dir_all(path);
    }
    removed.map_err(Error::io("cannot remove", path))
}

impl Store {
    /// The machines in `folder`, which need not be there.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns whether the machine of this key is kept.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.folder.join(key.name()).is_dir()
    }

    /// Returns whether the machine of this key is kept or was wanted so many times before; from now on it was
    /// once more.
    pub(crate) fn wanted_again(&self, key: Key, times: u64) -> Result<bool, Error> {
        let name = key.name();
        if self.folder.join(&name).is_dir() {
            return Ok(true);
        }
        fs::create_dir_all(&self.folder).map_err(Error::io("cannot create", &self.folder))?;
        for path in self.entries().filter(|path| path.extension().is_some_and(|end| end == "once"))
        {
            let age = fs::metadata(&path).and_then(|metadata| metadata.modified());
            if age.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > REMEMBERED)) {
                let _ = fs::remove_file(&path);
            }
        }
        // A byte for each time.
        let path = self.folder.join(name + ".once");
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(&path)
            .map_err(Error::io("cannot write", &path))?;
        let before = file.metadata().map_err(Error::io("cannot read", &path))?.len();
        if before < times {
            file.write_all(b"1").map_err(Error::io("cannot write", &path))?;
        }
        Ok(before >= times)
    }

    /// The machine of this key, which `make` makes in a folder if there is none.
    pub(crate) fn get(
        &self,
        key: Key,
        mut make: impl FnMut(&Path) -> Result<(), Error>,
    ) -> Result<Kept, Error> {
        let name = key.name();
        let folder = self.folder.join(&name);
        let mut note = None;
        // A lock that changes its kind is free for a moment, in which others may make and remove.
        let file = loop {
            let file = self.lock(&name, Lock::Shared)?;
            if folder.is_dir() {
                match stasis_kept_files::check(&folder) {
                    Ok(()) => break file,
                    // Another run has found it damaged.
                    Err(_) if !folder.is_dir() => {}
                    Err(damage) => {
                        note = Some(format!("{damage}: it is made again"));
                        remove(&folder)?;
                    }
                }
            }
            drop(file);
            let _exclusive = self.lock(&name, Lock::Exclusive)?;
            if !folder.is_dir() {
                let new = self.folder.join(format!("{name}.new"));
                // Remains of a program that was killed.
                remove(&new)?;
                self.check_room()?;
                let kept = make(&new).and_then(|()| {
                    let sealed = stasis_kept_files::seal(&new, &[]);
                    sealed.map_err(Error::io("cannot read", &new))?;
                    fs::rename(&new, &folder).map_err(Error::io("cannot create", &folder))
                });
                if kept.is_err() {
                    // The first error is the one to report.
                    let _ = remove(&new);
                }
                kept?;
            }
            self.prune(&folder);
        };
        // The modification time is that of the last use.
        let _ = File::open(&folder).and_then(|file| file.set_modified(SystemTime::now()));
        Ok(Kept { folder, note, private: false, _lock: file })
    }

    /// Refuses where the disk has no room for one more.
    fn check_room(&self) -> Result<(), Error> {
        match free(&self.folder) {
            Some(free) if free < ROOM => {
                Err(Error::NoRoom { folder: self.folder.clone(), free, needed: ROOM })
            }
            _ => Ok(()),
        }
    }

    /// A machine that is kept for this run only.
    pub(crate) fn private(
        &self,
        make: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Kept, Error> {
        static PRIVATE: AtomicU32 = AtomicU32::new(0);
        let number = PRIVATE.fetch_add(1, Ordering::Relaxed);
        let name = format!("private-{}-{number}", std::process::id());
        let lock = self.lock(&name, Lock::Exclusive)?;
        let kept = Kept { folder: self.folder.join(name), note: None, private: true, _lock: lock };
        make(&kept.folder)?;
        Ok(kept)
    }

    /// Removes all machines but those from which a run is just starting, and forgets
    /// which were wanted.
    pub(crate) fn clear(&self) {
        for path in self.entries() {
            if path.is_dir() {
                self.remove_unused(&path);
            } else if path.extension().is_some_and(|end| end == "once") {
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// Removes a machine, or what a killed program left of one, unless a run is just
    /// starting from it.
    fn remove_unused(&self, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(GONE) {
            let _ = remove_all(path);
            return;
        }
        let name = name.strip_suffix(".new").unwrap_or(&name);
        if let Some(_lock) = self.lock_file(name).ok().filter(try_lock) {
            // If the removal fails, the making of the next machine repeats it.
            let _ = remove(path);
            if is_private(path) {
                let _ = fs::remove_file(path.with_extension("lock"));
            }
        }
    }

    /// The lock `name`, once it is had.
    fn lock(&self, name: &str, kind: Lock) -> Result<File, Error> {
        loop {
            fs::create_dir_all(&self.folder).map_err(Error::io("cannot create", &self.folder))?;
            let file = self.lock_file(name)?;
            lock(&file, kind).map_err(Error::system("lock the cache"))?;
            // A program that emptied the cache meanwhile has removed the lock too: the next to come
            // would hold another one.
            let held = file.metadata().map_err(Error::system("read a lock"))?;
            let there = fs::metadata(self.folder.join(format!("{name}.lock")));
            if there.is_ok_and(|there| (there.dev(), there.ino()) == (held.dev(), held.ino())) {
                return Ok(file);
            }
        }
    }

    fn lock_file(&self, name: &str) -> Result<File, Error> {
        let path = self.folder.join(format!("{name}.lock"));
        File::create(&path).map_err(Error::io("cannot write", &path))
    }

    fn entries(&self) -> impl Iterator<Item = PathBuf> {
        entries(&self.folder)
    }

    /// Removes what killed programs left, and the least recently used machines beyond [`KEPT`]:
    /// not `current`, and none from which a run is just starting.
    fn prune(&self, current: &Path) {
        let folders = self.entries().filter(|path| path != current && path.is_dir());
        let is_kept = |path: &PathBuf| path.extension().is_none() && !is_private(path);
        let (kept, leftovers): (Vec<_>, Vec<_>) = folders.partition(is_kept);
        leftovers.iter().for_each(|path| self.remove_unused(path));
        let mut kept: Vec<(SystemTime, PathBuf)> = kept
            .into_iter()
            .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
            .collect();
        kept.sort();
        let extra = (kept.len() + 1).saturating_sub(KEPT);
        for (_, path) in kept.into_iter().take(extra) {
            self.remove_unused(&path);
        }
    }
}

/// Returns whether a machine is a run's own: it goes with its run.
fn is_private(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("private-"))
}

/// The entries of a folder, which need not exist.
pub(crate) fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests;
