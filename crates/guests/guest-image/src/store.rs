//! The folder in which guests are kept.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use stasis_guest_root::sha256::{self, digest};
use stasis_guest_root::{FileSystemKind, Lower};

use crate::kernel::MODULES;
use crate::removal::remove;
use crate::{BuildError, Image, InPlace, Made, Progress, Recipe};

/// Version of what a build makes of a recipe: part of the recipe's hash, so
/// that a newer program does not use an older one's files.
const FORMAT: u32 = 9;
/// The same of a root of the user's own.
const OWN_FORMAT: u32 = 10;

/// The file whose presence shows that a guest is whole.
pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const VMLINUX: &str = "vmlinux";
/// Initramfs of so many programs are kept, the ones made last; each has some 18 MB.
const INITRAMFS_KEPT: usize = 8;
pub(crate) const ROOT: &str = "root.ext4";
/// The names of a root whose files are read where they lie, and the map of those.
pub(crate) const NAMES: &str = "names.ext4";
pub(crate) const MAP: &str = "files.map";

/// Interval between two attempts to lock the place of a guest that another process builds.
const LOCK_INTERVAL: Duration = Duration::from_millis(100);

/// Hash of the agent's sources (`build.rs`): a guest keeps its initramfs as long as they are the
/// same, whoever has compiled them.
pub(crate) const AGENT: &str = env!("STASIS_AGENT");

/// A guest that is ready to be booted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guest {
    /// The kernel: an uncompressed ELF file.
    pub vmlinux: PathBuf,
    /// The initramfs: an uncompressed cpio archive.
    pub initramfs: PathBuf,
    /// Image of the root file system, ext4 with 4 KiB blocks; its size is a
    /// multiple of 2 MiB. Of a root that is read in place it has the kernel's modules only.
    pub root: PathBuf,
    /// A root that is not in that image.
    pub in_place: Option<InPlace>,
    /// Its recipe.
    pub recipe: Recipe,
    /// The kernel's release, as `uname -r` prints it.
    pub kernel_release: String,
    /// Container images, each in a folder of its own in the root file system
    /// ([`stasis_guest_root::image_folder`]); none where the root is another.
    pub images: Vec<Image>,
    /// The date that runs which must repeat start at, in seconds since 1970-01-01 00:00
    /// UTC: midnight after the newest file of a package in the root file system. No file
    /// in it is newer.
    pub date: u64,
    /// Files of a user's root that could not be read and were left out.
    pub left_out: usize,
    /// SHA-256, in hexadecimal, of what decides how the guest runs: its kernel, root
    /// file system and initramfs.
    pub digest: String,
}

impl Guest {
    /// The file system and the storage of a root that is read in place; `None` for any other root.
    ///
    /// # Errors
    /// The root cannot be read any more.
    pub fn lower(&self) -> Result<Option<(FileSystemKind, Lower)>, BuildError> {
        let lower = match &self.in_place {
            None => return Ok(None),
            Some(InPlace::Image(path, part)) => (part.kind, Lower::of_image(path, part)?),
            Some(InPlace::Files) => {
                let (names, map) = (self.root.with_file_name(NAMES), self.root.with_file_name(MAP));
                (FileSystemKind::Ext4, Lower::of_files(&names, &map)?)
            }
        };
        Ok(Some(lower))
    }

    /// The program of the guest's agent, which may be of an earlier build than this program; None where
    /// it cannot be read any more.
    pub fn agent(&self) -> Option<Vec<u8>> {
        let archive = fs::read(&self.initramfs).ok()?;
        crate::cpio::file(&archive, crate::initramfs::AGENT).map(<[u8]>::to_vec)
    }
}

/// Description of a guest's folder, for a reader.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: u32,
    pub(crate) recipe: Recipe,
    pub(crate) kernel_release: String,
    date: u64,
    #[serde(default, skip_serializing_if = "is_none")]
    left_out: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_place: Option<InPlace>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<Image>,
    /// SHA-256 of the kernel and the root file system, one after the other; where the root is
    /// read in place, of that and of the root's stamp.
    system_sha256: String,
}

/// Returns whether a number is left out.
fn is_none(number: &usize) -> bool {
    *number == 0
}

