//! Files that the software host keeps, described for its user.

use std::fs;
use std::path::{Path, PathBuf};

use crate::first::FIRSTS;
use crate::kept::{entries, Store};
use crate::Error;

/// A kind of kept files.
#[derive(Debug, Clone)]
pub struct Kind {
    /// Description for a user.
    pub description: &'static str,
    /// Files and folders.
    pub paths: Vec<PathBuf>,
}

/// The folders of machines, with descriptions of their content.
const MACHINES: [(&str, &str); 4] = [
    ("guests", "guests that are booted"),
    (FIRSTS, "guests that are booted as far as drives make no difference"),
    ("machines", "software hosts that are booted"),
    (SNAPSHOTS, "runs with snapshots"),
];
/// The folder of runs' snapshots.
pub(crate) const SNAPSHOTS: &str = "snapshots";

/// The files kept in `cache`.
pub fn kept(cache: &Path) -> Vec<Kind> {
    let folder = cache.join("softkvm");
    let machines = MACHINES.map(|(name, description)| {
        let all = entries(&folder.join(name));
        Kind { description, paths: all.filter(|path| path.is_dir()).collect() }
    });
    let kernel =
        Kind { description: "kernels of the software host", paths: kernels(&folder).collect() };
    let logs =
        Kind { description: "logs of failed runs", paths: entries(&folder.join("runs")).collect() };
    machines.into_iter().chain([kernel, logs]).collect()
}

/// Removes the machines from which no run is just starting. Runs make them again, in
/// seconds.
pub fn forget_machines(cache: &Path) {
    for (name, _) in MACHINES {
        Store::new(cache.join("softkvm").join(name)).clear();
    }
}

/// Removes the software host's kernel. The next run under `softkvm` downloads it.
///
/// # Errors
/// A folder cannot be removed.
pub fn forget_kernel(cache: &Path) -> Result<(), Error> {
    kernels(&cache.join("softkvm"))
        .try_for_each(|path| fs::remove_dir_all(&path).map_err(Error::io("cannot remove", &path)))
}

/// Kernels, of this version of the program and of earlier ones.
fn kernels(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let name = |path: &Path| Some(path.file_name()?.to_str()?.starts_with("kernel-"));
    entries(folder).filter(move |path| path.is_dir() && name(path).unwrap_or(false))
}
