//! The recipe of a guest.

use std::path::Path;

use serde::{Deserialize, Serialize};
use stasis_guest_root::Source;

use crate::engines::{is_path, Named};
use crate::own_kernel::{self, OwnKernel};
use crate::BuildError;

/// Debian packages of every guest. Kernel modules come with the kernel.
pub const DEFAULT_PACKAGES: [&str; 16] = [
    "bash",
    "blktrace",
    "bsdextrautils",
    "btrfs-progs",
    "coreutils",
    "e2fsprogs",
    "fio",
    "kmod",
    "mdadm",
    "mount",
    "nvme-cli",
    "procps",
    "sqlite3",
    "udev",
    "util-linux",
    "xfsprogs",
];

/// The kernel's package: Debian's for virtual machines, which has the NVMe
/// driver and ext4 built in and hardly any hardware to look for.
pub const DEFAULT_KERNEL: &str = "linux-image-cloud-amd64";

/// The release used where this machine does not run Debian.
const FALLBACK_SUITE: &str = "bookworm";

/// The recipe of a guest. A change makes another guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// Code name of the Debian release.
    pub suite: String,
    /// Debian packages, in addition to the essential ones.
    pub packages: Vec<String>,
    /// Package of the kernel, or a meta-package that depends on it; with
    /// `/RELEASE` as apt has it, for example `/trixie-backports`. Or the path of a kernel
    /// of one's own: its image, its build folder, or a package's file.
    pub kernel: String,
    /// The state of these files, where the kernel is a path: set by [`crate::build`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_stamp: Option<String>,
    /// The root file system that a user has, in place of packages: `host` or a path, as
    /// [`stasis_guest_root::Source::find`] takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The state of the root: set by [`crate::build`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_stamp: Option<String>,
    /// Container images in place of a root, as words of [`crate::is_path`] and names that an engine of this
    /// machine knows; each once, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// The state of each of them: set by [`crate::build`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_stamps: Vec<String>,
    /// Kernel modules beside those for storage, for example `nfsd`; their dependencies come with
    /// them. On a root without modprobe(8) they are loaded before the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
}

impl Default for Recipe {
    /// This machine's Debian release (bookworm on other systems), the default
    /// packages and kernel.
    fn default() -> Self {
        let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        Self {
            suite: debian_suite(&system).unwrap_or(FALLBACK_SUITE).into(),
            packages: DEFAULT_PACKAGES.map(String::from).to_vec(),
            kernel: DEFAULT_KERNEL.into(),
            kernel_stamp: None,
            root: None,
            root_stamp: None,
            images: Vec::new(),
            image_stamps: Vec::new(),
            modules: Vec::new(),
        }
    }
}

impl Recipe {
    /// The recipe with `packages` added. Order and repetition make no
    /// difference.
    pub fn with_packages(mut self, packages: impl IntoIterator<Item = String>) -> Self {
        self.packages.extend(packages);
        self.packages.sort_unstable();
        self.packages.dedup();
        self
    }

    /// The release that the kernel is from, where it is not [`Self::suite`].
    pub(crate) fn kernel_release(&self) -> Option<&str> {
        if own_kernel::is_path(&self.kernel) {
            return None;
        }
        self.kernel.split_once('/').map(|(_, release)| release)
    }

    /// Returns whether the root is not made of packages.
    pub(crate) fn has_own_root(&self) -> bool {
        self.root.is_some() || !self.images.is_empty()
    }

    /// The recipe with these container images in place of a root.
    pub fn with_images(mut self, images: impl IntoIterator<Item = String>) -> Self {
        self.images.extend(images);
        self.images.sort_unstable();
        self.images.dedup();
        self
    }

    /// The recipe with the present state of a kernel that is a path, of a root, and of images; `cache`: where copies
    /// of images are.
    pub(crate) fn stamped(&self, cache: &Path) -> Result<Self, BuildError> {
        let mut recipe = self.clone();
        recipe.kernel_stamp = match own_kernel::is_path(&self.kernel) {
            true => Some(OwnKernel::find(&self.kernel)?.stamp()?),
            false => None,
        };
        recipe.root_stamp = match &self.root {
            Some(root) => Some(Source::find(root)?.stamp()?),
            None => None,
        };
        let stamp = |word: &String| match is_path(word) {
            true => Ok(Source::find(word)?.stamp()?),
            false => Named::find(word, cache)?.stamp(word),
        };
        recipe.image_stamps = self.images.iter().map(stamp).collect::<Result<_, BuildError>>()?;
        Ok(recipe)
    }

