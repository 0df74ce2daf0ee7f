//! The owner of the cache.

use std::fs;
use std::os::unix::fs::{lchown, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{access, Access};

use crate::BuildError;

/// A user and a group, whose folder the cache is in.
#[derive(Debug)]
pub(crate) struct Owner {
    folder: PathBuf,
    user: u32,
    group: u32,
}

/// The owner of the folder that `cache` is or will be in, if that is another user than root, and
/// this is root: such as under sudo(8) with the user's own XDG_CACHE_HOME.
pub(crate) fn of_folder(cache: &Path) -> Option<Owner> {
    let owner = |folder: &Path| {
        let there = fs::metadata(folder).ok()?;
        Some(Owner { folder: folder.to_owned(), user: there.uid(), group: there.gid() })
    };
    // Root's folders on the way may be an earlier program's.
    let owner = cache.ancestors().skip(1).filter_map(owner).find(|owner| owner.user != 0)?;
    rustix::process::geteuid().is_root().then_some(owner)
}

impl Owner {
    /// Gives the user what is root's in `cache`, and the folders that lead there.
    pub(crate) fn give(&self, cache: &Path) -> Result<(), BuildError> {
        let above = cache.ancestors().skip(1).take_while(|path| *path != self.folder);
        above.filter(|path| is_roots(path)).try_for_each(|path| self.give_one(path))?;
        self.give_all(cache)
    }

    fn give_all(&self, path: &Path) -> Result<(), BuildError> {
        let Ok(there) = fs::symlink_metadata(path) else { return Ok(()) };
        if there.uid() == 0 {
            self.give_one(path)?;
        }
        if there.is_dir() {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                self.give_all(&entry.path())?;
            }
        }
        Ok(())
    }

    fn give_one(&self, path: &Path) -> Result<(), BuildError> {
        lchown(path, Some(self.user), Some(self.group))
            .map_err(BuildError::file("give its user", path))
    }
}

fn is_roots(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|there| there.uid() == 0)
}

/// Depth to which [`not_writable`] looks: the caches, what each keeps, and the parts of that.
const DEPTH: usize = 2;

/// A folder or a lock in `cache`, or the folder in which that is to be made, where this user may not
/// write, so that runs fail; none where all is well.
pub fn not_writable(cache: &Path) -> Option<PathBuf> {
    if !cache.exists() {
        let above = cache.ancestors().find(|path| path.exists())?;
        return (!may_write(above)).then(|| above.to_owned());
    }
    below(cache, DEPTH)
}

fn below(path: &Path, depth: usize) -> Option<PathBuf> {
    let there = fs::symlink_metadata(path).ok()?;
    let is_lock = there.is_file() && path.extension().is_some_and(|ending| ending == "lock");
    if (there.is_dir() || is_lock) && !may_write(path) {
        return Some(path.to_owned());
    }
    let depth = depth.checked_sub(1)?;
    let entries = there.is_dir().then(|| fs::read_dir(path).ok()).flatten();
    let mut paths: Vec<_> = entries.into_iter().flatten().flatten().map(|it| it.path()).collect();
    paths.sort();
    paths.iter().find_map(|path| below(path, depth))
}

fn may_write(path: &Path) -> bool {
    access(path, Access::READ_OK | Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The user ID of nobody, in Debian.
    const NOBODY: u32 = 65_534;

    #[test]
    fn what_root_builds_in_a_users_folder_is_the_users() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join(".cache/stasis/guest");
        if !rustix::process::geteuid().is_root() {
            // Only root can make another user's files.
            return assert!(of_folder(&cache).is_none());
        }
        lchown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let owner = of_folder(&cache).unwrap();
        fs::create_dir_all(cache.join("guest")).unwrap();
        fs::write(cache.join("guest/vmlinux"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", cache.join("link")).unwrap();
        let before = fs::metadata("/etc/passwd").unwrap().uid();
        owner.give(&cache).unwrap();
        for name in
            [".cache", ".cache/stasis", ".cache/stasis/guest", ".cache/stasis/guest/guest/vmlinux"]
        {
            let there = fs::symlink_metadata(home.path().join(name)).unwrap();
            assert_eq!((there.uid(), there.gid()), (NOBODY, NOBODY), "{name}");
        }
        assert_eq!(fs::metadata("/etc/passwd").unwrap().uid(), before);
        assert_eq!(fs::metadata(home.path().parent().unwrap()).unwrap().uid(), 0);
        // Root's own cache stays root's.
        lchown(home.path(), Some(0), Some(0)).unwrap();
        assert!(of_folder(&home.path().join("new/stasis/guest")).is_none());
    }

    #[test]
    fn a_place_where_this_user_may_not_write_is_found() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(not_writable(&home.path().join("a/b")), None);
        let cache = home.path().join("stasis");
        fs::create_dir_all(cache.join("guest")).unwrap();
        assert_eq!(not_writable(&cache), None);
        // Root may write anywhere: `cli.rs` looks as an ordinary user.
        let none = home.path().join("none");
        assert_eq!(not_writable(&none), None);
    }
}
