//! The disks of a state as the guest finds them: a raw drive's sectors, or an
//! image that is opened and checked.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{memfd_create, MemfdFlags};
use stasis_block::{Command, Operation, Status};
use stasis_crash::{Content, Contents, DriveCrashState, Enumerator, TracedDrive, SECTOR};
use stasis_drive::{Drive, Layer};
use stasis_media::{Execution, OpenOptions};
use stasis_qcow2::{Extent, Format, Image, ImageError, Kind, Link, Settings, ZeroLatency};
use stasis_runner::trace::copy_sparse;

/// A drive's disk in the state that is looked at.
pub enum StateDisk {
    /// The drive's contents are the disk.
    Raw(RawDisk),
    /// The drive's contents are an image of the disk.
    Image(Box<ImageDisk>),
}

/// A raw disk.
pub struct RawDisk {
    base: Option<File>,
}

/// A disk in an image, whose file is kept in memory.
pub struct ImageDisk {
    /// The image's own file before the run.
    base: File,
    /// The image's file in the present state.
    state: File,
    links: Vec<Link>,
    // The sectors of the state that are not settled, and their contents.
    changed: HashMap<u64, Content>,
    // Writes that are gathered.
    run: (u64, Vec<u8>),
    // Contents of files below and of compressed clusters, by sector of the disk.
    below: HashMap<u64, Content>,
    // Contents of the image's file before the run.
    before: HashMap<u64, Content>,
    opened: Option<(Image, Vec<Extent>)>,
}

/// Bytes that are written at once.
const GATHERED: usize = 1 << 20;

/// An image that is invalid.
#[derive(Debug)]
pub struct Unsound(pub String);

