//! The check of a root: a guest can start from it, and the additions that it needs.

use stasis_layout::{u16_at, u32_at, u64_at};

use crate::content::Content;
use crate::tree::{text, Found, Kind, Limits, Meta, Tree};
use crate::RootError;

/// Folders that the guest's first process mounts on, or works in.
const FOLDERS: [(&str, u16); 7] = [
    ("dev", 0o755),
    ("proc", 0o555),
    ("sys", 0o555),
    ("run", 0o755),
    ("tmp", 0o1777),
    ("root", 0o700),
    ("results", 0o755),
];

/// Folder of the programs that make a volume's file system, in the image of container images.
pub const TOOLS: &str = "tools";

/// The files that mke2fs needs on Debian: its settings, the libraries that it names, and what loads them.
const TOOL_FILES: [&str; 9] = [
    "sbin/mke2fs",
    "etc/mke2fs.conf",
    "lib64/ld-linux-x86-64.so.2",
    "lib/x86_64-linux-gnu/libblkid.so.1",
    "lib/x86_64-linux-gnu/libc.so.6",
    "lib/x86_64-linux-gnu/libcom_err.so.2",
    "lib/x86_64-linux-gnu/libe2p.so.2",
    "lib/x86_64-linux-gnu/libext2fs.so.2",
    "lib/x86_64-linux-gnu/libuuid.so.1",
];

/// The folder of a container image's files in the image that [`Tree::of_images`] makes.
pub fn image_folder(place: usize) -> String {
    format!("images/{place}")
}

impl Tree {
    /// Checks that an x86-64 kernel can start the root's shell.
    ///
    /// # Errors
    /// The missing part.
    pub fn check(&self) -> Result<(), RootError> {
        const SHELL: &str = "/bin/sh";
        let Found::Node(id) = self.follow(SHELL.as_bytes(), true)? else {
            let problem = if self.children(crate::tree::ROOT).next().is_none() {
                "it is empty"
            } else {
                "it has no /bin/sh"
            };
            return Err(self.fail(format!("{problem}: a guest needs a Linux userland")));
        };
        let node = self.node(id);
        let Kind::File(content) = &node.kind else {
            return Err(self.fail("its /bin/sh is no file"));
        };
        if node.meta.mode & 0o111 == 0 {
            return Err(self.fail("its /bin/sh is not executable"));
        }
        self.check_program(SHELL, content)
    }

    /// Checks that a program is for x86-64, and that what loads its libraries is there.
    fn check_program(&self, name: &str, content: &Content) -> Result<(), RootError> {
        /// Program headers come right behind the ELF header.
        const START: usize = 4096;
        let start = content.start(START).map_err(|e| self.fail(format!("its {name}: {e}")))?;
        // Class 2: 64 bits; data 1: little-endian; machine 62: x86-64 (ELF specification).
        let machine = u16_at(&start, 18);
        if !start.starts_with(b"\x7fELF") {
            return Err(self.fail(format!("its {name} is no ELF program")));
        }
        if !start.starts_with(b"\x7fELF\x02\x01") || machine != Some(62) {
            return Err(self.fail(format!("its {name} is not for x86-64")));
        }
        if let Some(loader) = loader(&start) {
            if !matches!(self.follow(loader, true)?, Found::Node(_)) {
                let loader = text(loader);
                return Err(self.fail(format!("its {name} needs {loader}, which it has not")));
            }
        }
        Ok(())
    }

    /// Checks a container image, which need not have a shell: where it has one, an x86-64 kernel starts
    /// it.
    ///
    /// # Errors
    /// The image is empty, or its shell is another machine's.
    pub fn check_image(&self) -> Result<(), RootError> {
        match self.follow(b"/bin/sh", true)? {
            Found::Missing { .. } if self.children(crate::tree::ROOT).next().is_some() => Ok(()),
            _ => self.check(),
        }
    }

    /// Adds what a guest of Stasis needs beside a user's root: folders to mount on, and the
    /// kernel's modules, which are at `/lib/modules/RELEASE` in `other`.
    ///
    /// # Errors
    /// If a name is taken by something else.
    pub fn complete(&mut self, release: &str, other: &Tree) -> Result<(), RootError> {
        for (name, mode) in FOLDERS {
            match self.follow(name.as_bytes(), true)? {
                Found::Node(id) if matches!(self.node(id).kind, Kind::Folder(_)) => {}
                Found::Node(_) => return Err(self.fail(format!("its /{name} is no folder"))),
                Found::Missing { .. } => {
                    let id = self.folder(name.as_bytes(), u32::MAX)?;
                    self.node_mut(id).meta = Meta::of_root(mode);
                }
            }
        }
        self.take_modules(release, other)
    }

    /// A tree with nothing but the kernel's modules of `other`: a guest's additions to a root that
    /// is read in place.
    ///
    /// # Errors
    /// None that the modules of a root which was read give.
    pub fn of_modules(release: &str, other: &Tree) -> Result<Self, RootError> {
        let mut tree = Self::new(other.origin(), Limits::default());
        tree.take_modules(release, other)?;
        Ok(tree)
    }

    /// A tree of container images: the one of each place is the folder [`image_folder`], beside the
    /// kernel's modules and the programs that make a volume's file system ([`TOOLS`]), which are those
    /// of `other`.
    ///
    /// # Errors
    /// The images have more than a guest can have.
    pub fn of_images(release: &str, other: &Tree, images: &[Tree]) -> Result<Self, RootError> {
        let mut tree = Self::of_modules(release, other)?;
        for path in TOOL_FILES {
            // A file that another Debian has not is not needed by its programs.
            let Found::Node(id) = other.follow(path.as_bytes(), true)? else { continue };
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            let folder = tree.folder(format!("{TOOLS}/{folder}").as_bytes(), u32::MAX)?;
            tree.graft(folder, name.as_bytes(), other, id)?;
        }
        tree.folder(format!("{TOOLS}/dev").as_bytes(), u32::MAX)?;
        for (place, image) in images.iter().enumerate() {
            let path = image_folder(place);
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
            let folder = tree.folder(folder.as_bytes(), u32::MAX)?;
            tree.graft(folder, name.as_bytes(), image, crate::tree::ROOT)?;
        }
        Ok(tree)
    }

    fn take_modules(&mut self, release: &str, other: &Tree) -> Result<(), RootError> {
        let Some(modules) = other.at(&format!("/lib/modules/{release}")) else { return Ok(()) };
        let folder = self.folder(b"lib/modules", u32::MAX)?;
        self.remove(folder, release.as_bytes());
        self.graft(folder, release.as_bytes(), other, modules)
    }
}

/// The program's interpreter, if it has one: the path in its header PT_INTERP.
fn loader(start: &[u8]) -> Option<&[u8]> {
    const INTERPRETER: u32 = 3;
    let half = |at: usize| u16_at(start, at).map(usize::from);
    let long = |at: usize| usize::try_from(u64_at(start, at)?).ok();
    let (table, size, count) = (long(32)?, half(54)?, half(56)?);
    for index in 0..count {
        let at = table.checked_add(index * size)?;
        if u32_at(start, at)? == INTERPRETER {
            let (place, length) = (long(at + 8)?, long(at + 32)?);
            let name = start.get(place..place.checked_add(length)?)?;
            return name.split(|byte| *byte == 0).next().filter(|name| !name.is_empty());
        }
    }
    None
}
