//! Copies of disks, in another format.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use serde_json::json;
use stasis_block::units::format_size;
use stasis_block::{Command, Operation, Status};
use stasis_drive::Layer;
use stasis_qcow2::{CreateOptions, Fate, Format, Image, Kind, Loss, Rescue};
use stasis_terminal::answer;

use super::arguments::{ConvertArguments, ImageFormat};
use super::open::open;

/// Bytes that are copied at once.
const PIECE: u64 = 1 << 20;
/// Zeroes are left out in blocks of this many bytes.
const BLOCK: usize = 4096;
/// Exit statuses of a rescue.
const LOST: u8 = 2;
const DOUBTFUL: u8 = 3;

/// The disk to copy.
enum From {
    Raw(File, u64),
    Image(Box<Image>),
    Rescue(Box<Rescue>),
}

/// `stasis image convert`.
pub fn convert(arguments: &ConvertArguments) -> Result<ExitCode> {
    let ConvertArguments { from, to, format, snapshot, from_format, rescue } = arguments;
    let source = open_source(from, *from_format, snapshot.as_deref(), *rescue)?;
    let (size, faults) = match &source {
        From::Raw(_, size) => (*size, Vec::new()),
        From::Image(image) => (image.properties().capacity, Vec::new()),
        From::Rescue(rescue) => (rescue.size(), rescue.faults().to_vec()),
    };
    if to.exists() {
        bail!("{}: there is such a file; remove it, or name another", to.display());
    }
    let copied = match format {
        ImageFormat::Raw => to_raw(source, size, to),
        ImageFormat::Qcow2 => to_image(source, size, to),
    };
    if copied.is_err() {
        let _ = std::fs::remove_file(to);
    }
    let losses =
        copied.with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    answer::put("file", to)?;
    match rescue {
        true => report(from, &faults, &losses),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// Prints what a rescue did not get.
fn report(from: &Path, faults: &[String], losses: &[Loss]) -> Result<ExitCode> {
    use std::fmt::Write;
    let mut text = String::new();
    for fault in faults {
        writeln!(text, "{fault}")?;
    }
    for Loss { offset, length, fate, cause } in losses {
        writeln!(text, "{offset:#14x} {length:#14x} {}: {cause}", fate.name())?;
    }
    let lengths =
        |fate| losses.iter().filter(move |loss| loss.fate == fate).map(|loss| loss.length);
    let [lost, doubtful] = [Fate::Lost, Fate::Doubtful].map(|fate| lengths(fate).sum::<u64>());
    let (from, sizes) = (from.display(), [lost, doubtful].map(format_size));
    match (lost, doubtful) {
        (0, 0) => writeln!(text, "{from}: all of its disk was read")?,
        _ => writeln!(
            text,
            "{from}: {} lost, which are zeroes now; {} doubtful",
            sizes[0], sizes[1]
        )?,
    }
    answer::text(&text)?;
    answer::put("faults", &faults)?;
    answer::list("ranges");
    for Loss { offset, length, fate, cause } in losses {
        let fate = fate.name();
        answer::push(
            "ranges",
            &json!({ "offset": offset, "length": length, "fate": fate, "cause": cause }),
        )?;
    }
    Ok(match (lost, doubtful) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::from(DOUBTFUL),
        _ => ExitCode::from(LOST),
    })
}

fn open_source(
    path: &Path,
    format: Option<ImageFormat>,
    snapshot: Option<&str>,
    rescue: bool,
) -> Result<From> {
    let mut magic = [0; 4];
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let begins = file.read_exact(&mut magic).is_ok() && magic == *b"QFI\xfb";
    let qcow2 = format.map_or(begins, |format| format == ImageFormat::Qcow2);
    if rescue {
        let format = if qcow2 { Format::Qcow2 } else { Format::Raw };
        return Ok(From::Rescue(Box::new(Rescue::open(path, format, snapshot)?)));
    }
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
    /// Passes the data that is not zero to `write`, in pieces. Returns what is lost or doubtful.
    fn copy(self, size: u64, mut write: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<Vec<Loss>> {
        let mut write = |at, data: &[u8]| without_zeroes(at, data, &mut write);
        match self {
            Self::Rescue(rescue) => return rescue.copy(write),
            Self::Raw(file, _) => pieces((0, size), |at, length| {
                let mut data = vec![0; length as usize];
                file.read_exact_at(&mut data, at).with_context(|| unreadable(at))?;
                write(at, &data)
            })?,
            Self::Image(mut image) => {
                for extent in image.map()? {
                    if matches!(extent.kind, Kind::Zero { .. }) {
                        continue;
                    }
                    pieces((extent.offset, extent.length), |at, length| {
                        let command = Command::new(Operation::Read, at, length);
                        match image.instant(command, vec![0; length as usize]) {
                            (Status::Ok, data) => write(at, &data),
                            _ => bail!(unreadable(at)),
                        }
                    })?;
                }
            }
        }
        Ok(Vec::new())
    }
}

fn unreadable(at: u64) -> String {
    format!("cannot read its disk at {at:#x}; with `--rescue` what can be read is copied")
}

/// Goes through a range (first byte and length) in pieces.
fn pieces((start, length): (u64, u64), mut each: impl FnMut(u64, u64) -> Result<()>) -> Result<()> {
    let end = start + length;
    (start..end).step_by(PIECE as usize).try_for_each(|at| each(at, (end - at).min(PIECE)))
}

/// Passes the blocks that are not zero to `write`.
fn without_zeroes(
    at: u64,
    data: &[u8],
    write: &mut impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let zero = |at: usize| data[at..data.len().min(at + BLOCK)].iter().all(|&byte| byte == 0);
    let mut from = 0;
    while from < data.len() {
        let mut end = from;
        while end < data.len() && !zero(end) {
            end = data.len().min(end + BLOCK);
        }
        if end > from {
            write(at + from as u64, &data[from..end])?;
        }
        from = end + BLOCK;
    }
    Ok(())
}

fn to_raw(source: From, size: u64, to: &Path) -> Result<Vec<Loss>> {
    let file = File::options().write(true).create_new(true).open(to).context("cannot make it")?;
    file.set_len(size).context("cannot give it its size")?;
    let losses =
        source.copy(size, |at, data| file.write_all_at(data, at).context("cannot write"))?;
    file.sync_all().context("cannot write")?;
    Ok(losses)
}

fn to_image(source: From, size: u64, to: &Path) -> Result<Vec<Loss>> {
    // A raw file may end within a sector.
    let whole = size.next_multiple_of(512);
    let options = CreateOptions { size: Some(whole), ..CreateOptions::default() };
    stasis_qcow2::create(to, &options)?;
    let mut image = open(to, true, None)?;
    let losses = source.copy(size, |at, data| {
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
    image.close()?;
    Ok(losses)
}