/// An initramfs in a guest's folder: `initramfs-AGENT-SHA256.cpio`.
///
/// Each program that differs in [`AGENT`] or in its name has its own, so that programs which use
/// one cache in turn neither boot each other's agent nor touch a file that a kept machine depends
/// on. The name counts because the agent is the whole program: a user's own program does not have
/// the commands that a command finds in its guest, such as `stasis guest-load`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Initramfs {
    path: PathBuf,
    /// SHA-256, in hexadecimal.
    digest: String,
}

/// Returns the beginning of the name of this program's initramfs.
fn initramfs_name() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    initramfs_name_of(program.file_name().unwrap_or_default().as_encoded_bytes())
}

fn initramfs_name_of(program: &[u8]) -> String {
    format!("initramfs-{}-", &digest(&[AGENT.as_bytes(), program].concat())[..16])
}

/// Returns the default folder of guests: `$XDG_CACHE_HOME/stasis/guest`, or
/// `~/.cache/stasis/guest`. `None` if neither variable is set (XDG Base Directory Specification: a
/// relative path counts as not set).
pub fn default_cache() -> Option<PathBuf> {
    let variable =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?;
    Some(base.join("stasis/guest"))
}

/// SHA-256 of files, one after the other.
fn digest_of(paths: &[PathBuf]) -> Result<String, BuildError> {
    let mut hash = Sha256::new();
    for path in paths {
        sha256::add_file(&mut hash, path).map_err(BuildError::file("read", path))?;
    }
    Ok(sha256::hex(&hash.finalize()))
}

/// [`Manifest::system_sha256`] of what is in a folder.
fn system(folder: &Path, place: Option<&InPlace>, recipe: &Recipe) -> Result<String, BuildError> {
    let system = digest_of(&[folder.join(VMLINUX), folder.join(ROOT)])?;
    let stamp = recipe.root_stamp.as_deref().unwrap_or_default();
    Ok(place.map_or(system.clone(), |_| digest(format!("{system} {stamp}").as_bytes())))
}

fn format(recipe: &Recipe) -> u32 {
    if recipe.has_own_root() {
        OWN_FORMAT
    } else {
        FORMAT
    }
}

/// The folder of a recipe's guest.
pub(crate) fn folder(cache: &Path, recipe: &Recipe) -> PathBuf {
    // Strings and lists of strings always serialize.
    let text = serde_json::to_string(&(format(recipe), recipe)).unwrap_or_default();
    cache.join(&digest(text.as_bytes())[..16])
}

/// Writes a file so that it is there as a whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    let new = path.with_extension("new");
    let write = || {
        let mut file = File::create(&new).map_err(BuildError::file("create", &new))?;
        file.write_all(bytes).map_err(BuildError::file("write", &new))?;
        fs::rename(&new, path).map_err(BuildError::file("create", path))
    };
    write().inspect_err(|_| {
        // Half of it, on a full disk.
        let _ = fs::remove_file(&new);
    })
}

/// The file by which the guest in `folder` is locked. It stays with the guest; a build that fails
/// removes it while it holds it ([`is_there`]).
fn lock_file(folder: &Path) -> Result<(PathBuf, File), BuildError> {
    let path = folder.with_extension("lock");
    let opened = OpenOptions::new().create(true).append(true).open(&path);
    let file = opened.map_err(BuildError::file("open the lock", &path))?;
    Ok((path, file))
}

/// Returns whether a lock that is held is the one that others find: an earlier holder may have
/// removed it.
fn is_there(lock: &File, path: &Path) -> bool {
    let same = |held: fs::Metadata| {
        let there = fs::metadata(path)?;
        Ok((there.dev(), there.ino()) == (held.dev(), held.ino()))
    };
    lock.metadata().and_then(same).unwrap_or(false)
}

/// One recipe's place in the cache, locked against other processes.
pub(crate) struct Store {
    folder: PathBuf,
    _lock: Lock,
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

impl Store {
    /// Locks the place; waits while another process builds the same guest.
    pub(crate) fn lock(
        cache: &Path,
        recipe: &Recipe,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, BuildError> {
        fs::create_dir_all(cache).map_err(BuildError::file("create the folder", cache))?;
        let folder = folder(cache, recipe);
        loop {
            let (path, file) = lock_file(&folder)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let step = "waiting for another process that builds this guest";
                    progress(Progress { step: step.into(), fraction: 0.0 });
                    if stop.load(Ordering::Relaxed) {
                        return Err(BuildError::Stopped);
                    }
                    std::thread::sleep(LOCK_INTERVAL);
                    continue;
                }
                Err(e) => return Err(BuildError::file("lock", &path)(e.into())),
            }
            let lock = Lock(file);
            if is_there(&lock.0, &path) {
                return Ok(Self { folder, _lock: lock });
            }
        }
    }

