//! An image and the files below it, found and checked before any is opened for
//! I/O.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use stasis_qcow2_format::check::{check, Report};
use stasis_qcow2_format::header::{is_qcow2, Snapshot, Source};

use crate::{Header, ImageError};

/// Backing files below one image at most: each read may have to ask them all.
pub const MAX_DEPTH: usize = 64;

/// Format of a file of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// The disk's bytes as they are.
    Raw,
    /// A qcow2 image.
    Qcow2,
}

/// A file of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Path of the file.
    pub path: PathBuf,
    /// Format of the file.
    pub format: Format,
}

/// An image as it was found.
#[derive(Debug)]
pub struct Found {
    /// Its files, from the top.
    pub links: Vec<Link>,
    /// The header of the topmost.
    pub header: Header,
    /// The headers of those below it; `None` for raw ones.
    pub(crate) headers_below: Vec<Option<Header>>,
    /// Result of the check of its tables.
    pub report: Report,
    /// Its internal snapshots.
    pub snapshots: Vec<Snapshot>,
}

impl Found {
    /// The files below that were written after the one above them, so that data read through them
    /// may be wrong: the format does not record their earlier content.
    ///
    /// # Errors
    /// An [`ImageError`] if the time of a file cannot be read.
    pub fn newer_below(&self) -> Result<Vec<PathBuf>, ImageError> {
        let written = |link: &Link| {
            let metadata = std::fs::metadata(&link.path);
            metadata.and_then(|file| file.modified()).map_err(os(&link.path, "read its time"))
        };
        let mut newer = Vec::new();
        for pair in self.links.windows(2) {
            if written(&pair[1])? > written(&pair[0])? {
                newer.push(pair[1].path.clone());
            }
        }
        Ok(newer)
    }
}

/// Warning to the user about a file below an image that was written after the image.
pub fn newer_below(path: &Path) -> String {
    format!(
        "{} was written after the image above it: what is read through it may not be what it was",
        path.display()
    )
}

fn os(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> ImageError {
    let path = path.to_owned();
    move |source| ImageError::Os { path, action, source }
}

fn open(path: &Path) -> Result<File, ImageError> {
    use stasis_media::OpenError;
    let found = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => OpenError::NotFound(path.into()).into(),
        std::io::ErrorKind::PermissionDenied => OpenError::Permission(path.into()).into(),
        _ => os(path, "open it")(error),
    })?;
    if found.is_dir() {
        return Err(OpenError::Directory(path.into()).into());
    }
    if !found.is_file() && !found.file_type().is_block_device() {
        return Err(OpenError::Special(path.into()).into());
    }
    File::open(path).map_err(os(path, "open it"))
}

/// Opens a file, and returns what tells it from all others.
pub(crate) fn open_once(path: &Path) -> Result<(File, (u64, u64)), ImageError> {
    let file = open(path)?;
    let metadata = file.metadata().map_err(os(path, "read its size"))?;
    Ok((file, (metadata.dev(), metadata.ino())))
}

/// The files of the image at `path`, from the top: it and those below it, by their headers
/// alone.
///
/// # Errors
/// An [`ImageError`] that names the file that is missing, no image, or met twice.
pub fn links(path: &Path) -> Result<Vec<Link>, ImageError> {
    let mut links: Vec<Link> = Vec::new();
    let mut met = Vec::new();
    let mut next = Some((path.to_owned(), Some(Format::Qcow2)));
    while let Some((at, format)) = next.take() {
        if links.len() > MAX_DEPTH {
            return Err(ImageError::TooDeep { path: path.into(), limit: MAX_DEPTH });
        }
        let (file, identity) = match open_once(&at) {
            Err(ImageError::Open(stasis_media::OpenError::NotFound(_))) if !links.is_empty() => {
                return Err(ImageError::MissingBacking { path: path.into(), backing: at });
            }
            file => file?,
        };
        if met.contains(&identity) {
            return Err(ImageError::Loop { path: path.into(), again: at });
        }
        met.push(identity);
        let source = Source::new(&file).map_err(os(&at, "read its size"))?;
        let format = match format {
            Some(format) => format,
            None if is_qcow2(&source).map_err(os(&at, "read it"))? => Format::Qcow2,
            None => Format::Raw,
        };
        if format == Format::Qcow2 {
            let header = Header::read(&source, &at)?;
            if let Some(name) = &header.backing {
                let folder = at.parent().unwrap_or(Path::new(""));
                next = Some((folder.join(name), backing_format(&header, &at)?));
            }
        }
        links.push(Link { path: at, format });
    }
    Ok(links)
}

