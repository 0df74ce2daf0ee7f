//! Machines that are kept for later runs: a folder for each, named by what it
//! depends on.
//!
//! Beside a folder `KEY` lies `KEY.lock`: held exclusively while the machine is
//! made or removed, and shared while a run starts from it. So runs of one
//! machine wait for the first that makes it, and runs of others do not.

use crate::fd::{lock, try_lock, Lock};
use crate::Error;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// Machines that are kept of each kind; one takes 300 to 600 MiB of disk.
const KEPT: usize = 4;
/// How long it is remembered that a machine was wanted once.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a kept machine depends on.
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

    /// A file, by its name, its length, and when it and its inode were changed last: whatever
    /// is written to it or put in its place, that is another.
    pub(crate) fn file(&mut self, path: &Path) -> Result<(), Error> {
        let metadata = fs::metadata(path).map_err(Error::io("cannot read", path))?;
        self.part(path.as_os_str().as_bytes());
        let inode = (metadata.dev(), metadata.ino());
        let written = (metadata.mtime(), metadata.mtime_nsec());
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        self.part(format!("{inode:?} {} {written:?} {changed:?}", metadata.len()).as_bytes());
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
    private: bool,
    /// Keeps others from removing it until the restored machine has it open.
    _lock: Option<File>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.private {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

impl Kept {
    /// Removes a machine that cannot be restored.
    pub(crate) fn discard(self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Store {
    /// The machines in `folder`, which need not be there.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Whether the machine of this key is kept.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.folder.join(key.name()).is_dir()
    }

    /// Whether the machine of this key is kept or was wanted before; from now on it
    /// was.
    pub(crate) fn wanted_again(&self, key: Key) -> Result<bool, Error> {
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
        let path = self.folder.join(name + ".once");
        if path.exists() {
            return Ok(true);
        }
        File::create(&path).map_err(Error::io("cannot write", &path))?;
        Ok(false)
    }

    /// The machine of this key, which `make` makes in a folder if there is none.
    pub(crate) fn get(
        &self,
        key: Key,
        make: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Kept, Error> {
        fs::create_dir_all(&self.folder).map_err(Error::io("cannot create", &self.folder))?;
        let name = key.name();
        let folder = self.folder.join(&name);
        let file = self.lock_file(&name)?;
        let locked = |kind| lock(&file, kind).map_err(Error::system("lock the cache"));
        locked(Lock::Shared)?;
        if !folder.is_dir() {
            locked(Lock::Exclusive)?;
            // Another program may have made it meanwhile.
            if !folder.is_dir() {
                let new = self.folder.join(name + ".new");
                // What a killed program left.
                let _ = fs::remove_dir_all(&new);
                let kept = make(&new).and_then(|()| {
                    fs::rename(&new, &folder).map_err(Error::io("cannot create", &folder))
                });
                if kept.is_err() {
                    let _ = fs::remove_dir_all(&new);
                }
                kept?;
            }
            self.prune(&folder);
            locked(Lock::Shared)?;
        }
        // The modification time tells when it was last used.
        let _ = File::open(&folder).and_then(|file| file.set_modified(SystemTime::now()));
        Ok(Kept { folder, private: false, _lock: Some(file) })
    }

    /// A machine that is kept for this run only.
    pub(crate) fn private(
        &self,
        make: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Kept, Error> {
        static PRIVATE: AtomicU32 = AtomicU32::new(0);
        let number = PRIVATE.fetch_add(1, Ordering::Relaxed);
        let name = format!("private-{}-{number}", std::process::id());
        let kept = Kept { folder: self.folder.join(name), private: true, _lock: None };
        make(&kept.folder)?;
        Ok(kept)
    }

    /// Removes all machines but those from which a run is just starting, and forgets
    /// which were wanted.
    pub(crate) fn clear(&self) {
        for path in self.entries() {
            if path.is_dir() {
                // A private one goes with its run.
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if !name.starts_with("private-") {
                    self.remove_unused(&path);
                }
            } else if path.extension().is_some_and(|end| end == "once") {
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// Removes a machine, or what a killed program left of one, unless a run is just
    /// starting from it.
    fn remove_unused(&self, path: &Path) {
        let name = path.with_extension("");
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        if self.lock_file(&name).is_ok_and(|file| try_lock(&file)) {
            let _ = fs::remove_dir_all(path);
        }
    }

    fn lock_file(&self, name: &str) -> Result<File, Error> {
        let path = self.folder.join(format!("{name}.lock"));
        File::create(&path).map_err(Error::io("cannot write", &path))
    }

    fn entries(&self) -> impl Iterator<Item = PathBuf> {
        entries(&self.folder)
    }

    /// Removes the least recently used machines beyond [`KEPT`], but for `current`
    /// and those from which a run is just starting.
    fn prune(&self, current: &Path) {
        let mut machines: Vec<(SystemTime, PathBuf)> = self
            .entries()
            .filter(|path| path != current && path.is_dir() && path.extension().is_none())
            .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
            .collect();
        machines.sort();
        let extra = (machines.len() + 1).saturating_sub(KEPT);
        for (_, path) in machines.into_iter().take(extra) {
            self.remove_unused(&path);
        }
    }
}

/// What is in a folder, which need not be there.
pub(crate) fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new(name)
    }

    #[test]
    fn the_least_recently_used_machines_go() {
        let parent = tempfile::tempdir().unwrap();
        let store = Store::new(parent.path().into());
        for age in 0..7u64 {
            let kept = store.get(key(&age.to_string()), |path| {
                fs::create_dir(path).map_err(Error::io("cannot create", path))
            });
            let when = SystemTime::now() - Duration::from_secs(100 * age);
            File::open(&kept.unwrap().folder).unwrap().set_modified(when).unwrap();
        }
        // The last one is the newest when it is made.
        let left: Vec<u64> = (0..7).filter(|age: &u64| store.has(key(&age.to_string()))).collect();
        assert_eq!(left, [0, 1, 2, 6]);
    }

    #[test]
    fn all_machines_go_but_those_in_use() {
        let parent = tempfile::tempdir().unwrap();
        let store = Store::new(parent.path().into());
        let make = |path: &Path| fs::create_dir(path).map_err(Error::io("cannot create", path));
        let used = store.get(key("used"), make).unwrap();
        drop(store.get(key("free"), make).unwrap());
        assert!(!store.wanted_again(key("other")).unwrap());
        store.clear();
        assert!(store.has(key("used")) && !store.has(key("free")));
        assert!(!store.wanted_again(key("other")).unwrap(), "that is forgotten");
        drop(used);
        store.clear();
        assert!(!store.has(key("used")));
    }

    #[test]
    fn a_file_that_is_written_or_replaced_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let name = || {
            let mut key = key("of");
            key.file(&path).unwrap();
            key.name()
        };
        fs::write(&path, "one").unwrap();
        let date = fs::metadata(&path).unwrap().modified().unwrap();
        let first = name();
        assert_eq!(name(), first);
        fs::write(folder.path().join("new"), "two").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(date).unwrap();
        assert_ne!(name(), first);
    }

    #[test]
    fn a_machine_is_made_once_and_wanted_again_after_that() {
        let parent = tempfile::tempdir().unwrap();
        let store = Store::new(parent.path().join("machines"));
        assert!(!store.wanted_again(key("a")).unwrap());
        assert!(store.wanted_again(key("a")).unwrap());
        assert!(!store.wanted_again(key("b")).unwrap());
        let mut made = 0;
        for _ in 0..2 {
            let make = |path: &Path| {
                made += 1;
                fs::create_dir(path).map_err(Error::io("cannot create", path))
            };
            store.get(key("a"), make).unwrap();
        }
        assert_eq!(made, 1);
        let failed = store.get(key("c"), |_| Err(Error::QemuMissing));
        assert!(failed.is_err() && !store.has(key("c")));
    }
}
