//! A kernel that the user has: an image with its modules' folder, a kernel's build folder, or a
//! package's file.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use crate::{decompress, kernel, removal, BuildError};

/// The file in a build folder that holds the release, once `make` has run (Linux, Makefile:
/// `kernelrelease`).
const BUILD_RELEASE: &str = "include/config/kernel.release";
/// The images that it makes for x86-64, in the order in which they are taken.
const BUILD_IMAGES: [&str; 2] = ["arch/x86/boot/bzImage", "vmlinux"];
/// Folders in which a folder or a system keeps modules.
const MODULE_FOLDERS: [&str; 2] = ["lib/modules", "usr/lib/modules"];

/// Returns whether a recipe's kernel is a path and no package's name: `/`, `./`, `../` or `~/`
/// comes first.
pub(crate) fn is_path(kernel: &str) -> bool {
    kernel.starts_with('/') || [".", "..", "~"].contains(&kernel.split('/').next().unwrap_or(""))
}

/// Refuses the path of something that is there, written as a package's name would be.
pub(crate) fn check_spelling(kernel: &str) -> Result<(), BuildError> {
    let looks_so = kernel.contains('/') || !kernel.starts_with("linux-image");
    if is_path(kernel) || !looks_so || !Path::new(kernel).exists() {
        return Ok(());
    }
    let cause = format!("it is read as a package's name: write ./{kernel} for the path");
    Err(unusable(Path::new(kernel), cause))
}

/// A kernel's files, found and not yet read.
#[derive(Debug, PartialEq)]
pub(crate) enum OwnKernel {
    /// The image, the modules and the lists of them, by their names in the archive.
    Files(Vec<(String, PathBuf)>),
    /// A Debian package, which has all of them.
    Package(PathBuf),
}

impl OwnKernel {
    /// Looks at what `path` is.
    ///
    /// # Errors
    /// If there is no kernel for x86-64, or no modules of its release. Names the file.
    pub(crate) fn find(path: &str) -> Result<Self, BuildError> {
        let path = match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
            (Some(rest), Some(home)) => Path::new(&home).join(rest),
            _ => PathBuf::from(path),
        };
        let path = fs::canonicalize(&path).map_err(BuildError::file("find the kernel", &path))?;
        if path.is_dir() {
            return of_folder(&path);
        }
        if !path.is_file() {
            return Err(unusable(&path, "it is neither a folder nor a file"));
        }
        if path.extension().is_some_and(|extension| extension == "deb") {
            return Ok(Self::Package(path));
        }
        of_image(&path)
    }

    /// A name for these very files, by their sizes and times.
    pub(crate) fn stamp(&self) -> Result<String, BuildError> {
        let mut text = String::new();
        let mut add = |path: &Path| -> Result<(), BuildError> {
            let error = BuildError::file("read", path);
            let status = fs::metadata(path).and_then(|meta| Ok((meta.len(), meta.modified()?)));
            let (size, time) = status.map_err(error)?;
            let time = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            text += &format!("{} {size} {time}\n", path.display());
            Ok(())
        };
        match self {
            Self::Files(files) => files.iter().try_for_each(|(_, path)| add(path))?,
            Self::Package(path) => add(path)?,
        }
        Ok(stasis_guest_root::sha256::digest(text.as_bytes()))
    }

    /// Writes the archive from which the guest gets its kernel; `work` is a folder for
    /// what a package has.
    pub(crate) fn pack(&self, archive: &Path, work: &Path) -> Result<(), BuildError> {
        let files = match self {
            Self::Files(files) => files,
            Self::Package(path) => {
                let folder = work.join("package");
                extract(path, &folder)?;
                let found = of_folder(&folder).map_err(|error| in_package(path, error))?;
                let packed = found.pack(archive, work);
                removal::remove(&folder)?;
                return packed;
            }
        };
        let error = || BuildError::file("write", archive);
        let mut tar = tar::Builder::new(File::create(archive).map_err(error())?);
        for (name, path) in files {
            let content = fs::read(path).map_err(BuildError::file("read", path))?;
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, &content[..]).map_err(error())?;
        }
        tar.finish().map_err(error())
    }
}