/// Format of the file below, as the header has it; `None` where that says nothing.
pub(crate) fn backing_format(header: &Header, path: &Path) -> Result<Option<Format>, ImageError> {
    match header.backing_format.as_deref() {
        None => Ok(None),
        Some("qcow2") => Ok(Some(Format::Qcow2)),
        Some("raw" | "file" | "host_device") => Ok(Some(Format::Raw)),
        Some(other) => Err(ImageError::Unsupported {
            path: path.into(),
            feature: format!("a backing file of the format `{other}`"),
        }),
    }
}

/// Inspects the image whose files are `links`, from the top: checks each and refuses a
/// contradictory one.
pub(crate) fn inspect(links: Vec<Link>) -> Result<Found, ImageError> {
    inspect_with(links, examine)
}

/// As [`inspect`], where `first` reads and checks the topmost file.
pub(crate) fn inspect_with(
    links: Vec<Link>,
    first: impl Fn(&Path) -> Result<Examined, ImageError>,
) -> Result<Found, ImageError> {
    let mut top = None;
    let mut headers_below = Vec::new();
    for (depth, link) in links.iter().enumerate() {
        if link.format == Format::Raw {
            headers_below.push(None);
            continue;
        }
        let (header, report, snapshots) = match depth {
            0 => first(&link.path)?,
            _ => examine(&link.path)?,
        };
        if let Some(corruption) = report.corruptions.first() {
            return Err(ImageError::Damaged {
                path: link.path.clone(),
                contradiction: corruption.clone(),
            });
        }
        match depth {
            0 => top = Some((header, report, snapshots)),
            _ => headers_below.push(Some(header)),
        }
    }
    match top {
        Some((header, report, snapshots)) => {
            Ok(Found { links, header, headers_below, report, snapshots })
        }
        None => Err(ImageError::Value("an image without files".into())),
    }
}

/// A file's header, the result of its check, and its snapshots.
pub(crate) type Examined = (Header, Report, Vec<Snapshot>);

/// Reads and checks one qcow2 file.
pub(crate) fn examine(path: &Path) -> Result<Examined, ImageError> {
    let file = open(path)?;
    let source = Source::new(&file).map_err(os(path, "read its size"))?;
    examine_source(&source, path)
}

/// Like [`examine`], but for bytes of the file at `path`.
pub(crate) fn examine_source(source: &Source, path: &Path) -> Result<Examined, ImageError> {
    let header = Header::read(source, path)?;
    let (report, snapshots) = check(source, &header, path)?;
    Ok((header, report, snapshots))
}

/// An image as it can be described, whether or not it can be used.
#[derive(Debug)]
pub struct Description {
    /// Its header.
    pub header: Header,
    /// Result of the check of its tables.
    pub report: Report,
    /// Its internal snapshots.
    pub snapshots: Vec<Snapshot>,
    /// The files below it, from the top, as far as they can be found.
    pub below: Vec<PathBuf>,
    /// Those that were written after the one above them.
    pub newer_below: Vec<PathBuf>,
    /// Reason why the disk cannot be read.
    pub problem: Option<ImageError>,
}

/// Describes the image at `path`, be it damaged or without its backing file.
///
/// # Errors
/// An [`ImageError`] if its header cannot be read.
pub fn describe(path: &Path) -> Result<Description, ImageError> {
    let (header, report, snapshots) = examine(path)?;
    let mut description = Description {
        header,
        report,
        snapshots,
        below: Vec::new(),
        newer_below: Vec::new(),
        problem: None,
    };
    let found = links(path).and_then(|links| {
        description.below = links.iter().skip(1).map(|link| link.path.clone()).collect();
        inspect(links)
    });
    match found.and_then(|found| found.newer_below()) {
        Ok(newer) => description.newer_below = newer,
        Err(problem) => description.problem = Some(problem),
    }
    Ok(description)
}

/// Finds the image at `path` with everything below it, and checks it.
///
/// # Errors
/// An [`ImageError`] that names the file and the remedy.
pub fn find(path: &Path) -> Result<Found, ImageError> {
    inspect(links(path)?)
}
