//! The software host's kernel: Debian's, taken from its package once.

use crate::fd::{lock, Lock};
use crate::Error;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's package of the kernel for virtual machines: it boots quicker than
/// the general one, and has KVM.
const PACKAGE: &str = "linux-image-cloud-amd64";
/// The parts of a kernel's package besides the package itself, from Linux 7 on: image, modules and
/// lists.
const PARTS: [&str; 3] = ["base", "binary", "modules"];
/// Modules that the package must have, by purpose.
const KVM_MODULES: [&str; 1] = ["kvm_amd"];
const DRIVE_MODULES: [&str; 2] = ["virtio_mmio", "virtio_blk"];

/// The software host's kernel as it lies in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Its release, e.g. `6.1.0-56-cloud-amd64`.
    pub release: String,
    /// The bzImage.
    pub image: PathBuf,
    /// The modules of KVM, in the order in which they are loaded.
    pub kvm: Vec<PathBuf>,
    /// The modules of passed drives, likewise.
    pub drives: Vec<PathBuf>,
}

impl Kernel {
    /// The kernel that is in `cache`, if one is, and is sound.
    pub fn cached(cache: &Path) -> Option<Self> {
        let folder = folder(cache);
        stasis_kept_files::check(&folder).ok()?;
        let release = fs::read_to_string(folder.join("release")).ok()?;
        let modules = |group: &str| -> Option<Vec<PathBuf>> {
            let mut paths: Vec<PathBuf> = fs::read_dir(folder.join(group))
                .ok()?
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<Result<_, _>>()
                .ok()?;
            paths.sort();
            Some(paths)
        };
        Some(Self {
            release,
            image: folder.join("bzImage"),
            kvm: modules("kvm")?,
            drives: modules("drives")?,
        })
    }
}

/// The version is that of the folder's layout.
fn folder(cache: &Path) -> PathBuf {
    cache.join("softkvm/kernel-2")
}

/// Makes sure that the kernel is in `cache`, downloading its package if not.
/// Needs no root.
pub fn prepare(cache: &Path, progress: &mut dyn FnMut(&str, Option<f64>)) -> Result<Kernel, Error> {
    if let Some(kernel) = Kernel::cached(cache) {
        return Ok(kernel);
    }
    let parent = cache.join("softkvm");
    let folder = folder(cache);
    fs::create_dir_all(&parent).map_err(Error::io("cannot create", &parent))?;
    let lock_path = parent.join("kernel.lock");
    let lock_file = File::create(&lock_path).map_err(Error::io("cannot write", &lock_path))?;
    lock(&lock_file, Lock::Exclusive).map_err(Error::system("lock the kernel's cache"))?;
    // Another program may have done it meanwhile.
    if let Some(kernel) = Kernel::cached(cache) {
        return Ok(kernel);
    }
    let work = parent.join("kernel.new");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).map_err(Error::io("cannot create", &work))?;
    progress("downloading the software host's kernel", None);
    let package = download(&work)?;
    progress("unpacking the software host's kernel", None);
    unpack(&work, &package)?;
    let kernel = work.join("kernel");
    stasis_kept_files::seal(&kernel, &[]).map_err(Error::io("cannot read", &kernel))?;
    let _ = fs::remove_dir_all(&folder);
    fs::rename(kernel, &folder).map_err(Error::io("cannot create", &folder))?;
    let _ = fs::remove_dir_all(&work);
    Kernel::cached(cache).ok_or(Error::Package { package, part: "kernel".into() })
}

/// Downloads the newest kernel into `work`; gives the name of its package.
fn download(work: &Path) -> Result<String, Error> {
    const ADVICE: &str =
        "; run `apt-get update` as root, and check that the machine reaches its Debian mirror";
    let depends = |package: &str| {
        tool(Command::new("apt-cache").args(["depends", package]), "apt-cache", ADVICE)
    };
    let package =
        named(&depends(PACKAGE)?, &["image"]).into_iter().next().ok_or_else(|| Error::Tool {
            program: "apt-cache",
            message: format!("no package {PACKAGE}"),
            advice: ADVICE,
        })?;
    let parts = named(&depends(&package)?, &PARTS);
    let mut command = Command::new("apt-get");
    command.args(["download", "-q", &package]).args(parts).current_dir(work);
    tool(&mut command, "apt-get download", ADVICE)?;
    Ok(package)
}

