//! The source of a simulation's I/Os, opened and checked.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, Context, Result};
use serde_json::{json, Value};
use stasis_block::clock::Nanos;
use stasis_block::Fate;
use stasis_results::units::count;
use stasis_results::{KeptIos, Summary, SUMMARY_FILE};
use stasis_runner::job_file;
use stasis_workload::trace::{
    Format, LeftOut, Merged, Pace, Placed, Reader, Replay, ReplayOptions,
};
use stasis_workload::{Io, Load, TraceError, Workload};
use zstd::stream::read::Decoder;

use crate::drive_info::DriveInfo;
use crate::pairs::{self, PairLoad};
use crate::points::Point;
use crate::Arguments;

/// Length of a piece of a trace that is read at once (bytes).
const PIECE: usize = 1 << 20;

/// A file, or its uncompressed content.
type Input = Box<dyn BufRead>;

/// A source of I/Os.
pub enum IoSource {
    /// A job file's load.
    Load(Load),
    /// A load of key-value pairs.
    Pairs(Box<PairLoad>),
    /// A trace.
    Replay(Box<Replay<Input>>),
}

impl Workload for IoSource {
    fn next_at(&self) -> Option<Nanos> {
        match self {
            Self::Load(load) => load.next_at(),
            Self::Pairs(pairs) => pairs.next_at(),
            Self::Replay(replay) => replay.next_at(),
        }
    }

    fn take(&mut self) -> Result<Option<Io>, TraceError> {
        match self {
            Self::Load(load) => load.take(),
            Self::Pairs(pairs) => pairs.take(),
            Self::Replay(replay) => replay.take(),
        }
    }

    fn complete(&mut self, at: Nanos, io: &Io, fate: Fate) {
        match self {
            Self::Load(load) => load.complete(at, io, fate),
            Self::Pairs(pairs) => pairs.complete(at, io, fate),
            Self::Replay(replay) => replay.complete(at, io, fate),
        }
    }

    fn fraction(&self, now: Nanos) -> Option<f64> {
        match self {
            Self::Load(load) => load.fraction(now),
            Self::Pairs(pairs) => pairs.fraction(now),
            Self::Replay(replay) => replay.fraction(now),
        }
    }
}

impl IoSource {
    /// The jobs of a job file by name, each with its number of threads.
    pub fn jobs(&self) -> Option<&[(String, usize)]> {
        match self {
            Self::Load(load) => Some(load.jobs()),
            Self::Pairs(_) | Self::Replay(_) => None,
        }
    }

    /// Bytes of a segment of the log of pairs.
    pub fn segment(&self) -> Option<u64> {
        let Self::Pairs(pairs) = self else { return None };
        Some(pairs::segment(pairs))
    }

    /// Returns whether a load of pairs has not ended: stores wait for room.
    pub fn is_stuck(&self) -> bool {
        matches!(self, Self::Pairs(pairs) if !pairs.is_over())
    }

    /// Counts of a load of pairs.
    pub fn pairs(&self) -> Option<Value> {
        let Self::Pairs(pairs) = self else { return None };
        Some(pairs::counts(pairs))
    }

    /// Remark for the user after the replay.
    pub fn remark(&self) -> Option<String> {
        let Self::Replay(replay) = self else { return None };
        let Placed { folded, backwards, late, .. } = replay.placed();
        let LeftOut { other_drives, empty, operations, refused, boot: _ } = replay.left_out();
        let effects = [
            (folded, "lie beyond the drive and were brought back to it"),
            (backwards, "are earlier than the one before them; they were submitted at its time"),
            (
                late,
                "were due before they were read, more than a million I/Os ahead, and were submitted then",
            ),
            (other_drives, "are of other drives and were left out"),
            (empty, "have no length and were left out"),
            (operations, "are of operations that no drive here knows and were left out"),
            (refused, "were refused by the run's controller and were left out"),
        ];
        let effects = effects.into_iter().filter(|(ios, _)| *ios > 0);
        let remarks: Vec<_> =
            effects.map(|(ios, effect)| format!("{} {effect}", count(ios))).collect();
        (!remarks.is_empty()).then(|| format!("I/Os of the trace: {}", remarks.join("; ")))
    }

