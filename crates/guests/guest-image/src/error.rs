//! Errors of a build.

use std::io;
use std::path::{Path, PathBuf};

/// Reason why there is no guest.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A program is missing.
    #[error("building the guest needs `{tool}`; install it with: sudo apt-get install {package}")]
    MissingTool {
        /// The program.
        tool: &'static str,
        /// The Debian package it is in.
        package: &'static str,
    },
    /// A name in the recipe cannot be one.
    #[error("`{name}` is not the name of a {kind}")]
    BadName {
        /// The kind of thing that the name is for.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// There is no such guest in the cache.
    #[error("there is no guest {name}; `stasis guest list` lists those there are")]
    NoSuchGuest {
        /// The requested name.
        name: String,
    },
    /// Another process builds it.
    #[error("the guest {name} is being built by another process")]
    Busy {
        /// Its name in the cache.
        name: String,
    },
    /// The user stopped it.
    #[error("stopped while the guest was built; nothing of it is left")]
    Stopped,
    /// mmdebstrap failed.
    #[error("building the guest's root file system failed: {cause}\nThe whole log is in {}", log.display())]
    Mmdebstrap {
        /// The last error line in its log.
        cause: String,
        /// The log.
        log: PathBuf,
    },
    /// A file or folder could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The kernel's package is not as expected.
    #[error("the kernel package cannot be used: {0}; choose another with `--kernel`")]
    Kernel(String),
    /// A kernel of the user's own is not as expected.
    #[error("the kernel {} cannot be used: {cause}", path.display())]
    OwnKernel {
        /// The file or folder.
        path: PathBuf,
        /// The fault or the missing part.
        cause: String,
    },
    /// Packages for a root that is not made of packages.
    #[error("packages are for the root that is made of them, and this guest's is {root}: install {package} there")]
    PackagesAndRoot {
        /// The root.
        root: String,
        /// One of the packages.
        package: String,
    },
    /// The word for a container image names something else.
    #[error("{word} is no container image: it has neither a manifest.json nor an index.json; for a root file system say `root` in place of `image`")]
    NoContainer {
        /// The word.
        word: String,
    },
    /// No engine of this machine has a container image.
    #[error("there is no container image {name} on this machine: {reasons}. Get it with podman, docker or skopeo, or name a file of it, as in ./image.tar")]
    NoImage {
        /// The image's name.
        name: String,
        /// The answer of each program.
        reasons: String,
    },
    /// A root file system of the user's own is not as expected.
    #[error(transparent)]
    Root(#[from] stasis_guest_root::RootError),
    /// The source of the kernel's release is not known.
    #[error("the kernel's release {release}: this machine has no Debian archive in /etc/apt to take it from; add one, or leave `/{release}` out")]
    NoArchive {
        /// The release.
        release: String,
    },
    /// A module is in a form that cannot be read.
    #[error("the kernel module {name} cannot be used: {cause}")]
    Module {
        /// Its name.
        name: String,
        /// The fault.
        cause: String,
    },
    /// The executable cannot be the guest's `/init`.
    #[error("{} cannot become the guest's /init: {cause}", path.display())]
    Agent {
        /// The executable.
        path: PathBuf,
        /// The fault.
        cause: &'static str,
    },
    /// The cache holds a guest that cannot be read.
    #[error("{} is damaged ({cause}); remove its folder and build the guest again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        cause: String,
    },
}

impl BuildError {
    /// Makes the error of a failed operation on a file, for `map_err`.
    pub(crate) fn file<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::File { action, path: path.into(), source }
    }
}