fn read_fully(file: &File, offset: u64, into: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], offset + done as u64) {
            Ok(0) => {
                // Behind the end there are zeroes.
                into[done..].fill(0);
                break;
            }
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl StateDisk {
    /// The disk of a traced drive, as it was before the run. `folder` is the
    /// trace's.
    pub fn open(traced: &TracedDrive, folder: &Path) -> Result<Self> {
        let base = match &traced.base {
            Some(name) => {
                let path = folder.join(name);
                let file =
                    File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
                Some((path, file))
            }
            None => None,
        };
        match (base, traced.image) {
            (Some((path, base)), Some(_)) => {
                let state = memfd_create("stasis-state", MemfdFlags::CLOEXEC)
                    .context("cannot make a file in memory")?;
                let state = File::from(state);
                copy_sparse(&path, &state).context("cannot copy the image")?;
                let place = PathBuf::from(format!("/proc/self/fd/{}", state.as_raw_fd()));
                let mut links = vec![Link { path: place, format: Format::Qcow2 }];
                for (path, raw) in &traced.below {
                    let format = if *raw { Format::Raw } else { Format::Qcow2 };
                    links.push(Link { path: path.clone(), format });
                }
                let (changed, below, before) = (HashMap::new(), HashMap::new(), HashMap::new());
                let run = (0, Vec::new());
                let opened = None;
                let disk = ImageDisk { base, state, links, changed, run, below, before, opened };
                Ok(Self::Image(Box::new(disk)))
            }
            (base, _) => Ok(Self::Raw(RawDisk { base: base.map(|(_, file)| file) })),
        }
    }

    /// Makes it the disk before the run again.
    pub fn rewind(&mut self, traced: &TracedDrive, folder: &Path) -> Result<()> {
        // A raw disk holds nothing of a state.
        if matches!(self, Self::Image(_)) {
            *self = Self::open(traced, folder)?;
            if let Err(unsound) = self.open_image()? {
                anyhow::bail!("before the run: {}", unsound.0);
            }
        }
        Ok(())
    }

    /// Returns whether the disk was all zeroes before the run.
    pub fn was_empty(&self) -> bool {
        matches!(self, Self::Raw(RawDisk { base: None }))
    }

    /// Takes over a change that became certain.
    pub fn settle(&mut self, sector: u64, content: Content, contents: &Contents) -> Result<()> {
        if let Self::Image(image) = self {
            image.changed.remove(&sector);
            image.write(sector, contents.bytes(content))?;
        }
        Ok(())
    }

    /// Makes it the disk of a state.
    pub fn become_state(
        &mut self,
        enumerator: &Enumerator,
        drive: usize,
        crashed: &DriveCrashState,
        contents: &Contents,
    ) -> Result<Result<(), Unsound>> {
        let Self::Image(image) = self else { return Ok(Ok(())) };
        image.take_back(enumerator, drive, crashed, contents)?;
        let mut sectors: Vec<(u64, Content)> = crashed.each().collect();
        sectors.sort_unstable_by_key(|(sector, _)| *sector);
        for (sector, content) in sectors {
            if image.changed.insert(sector, content) != Some(content) {
                image.write(sector, contents.bytes(content))?;
            }
        }
        image.open()
    }

    /// The sectors of the disk that `sectors` names, in order, in the present state; `enumerator`
    /// and `crashed` hold the drive's changes; with `None` the drive is as before the run.
    pub fn contents(
        &mut self,
        sectors: &mut dyn Iterator<Item = u64>,
        drive: usize,
        present: Option<(&Enumerator, &DriveCrashState)>,
        contents: &mut Contents,
    ) -> Result<Vec<Content>> {
        let drive_has = |sector: u64| {
            let (enumerator, crashed) = present?;
            crashed.get(sector).or_else(|| enumerator.settled(drive).get(sector))
        };
        let mut bytes = [0; SECTOR];
        let mut all = Vec::new();
        match self {
            Self::Raw(raw) => {
                for sector in sectors {
                    let content = match (drive_has(sector), &raw.base) {
                        (Some(content), _) => content,
                        (None, None) => Content::ZERO,
                        (None, Some(file)) => {
                            read_fully(file, sector * SECTOR as u64, &mut bytes)
                                .context("cannot read the disk as it was")?;
                            contents.find(&bytes)
                        }
                    };
                    all.push(content);
                }
            }
            Self::Image(image) => {
                let ImageDisk { base, below, before, opened, .. } = &mut **image;
                let Some((image, extents)) = opened else { return Ok(all) };
                let mut extents = extents.iter().peekable();
                for sector in sectors {
                    let offset = sector * SECTOR as u64;
                    while extents.next_if(|e| e.offset + e.length <= offset).is_some() {}
                    let extent = extents.peek();
                    let content = match extent.map(|e| (e.kind, offset - e.offset)) {
                        None | Some((Kind::Zero { .. }, _)) => Content::ZERO,
                        Some((Kind::Data(start), within)) => {
                            let place = (start + within) / SECTOR as u64;
                            match drive_has(place).or_else(|| before.get(&place).copied()) {
                                Some(content) => content,
                                None => {
                                    read_fully(base, place * SECTOR as u64, &mut bytes)
                                        .context("cannot read the image as it was")?;
                                    *before.entry(place).or_insert(contents.find(&bytes))
                                }
                            }
                        }
                        Some((Kind::Below(_) | Kind::Compressed, _)) => match below.get(&sector) {
                            Some(content) => *content,
                            None => {
                                let data = read_image(image, offset, SECTOR)
                                    .context("cannot read below the image")?;
                                *below.entry(sector).or_insert(contents.find(&data))
                            }
                        },
                    };
                    all.push(content);
                }
            }
        }
        Ok(all)
    }

    /// Opens an image as it is.
    pub fn open_image(&mut self) -> Result<Result<(), Unsound>> {
        match self {
            Self::Image(image) => image.open(),
            Self::Raw(_) => Ok(Ok(())),
        }
    }

    /// One sector of the guest's disk as it was before the run.
    pub fn read_before(&mut self, sector: u64, into: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Raw(RawDisk { base: None }) => into.fill(0),
            Self::Raw(RawDisk { base: Some(file) }) => {
                read_fully(file, sector * SECTOR as u64, into)?;
            }
            Self::Image(disk) => {
                let Some((image, _)) = &mut disk.opened else {
                    return Err(io::Error::other("the image is not sound"));
                };
                into.copy_from_slice(&read_image(image, sector * SECTOR as u64, into.len())?);
            }
        }
        Ok(())
    }

    /// The byte of the guest's disk that lies at `offset` of the drive, in the present state.
    pub fn on_disk(&self, offset: u64) -> Option<u64> {
        let Self::Image(image) = self else { return Some(offset) };
        let (_, extents) = image.opened.as_ref()?;
        extents.iter().find_map(|extent| {
            let Kind::Data(start) = extent.kind else { return None };
            let within = offset.checked_sub(start).filter(|within| *within < extent.length)?;
            Some(extent.offset + within)
        })
    }

    /// Fills `into` with the guest's disk from `offset` on, in the present state.
    pub fn read(
        &mut self,
        drive: usize,
        offset: u64,
        into: &mut [u8],
        present: (&Enumerator, &DriveCrashState),
        contents: &Contents,
    ) -> io::Result<()> {
        let (enumerator, crashed) = present;
        match self {
            Self::Raw(raw) => {
                match &raw.base {
                    Some(file) => read_fully(file, offset, into)?,
                    None => into.fill(0),
                }
                let mut at = 0;
                while at < into.len() {
                    let place = offset + at as u64;
                    let (sector, within) =
                        (place / SECTOR as u64, (place % SECTOR as u64) as usize);
                    let length = (SECTOR - within).min(into.len() - at);
                    let held =
                        crashed.get(sector).or_else(|| enumerator.settled(drive).get(sector));
                    if let Some(content) = held {
                        let bytes = &contents.bytes(content)[within..within + length];
                        into[at..at + length].copy_from_slice(bytes);
                    }
                    at += length;
                }
                Ok(())
            }
            Self::Image(disk) => {
                let Some((image, _)) = &mut disk.opened else {
                    return Err(io::Error::other("the image is not sound"));
                };
                // Whole sectors are read.
                let start = offset / SECTOR as u64 * SECTOR as u64;
                let skip = (offset - start) as usize;
                let length = (skip + into.len()).next_multiple_of(SECTOR);
                let data = read_image(image, start, length)?;
                into.copy_from_slice(&data[skip..skip + into.len()]);
                Ok(())
            }
        }
    }

    /// Leaves the state as the file `name` in `folder`: a raw disk, or the image's file.
    pub fn save(
        &self,
        folder: &Path,
        name: &str,
        present: (&Enumerator, usize, &DriveCrashState),
        size: u64,
        contents: &Contents,
    ) -> Result<()> {
        let path = folder.join(name);
        let cannot = || format!("cannot write {}", path.display());
        let file = File::create(&path).with_context(cannot)?;
        match self {
            Self::Image(image) => copy_sparse(&image.links[0].path, &file),
            Self::Raw(raw) => raw.save(&file, present, size, contents),
        }
        .with_context(cannot)
    }

    /// Leaves the guest's disk of the state as a raw file at `path`; of an image, which must be
    /// sound, too.
    pub fn save_disk(
        &mut self,
        path: &Path,
        present: (&Enumerator, usize, &DriveCrashState),
        size: u64,
        contents: &Contents,
    ) -> Result<()> {
        let cannot = || format!("cannot write {}", path.display());
        let file = File::create(path).with_context(cannot)?;
        match self {
            Self::Raw(raw) => raw.save(&file, present, size, contents).with_context(cannot),
            Self::Image(disk) => {
                file.set_len(size).with_context(cannot)?;
                let Some((image, extents)) = &mut disk.opened else {
                    anyhow::bail!("the image is not sound");
                };
                for extent in extents.iter().filter(|extent| holds_data(extent)) {
                    let end = (extent.offset + extent.length).min(size);
                    let mut at = extent.offset;
                    while at < end {
                        let length = (end - at).min(GATHERED as u64) as usize;
                        let data =
                            read_image(image, at, length).context("cannot read the image")?;
                        file.write_all_at(&data, at).with_context(cannot)?;
                        at += length as u64;
                    }
                }
                Ok(())
            }
        }
    }

    /// Bytes that [`StateDisk::save_disk`] or, of an image that is not sound, [`StateDisk::save`]
    /// takes on the host's disk at most.
    pub fn room(&self, present: (&Enumerator, usize, &DriveCrashState)) -> u64 {
        // As stat(2) counts, whatever the file system's blocks.
        let allocated = |file: &File| file.metadata().map_or(0, |meta| meta.blocks() * 512);
        match self {
            Self::Raw(raw) => {
                let (enumerator, drive, crashed) = present;
                let sectors = enumerator.settled(drive).each().count() + crashed.each().count();
                raw.base.as_ref().map_or(0, allocated) + (sectors * SECTOR) as u64
            }
            Self::Image(disk) => match &disk.opened {
                Some((_, extents)) => {
                    let data = extents.iter().filter(|extent| holds_data(extent));
                    data.map(|extent| extent.length).sum()
                }
                None => allocated(&disk.state),
            },
        }
    }

    /// The image's file in the present state, for others to look at.
    pub fn file(&self) -> Option<&File> {
        match self {
            Self::Image(image) => Some(&image.state),
            Self::Raw(_) => None,
        }
    }
}

