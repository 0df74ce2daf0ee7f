//! The guest's system.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The guest's system.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct GuestSpec {
    /// Debian packages beside the usual ones.
    pub packages: Vec<String>,
    /// Modules of the kernel beside those for storage, such as `nfsd`; what they need comes with
    /// them.
    pub modules: Vec<String>,
    /// Package of the kernel, or the path of a custom kernel: an image, a build folder or a
    /// package's file, with `/`, `./`, `../` or `~/` in front.
    pub kernel: Option<String>,
    /// A root file system that you have, in place of one of Debian packages: a folder, a tar
    /// archive, a container image's archive, a disk image, or `host`.
    pub root: Option<String>,
    /// A container image in place of a root: the path of one with `/`, `./`, `../` or `~/` in front, or a
    /// name that podman, docker or skopeo knows. Without a command its own runs.
    pub image: Option<String>,
    /// Debian release.
    pub suite: Option<String>,
    /// Files and folders to copy into the guest's /root, or to DESTINATION
    /// where one is given: "SOURCE" or "SOURCE:DESTINATION".
    pub files: Vec<String>,
    /// Text files to copy likewise, with the values of each machine's variables, such as
    /// `{{machine.address}}`, in their places.
    pub templates: Vec<String>,
    /// A file that the command reads as its standard input.
    pub stdin: Option<PathBuf>,
}

impl GuestSpec {
    /// Has relative paths of a kernel and a root begin in the experiment file's `folder`.
    pub(crate) fn anchor(&mut self, folder: &Path) {
        let kernel = |word: &&mut String| word.starts_with("./") || word.starts_with("../");
        // Every other word than `host` is a path.
        let root = |word: &&mut String| !word.starts_with(['/', '~']) && *word != "host";
        let words = [self.kernel.as_mut().filter(kernel), self.root.as_mut().filter(root)];
        crate::container::anchor(self.image.as_mut(), folder);
        for word in words.into_iter().flatten() {
            // An experiment holds UTF-8 only: in a folder with another name, the path stays as it
            // is written.
            let anchored = Path::new(".").join(folder).join(&*word);
            if let Some(text) = anchored.to_str() {
                *word = text.to_owned();
            }
        }
    }
}
