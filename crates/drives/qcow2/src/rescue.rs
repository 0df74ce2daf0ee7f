//! Disks of damaged images: each part that can be found is read, and each other is named with its
//! cause.
//!
//! Neither refcounts nor the check of the whole stand in the way here. Where the tables contradict
//! each other, a part is read as its own entry has it, and named as doubtful.

use std::path::Path;

use stasis_media::{Access, Execution, HostFile, HostFiles, HostMedium, OpenOptions};
use stasis_qcow2_format::header::ReadAt;

use crate::chain::{self, Format, MAX_DEPTH};
use crate::header::Source;
use crate::salvage::{Content, Salvage};
use crate::{Header, ImageError};

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;
/// A range that cannot be read is divided down to this many bytes, the smallest unit of a drive.
const SECTOR: usize = 512;

/// A range of a disk that is not certain to be what was written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// First byte of the disk.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Fate of the range.
    pub fate: Fate,
    /// Cause, in words.
    pub cause: String,
}

/// Fate of a range that is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It cannot be read, and is zeroes.
    Lost,
    /// It is what the image has there; by another part of the image it should be something else.
    Doubtful,
}

impl Fate {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubtful => "doubtful",
        }
    }
}

/// A file of the chain, from the top.
enum Layer {
    Raw(Box<dyn ReadAt>, u64),
    Image(Box<Salvage>),
    /// A file that cannot be read, with the cause.
    Gone(String),
}

/// Content of a part of the disk.
enum Part {
    Zero,
    Data { layer: usize, at: u64 },
    Packed { layer: usize, word: u64, at: u64, length: u64 },
    Lost(String),
}

/// A part, how many bytes of it are alike, and what makes it doubtful.
type Located = (Part, u64, Option<String>);

/// A disk that is read as far as it can be.
pub struct Rescue {
    size: u64,
    layers: Vec<Layer>,
    faults: Vec<String>,
    losses: Vec<Loss>,
    /// Holds the lock of the topmost file.
    _lock: Option<Box<dyn HostMedium>>,
}

impl std::fmt::Debug for Rescue {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Rescue").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Rescue {
    /// Opens the disk in the file at `path`, with what is below it; or as it was at a snapshot.
    ///
    /// # Errors
    /// An [`ImageError`] where nothing of it can be found.
    pub fn open(path: &Path, format: Format, snapshot: Option<&str>) -> Result<Self, ImageError> {
        let options = OpenOptions {
            execution: Execution::Synchronous,
            delay: std::time::Duration::ZERO,
            base: Path::new(""),
        };
        let lock = HostFile { path: path.to_owned(), room: 0, access: Access::Read };
        let lock: Box<dyn HostMedium> = Box::new(HostFiles::open(&[lock], &options)?);
        let mut rescue = Self {
            size: 0,
            layers: Vec::new(),
            faults: Vec::new(),
            losses: Vec::new(),
            _lock: Some(lock),
        };
        let (mut next, mut met) = (Some((path.to_owned(), Some(format))), Vec::new());
        while let Some((at, format)) = next.take() {
            let then = if rescue.layers.is_empty() { snapshot } else { None };
            match rescue.add(&at, format, then, &mut met) {
                Ok(below) => next = below,
                Err(error) if rescue.layers.is_empty() => return Err(error),
                Err(error) => rescue.layers.push(Layer::Gone(format!("what is below: {error}"))),
            }
        }
        Ok(rescue)
    }

    /// A raw disk of `size` bytes.
    #[cfg(test)]
    fn of_raw(file: Box<dyn ReadAt>, size: u64) -> Self {
        let layers = vec![Layer::Raw(file, size)];
        Self { size, layers, faults: Vec::new(), losses: Vec::new(), _lock: None }
    }