/// Returns whether an extent of an image is not zeroes.
fn holds_data(extent: &Extent) -> bool {
    !matches!(extent.kind, Kind::Zero { .. })
}

impl RawDisk {
    /// Writes a state of the disk, of `size` bytes, to `file`.
    fn save(
        &self,
        file: &File,
        (enumerator, drive, crashed): (&Enumerator, usize, &DriveCrashState),
        size: u64,
        contents: &Contents,
    ) -> io::Result<()> {
        if let Some(base) = &self.base {
            copy_sparse(&PathBuf::from(format!("/proc/self/fd/{}", base.as_raw_fd())), file)?;
        }
        file.set_len(size)?;
        for (sector, content) in enumerator.settled(drive).each().chain(crashed.each()) {
            file.write_all_at(contents.bytes(content), sector * SECTOR as u64)?;
        }
        Ok(())
    }
}

fn read_image(image: &mut Image, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let command = Command::new(Operation::Read, offset, length as u64);
    match image.instant(command, vec![0; length]) {
        (Status::Ok, data) => Ok(data),
        _ => Err(io::Error::other("the image cannot be read")),
    }
}

impl ImageDisk {
    fn write(&mut self, sector: u64, bytes: &[u8]) -> Result<()> {
        self.opened = None;
        let (first, gathered) = &mut self.run;
        let next = *first + (gathered.len() / SECTOR) as u64;
        if next != sector || gathered.len() >= GATHERED {
            self.write_out()?;
            self.run.0 = sector;
        }
        self.run.1.extend_from_slice(bytes);
        Ok(())
    }