/// An error about what a package has names the package: its folder is gone by then.
fn in_package(package: &Path, error: BuildError) -> BuildError {
    match error {
        BuildError::OwnKernel { cause, .. } => unusable(package, cause),
        other => other,
    }
}

fn extract(package: &Path, folder: &Path) -> Result<(), BuildError> {
    let output = Command::new("dpkg-deb").arg("--extract").args([package, folder]).output();
    let output = output.map_err(BuildError::file("unpack", package))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(unusable(package, format!("it is no Debian package: {}", message.trim())))
}

fn unusable(path: &Path, cause: impl Into<String>) -> BuildError {
    BuildError::OwnKernel { path: path.into(), cause: cause.into() }
}

/// A build folder, or one that holds what a package or `make install` puts into a system.
fn of_folder(folder: &Path) -> Result<OwnKernel, BuildError> {
    // Rights first: to look for what cannot be seen finds nothing.
    fs::read_dir(folder).map_err(BuildError::file("read", folder))?;
    if folder.join(BUILD_RELEASE).is_file() {
        let image = BUILD_IMAGES.iter().map(|name| folder.join(name)).find(|path| path.is_file());
        let image = image.ok_or_else(|| {
            unusable(folder, format!("no kernel is built: {} is missing", BUILD_IMAGES[0]))
        })?;
        return of_build(folder, &image);
    }
    let mut images = Vec::new();
    for entry in fs::read_dir(folder.join("boot")).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("vmlinuz") && entry.path().is_file() {
            images.push(entry.path());
        }
    }
    // From Linux 7 on Debian's packages have the image beside the modules.
    for (_, modules) in releases(folder) {
        let image = modules.join("vmlinuz");
        images.extend(image.is_file().then_some(image));
    }
    let [image] = &images[..] else {
        return Err(unusable(
            folder,
            match images.len() {
                0 => format!("it is neither a kernel's build folder ({BUILD_RELEASE}) nor one with boot/vmlinuz-* and lib/modules"),
                _ => "it has several kernels: name the image".into(),
            },
        ));
    };
    let release = release(image)?;
    let modules = modules_of(folder, &release, image)?;
    installed(image, &release, &modules)
}

/// An image alone, whose modules are where its build or its system has them.
fn of_image(image: &Path) -> Result<OwnKernel, BuildError> {
    let release = release(image)?;
    if let Some(build) = image.ancestors().skip(1).find(|dir| dir.join(BUILD_RELEASE).is_file()) {
        return of_build(build, image);
    }
    let beside = image.parent().and_then(Path::parent).into_iter().chain(image.parent());
    for root in beside.chain([Path::new("/")]) {
        for folder in MODULE_FOLDERS {
            let modules = root.join(folder).join(&release);
            if modules.is_dir() {
                return installed(image, &release, &modules);
            }
        }
    }
    let cause = format!(
        "no folder has its modules: lib/modules/{release} is looked for beside it and in /"
    );
    Err(unusable(image, cause))
}

/// The folders of modules below `root`, by release.
fn releases(root: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for folder in MODULE_FOLDERS {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        found.extend(folders.map(|e| (e.file_name().to_string_lossy().into_owned(), e.path())));
        if !found.is_empty() {
            break;
        }
    }
    found
}

fn modules_of(root: &Path, release: &str, image: &Path) -> Result<PathBuf, BuildError> {
    let found = releases(root);
    if let Some((_, path)) = found.iter().find(|(name, _)| name == release) {
        return Ok(path.clone());
    }
    let others: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    let cause = match others.is_empty() {
        true => format!("its modules are missing: there is no lib/modules/{release}"),
        false => format!("it is {release}, and the modules beside it are of {}", others.join(", ")),
    };
    Err(unusable(image, cause))
}