    /// Adds a file below the others. Returns the one below it.
    fn add(
        &mut self,
        path: &Path,
        format: Option<Format>,
        snapshot: Option<&str>,
        met: &mut Vec<(u64, u64)>,
    ) -> Result<Option<(std::path::PathBuf, Option<Format>)>, ImageError> {
        if self.layers.len() > MAX_DEPTH {
            return Err(ImageError::TooDeep { path: path.into(), limit: MAX_DEPTH });
        }
        let (file, identity) = chain::open_once(path)?;
        if met.contains(&identity) {
            return Err(ImageError::Loop { path: path.into(), again: path.into() });
        }
        met.push(identity);
        let os = |source| ImageError::Os { path: path.into(), action: "read it", source };
        let source = Source::new(&file).map_err(os)?;
        let length = source.length;
        let is_image = match format {
            Some(format) => format == Format::Qcow2,
            None => crate::header::is_qcow2(&source).map_err(os)?,
        };
        let first = self.layers.is_empty();
        if !is_image {
            if let Some(name) = snapshot {
                let (path, name) = (path.into(), name.into());
                return Err(ImageError::NoSnapshot { path, name, names: Vec::new() });
            }
            if first {
                self.size = length;
            }
            self.layers.push(Layer::Raw(Box::new(file), length));
            return Ok(None);
        }
        let salvaged = Header::salvage(&source, path)?;
        let header = &salvaged.header;
        let faults = salvaged.faults.iter();
        self.faults.extend(faults.map(|fault| format!("{}: {fault}", path.display())));
        let below = match &header.backing {
            Some(name) => {
                let folder = path.parent().unwrap_or(Path::new(""));
                chain::backing_format(header, path).map(|format| Some((folder.join(name), format)))
            }
            None => Ok(None),
        };
        let unknown = salvaged.backing_unknown;
        let salvage = Salvage::open(Box::new(file), length, salvaged.header, snapshot, path)?;
        self.faults
            .extend(salvage.faults.iter().map(|fault| format!("{}: {fault}", path.display())));
        if first {
            self.size = salvage.size;
        }
        self.layers.push(Layer::Image(Box::new(salvage)));
        if unknown {
            let cause = "the name of the backing file cannot be read".into();
            self.layers.push(Layer::Gone(cause));
        }
        below
    }

    /// Size of the disk in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Contradictions that lose nothing of the disk by themselves.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Passes all data to `write`, in order and in pieces; the rest of the disk is zeroes. Returns
    /// the ranges that are lost or doubtful, in order.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn copy<E>(
        mut self,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<Vec<Loss>, E> {
        let mut at = 0;
        while at < self.size {
            let (part, mut count, doubt) = self.locate(at);
            match part {
                Part::Zero => self.note(at, count, None, doubt),
                Part::Lost(cause) => self.note(at, count, Some(cause), None),
                Part::Data { layer, at: from } => {
                    count = self.extend(at, count, (layer, from), &doubt);
                    let mut data = vec![0; count as usize];
                    let mut bad = Vec::new();
                    self.read(layer, from, &mut data, 0, &mut bad);
                    write(at, &data)?;
                    let mut done = 0;
                    for (start, length, cause) in bad {
                        self.note(at + done, start - done, None, doubt.clone());
                        self.note(at + start, length, Some(cause), None);
                        done = start + length;
                    }
                    self.note(at + done, count - done, None, doubt);
                }
                Part::Packed { layer, word, at: from, length } => {
                    let Some(Layer::Image(image)) = self.layers.get_mut(layer) else { break };
                    let inside = (at % image.shape().cluster()) as usize;
                    match image.unpacked(word, from, length) {
                        Ok(cluster) => {
                            let piece = cluster.get(inside..inside + count as usize);
                            write(at, piece.unwrap_or_default())?;
                            self.note(at, count, None, doubt);
                        }
                        Err(cause) => self.note(at, count, Some(cause), None),
                    }
                }
            }
            at += count;
        }
        Ok(self.losses)
    }

    /// Bytes of data from `at` on that lie one behind the other in one file, at most a piece.
    fn extend(
        &mut self,
        at: u64,
        mut count: u64,
        (layer, from): (usize, u64),
        doubt: &Option<String>,
    ) -> u64 {
        count = count.min(PIECE);
        while count < PIECE && at + count < self.size {
            match self.locate(at + count) {
                (Part::Data { layer: same, at: next }, more, other)
                    if same == layer && next == from + count && other == *doubt =>
                {
                    count += more.min(PIECE - count);
                }
                _ => break,
            }
        }
        count
    }