/// The packages `linux-KIND-RELEASE` that `apt-cache depends` lists.
fn named(listing: &str, kinds: &[&str]) -> Vec<String> {
    let fits = |name: &str| {
        let (kind, release) = name.strip_prefix("linux-")?.split_once('-')?;
        (kinds.contains(&kind) && release.starts_with(|c: char| c.is_ascii_digit())).then_some(())
    };
    listing
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .filter(|name| fits(name).is_some())
        .map(String::from)
        .collect()
}

/// Takes what is needed out of the packages in `work`, into `work/kernel`.
fn unpack(work: &Path, package: &str) -> Result<(), Error> {
    let archives = fs::read_dir(work)
        .map_err(Error::io("cannot read", work))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let tree = work.join("tree");
    for archive in archives {
        tool(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&tree), "dpkg-deb", "")?;
    }
    let missing =
        |part: &str| Error::Package { package: package.to_owned(), part: part.to_owned() };
    let release = package.strip_prefix("linux-image-").unwrap_or(package);
    // Packages carry /usr where /lib is merged into it.
    let modules = ["lib/modules", "usr/lib/modules"]
        .map(|parent| tree.join(parent).join(release))
        .into_iter()
        .find(|folder| folder.is_dir())
        .ok_or_else(|| missing("modules"))?;
    // Linux 7's package leaves it to its installation to copy it.
    let image = [tree.join(format!("boot/vmlinuz-{release}")), modules.join("vmlinuz")]
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| missing("kernel"))?;

    let kernel = work.join("kernel");
    let available = Modules::find(&modules)?;
    let mut loaded = HashSet::new();
    for (group, names) in [("kvm", &KVM_MODULES[..]), ("drives", &DRIVE_MODULES[..])] {
        let folder = kernel.join(group);
        fs::create_dir_all(&folder).map_err(Error::io("cannot create", &folder))?;
        let mut order = Vec::new();
        for name in names {
            available.closure(name, &mut loaded, &mut order, &missing)?;
        }
        for (index, (name, content)) in order.iter().enumerate() {
            let path = folder.join(format!("{index:02}-{name}.ko"));
            fs::write(&path, content).map_err(Error::io("cannot write", &path))?;
        }
    }
    fs::copy(&image, kernel.join("bzImage")).map_err(Error::io("cannot copy", &image))?;
    let path = kernel.join("release");
    fs::write(&path, release).map_err(Error::io("cannot write", &path))
}

/// The modules of one kernel release.
struct Modules {
    files: Vec<(String, PathBuf)>,
    builtin: HashSet<String>,
}

impl Modules {
    fn find(folder: &Path) -> Result<Self, Error> {
        let mut files = Vec::new();
        let mut folders = vec![folder.join("kernel")];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(&next).map_err(Error::io("cannot read", &next))? {
                let path = entry.map_err(Error::io("cannot read", &next))?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Some(name) = module_name(&path) {
                    files.push((name, path));
                }
            }
        }
        let list = folder.join("modules.builtin");
        let builtin = fs::read_to_string(&list).map_err(Error::io("cannot read", &list))?;
        let builtin = builtin.lines().filter_map(|line| module_name(Path::new(line))).collect();
        Ok(Self { files, builtin })
    }

    /// Appends `name` and what it depends on to `order`, dependencies first.
    fn closure(
        &self,
        name: &str,
        loaded: &mut HashSet<String>,
        order: &mut Vec<(String, Vec<u8>)>,
        missing: &dyn Fn(&str) -> Error,
    ) -> Result<(), Error> {
        if self.builtin.contains(name) || !loaded.insert(name.to_owned()) {
            return Ok(());
        }
        let path = self.files.iter().find(|(other, _)| other == name).map(|(_, path)| path);
        let path = path.ok_or_else(|| missing(&format!("module {name}")))?;
        let content = read_module(path)?;
        for other in dependencies(&content) {
            self.closure(&other, loaded, order, missing)?;
        }
        order.push((name.to_owned(), without_signature(content)));
        Ok(())
    }
}

/// `kvm_amd` for `.../kvm-amd.ko.xz`.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (name, rest) = file.split_once(".ko")?;
    matches!(rest, "" | ".xz" | ".zst" | ".gz").then(|| name.replace('-', "_"))
}

fn read_module(path: &Path) -> Result<Vec<u8>, Error> {
    let (program, package) = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => ("xz", "xz-utils"),
        Some("zst") => ("zstd", "zstd"),
        Some("gz") => ("gzip", "gzip"),
        _ => return fs::read(path).map_err(Error::io("cannot read", path)),
    };
    let output = Command::new(program).arg("-dc").arg(path).output();
    let output = output.map_err(|_| Error::ToolMissing {
        program,
        purpose: "unpack the software host's kernel",
        package,
    })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Tool { program, message, advice: "" });
    }
    Ok(output.stdout)
}

