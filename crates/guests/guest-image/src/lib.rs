//! Makes a guest, from Debian packages or on a root file system of the user's, and keeps it.
//!
//! Promise: a guest, once made, is used as it is until its recipe changes.
//!
//! A guest is three files: the kernel (`vmlinux`), the initramfs with the agent and the modules it
//! needs (`initramfs-*.cpio`), and the root file system's image (`root.ext4`). They are made once
//! for each [`Recipe`]; only the initramfs is made again when the sources of the agent have
//! changed, which is a copy of the program, and then beside the one of the other program. The
//! programs of a guest follow from these files: [`Guest::digest`].

mod cpio;
mod customize;
mod decompress;
mod engines;
mod error;
mod executable;
mod initramfs;
mod kernel;
mod list;
mod made;
mod mmdebstrap;
mod modules;
mod namespaces;
mod own_kernel;
mod owner;
mod processes;
mod recipe;
mod removal;
mod root;
mod sources;
mod store;

pub use engines::is_path;
pub use error::BuildError;
pub use list::{bytes, list, remove, remove_left_overs, Kept};
use made::Made;
pub use made::{Image, InPlace, Progress};
pub use mmdebstrap::missing_tools;
pub use namespaces::obstacle;
pub use owner::not_writable;
pub use recipe::{Recipe, DEFAULT_KERNEL, DEFAULT_PACKAGES};
pub use stasis_guest_root::{sha256, FileSystemKind, HealthCheck, ImageConfig, Lower, Part};
pub use store::{default_cache, Guest};

use std::fs;
use std::num::ParseIntError;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Makes sure that the guest of `recipe` is in `cache` and up to date.
///
/// `agent` is the executable whose copy becomes the guest's `/init`: it must be
/// statically linked and call `stasis_guest_agent::main` when it is process 1.
/// Another process that builds the same guest is waited for. `stop` ends a build early.
///
/// Files that root makes in a cache in another user's folder are that user's.
///
/// # Errors
/// See [`BuildError`]. The log of a failed build stays in `cache`, and the error names it; earlier
/// content of `cache` stays as it was.
pub fn build(
    recipe: &Recipe,
    agent: &Path,
    cache: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Guest, BuildError> {
    let owner = owner::of_folder(cache);
    let built = build_in(recipe, agent, cache, stop, progress);
    owner.map_or(Ok(()), |owner| owner.give(cache))?;
    built
}

fn build_in(
    recipe: &Recipe,
    agent: &Path,
    cache: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Guest, BuildError> {
    recipe.check()?;
    let recipe = &recipe.stamped(cache)?;
    // Before anything of the cache is touched: a root that cannot be used leaves nothing there.
    let root = match is_kept(recipe, cache) {
        false => root::read(recipe, cache, progress)?,
        true => None,
    };
    let store = store::Store::lock(cache, recipe, stop, progress)?;
    store.remove_damaged(progress)?;
    if !store.is_built() {
        let work = store.begin()?;
        let made = match recipe.has_own_root() {
            true => {
                let kernel = |progress: &mut dyn FnMut(Progress)| {
                    build(&root::of_kernel(recipe), agent, cache, stop, progress)
                };
                make_on_root(recipe, root, kernel, (&work, cache), progress)
            }
            false => make(recipe, &work, &store.log(), stop, progress),
        };
        match made {
            Ok(made) => store.commit(&work, recipe, &made)?,
            Err(error) => {
                // The first error is the one to report; the next build tidies up too.
                let _ = removal::remove(&work);
                if matches!(error, BuildError::Stopped) {
                    let _ = removal::remove(&store.log());
                }
                store.abandon();
                return Err(error);
            }
        }
    }
    let manifest = store.manifest()?;
    let initramfs = match store.initramfs() {
        Some(initramfs) => initramfs,
        None => {
            progress(Progress { step: "making the initramfs".into(), fraction: 0.97 });
            let agent = executable::loadable_part(agent)?;
            store.add_initramfs(&initramfs::make(&agent, &store.modules())?)?
        }
    };
    progress(Progress { step: "the guest is ready".into(), fraction: 1.0 });
    Ok(store.guest(&manifest, initramfs))
}

/// Makes everything but the initramfs in `work`, with the recipe's own root, which `root` is if it was
/// read already; `kernel` makes the guest whose kernel is taken.
fn make_on_root(
    recipe: &Recipe,
    root: Option<root::Own>,
    kernel: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<Guest, BuildError>,
    (work, cache): (&Path, &Path),
    progress: &mut dyn FnMut(Progress),
) -> Result<Made, BuildError> {
    let root = match root {
        None => root::read(recipe, cache, progress)?.unwrap_or_default(),
        Some(root) => root,
    };
    let kernel = kernel(&mut |made| {
        progress(Progress { fraction: made.fraction * root::OF_KERNEL, ..made });
    })?;
    root::make(root, &kernel, work, progress)
}

/// Makes everything but the initramfs in `work`.
fn make(
    recipe: &Recipe,
    work: &Path,
    log: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Made, BuildError> {
    mmdebstrap::run(recipe, work, log, stop, progress)?;
    progress(Progress { step: "unpacking the kernel".into(), fraction: 0.93 });
    let archive = work.join(mmdebstrap::KERNEL_ARCHIVE);
    let release = kernel::unpack(&archive, work)?;
    removal::remove(&archive)?;
    let path = work.join(mmdebstrap::DATE);
    let text = fs::read_to_string(&path).map_err(BuildError::file("read", &path))?;
    let date = text.trim().parse();
    let date = date.map_err(|e: ParseIntError| BuildError::Damaged {
        path: path.clone(),
        cause: e.to_string(),
    })?;
    removal::remove(&path)?;
    Ok(Made { release, date, ..Made::default() })
}

/// Returns whether the guest of `recipe` is in `cache`. It may still need a new initramfs, which
/// [`build`] makes in a moment.
pub fn is_built(recipe: &Recipe, cache: &Path) -> bool {
    recipe.stamped(cache).is_ok_and(|recipe| is_kept(&recipe, cache))
}

/// Returns whether the guest of a recipe with its stamps is kept.
fn is_kept(recipe: &Recipe, cache: &Path) -> bool {
    store::folder(cache, recipe).join(store::MANIFEST).exists()
}
