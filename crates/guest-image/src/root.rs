//! Makes a guest on a root file system that the user has. Its kernel, with modules and
//! initramfs, is that of the Debian guest of the same recipe.

use std::fs;
use std::path::Path;

use stasis_guest_root::{read_image, write_image, Limits, Read, Source};

use crate::kernel::MODULES;
use crate::store::{ROOT, VMLINUX};
use crate::{BuildError, Made, Progress, Recipe, DEFAULT_PACKAGES};

/// How much of the work the guest is whose kernel is taken, where it is not kept.
const OF_KERNEL: f64 = 0.9;
const DAY: u64 = 86_400;

/// Reads the root that `word` names, and sees that a guest can start from it. What is compressed
/// is unpacked into nameless files in `cache`.
pub(crate) fn read(
    word: &str,
    cache: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Read, BuildError> {
    progress(Progress { step: "reading the root file system", fraction: 0.0 });
    fs::create_dir_all(cache).map_err(BuildError::file("create the folder", cache))?;
    let root = Source::find(word)?.read(cache, Limits::default())?;
    root.tree.check()?;
    Ok(root)
}

/// Makes everything but the initramfs in `work`, with the root that `word` names; `root` is that
/// one, if it was read already.
pub(crate) fn make(
    word: &str,
    root: Option<Read>,
    recipe: &Recipe,
    work: &Path,
    (agent, cache): (&Path, &Path),
    progress: &mut dyn FnMut(Progress),
) -> Result<Made, BuildError> {
    let mut root = match root {
        Some(root) => root,
        None => read(word, cache, progress)?,
    };
    let of_kernel = Recipe {
        packages: DEFAULT_PACKAGES.map(String::from).to_vec(),
        root: None,
        root_stamp: None,
        ..recipe.clone()
    };
    let kernel = crate::build(&of_kernel, agent, cache, &mut |made| {
        progress(Progress { fraction: made.fraction * OF_KERNEL, ..made });
    })?;
    progress(Progress { step: "copying the root file system", fraction: OF_KERNEL });
    root.tree.complete(&kernel.kernel_release, &read_image(&kernel.root)?)?;
    write_image(&mut root.tree, &work.join(ROOT))?;
    let made = kernel.vmlinux.parent().unwrap_or(cache);
    let copy = |name: &Path| {
        let (from, to) = (made.join(name), work.join(name));
        // A kept file is never written to, so that one on the disk is enough.
        let copied = fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop));
        copied.map_err(BuildError::file("copy", &from))
    };
    copy(Path::new(VMLINUX))?;
    let modules = made.join(MODULES);
    let folder = work.join(MODULES);
    fs::create_dir(&folder).map_err(BuildError::file("create the folder", &folder))?;
    for entry in fs::read_dir(&modules).map_err(BuildError::file("read", &modules))? {
        let entry = entry.map_err(BuildError::file("read", &modules))?;
        copy(&Path::new(MODULES).join(entry.file_name()))?;
    }
    // As the Debian guest's: no file is of the future.
    let date = (root.tree.newest() / DAY + 1) * DAY;
    Ok(Made { release: kernel.kernel_release, date, left_out: root.left_out })
}