    /// Gives the place up after a build that has failed: only its log stays.
    pub(crate) fn abandon(self) {
        if !self.folder.exists() {
            // A lock without a guest does no harm.
            let _ = fs::remove_file(self.folder.with_extension("lock"));
        }
    }

    /// Locks the place of the guest in `folder` if nobody builds it.
    pub(crate) fn try_lock(folder: &Path) -> Result<Self, BuildError> {
        let (path, file) = lock_file(folder)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { folder: folder.to_owned(), _lock: Lock(file) }),
            Err(Errno::WOULDBLOCK) => {
                let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Err(BuildError::Busy { name })
            }
            Err(e) => Err(BuildError::file("lock", &path)(e.into())),
        }
    }

    /// Returns whether everything but perhaps the initramfs is there.
    pub(crate) fn is_built(&self) -> bool {
        [MANIFEST, VMLINUX, ROOT].iter().all(|name| self.folder.join(name).is_file())
    }

    /// Removes the guest if one of its files is damaged: `progress` names the file.
    pub(crate) fn remove_damaged(
        &self,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), BuildError> {
        if !self.folder.exists() {
            return Ok(());
        }
        // One that an earlier version has made has no digests but that of its system.
        let checked = match stasis_kept_files::is_sealed(&self.folder) {
            true => stasis_kept_files::check(&self.folder).map_err(|damage| damage.to_string()),
            false => self.check_system().map_err(|error| error.to_string()),
        };
        match checked {
            Ok(()) => Ok(()),
            Err(damage) => {
                progress(Progress { step: format!("{damage}; made again").into(), fraction: 0.0 });
                remove(&self.folder)
            }
        }
    }

    /// Checks a guest by the digest of its system, and seals it.
    fn check_system(&self) -> Result<(), BuildError> {
        let manifest = self.manifest()?;
        let system = system(&self.folder, manifest.in_place.as_ref(), &manifest.recipe)?;
        if system != manifest.system_sha256 {
            let (path, cause) = (self.folder.clone(), "other bytes than were written".into());
            return Err(BuildError::Damaged { path, cause });
        }
        stasis_kept_files::seal(&self.folder, &[]).map_err(BuildError::file("read", &self.folder))
    }

    /// Returns the path of the log of this guest's build.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.with_extension("log")
    }

    /// The initramfs' modules and the lists of them.
    pub(crate) fn modules(&self) -> PathBuf {
        self.folder.join(MODULES)
    }

    /// An empty folder to build in; remains of a killed build are removed.
    pub(crate) fn begin(&self) -> Result<PathBuf, BuildError> {
        let work = self.folder.with_extension("new");
        remove(&work)?;
        fs::create_dir(&work).map_err(BuildError::file("create the folder", &work))?;
        Ok(work)
    }

    /// Makes what was built in `work` this recipe's guest.
    pub(crate) fn commit(
        &self,
        work: &Path,
        recipe: &Recipe,
        made: &Made,
    ) -> Result<(), BuildError> {
        let system = system(work, made.in_place.as_ref(), recipe)?;
        let manifest = Manifest {
            format: format(recipe),
            recipe: recipe.clone(),
            kernel_release: made.release.clone(),
            date: made.date,
            left_out: made.left_out,
            in_place: made.in_place.clone(),
            images: made.images.clone(),
            system_sha256: system,
        };
        write_manifest(work, &manifest)?;
        stasis_kept_files::seal(work, &[]).map_err(BuildError::file("read", work))?;
        remove(&self.folder)?;
        fs::rename(work, &self.folder).map_err(BuildError::file("create", &self.folder))
    }

    pub(crate) fn manifest(&self) -> Result<Manifest, BuildError> {
        let path = self.folder.join(MANIFEST);
        let bytes = fs::read(&path).map_err(BuildError::file("read", &path))?;
        serde_json::from_slice(&bytes)
            .map_err(|e| BuildError::Damaged { path, cause: e.to_string() })
    }

    /// This program's initramfs, if it is there and has the digest of its name.
    pub(crate) fn initramfs(&self) -> Option<Initramfs> {
        self.initramfs_files().find_map(|path| {
            let name = path.file_name()?.to_str()?;
            let digest = name.strip_prefix(&initramfs_name())?.strip_suffix(".cpio")?.to_owned();
            let is_sound = || digest_of(std::slice::from_ref(&path)).is_ok_and(|own| own == digest);
            stasis_kept_files::is_sound(&path, is_sound).then_some(Initramfs { path, digest })
        })
    }

    /// Gives the guest an initramfs with this program's agent.
    pub(crate) fn add_initramfs(&self, archive: &[u8]) -> Result<Initramfs, BuildError> {
        let digest = digest(archive);
        let path = self.folder.join(format!("{}{digest}.cpio", initramfs_name()));
        write(&path, archive)?;
        let mut others: Vec<_> = self
            .initramfs_files()
            .filter(|other| *other != path)
            .filter_map(|other| Some((fs::metadata(&other).ok()?.modified().ok()?, other)))
            .collect();
        others.sort();
        let extra = (others.len() + 1).saturating_sub(INITRAMFS_KEPT);
        others.iter().take(extra).try_for_each(|(_, other)| remove(other))?;
        Ok(Initramfs { path, digest })
    }

    fn initramfs_files(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("initramfs-"))
        })
    }

    pub(crate) fn guest(&self, manifest: &Manifest, initramfs: Initramfs) -> Guest {
        let mut system = format!("{} {}", manifest.system_sha256, initramfs.digest);
        if !manifest.images.is_empty() {
            // Strings and numbers always serialize.
            system += &serde_json::to_string(&manifest.images).unwrap_or_default();
        }
        Guest {
            vmlinux: self.folder.join(VMLINUX),
            initramfs: initramfs.path,
            root: self.folder.join(ROOT),
            in_place: manifest.in_place.clone(),
            images: manifest.images.clone(),
            recipe: manifest.recipe.clone(),
            kernel_release: manifest.kernel_release.clone(),
            date: manifest.date,
            left_out: manifest.left_out,
            digest: digest(system.as_bytes()),
        }
    }
}

