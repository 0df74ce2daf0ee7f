//! Copies of disks, in another format.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use stasis_block::{Command, Operation, Status};
use stasis_drive::Layer;
use stasis_qcow2::{CreateOptions, Image, Kind};

use super::arguments::{ConvertArguments, ImageFormat};
use super::open::open;

/// Bytes that are copied at once.
const PIECE: u64 = 1 << 20;
/// Zeroes are left out in blocks of this many bytes.
const BLOCK: usize = 4096;

/// The disk to copy.
enum From {
    Raw(File, u64),
    Image(Box<Image>),
}

/// `stasis image convert`.
pub fn convert(arguments: &ConvertArguments) -> Result<ExitCode> {
    let ConvertArguments { from, to, format, snapshot, from_format } = arguments;
    let mut source = open_source(from, *from_format, snapshot.as_deref())?;
    let size = match &source {
        From::Raw(_, size) => *size,
        From::Image(image) => image.properties().capacity,
    };
    if to.exists() {
        bail!("{}: there is such a file; remove it, or name another", to.display());
    }
    let copied = match format {
        ImageFormat::Raw => to_raw(&mut source, size, to),
        ImageFormat::Qcow2 => to_image(&mut source, size, to),
    };
    if copied.is_err() {
        let _ = std::fs::remove_file(to);
    }
    copied.with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    stasis_terminal::answer::put("file", to)?;
    Ok(ExitCode::SUCCESS)
}

fn open_source(path: &Path, format: Option<ImageFormat>, snapshot: Option<&str>) -> Result<From> {
    let mut magic = [0; 4];
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let begins = file.read_exact(&mut magic).is_ok() && magic == *b"QFI\xfb";
    let qcow2 = format.map_or(begins, |format| format == ImageFormat::Qcow2);
    if qcow2 {
        return Ok(From::Image(Box::new(open(path, false, snapshot)?)));
    }
    if snapshot.is_some() {
        bail!("{}: a raw disk has no snapshots", path.display());
    }
    let size = file.metadata().context("cannot read its size")?.len();
    Ok(From::Raw(file, size))
}

impl From {
    /// The ranges that are not known to be zero.
    fn ranges(&mut self, size: u64) -> Result<Vec<(u64, u64)>> {
        match self {
            Self::Raw(..) => Ok(vec![(0, size)]),
            Self::Image(image) => {
                let data = image.map()?.into_iter();
                let data = data.filter(|extent| !matches!(extent.kind, Kind::Zero { .. }));
                Ok(data.map(|extent| (extent.offset, extent.length)).collect())
            }
        }
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let mut data = vec![0; length as usize];
        match self {
            Self::Raw(file, _) => file.read_exact_at(&mut data, offset).context("cannot read")?,
            Self::Image(image) => {
                let command = Command::new(Operation::Read, offset, length);
                let (status, read) = image.instant(command, data);
                if status != Status::Ok {
                    bail!("cannot read at {offset}");
                }
                data = read;
            }
        }
        Ok(data)
    }

    /// Passes the data that is not zero to `write`, in pieces.
    fn copy(&mut self, size: u64, mut write: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        for (start, length) in self.ranges(size)? {
            let mut at = start;
            while at < start + length {
                let piece = (start + length - at).min(PIECE);
                let data = self.read(at, piece)?;
                let mut from = 0;
                while from < data.len() {
                    let zero = |at: usize| {
                        data[at..data.len().min(at + BLOCK)].iter().all(|&byte| byte == 0)
                    };
                    let mut end = from;
                    while end < data.len() && !zero(end) {
                        end = data.len().min(end + BLOCK);
                    }
                    if end > from {
                        write(at + from as u64, &data[from..end])?;
                    }
                    from = end + BLOCK;
                }
                at += piece;
            }
        }
        Ok(())
    }
}

fn to_raw(source: &mut From, size: u64, to: &Path) -> Result<()> {
    let file = File::options().write(true).create_new(true).open(to).context("cannot make it")?;
    file.set_len(size).context("cannot give it its size")?;
    source.copy(size, |at, data| file.write_all_at(data, at).context("cannot write"))?;
    file.sync_all().context("cannot write")
}

fn to_image(source: &mut From, size: u64, to: &Path) -> Result<()> {
    // A raw file may end within a sector.
    let whole = size.next_multiple_of(512);
    let options = CreateOptions { size: Some(whole), ..CreateOptions::default() };
    stasis_qcow2::create(to, &options)?;
    let mut image = open(to, true, None)?;
    source.copy(size, |at, data| {
        let mut data = data.to_vec();
        data.resize(data.len().next_multiple_of(512), 0);
        let command = Command::new(Operation::Write, at, data.len() as u64);
        match image.instant(command, data) {
            (Status::Ok, _) => Ok(()),
            _ => match image.control().take_error() {
                Some(error) => Err(error.into()),
                None => bail!("cannot write at {at}"),
            },
        }
    })?;
    Ok(image.close()?)
}
