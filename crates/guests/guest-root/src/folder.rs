//! A folder of this machine, or parts of this machine's own root.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::content::Content;
use crate::tree::{Id, Kind, Limits, Meta, Tree, ROOT};
use crate::RootError;

/// The parts of this machine's own root that a guest's root takes: programs, libraries and
/// settings. The rest is data, of users and of services.
const OF_HOST: [&str; 10] =
    ["bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr", "var/lib/dpkg/status"];
/// Folders of those that no guest can use: other kernels' modules, and hardware's firmware.
const NOT_OF_HOST: [&str; 4] =
    ["usr/lib/modules", "lib/modules", "usr/lib/firmware", "lib/firmware"];

/// A folder that was looked through.
pub(crate) struct Walked {
    pub tree: Tree,
    /// A name for all of it as it is now: names, sizes, times, rights.
    pub stamp: String,
    /// Number of files that this user may not read, which were left out.
    pub left_out: usize,
}

struct Walk {
    tree: Tree,
    hash: Sha256,
    /// Files with several names, by device and inode.
    linked: HashMap<(u64, u64), Id>,
    /// True if files that cannot be read are left out.
    lenient: bool,
    left_out: usize,
    /// This user, if it is not root: files of this user are root's in the guest.
    user: Option<(u32, u32)>,
}

/// Reads a folder, except for other file systems that are mounted in it.
pub(crate) fn read(folder: &Path, limits: Limits) -> Result<Walked, RootError> {
    let mut walk = Walk::new(folder, limits, false);
    let status = fs::metadata(folder).map_err(RootError::file("read", folder))?;
    walk.tree.node_mut(ROOT).meta = walk.meta(folder, &status);
    walk.below(folder.to_owned(), ROOT, &[])?;
    Ok(walk.finish())
}

/// Reads `path` with everything below it: the one entry of a tree.
pub(crate) fn read_one(path: &Path, limits: Limits) -> Result<Tree, RootError> {
    let mut walk = Walk::new(path, limits, false);
    let status = fs::symlink_metadata(path).map_err(RootError::file("read", path))?;
    let name = path.file_name().unwrap_or("root".as_ref());
    if let Some(id) = walk.one(path, name.as_bytes(), &status, ROOT)?.filter(|_| status.is_dir()) {
        walk.below(path.to_owned(), id, &[])?;
    }
    Ok(walk.tree)
}

/// Reads the parts of this machine's own root that a guest can use.
pub(crate) fn of_host(root: &Path, limits: Limits) -> Result<Walked, RootError> {
    let mut walk = Walk::new(root, limits, true);
    let excluded: Vec<PathBuf> = NOT_OF_HOST.iter().map(|name| root.join(name)).collect();
    for name in OF_HOST {
        let path = root.join(name);
        let Ok(status) = fs::symlink_metadata(&path) else { continue };
        let (folder, last) = name.rsplit_once('/').unwrap_or(("", name));
        let folder = walk.tree.folder(folder.as_bytes(), 0)?;
        if let Some(id) = walk.one(&path, last.as_bytes(), &status, folder)? {
            walk.below(path, id, &excluded)?;
        }
    }
    Ok(walk.finish())
}

impl Walk {
    fn new(root: &Path, limits: Limits, lenient: bool) -> Self {
        // Owner of this process (proc(5)).
        let own = fs::metadata("/proc/self").ok().map(|own| (own.uid(), own.gid()));
        Self {
            tree: Tree::new(root, limits),
            hash: Sha256::new(),
            linked: HashMap::new(),
            lenient,
            left_out: 0,
            user: own.filter(|(user, _)| *user != 0),
        }
    }

    fn finish(self) -> Walked {
        Walked {
            tree: self.tree,
            stamp: crate::sha256::hex(&self.hash.finalize()),
            left_out: self.left_out,
        }
    }

    fn meta(&self, path: &Path, status: &Metadata) -> Meta {
        let (mut uid, mut gid) = (status.uid(), status.gid());
        if let Some((user, group)) = self.user {
            uid = if uid == user { 0 } else { uid };
            gid = if gid == group { 0 } else { gid };
        }
        let mtime = u64::try_from(status.mtime()).unwrap_or(0);
        let capability = if status.is_file() { rights(path) } else { None };
        Meta { mode: (status.mode() & 0o7777) as u16, uid, gid, mtime, capability }
    }

