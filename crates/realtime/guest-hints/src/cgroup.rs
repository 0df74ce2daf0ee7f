//! The weight of a cgroup under Linux's BFQ
//! (Documentation/block/bfq-iosched.rst, "BFQ group scheduling").

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::saved_state::SavedState;
use crate::Error;

/// A cgroup's weights: for all drives, and for single ones, by numbers such as
/// `8:0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    default: u32,
    drives: Vec<(String, u32)>,
}

impl Weights {
    /// Reads Linux's text: `default 100`, or a bare number, and a line for each drive that has a
    /// separate weight.
    pub fn parse(text: &str) -> Option<Self> {
        let mut weights = Self { default: 0, drives: Vec::new() };
        for line in text.lines() {
            match line.split_once(' ').unwrap_or(("default", line)) {
                ("default", weight) => weights.default = weight.trim().parse().ok()?,
                (drive, weight) => {
                    let (major, minor) = drive.split_once(':')?;
                    major.parse::<u32>().and(minor.parse::<u32>()).ok()?;
                    weights.drives.push((drive.to_owned(), weight.trim().parse().ok()?));
                }
            }
        }
        (weights.default > 0).then_some(weights)
    }

    /// Returns the weights raised to `least` where they are lower.
    fn raised(&self, least: u32) -> Self {
        let drives = self.drives.iter().map(|(drive, weight)| (drive.clone(), least.max(*weight)));
        Self { default: least.max(self.default), drives: drives.collect() }
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "default {}", self.default)?;
        self.drives.iter().try_for_each(|(drive, weight)| writeln!(f, "{drive} {weight}"))
    }
}

/// The weights to be restored, and those that were set.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Raised {
    original: Weights,
    set: Weights,
}

/// Between the two in a saved state.
const BETWEEN: &str = "raised to\n";

impl Raised {
    fn parse(saved: &str) -> Option<Self> {
        let (original, set) = saved.split_once(BETWEEN)?;
        Some(Self { original: Weights::parse(original)?, set: Weights::parse(set)? })
    }
}

/// The files that hold the weights.
#[derive(Debug, Clone)]
struct Files {
    default: PathBuf,
    // In the first version of cgroups the drives' weights have a separate file.
    drives: PathBuf,
}

/// A cgroup whose weight is raised and restored. Dropping it restores it.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    files: Files,
    // Without one nothing is written.
    saved: Option<SavedState>,
    raised: Option<Raised>,
}

