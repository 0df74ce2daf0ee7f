//! Makes a guest on a root file system that the user has. Its kernel, with modules and
//! initramfs, is that of the Debian guest of the same recipe.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use stasis_guest_root::{read_image, write_image, write_names, Form, Limits, Read, Source, Tree};

use crate::engines::{is_path, Named};
use crate::kernel::MODULES;
use crate::modules::{self, Index, ASKED_LIST, ROOT_LIST};
use crate::store::{MAP, NAMES, ROOT, VMLINUX};
use crate::{removal, BuildError, Guest, Image, InPlace, Made, Progress, Recipe, DEFAULT_PACKAGES};

/// Share of the work that is the guest whose kernel is taken, where it is not kept.
pub(crate) const OF_KERNEL: f64 = 0.9;
const DAY: u64 = 86_400;

/// A root of the user's own that was read.
#[derive(Debug)]
pub(crate) enum Own {
    Root(Box<Read>),
    /// Container images, with the recipe's words for them.
    Images(Vec<(Image, Tree)>),
}

impl Default for Own {
    fn default() -> Self {
        Self::Images(Vec::new())
    }
}

/// Reads the root or the images that a recipe has, and sees that a guest can start from them; None where it has
/// none. Compressed files are unpacked into nameless files in `cache`.
pub(crate) fn read(
    recipe: &Recipe,
    cache: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Own>, BuildError> {
    if !recipe.has_own_root() {
        return Ok(None);
    }
    progress(Progress { step: "reading the root file system".into(), fraction: 0.0 });
    fs::create_dir_all(cache).map_err(BuildError::file("create the folder", cache))?;
    let Some(word) = &recipe.root else {
        let images = recipe.images.iter().map(|word| image(word, cache));
        return images.collect::<Result<_, _>>().map(Own::Images).map(Some);
    };
    let root = Source::find(word)?.read(cache, Limits::default())?;
    if root.config.is_some() {
        return image_of(word, root).map(|image| Some(Own::Images(vec![image])));
    }
    root.form.tree().map_or(Ok(()), Tree::check)?;
    Ok(Some(Own::Root(Box::new(root))))
}

/// Reads the container image of this word.
fn image(word: &str, cache: &Path) -> Result<(Image, Tree), BuildError> {
    if is_path(word) {
        return image_of(word, Source::find(word)?.read(cache, Limits::default())?);
    }
    let named = Named::find(word, cache)?;
    // An engine's archive is open while it is read, and goes then.
    let folder = cache.join(format!("{}-image.new", std::process::id()));
    fs::create_dir_all(&folder).map_err(BuildError::file("create the folder", &folder))?;
    let read = named.archive(word, &folder).and_then(|path| {
        Ok(Source::find(&path.to_string_lossy())?.read(cache, Limits::default())?)
    });
    removal::remove(&folder)?;
    image_of(word, read?)
}

fn image_of(word: &str, read: Read) -> Result<(Image, Tree), BuildError> {
    let not_one = || BuildError::NoContainer { word: word.into() };
    let (Form::Copied(tree), Some(config)) = (read.form, read.config) else {
        return Err(not_one());
    };
    tree.check_image()?;
    Ok((Image { word: word.into(), config }, tree))
}

/// The recipe of the guest whose kernel one of `recipe` takes.
pub(crate) fn of_kernel(recipe: &Recipe) -> Recipe {
    Recipe {
        packages: DEFAULT_PACKAGES.map(String::from).to_vec(),
        root: None,
        root_stamp: None,
        images: Vec::new(),
        image_stamps: Vec::new(),
        ..recipe.clone()
    }
}

/// Makes everything but the initramfs in `work`, with this root and the kernel of `kernel`.
pub(crate) fn make(
    root: Own,
    kernel: &Guest,
    work: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Made, BuildError> {
    progress(Progress { step: "writing the root file system".into(), fraction: OF_KERNEL });
    let release = kernel.kernel_release.clone();
    let debian = read_image(&kernel.root)?;
    take_kernel(kernel.vmlinux.parent().unwrap_or(Path::new("/")), work)?;
    let image = work.join(ROOT);
    let modules = work.join(MODULES);
    let added = AddedModules::new(&release, &debian, &modules);
    if !kernel.recipe.modules.is_empty() {
        added.add(ASKED_LIST, kernel.recipe.modules.iter().map(String::as_str))?;
    }
    let root = match root {
        Own::Root(root) => *root,
        Own::Images(read) => {
            let (images, trees): (Vec<_>, Vec<_>) = read.into_iter().unzip();
            let newest = trees.iter().map(Tree::newest).max().unwrap_or_default();
            let mut tree = Tree::of_images(&release, &debian, &trees)?;
            write_image(&mut tree, &image)?;
            let date = (newest.max(tree.newest()) / DAY + 1) * DAY;
            return Ok(Made { release, date, images, ..Made::default() });
        }
    };
    let beside = || write_image(&mut Tree::of_modules(&release, &debian)?, &image);
    let (newest, in_place) = match root.form {
        Form::Copied(mut tree) => {
            tree.complete(&release, &debian)?;
            write_image(&mut tree, &image)?;
            (tree.newest(), None)
        }
        Form::Files(mut tree) => {
            beside()?;
            write_names(&mut tree, &work.join(NAMES), &work.join(MAP))?;
            (tree.newest(), Some(InPlace::Files))
        }
        Form::Part(path, part) => {
            beside()?;
            added.add(ROOT_LIST, [part.kind.name()])?;
            let changed = fs::metadata(&path).and_then(|meta| meta.modified());
            let changed = changed.map_err(BuildError::file("read", &path))?;
            let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
            (changed.as_secs(), Some(InPlace::Image(path, part)))
        }
    };
    // As the Debian guest's: no file is of the future.
    let date = (newest / DAY + 1) * DAY;
    Ok(Made { release, date, left_out: root.left_out, in_place, images: Vec::new() })
}

/// Takes kernel and modules of the guest in the folder `made`.
fn take_kernel(made: &Path, work: &Path) -> Result<(), BuildError> {
    let kernel = made.join(VMLINUX);
    // Another name of the file would be a change of its inode: machines that are kept with it would be
    // taken for those of another kernel.
    fs::copy(&kernel, work.join(VMLINUX)).map_err(BuildError::file("copy", &kernel))?;
    let copy = |name: &Path| {
        let (from, to) = (made.join(name), work.join(name));
        // A kept file is never written to, so that one on the disk is enough.
        let copied = fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop));
        copied.map_err(BuildError::file("copy", &from))
    };
    let modules = made.join(MODULES);
    let folder = work.join(MODULES);
    fs::create_dir(&folder).map_err(BuildError::file("create the folder", &folder))?;
    for entry in fs::read_dir(&modules).map_err(BuildError::file("read", &modules))? {
        let entry = entry.map_err(BuildError::file("read", &modules))?;
        copy(&Path::new(MODULES).join(entry.file_name()))?;
    }
    Ok(())
}