    /// Checks names by Debian's rules, so that none can be taken for an option
    /// or for shell text.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        own_kernel::check_spelling(&self.kernel)?;
        let usual = |package: &&String| DEFAULT_PACKAGES.contains(&package.as_str());
        let root = self.root.as_ref().or(self.images.first());
        if let (Some(root), Some(package)) = (root, self.packages.iter().find(|p| !usual(p))) {
            return Err(BuildError::PackagesAndRoot {
                root: root.clone(),
                package: package.clone(),
            });
        }
        let kernel = self.kernel.split_once('/').map_or(self.kernel.as_str(), |(name, _)| name);
        let kernel = (!own_kernel::is_path(&self.kernel)).then_some(kernel);
        for name in self.packages.iter().map(String::as_str).chain(kernel) {
            // Debian policy manual, section 5.6.1.
            let rest = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b);
            let start = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
            if name.len() < 2
                || !name.as_bytes().first().is_some_and(start)
                || !name.bytes().all(rest)
            {
                return Err(BuildError::BadName { kind: "package", name: name.into() });
            }
        }
        for name in &self.modules {
            let fits = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
            if name.is_empty() || name.starts_with('-') || !name.bytes().all(fits) {
                return Err(BuildError::BadName { kind: "kernel module", name: name.clone() });
            }
        }
        let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        for suite in [self.suite.as_str()].into_iter().chain(self.kernel_release()) {
            if suite.is_empty() || suite.starts_with('-') || !suite.bytes().all(fits) {
                return Err(BuildError::BadName { kind: "Debian release", name: suite.into() });
            }
        }
        Ok(())
    }
}

/// The code name in the text of os-release(5), if it describes Debian.
fn debian_suite(system: &str) -> Option<&str> {
    let value = |key: &str| {
        let line = system.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim().trim_matches('"'))
    };
    (value("ID")? == "debian").then(|| value("VERSION_CODENAME"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suite_is_this_systems_if_it_is_debian() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 13\"\nVERSION_CODENAME=trixie\nID=debian\n";
        assert_eq!(debian_suite(debian), Some("trixie"));
        assert_eq!(debian_suite("ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n"), None);
        assert_eq!(debian_suite(""), None);
    }

    #[test]
    fn names_that_are_none_are_refused() {
        let good = Recipe::default();
        good.check().unwrap();
        for name in ["", "x", "-fio", "fio;reboot", "Fio", "fio/bookworm", "$(id)", "fi o"] {
            let recipe = good.clone().with_packages([name.to_string()]);
            let error = recipe.check().unwrap_err();
            assert!(matches!(error, BuildError::BadName { .. }), "{name}: {error}");
        }
        for module in ["", "-r", "a b", "nfsd;x"] {
            assert!(Recipe { modules: vec![module.into()], ..good.clone() }.check().is_err());
        }
        for suite in ["", "-x", "book worm", "a'b"] {
            assert!(Recipe { suite: suite.into(), ..good.clone() }.check().is_err());
            let kernel = format!("{DEFAULT_KERNEL}/{suite}");
            assert!(Recipe { kernel, ..good.clone() }.check().is_err());
        }
        let kernel = format!("{DEFAULT_KERNEL}/trixie-backports");
        let newer = Recipe { kernel, ..good };
        newer.check().unwrap();
        assert_eq!(newer.kernel_release(), Some("trixie-backports"));
    }

    #[test]
    fn order_of_extra_packages_makes_no_difference() {
        let add = |names: &[&str]| {
            Recipe::default().with_packages(names.iter().map(|name| name.to_string()))
        };
        assert_eq!(add(&["mdadm", "jq", "fio"]), add(&["jq", "mdadm"]));
    }
}