    /// Notes the fate of a range; nothing where it has neither.
    fn note(&mut self, offset: u64, length: u64, lost: Option<String>, doubt: Option<String>) {
        let fate = if lost.is_some() { Fate::Lost } else { Fate::Doubtful };
        let Some(cause) = lost.or(doubt).filter(|_| length > 0) else { return };
        match self.losses.last_mut() {
            Some(last)
                if last.offset + last.length == offset
                    && last.fate == fate
                    && last.cause == cause =>
            {
                last.length += length;
            }
            _ => self.losses.push(Loss { offset, length, fate, cause }),
        }
    }

    fn locate(&mut self, offset: u64) -> Located {
        let mut count = self.size - offset;
        let mut doubt = None;
        for (number, layer) in self.layers.iter_mut().enumerate() {
            let image = match layer {
                Layer::Gone(cause) => return (Part::Lost(cause.clone()), count, doubt),
                Layer::Raw(_, length) if *length <= offset => break,
                Layer::Raw(_, length) => {
                    let part = Part::Data { layer: number, at: offset };
                    return (part, count.min(*length - offset), doubt);
                }
                Layer::Image(image) => image,
            };
            if image.size <= offset {
                break;
            }
            let found = image.look_up(offset, count.min(image.size - offset));
            count = found.count;
            doubt = doubt.or(found.doubt);
            let part = match found.content {
                Err(cause) => Part::Lost(cause),
                Ok(Content::Hole) => continue,
                Ok(Content::Zero) => Part::Zero,
                Ok(Content::Data(at)) => Part::Data { layer: number, at },
                Ok(Content::Packed { word, at, length }) => {
                    Part::Packed { layer: number, word, at, length }
                }
            };
            return (part, count, doubt);
        }
        (Part::Zero, count, doubt)
    }

    /// Reads a file; ranges that cannot be read become zeroes and are appended to `bad`, counted from
    /// the begin of the piece.
    fn read(
        &self,
        layer: usize,
        at: u64,
        into: &mut [u8],
        begin: u64,
        bad: &mut Vec<(u64, u64, String)>,
    ) {
        let (file, length) = match self.layers.get(layer) {
            Some(Layer::Raw(file, length)) => (&**file, *length),
            Some(Layer::Image(image)) => (&*image.file, image.length),
            _ => return,
        };
        let Err(error) = (Source { file, length }).read(at, into) else { return };
        if into.len() <= SECTOR {
            into.fill(0);
            bad.push((begin, into.len() as u64, format!("it cannot be read: {error}")));
            return;
        }
        let half = (into.len() / 2).next_multiple_of(SECTOR).min(into.len() - 1);
        let (first, second) = into.split_at_mut(half);
        self.read(layer, at, first, begin, bad);
        self.read(layer, at + half as u64, second, begin + half as u64, bad);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// A drive of which some sectors cannot be read.
    #[derive(Debug)]
    struct Worn(Vec<u8>, Vec<usize>);

    impl ReadAt for Worn {
        fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
            let all = offset as usize..offset as usize + into.len();
            if self
                .1
                .iter()
                .any(|sector| all.start < (sector + 1) * SECTOR && sector * SECTOR < all.end)
            {
                return Err(io::Error::other("worn"));
            }
            into.copy_from_slice(&self.0[all]);
            Ok(into.len())
        }
    }

    #[test]
    fn sectors_that_cannot_be_read_are_lost_and_no_others() {
        let disk: Vec<u8> = (0..3 << 20).map(|at: usize| (at / 512 % 255) as u8 + 1).collect();
        let worn = Worn(disk.clone(), vec![0, 100, 101, 4100]);
        let mut copy = vec![0; disk.len()];
        let rescue = Rescue::of_raw(Box::new(worn), disk.len() as u64);
        let losses = rescue.copy(|at, data| {
            copy[at as usize..][..data.len()].copy_from_slice(data);
            Ok::<_, ()>(())
        });
        let loss = |sector: u64, sectors: u64| Loss {
            offset: 512 * sector,
            length: 512 * sectors,
            fate: Fate::Lost,
            cause: "it cannot be read: worn".into(),
        };
        assert_eq!(losses.unwrap(), [loss(0, 1), loss(100, 2), loss(4100, 1)]);
        for sector in 0..disk.len() / 512 {
            let range = 512 * sector..512 * (sector + 1);
            let expected = if [0, 100, 101, 4100].contains(&sector) {
                &[0; 512]
            } else {
                &disk[range.clone()]
            };
            assert_eq!(&copy[range], expected, "sector {sector}");
        }
    }
}