/// Modules as `make modules_install` has them.
fn installed(image: &Path, release: &str, modules: &Path) -> Result<OwnKernel, BuildError> {
    let mut files = vec![(format!("boot/vmlinuz-{release}"), image.to_owned())];
    let configs = [modules.join("config"), image.with_file_name(format!("config-{release}"))];
    if let Some(config) = configs.into_iter().find(|path| path.is_file()) {
        files.push((format!("boot/config-{release}"), config));
    }
    let mut folders = vec![(format!("lib/modules/{release}"), modules.to_owned())];
    while let Some((name, folder)) = folders.pop() {
        let error = || BuildError::file("read", &folder);
        for entry in fs::read_dir(&folder).map_err(error())? {
            let entry = entry.map_err(error())?;
            let (file, kind) = (entry.file_name(), entry.file_type().map_err(error())?);
            let inside = format!("{name}/{}", file.to_string_lossy());
            // `build` and `source` are links to where it was compiled.
            if kind.is_dir() {
                folders.push((inside, entry.path()));
            } else if kind.is_file() && is_of_modules(&file.to_string_lossy()) {
                files.push((inside, entry.path()));
            }
        }
    }
    files.sort();
    Ok(OwnKernel::Files(files))
}

fn is_of_modules(name: &str) -> bool {
    name.starts_with("modules.") || name.ends_with(".ko") || name.contains(".ko.")
}

/// Modules where `make` has put them: `modules.order` lists them (Linux,
/// Documentation/kbuild/kbuild.rst).
fn of_build(folder: &Path, image: &Path) -> Result<OwnKernel, BuildError> {
    let read = |path: &Path| fs::read_to_string(path).map_err(BuildError::file("read", path));
    let release = read(&folder.join(BUILD_RELEASE))?.trim().to_owned();
    let of_image = self::release(image)?;
    if of_image != release {
        let cause =
            format!("it is {of_image}, and the folder's modules are of {release}: `make` both");
        return Err(unusable(image, cause));
    }
    let mut files = vec![(format!("boot/vmlinuz-{release}"), image.to_owned())];
    let config = folder.join(".config");
    if config.is_file() {
        files.push((format!("boot/config-{release}"), config));
    }
    if !folder.join("modules.builtin").is_file() {
        let cause = "modules.builtin is missing, which says what it has built in: build it with \
                     CONFIG_MODULES=y and `make modules`";
        return Err(unusable(folder, cause));
    }
    let prefix = format!("lib/modules/{release}");
    for list in ["modules.order", "modules.builtin", "modules.builtin.modinfo"] {
        let path = folder.join(list);
        if path.is_file() {
            files.push((format!("{prefix}/{list}"), path));
        }
    }
    let order = folder.join("modules.order");
    // A kernel without modules has none.
    let order = if order.is_file() { read(&order)? } else { String::new() };
    for line in order.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // Up to Linux 5.2 with `kernel/` in front; from 6.2 on the object's name.
        let line = line.strip_prefix("kernel/").unwrap_or(line);
        let name = match line.strip_suffix(".o") {
            Some(stem) => format!("{stem}.ko"),
            None => line.to_owned(),
        };
        let path = folder.join(&name);
        if !path.is_file() {
            return Err(unusable(&path, "the module is not built: `make modules`"));
        }
        files.push((format!("{prefix}/kernel/{name}"), path));
    }
    files.sort();
    Ok(OwnKernel::Files(files))
}

/// The release that an image names.
fn release(image: &Path) -> Result<String, BuildError> {
    let error = || BuildError::file("read", image);
    let mut file = File::open(image).map_err(error())?;
    let mut bytes = Vec::new();
    // A bzImage has it in its first sectors.
    file.by_ref().take(0x10000).read_to_end(&mut bytes).map_err(error())?;
    if bytes.starts_with(b"\x7fELF") {
        file.take(decompress::MAX_SIZE).read_to_end(&mut bytes).map_err(error())?;
    }
    kernel::release(&bytes).map_err(|cause| unusable(image, cause))
}

#[cfg(test)]
#[path = "own_kernel/tests.rs"]
mod tests;