    fn write_out(&mut self) -> Result<()> {
        let (first, gathered) = &mut self.run;
        if !gathered.is_empty() {
            self.state
                .write_all_at(gathered, *first * SECTOR as u64)
                .context("cannot write the state's file in memory")?;
            gathered.clear();
        }
        Ok(())
    }

    /// Takes back the changes that are not in the next state, which is `crashed`.
    fn take_back(
        &mut self,
        enumerator: &Enumerator,
        drive: usize,
        crashed: &DriveCrashState,
        contents: &Contents,
    ) -> Result<()> {
        let mut gone: Vec<u64> =
            self.changed.keys().copied().filter(|s| crashed.get(*s).is_none()).collect();
        gone.sort_unstable();
        for sector in gone {
            self.changed.remove(&sector);
            match enumerator.settled(drive).get(sector) {
                Some(content) => self.write(sector, contents.bytes(content))?,
                None => {
                    let mut bytes = [0; SECTOR];
                    read_fully(&self.base, sector * SECTOR as u64, &mut bytes)
                        .context("cannot read the image as it was")?;
                    self.write(sector, &bytes)?;
                }
            }
        }
        Ok(())
    }

    fn open(&mut self) -> Result<Result<(), Unsound>> {
        let options = OpenOptions {
            execution: Execution::Synchronous,
            delay: Duration::ZERO,
            base: Path::new(""),
        };
        self.write_out()?;
        if self.opened.is_some() {
            return Ok(Ok(())); // nothing has changed
        }
        let opened = || -> Result<(Image, Vec<Extent>), ImageError> {
            let (opening, medium) = stasis_qcow2::open_links(self.links.clone(), false, &options)?;
            let drive = Drive::new(0, "state".into(), Box::new(ZeroLatency::default()), medium);
            let mut image = opening.open(Box::new(drive), Settings::default())?;
            let extents = image.map()?;
            Ok((image, extents))
        };
        match opened() {
            Ok(opened) => {
                self.opened = Some(opened);
                Ok(Ok(()))
            }
            Err(error @ (ImageError::Os { .. } | ImageError::Open(_))) => {
                Err(error).context("cannot open the image of a state")
            }
            // The path of a file in memory means nothing to the user.
            Err(error) => {
                let place = self.links[0].path.display().to_string();
                Ok(Err(Unsound(error.to_string().replace(&place, "image"))))
            }
        }
    }
}

/// Name of the file with a drive's contents after a power cut.
pub fn after_cut(drive: &TracedDrive) -> String {
    let kind = if drive.image.is_some() { "qcow2" } else { "img" };
    format!("{}.after-cut.{kind}", drive.name)
}