/// The dependencies that the module's `.modinfo` lists.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(start) = module.windows(KEY.len()).position(|bytes| bytes == KEY) else {
        return Vec::new();
    };
    let rest = &module[start + KEY.len()..];
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    String::from_utf8_lossy(&rest[..end])
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

/// The module without its appended signature (Documentation/admin-guide/
/// module-signing.rst; `struct module_signature`, whose last field is the
/// signature's length): checking it takes 0.3 s of the software host's boot,
/// and Debian's kernels do not insist on one.
fn without_signature(mut module: Vec<u8>) -> Vec<u8> {
    const MARK: &[u8] = b"~Module signature appended~\n";
    const INFORMATION: usize = 12;
    let Some(body) = module.strip_suffix(MARK) else { return module };
    let Some(length) = body.last_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes)) else {
        return module;
    };
    if let Some(end) = body.len().checked_sub(INFORMATION + length as usize) {
        module.truncate(end);
    }
    module
}

/// Runs a program of Debian's and returns its output.
fn tool(
    command: &mut Command,
    program: &'static str,
    advice: &'static str,
) -> Result<String, Error> {
    let output = command.env("LC_ALL", "C").output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::ToolMissing {
            program,
            purpose: "fetch the software host's kernel",
            package: if program == "dpkg-deb" { "dpkg" } else { "apt" },
        },
        _ => Error::System { action: "start a program of the package manager", source },
    })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = stderr.trim().lines().collect();
        let message = lines[lines.len().saturating_sub(3)..].join("; ");
        return Err(Error::Tool { program, message, advice });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dependencies_are_read_from_the_module() {
        let module = b"\x7fELF..\0license=GPL\0depends=kvm,ccp\0name=kvm_amd\0";
        assert_eq!(dependencies(module), ["kvm", "ccp"]);
        assert!(dependencies(b"\0depends=\0").is_empty());
    }

    #[test]
    fn a_kernel_is_found_in_one_package_or_in_several() {
        let meta = "linux-image-cloud-amd64\n  Depends: linux-base-cloud-amd64\n  \
                    Depends: linux-image-7.3.4+deb13-cloud-amd64\n  Depends: linux-modules-cloud-amd64\n";
        assert_eq!(named(meta, &["image"]), ["linux-image-7.3.4+deb13-cloud-amd64"]);
        let image =
            "linux-image-7.3.4+deb13-cloud-amd64\n  PreDepends: linux-base\n |Depends: dracut\n  \
                     Depends: linux-base-7.3.4+deb13-cloud-amd64\n  \
                     Depends: linux-binary-7.3.4+deb13-cloud-amd64\n  \
                     Depends: linux-modules-7.3.4+deb13-cloud-amd64\n  Breaks: <fwupdate>\n";
        assert_eq!(named(image, &PARTS).len(), 3);
        let one = "linux-image-6.1.0-50-cloud-amd64\n  Depends: kmod\n  Depends: linux-base\n";
        assert!(named(one, &PARTS).is_empty());
    }

    #[test]
    fn names_are_the_kernels() {
        assert_eq!(module_name(Path::new("a/kvm-amd.ko.xz")).as_deref(), Some("kvm_amd"));
        assert_eq!(module_name(Path::new("a/kvm.ko")).as_deref(), Some("kvm"));
        assert_eq!(module_name(Path::new("modules.dep")), None);
    }

    #[test]
    fn a_signature_is_cut_off() {
        let mut module = b"code".to_vec();
        module.extend_from_slice(&[7; 5]);
        module.extend_from_slice(&[0; 8]);
        module.extend_from_slice(&5u32.to_be_bytes());
        module.extend_from_slice(b"~Module signature appended~\n");
        assert_eq!(without_signature(module), b"code");
        assert_eq!(without_signature(b"code".to_vec()), b"code");
    }

    proptest! {
        #[test]
        fn damaged_modules_never_panic(
            noise in prop::collection::vec(any::<u8>(), 0..60), signed in any::<bool>()
        ) {
            let mut module = noise;
            if signed { module.extend_from_slice(b"~Module signature appended~\n"); }
            dependencies(&module);
            without_signature(module);
        }
    }
}