    /// Numbers of I/Os of a trace that were submitted, changed, and left out.
    pub fn statistics(&self) -> Option<Value> {
        let Self::Replay(replay) = self else { return None };
        let Placed { submitted, folded, widened, backwards, late } = replay.placed();
        let LeftOut { other_drives, empty, operations, refused, boot } = replay.left_out();
        Some(json!({
            "submitted": submitted,
            "folded": folded,
            "widened": widened,
            "backwards": backwards,
            "late": late,
            "left_out": {
                "other_drives": other_drives,
                "empty": empty,
                "operations": operations,
                "refused": refused,
                "boot": boot,
            },
        }))
    }
}

/// A source of I/Os that is open.
pub struct Opened {
    /// The source.
    pub work: IoSource,
    /// The drive's size, which a job file can set too.
    pub capacity: Option<u64>,
    /// Warnings for the user about the source.
    pub warnings: Vec<String>,
}

/// Returns whether a file of `--workload` has a load of pairs: it ends with `.toml` and has their
/// table. Others are fio's.
pub fn is_of_pairs(path: &Path) -> bool {
    let has_table = || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().any(|line| line.trim() == "[pairs]")
    };
    path.extension().is_some_and(|extension| extension == "toml") && has_table()
}

/// Opens the load or trace that the arguments name.
pub fn open(arguments: &Arguments, point: &Point, drive: DriveInfo) -> Result<Opened> {
    if !arguments.workload.is_empty() {
        return match is_of_pairs(point.source) {
            true => of_pairs(point.source, drive, point.seed),
            false => jobs(point.source, drive, point.seed),
        };
    }
    let replay = replay(point.source, arguments, drive)
        .with_context(|| format!("the trace {}", point.source.display()))?;
    let work = IoSource::Replay(Box::new(replay));
    Ok(Opened { work, capacity: drive.capacity, warnings: Vec::new() })
}

fn of_pairs(path: &Path, drive: DriveInfo, seed: u64) -> Result<Opened> {
    let work = IoSource::Pairs(Box::new(pairs::open(path, drive, seed)?));
    Ok(Opened { work, capacity: drive.capacity, warnings: Vec::new() })
}

fn jobs(path: &Path, drive: DriveInfo, seed: u64) -> Result<Opened> {
    let shown = || path.display().to_string();
    let file = job_file::parse(path)?;
    let warnings = file.warnings.iter().map(|warning| format!("{}: {warning}", shown())).collect();
    let capacity = drive.capacity.or_else(|| file.least_capacity()).ok_or_else(|| {
        anyhow!("{}: how large is the drive? Give --size, or `size` in every job", shown())
    })?;
    if let Some((job, odd)) = file.block_sizes().find(|(_, size)| size % drive.block_size != 0) {
        bail!(
            "{}: job `{job}`: its block size or offset {odd} is no multiple of the drive's, {}",
            shown(),
            drive.block_size
        );
    }
    let load = Load::new(&file, capacity, seed, drive.path).with_context(shown)?;
    Ok(Opened { work: IoSource::Load(load), capacity: Some(capacity), warnings })
}

/// The text of a trace that may be compressed by zstd; how much of it there is is only known
/// of one that is not.
fn plain(mut input: Input, length: Option<u64>) -> io::Result<(Input, Option<u64>)> {
    /// The first bytes of a frame (RFC 8878 section 3.1.1), little-endian.
    const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
    if !input.fill_buf()?.starts_with(&MAGIC) {
        return Ok((input, length));
    }
    let decoder = Decoder::with_buffer(input)?;
    Ok((Box::new(BufReader::with_capacity(PIECE, decoder)), None))
}