/// Modules of the kernel's, for the initramfs of a guest on another root.
struct AddedModules<'a> {
    release: &'a str,
    debian: &'a Tree,
    index: Index,
    /// The initramfs' modules.
    folder: &'a Path,
}

impl<'a> AddedModules<'a> {
    fn new(release: &'a str, debian: &'a Tree, folder: &'a Path) -> Self {
        let read = |name: &str| debian.read_file(&format!("/lib/modules/{release}/{name}"));
        // A file that cannot be read counts as missing: the error is that the module is.
        let index = Index::of_files(|name| read(name).ok().flatten());
        Self { release, debian, index, folder }
    }

    /// Adds these modules, with those that they need, to the folder and lists them there.
    fn add<'n>(
        &self,
        list: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<(), BuildError> {
        let write = |name: &str, bytes: &[u8]| {
            let path = self.folder.join(name);
            fs::write(&path, bytes).map_err(BuildError::file("write", &path))
        };
        let mut lines = String::new();
        for path in modules::of_names(&self.index, names)? {
            let name = modules::file_name(&path);
            lines += &format!("{name}\n");
            // One that another list has is a hard link to a kept file.
            if !self.folder.join(&name).exists() {
                let missing = || BuildError::Module {
                    name: name.clone(),
                    cause: "the kernel's package lists it and has it not".into(),
                };
                let place = format!("/lib/modules/{}/{path}", self.release);
                let module = self.debian.read_file(&place)?.ok_or_else(missing)?;
                write(&name, &modules::plain(&path, module)?)?;
            }
        }
        write(list, lines.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// A machine that is kept for later runs is found by the times of the kernel's inode as well.
    #[test]
    fn a_kernel_that_is_taken_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let [made, work] = ["made", "work"].map(|name| folder.path().join(name));
        fs::create_dir_all(made.join(MODULES)).unwrap();
        fs::create_dir(&work).unwrap();
        for name in [Path::new(VMLINUX).to_owned(), Path::new(MODULES).join("one.ko")] {
            fs::write(made.join(name), "its content").unwrap();
        }
        let state = || {
            let kernel = fs::metadata(made.join(VMLINUX)).unwrap();
            (kernel.ino(), kernel.nlink(), kernel.ctime(), kernel.ctime_nsec())
        };
        let before = state();
        take_kernel(&made, &work).unwrap();
        assert_eq!(state(), before);
        for name in [Path::new(VMLINUX).to_owned(), Path::new(MODULES).join("one.ko")] {
            assert_eq!(fs::read_to_string(work.join(name)).unwrap(), "its content");
        }
    }
}