impl Cgroup {
    /// Finds a cgroup by its folder, or by its name below where cgroups are
    /// mounted. If an earlier process has left its weight raised, that is
    /// undone. `state` is the folder for saved state; without one nothing is ever
    /// written.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open(name: &Path, state: Option<&Path>) -> Result<Self, Error> {
        let path = find(name)?;
        let files = files(&path)?;
        let mut cgroup = Self { path, files, saved: None, raised: None };
        cgroup.read()?;
        if let Some(state) = state {
            let (saved, leftover) = SavedState::open(state, &cgroup.path)?;
            (cgroup.saved, cgroup.raised) = (Some(saved), Raised::parse(&leftover));
            cgroup.restore()?;
            cgroup.check_writable()?;
        }
        Ok(cgroup)
    }

    /// Returns the group's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Raises its weights to `weight` where they are lower.
    ///
    /// # Errors
    /// The weights cannot be read, saved or written.
    pub fn raise(&mut self, weight: u32) -> Result<(), Error> {
        let original = self.read()?;
        if self.raised.as_ref().is_some_and(|raised| raised.set == original) {
            return Ok(());
        }
        let raised = Raised { set: original.raised(weight), original };
        let Some(saved) = &mut self.saved else { return Ok(()) };
        saved.write(&format!("{}{BETWEEN}{}", raised.original, raised.set))?;
        let set = raised.set.clone();
        self.raised = Some(raised);
        self.write(&set)
    }

    /// Restores its weights, unless another program has set others meanwhile.
    ///
    /// # Errors
    /// The weights cannot be read or written.
    pub fn restore(&mut self) -> Result<(), Error> {
        let Some(raised) = &self.raised else { return Ok(()) };
        // A write that failed half-way has set some of them.
        let now = self.read()?;
        if now == raised.set || now.default == raised.original.default {
            self.write(&raised.original)?;
        }
        self.raised = None;
        self.saved.as_mut().map_or(Ok(()), SavedState::clear)
    }

    fn read(&self) -> Result<Weights, Error> {
        let read = |path: &Path| {
            fs::read_to_string(path).map_err(|source| Error::Weight {
                action: "read",
                path: path.to_owned(),
                source,
            })
        };
        let path = &self.files.drives;
        let text = match read(path) {
            // Linux before 5.4 has no weights of single drives.
            Err(Error::Weight { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                read(&self.files.default)?
            }
            text => text?,
        };
        let path = path.clone();
        Weights::parse(&text).ok_or(Error::NotWeight { path, text: text.trim().to_owned() })
    }

    fn write(&self, weights: &Weights) -> Result<(), Error> {
        let write = |path: &Path, text: String| {
            fs::write(path, text).map_err(|source| Error::Weight {
                action: "write",
                path: path.to_owned(),
                source,
            })
        };
        write(&self.files.default, weights.default.to_string())?;
        let mut drives = weights.drives.iter();
        drives
            .try_for_each(|(drive, weight)| write(&self.files.drives, format!("{drive} {weight}")))
    }

    fn check_writable(&self) -> Result<(), Error> {
        let path = &self.files.default;
        let opened = fs::OpenOptions::new().write(true).open(path);
        let failed = |source| Error::Weight { action: "write", path: path.clone(), source };
        opened.map(drop).map_err(failed)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The saved state stays if this fails.
        let _ = self.restore();
    }
}

fn find(name: &Path) -> Result<PathBuf, Error> {
    let relative = name.strip_prefix("/").unwrap_or(name);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut places = vec![name.to_owned()];
    places.extend(mounted(&mounts).map(|mount| mount.join(relative)));
    let folders: Vec<_> = places.iter().filter(|place| place.is_dir()).collect();
    // Several hierarchies may have one of that name.
    let best = folders.iter().find(|place| files(place).is_ok()).or(folders.first());
    let best = best.ok_or_else(|| Error::NoCgroup(name.to_owned()))?;
    Ok(best.canonicalize().unwrap_or_else(|_| best.to_path_buf()))
}

/// Mount points of cgroups with I/O (fstab(5)): device, place, type, options.
fn mounted(mounts: &str) -> impl Iterator<Item = PathBuf> + '_ {
    mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind, options) = (words.next()?, words.next()?, words.next()?);
        let blkio = kind == "cgroup" && options.split(',').any(|option| option == "blkio");
        (blkio || kind == "cgroup2").then(|| PathBuf::from(place))
    })
}

fn files(path: &Path) -> Result<Files, Error> {
    let has = |name: &str| path.join(name).exists();
    let owned = || path.to_owned();
    if has("io.bfq.weight") {
        let file = path.join("io.bfq.weight");
        return Ok(Files { default: file.clone(), drives: file });
    }
    if has("blkio.bfq.weight") {
        let default = path.join("blkio.bfq.weight");
        return Ok(Files { default, drives: path.join("blkio.bfq.weight_device") });
    }
    if !has("cgroup.procs") {
        return Err(Error::NotCgroup(owned()));
    }
    if let Ok(controllers) = fs::read_to_string(path.join("cgroup.controllers")) {
        // The root has no type.
        if !has("cgroup.type") {
            return Err(Error::Root(owned()));
        }
        if !controllers.split_whitespace().any(|name| name == "io") {
            return Err(Error::NoController { path: owned() });
        }
        return Err(Error::NoWeight(owned()));
    }
    if has("release_agent") {
        return Err(Error::Root(owned()));
    }
    let blkio = has("blkio.reset_stats") || has("blkio.throttle.read_bps_device");
    Err(if blkio { Error::NoWeight(owned()) } else { Error::OtherHierarchy(owned()) })
}