fn write_manifest(folder: &Path, manifest: &Manifest) -> Result<(), BuildError> {
    let path = folder.join(MANIFEST);
    let text = serde_json::to_string_pretty(manifest)
        .map_err(|e| BuildError::Damaged { path: path.clone(), cause: e.to_string() })?;
    write(&path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_killed_build_leaves_nothing_in_the_way() {
        let cache = tempfile::tempdir().unwrap();
        let recipe = Recipe::default();
        let store = Store::lock(cache.path(), &recipe, &GO_ON, &mut |_| {}).unwrap();
        let work = store.begin().unwrap();
        fs::write(work.join("half"), "x").unwrap();
        let work = store.begin().unwrap();
        assert!(!work.join("half").exists());
        for name in [VMLINUX, ROOT] {
            fs::write(work.join(name), name).unwrap();
        }
        assert!(!store.is_built());
        let made = Made { release: "6.1.0-1-cloud-amd64".into(), date: 86_400, ..Made::default() };
        store.commit(&work, &recipe, &made).unwrap();
        assert!(store.is_built());
        assert!(crate::is_built(&recipe, cache.path()));
        let manifest = store.manifest().unwrap();
        let system = digest(format!("{VMLINUX}{ROOT}").as_bytes());
        assert_eq!(manifest.system_sha256, system);
        assert_eq!(store.initramfs(), None);
        let made = store.add_initramfs(b"archive").unwrap();
        assert_eq!(store.initramfs(), Some(made.clone()));
        let first = store.guest(&manifest, made);
        let other = Initramfs { path: "other".into(), digest: digest(b"another") };
        assert_ne!(store.guest(&manifest, other).digest, first.digest);
        fs::remove_file(first.initramfs).unwrap();
        assert_eq!(store.initramfs(), None, "it must be made again");
    }

    #[test]
    fn a_damaged_guest_is_named_and_goes() {
        let cache = tempfile::tempdir().unwrap();
        let recipe = Recipe::default();
        let store = Store::lock(cache.path(), &recipe, &GO_ON, &mut |_| {}).unwrap();
        let made = Made { release: "6.1.0-1-cloud-amd64".into(), date: 86_400, ..Made::default() };
        let path = |name: &str| store.folder.join(name);
        let remove_damaged = || {
            let mut steps = String::new();
            store.remove_damaged(&mut |progress| steps += &progress.step).unwrap();
            steps
        };
        // One that is sealed, and one of an earlier version.
        for (has_digests, name) in [true, false]
            .into_iter()
            .flat_map(|has_digests| [VMLINUX, ROOT, MANIFEST].map(|name| (has_digests, name)))
        {
            let work = store.begin().unwrap();
            for name in [VMLINUX, ROOT] {
                fs::write(work.join(name), name).unwrap();
            }
            store.commit(&work, &recipe, &made).unwrap();
            if !has_digests {
                fs::remove_file(path("digests")).unwrap();
            }
            assert_eq!(remove_damaged(), "");
            if !has_digests {
                assert!(stasis_kept_files::is_sealed(&store.folder));
                fs::remove_file(path("digests")).unwrap();
            }
            let mut bytes = fs::read(path(name)).unwrap();
            bytes[0] ^= 1;
            fs::write(path(name), bytes).unwrap();
            let steps = remove_damaged();
            assert!(steps.contains("is damaged") && !store.folder.exists(), "{name}: {steps}");
            assert!(!has_digests || steps.contains(name), "{name}: {steps}");
        }
    }

    #[test]
    fn a_damaged_initramfs_is_made_again() {
        let cache = tempfile::tempdir().unwrap();
        let store = Store::lock(cache.path(), &Recipe::default(), &GO_ON, &mut |_| {}).unwrap();
        fs::create_dir(&store.folder).unwrap();
        let made = store.add_initramfs(b"archive").unwrap();
        assert_eq!(store.initramfs(), Some(made.clone()));
        fs::write(&made.path, "Archive").unwrap();
        assert_eq!(store.initramfs(), None);
        fs::remove_file(&made.path).unwrap();
        assert_eq!(store.add_initramfs(b"archive").unwrap(), made);
        assert_eq!(store.initramfs(), Some(made));
    }

    #[test]
    fn a_failed_build_leaves_no_lock_and_who_waits_for_it_has_another() {
        let cache = tempfile::tempdir().unwrap();
        let recipe = Recipe::default();
        let first = Store::lock(cache.path(), &recipe, &GO_ON, &mut |_| {}).unwrap();
        let path = first.folder.with_extension("lock");
        std::thread::scope(|scope| {
            let (waits, begun) = std::sync::mpsc::channel();
            let (recipe, cache) = (&recipe, cache.path());
            let second = scope.spawn(move || {
                Store::lock(cache, recipe, &GO_ON, &mut |_| {
                    let _ = waits.send(());
                })
                .unwrap()
            });
            begun.recv().unwrap();
            first.abandon();
            let second = second.join().unwrap();
            assert!(is_there(&second._lock.0, &path));
            second.abandon();
        });
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
    }

    #[test]
    fn programs_do_not_touch_each_others_initramfs() {
        let cache = tempfile::tempdir().unwrap();
        let store = Store::lock(cache.path(), &Recipe::default(), &GO_ON, &mut |_| {}).unwrap();
        fs::create_dir(&store.folder).unwrap();
        let file = |index: u64| {
            let path = store.folder.join(format!("initramfs-{index:016}-digest.cpio"));
            fs::write(&path, "another's").unwrap();
            let time = std::time::SystemTime::now() - std::time::Duration::from_secs(100 - index);
            File::open(&path).unwrap().set_modified(time).unwrap();
            path
        };
        let others: Vec<_> = (0..INITRAMFS_KEPT as u64 - 1).map(file).collect();
        assert_eq!(store.initramfs(), None);
        let made = store.add_initramfs(b"ours").unwrap();
        assert_eq!(fs::read(&made.path).unwrap(), b"ours");
        assert!(others.iter().all(|path| fs::read(path).unwrap() == b"another's"));
        // The oldest one makes room.
        let last = file(50);
        store.add_initramfs(b"ours").unwrap();
        assert!(!others[0].exists() && others[1].exists() && last.exists());
        assert_eq!(store.initramfs(), Some(made));
    }

    #[test]
    fn a_program_of_a_users_own_has_its_own_agent() {
        assert_ne!(initramfs_name_of(b"stasis"), initramfs_name_of(b"tail-latency"));
        assert_eq!(initramfs_name_of(b"stasis"), initramfs_name_of(b"stasis"));
    }

    #[test]
    fn another_recipe_is_another_guest() {
        let recipe = Recipe::default();
        let more = recipe.clone().with_packages(["stress-ng".to_string()]);
        let cache = Path::new("/cache");
        assert_eq!(folder(cache, &recipe), folder(cache, &recipe.clone()));
        assert_ne!(folder(cache, &recipe), folder(cache, &more));
    }
}