/// The files that blktrace writes for each processor, where `path` is the name given to blktrace:
/// `path.blktrace.0` and so on, in the order of the numbers.
fn processors(path: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
    let begin = format!("{name}.blktrace.");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder.unwrap_or(Path::new(".")))? {
        let entry = entry?;
        let number =
            entry.file_name().to_str().and_then(|name| name.strip_prefix(&begin)?.parse().ok());
        found.extend(number.map(|number| (number, entry.path())));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// A file of a trace, and its length where that is known.
fn input(path: &Path) -> Result<(Input, Option<u64>)> {
    let file = File::open(path).context("cannot open it")?;
    let length = file.metadata().ok().map(|metadata| metadata.len());
    plain(Box::new(BufReader::with_capacity(PIECE, file)), length).context("cannot read it")
}

/// Opens a trace; returns its length, too, if that is known.
fn trace(path: &Path, drive: Option<&str>) -> Result<(Merged<Input>, Option<u64>)> {
    if path == Path::new("-") {
        let input = Box::new(BufReader::with_capacity(PIECE, std::io::stdin()));
        let (input, length) = plain(input, None).context("cannot read it")?;
        return Ok((Reader::new(input, drive)?.into(), length));
    }
    if path.is_dir() || path.extension().is_some_and(|extension| extension == "parquet") {
        let input: Input = Box::new(KeptIos::open(path)?.into_csv());
        return Ok((Reader::new(input, drive)?.into(), None));
    }
    // Per-processor files are tried if there is no file of this name, as in blkparse.
    let parts = if path.exists() { Vec::new() } else { processors(path).unwrap_or_default() };
    if parts.is_empty() {
        let (input, length) = input(path)?;
        return Ok((Reader::new(input, drive)?.into(), length));
    }
    let (mut files, mut all) = (Vec::new(), Some(0));
    for part in parts {
        let name = part.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (input, length) = input(&part).with_context(|| name.clone())?;
        all = all.zip(length).map(|(all, length)| all + length);
        files.push((name, input));
    }
    Ok((Merged::new(files, drive)?, all))
}

fn replay(path: &Path, arguments: &Arguments, drive: DriveInfo) -> Result<Replay<Input>> {
    let (reader, length) = trace(path, arguments.trace_drive.as_deref())?;
    if arguments.exact_times && reader.format() != Format::Ios {
        bail!("--exact-times is for the I/Os of a run: its folder, or its ios.parquet or ios.csv");
    }
    let pace = match (arguments.exact_times, arguments.closed) {
        _ if arguments.think_times => Pace::ThinkTimes(arguments.scale),
        (true, _) => Pace::Exact,
        (false, Some(depth)) => Pace::Closed(depth),
        (false, None) => Pace::Open(arguments.scale),
    };
    let DriveInfo { capacity, block_size, path, .. } = drive;
    if arguments.wrap && capacity.is_none() {
        bail!("--wrap needs to know where the drive ends: give --size");
    }
    let options = ReplayOptions { pace, capacity, wrap: arguments.wrap, block_size, path, length };
    Ok(Replay::new(reader, options)?)
}

/// The place of the traced drive in its run, on which its seed depends: taken from the
/// `summary.json` beside its I/Os; 0 where there is none.
pub fn drive_index(arguments: &Arguments, point: &Point) -> u16 {
    let place = || {
        let name = arguments.trace_drive.as_ref()?;
        let path = match point.source.is_dir() {
            true => point.source.join(SUMMARY_FILE),
            false => point.source.with_file_name(SUMMARY_FILE),
        };
        let summary: Summary = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let place = summary.drives.iter().position(|drive| drive.described.name == *name)?;
        u16::try_from(place).ok()
    };
    place().filter(|_| arguments.exact_times).unwrap_or(0)
}
