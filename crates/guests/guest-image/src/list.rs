//! The guests that are kept, for their user.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::removal;
use crate::store::{self, Manifest, Store, MANIFEST};
use crate::{BuildError, Recipe};

/// A guest that is kept.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Its name in the cache.
    pub name: String,
    /// Its recipe.
    pub recipe: Recipe,
    /// The kernel's release.
    pub kernel_release: String,
    /// Time at which it was made.
    pub made: SystemTime,
    /// Space that it takes on the disk (bytes).
    pub bytes: u64,
}

/// The guests in `cache`, the newest first.
pub fn list(cache: &Path) -> Vec<Kept> {
    let mut kept: Vec<Kept> = entries(cache).filter_map(|folder| read(&folder)).collect();
    kept.sort_by_key(|guest| std::cmp::Reverse(guest.made));
    kept
}

fn read(folder: &Path) -> Option<Kept> {
    let path = folder.join(MANIFEST);
    let manifest: Manifest = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    Some(Kept {
        name: folder.file_name()?.to_string_lossy().into_owned(),
        made: fs::metadata(folder.join(store::ROOT)).and_then(|root| root.modified()).ok()?,
        bytes: bytes(folder),
        recipe: manifest.recipe,
        kernel_release: manifest.kernel_release,
    })
}

/// Removes the guest `name`; gives what it took (bytes).
///
/// # Errors
/// [`BuildError::NoSuchGuest`]; [`BuildError::Busy`] while another process builds it.
pub fn remove(cache: &Path, name: &str) -> Result<u64, BuildError> {
    let found = entries(cache).find(|folder| folder.file_name().is_some_and(|found| found == name));
    let folder = found.filter(|folder| folder.join(MANIFEST).exists());
    let folder = folder.ok_or_else(|| BuildError::NoSuchGuest { name: name.to_owned() })?;
    let _lock = Store::try_lock(&folder)?;
    let bytes = bytes(&folder);
    removal::remove(&folder)?;
    removal::remove(&folder.with_extension("log"))?;
    Ok(bytes)
}

/// Removes what failed and killed builds have left.
///
/// # Errors
/// A file or folder cannot be removed.
pub fn remove_left_overs(cache: &Path) -> Result<(), BuildError> {
    for path in entries(cache) {
        let guest = path.with_extension("");
        let half = path.extension().is_some_and(|end| end == "new");
        let log = path.extension().is_some_and(|end| end == "log") && !guest.exists();
        if !half && !log {
            continue;
        }
        // Whoever builds it now has it locked.
        let Ok(_lock) = Store::try_lock(&guest) else { continue };
        removal::remove(&path)?;
    }
    Ok(())
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Space that a file or a folder takes on the disk, holes not counted (bytes).
pub fn bytes(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    // Blocks of 512 bytes, for any block size of the file system (stat(2)).
    let own = metadata.blocks() * 512;
    match metadata.is_dir() {
        true => own + entries(path).map(|entry| bytes(&entry)).sum::<u64>(),
        false => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_listed_and_removed_by_name_and_left_overs_go() {
        let cache = tempfile::tempdir().unwrap();
        let recipe = Recipe::default();
        let store = Store::lock(cache.path(), &recipe, &Default::default(), &mut |_| {}).unwrap();
        let work = store.begin().unwrap();
        for name in ["vmlinux", store::ROOT] {
            fs::write(work.join(name), vec![1; 10_000]).unwrap();
        }
        let made = crate::Made { release: "6.1.0".into(), date: 86_400, ..crate::Made::default() };
        store.commit(&work, &recipe, &made).unwrap();
        fs::write(store.log(), "what was done").unwrap();
        let [guest] = &list(cache.path())[..] else { panic!("one guest") };
        assert_eq!((&guest.recipe, guest.kernel_release.as_str()), (&recipe, "6.1.0"));
        assert!((20_000..100_000).contains(&guest.bytes), "{}", guest.bytes);
        let busy = remove(cache.path(), &guest.name).unwrap_err();
        assert!(matches!(busy, BuildError::Busy { .. }), "{busy}");
        drop(store);
        let leftover = cache.path().join("0123456789abcdef");
        fs::create_dir(leftover.with_extension("new")).unwrap();
        fs::write(leftover.with_extension("log"), "failed").unwrap();
        remove_left_overs(cache.path()).unwrap();
        assert!(
            !leftover.with_extension("new").exists() && !leftover.with_extension("log").exists()
        );
        assert_eq!(list(cache.path()).len(), 1);
        assert!(remove(cache.path(), &guest.name).unwrap() >= 20_000);
        assert!(list(cache.path()).is_empty());
        for name in ["nobody", "..", &guest.name] {
            let error = remove(cache.path(), name).unwrap_err();
            assert!(matches!(error, BuildError::NoSuchGuest { .. }), "{error}");
        }
    }
}