    /// Everything below a folder, which is `id` in the tree.
    fn below(&mut self, folder: PathBuf, id: Id, excluded: &[PathBuf]) -> Result<(), RootError> {
        let status = fs::symlink_metadata(&folder).map_err(RootError::file("read", &folder))?;
        let device = status.dev();
        let mut todo = vec![(folder, id)];
        while let Some((folder, id)) = todo.pop() {
            if excluded.contains(&folder) || !matches!(self.tree.node(id).kind, Kind::Folder(_)) {
                continue;
            }
            let mut names = Vec::new();
            let listed = fs::read_dir(&folder).and_then(|entries| {
                for entry in entries {
                    names.push(entry?.file_name());
                }
                Ok(())
            });
            if let Err(error) = listed {
                self.unreadable(&folder, error)?;
                continue;
            }
            names.sort_unstable();
            for name in names {
                let path = folder.join(&name);
                let status = match fs::symlink_metadata(&path) {
                    Ok(status) => status,
                    // The entry was removed while the folder was looked through.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => {
                        self.unreadable(&path, error)?;
                        continue;
                    }
                };
                let child = self.one(&path, name.as_bytes(), &status, id)?;
                if let Some(child) = child.filter(|_| status.is_dir() && status.dev() == device) {
                    todo.push((path, child));
                }
            }
        }
        Ok(())
    }

    fn one(
        &mut self,
        path: &Path,
        name: &[u8],
        status: &Metadata,
        folder: Id,
    ) -> Result<Option<Id>, RootError> {
        let inode = (status.dev(), status.ino());
        if let Some(&id) = self.linked.get(&inode).filter(|_| !status.is_dir()) {
            self.record_entry(path, status, b"");
            self.tree.link(folder, name, id)?;
            return Ok(Some(id));
        }
        let kind = status.file_type();
        let mut target = Vec::new();
        let kind = if kind.is_dir() {
            Kind::Folder(BTreeMap::new())
        } else if kind.is_file() {
            // Root may read every file.
            if let Some(Err(error)) = self.user.map(|_| fs::File::open(path)) {
                self.unreadable(path, error)?;
                return Ok(None);
            }
            let modified = (status.mtime(), status.mtime_nsec());
            Kind::File(Content::Path { path: path.into(), length: status.len(), modified })
        } else if kind.is_symlink() {
            let read = fs::read_link(path).map_err(RootError::file("read", path))?;
            target = read.into_os_string().into_vec();
            Kind::Link(target.clone())
        } else if kind.is_fifo() {
            Kind::Pipe
        } else if kind.is_socket() {
            Kind::Socket
        } else {
            let device = status.rdev();
            let (major, minor) = numbers(device);
            Kind::Device { block: kind.is_block_device(), major, minor }
        };
        self.record_entry(path, status, &target);
        let id = self.tree.put(folder, name, self.meta(path, status), kind, 0)?;
        if status.nlink() > 1 && !status.is_dir() {
            self.linked.insert(inode, id);
        }
        Ok(Some(id))
    }

    fn record_entry(&mut self, path: &Path, status: &Metadata, target: &[u8]) {
        let name = path.as_os_str().as_bytes();
        self.hash.update((name.len() as u64).to_le_bytes());
        self.hash.update(name);
        let changed = if status.is_file() { (status.ctime(), status.ctime_nsec()) } else { (0, 0) };
        let facts = format!(
            "{:o} {} {} {} {}.{} {changed:?} {}\n",
            status.mode(),
            status.uid(),
            status.gid(),
            if status.is_dir() { 0 } else { status.len() },
            status.mtime(),
            status.mtime_nsec(),
            status.rdev(),
        );
        self.hash.update(facts);
        self.hash.update(target);
    }

    fn unreadable(&mut self, path: &Path, error: io::Error) -> Result<(), RootError> {
        if !self.lenient {
            return Err(RootError::file("read", path)(error));
        }
        self.left_out += 1;
        Ok(())
    }
}

/// A program's rights, where it has any.
fn rights(path: &Path) -> Option<Vec<u8>> {
    /// Size of the largest, `struct vfs_ns_cap_data` (linux/capability.h).
    const MAX_VALUE: usize = 24;
    let mut value = [0; MAX_VALUE];
    let length = rustix::fs::lgetxattr(path, "security.capability", &mut value).ok()?;
    value.get(..length).map(<[u8]>::to_vec)
}

/// A device's numbers, as glibc packs them (sys/sysmacros.h).
fn numbers(device: u64) -> (u32, u32) {
    let major = (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
    let minor = (device & 0xff) | (device >> 12 & !0xff);
    (major as u32, minor as u32)
}
