//! Meaning of each option.

use stasis_block::clock::{MICROSECOND, SECOND};

use super::file::Line;
use super::files::Service;
use super::table::{self, Key, Verdict};
use super::values::{
    absolute_zones, boolean, bssplit, bytes, each, flag, size, time, zones, Size, Units,
};
use super::{Direction, Distribution, Engine, ExitWhat, Job};
use crate::JobError;

/// Limit on the threads of a job.
const MAX_THREADS: u64 = 65_535;
/// Limit on a thread's files.
const MAX_FILES: u64 = 1 << 20;
/// Limit on a thread's I/Os in flight.
const MAX_DEPTH: u64 = 1 << 20;

/// The lines of a section in the order in which fio takes them: `kb_base` before all others,
/// in whatever line it is.
pub fn in_order(lines: &[Line]) -> impl Iterator<Item = &Line> {
    let first = |line: &&Line| line.key == "kb_base";
    lines.iter().filter(first).chain(lines.iter().filter(move |line| !first(line)))
}

/// Takes a line into `job`.
pub fn apply(job: &mut Job, line: &Line) -> Result<(), JobError> {
    let Line { place, key, value } = line;
    let wrong = |problem: String| JobError::Line {
        place: place.clone(),
        problem: format!("{key}: {problem}"),
    };
    let Some(option) = table::option(key) else {
        let name = key.to_ascii_lowercase();
        if table::COMMAND_LINE.contains(&name.as_str()) {
            return Err(wrong("is an option of fio's command line, not of a job file".into()));
        }
        let nearest = table::nearest(&name);
        return Err(JobError::Key { place: place.clone(), key: key.clone(), nearest });
    };
    match option.verdict {
        Verdict::Simulated(key, _) => set(job, key, value.as_deref()).map_err(wrong),
        Verdict::NoEffect(_) => Ok(()),
        Verdict::Refused(neutral, _)
            if value.as_deref().is_some_and(|value| neutral.contains(&value)) =>
        {
            Ok(())
        }
        Verdict::Refused(_, instead) => Err(wrong(format!("fio has it, sim has not: {instead}"))),
    }
}

fn set(job: &mut Job, key: Key, value: Option<&str>) -> Result<(), String> {
    let units = Units { base: job.kb_base };
    // Options that may stand alone.
    match key {
        Key::TimeBased => job.time_based = flag(value)?,
        Key::NoRandomMap => job.norandommap = flag(value)?,
        Key::Stonewall => job.stonewall = flag(value)?,
        Key::NewGroup => job.new_group = flag(value)?,
        Key::VerifyOnly => job.verify_only = flag(value)?,
        // As in fio, whatever its value.
        Key::ExitAll => job.exitall = flag(value).map(|_| true)?,
        _ => return with_value(job, key, value.ok_or("needs a value")?, units),
    }
    Ok(())
}

fn with_value(job: &mut Job, key: Key, value: &str, units: Units) -> Result<(), String> {
    let within = |least: u64, most: u64| within(value, units, least, most);
    let number = || within(0, u64::MAX);
    let depth = || within(0, u64::from(u32::MAX)).map(|number| number as u32);
    let bytes = |word: &str| bytes(word, units);
    match key {
        Key::Name => job.name = named(value)?,
        Key::FileName => add_files(&mut job.file, value)?,
        Key::NrFiles => job.nrfiles = within(1, MAX_FILES)? as u32,
        Key::OpenFiles => job.openfiles = within(0, u64::from(u32::MAX))? as u32,
        Key::FileServiceType => job.service = service(value, units)?,
        Key::Engine => (job.engine, job.of_drives) = engine(value)?,
        Key::Direct => job.direct = boolean(value)?,
        Key::Buffered => job.direct = !boolean(value)?,
        Key::NumJobs => job.numjobs = within(1, MAX_THREADS)? as u32,
        Key::IoDepth => job.iodepth = within(1, MAX_DEPTH)? as u32,
        Key::IoDepthBatch => job.batch = depth()?,
        Key::CompleteMin => job.complete_min = depth()?,
        Key::CompleteMax => job.complete_max = depth()?,
        Key::IoDepthLow => job.iodepth_low = depth()?,
        Key::SubmitMode => {
            job.offload = choice(value, &[("inline", false), ("offload", true)])?;
        }
        Key::Rw => direction(job, value, units)?,
        Key::RwSequencer => {
            job.identical = choice(value, &[("sequential", false), ("identical", true)])?;
        }
        Key::RwMixRead => job.rwmixread = within(0, 100)? as u8,
        Key::RwMixWrite => job.rwmixread = 100 - within(0, 100)? as u8,
        Key::Bs => {
            job.bs = each(value, ',', bytes, job.bs)?;
            if job.bs.contains(&0) {
                return Err("a block size is 0".into());
            }
        }
        Key::Ba => job.ba = each(value, ',', bytes, job.ba)?,
        Key::BsRange => {
            let range = |word: &str| {
                let (from, to) =
                    word.split_once(['-', ':']).ok_or(format!("`{word}` is no range"))?;
                let (from, to) = (bytes(from)?, bytes(to)?);
                match from.min(to) {
                    0 => Err("a block size is 0".into()),
                    least => Ok(Some((least, from.max(to)))),
                }
            };
            job.bsrange = each(value, ',', range, job.bsrange)?;
        }
        Key::BsSplit => {
            let split = |word: &str| bssplit(word, units).map(Some);
            job.bssplit = splits(value, split, &job.bssplit)?;
        }
        Key::BsIsSeqRand => job.bs_is_seq_rand = boolean(value)?,
        Key::Offset => job.offset = sized(value, units, Some(job.offset), 0)?,
        Key::OffsetAlign => job.offset_align = Some(number()?).filter(|align| *align > 0),
        Key::OffsetIncrement => {
            job.offset_increment = sized(value, units, Some(job.offset_increment), 0)?;
        }
        Key::Size => {
            let size = sized(value, units, job.size, 100)?;
            job.size = Some(size).filter(|size| !size.is_nothing());
        }
        Key::FileSize => {
            let (least, most) = value.split_once(['-', ':']).unwrap_or((value, value));
            let (least, most) = (bytes(least)?, bytes(most)?);
            if most < least {
                return Err(format!("`{value}` is no range"));
            }
            job.filesize = Some((least, most)).filter(|(least, _)| *least > 0);
        }
        Key::IoSize => {
            let size = sized(value, units, job.io_size, 100)?;
            job.io_size = Some(size).filter(|size| !size.is_nothing());
        }
        Key::Loops => job.loops = within(0, u64::from(u32::MAX))?.max(1),
        Key::NumberIos => job.number_ios = Some(number()?).filter(|ios| *ios > 0),
        Key::Runtime => job.runtime = Some(time(value, SECOND)?).filter(|time| *time > 0),
        Key::RampTime => job.ramp_time = time(value, SECOND)?,
        Key::StartDelay => job.startdelay = time(value, SECOND)?,
        Key::ThinkTime => job.thinktime = time(value, MICROSECOND)?,
        Key::ThinkTimeBlocks => job.thinktime_blocks = Some(within(1, u64::MAX)?),
        Key::ThinkTimeBlocksType => {
            job.thinktime_issues = choice(value, &[("complete", false), ("issue", true)])?;
        }
        Key::ThinkTimeIoTime => job.thinktime_iotime = time(value, SECOND)?,
        Key::Rate => job.rate = each(value, ',', bytes, job.rate)?,
        Key::RateIops => job.rate_iops = each(value, ',', bytes, job.rate_iops)?,
        Key::RateProcess => {
            job.poisson = choice(value, &[("linear", false), ("poisson", true)])?;
        }
        Key::Fsync => job.fsync = number()?,
        Key::Fdatasync => job.fdatasync = number()?,
        Key::EndFsync => job.end_fsync = boolean(value)?,
        Key::FsyncOnClose => job.fsync_on_close = boolean(value)?,
        Key::RandomDistribution => job.distribution = distribution(value, units)?,
        Key::RandomGenerator => {
            let generators = [("tausworthe64", false), ("tausworthe", false), ("lfsr", true)];
            job.lfsr = choice(value, &generators)?;
        }
        Key::PercentageRandom => {
            let percent =
                |word: &str| self::within(word, units, 0, 100).map(|percent| percent as u8);
            job.percentage_random = each(value, ',', percent, job.percentage_random)?;
        }
        Key::RandSeed => job.randseed = number()?,
        Key::WaitFor => job.wait_for = Some(value.to_owned()),
        Key::ExitWhat => {
            let choices = [
                ("group", ExitWhat::Group),
                ("stonewall", ExitWhat::Begun),
                ("all", ExitWhat::All),
            ];
            job.exit_what = choice(value, &choices)?;
        }
        Key::ExitOnIoDone => job.exit_on_io_done = boolean(value)?,
        Key::CreateOnly => job.create_only = boolean(value)?,
        Key::KbBase => job.kb_base = choice(value, &[("1024", 1024), ("1000", 1000)])?,
        Key::Prio => job.prio = within(0, 7)? as u16,
        Key::PrioClass => job.prioclass = within(0, 3)? as u16,
        Key::Verify => job.verify = !matches!(value, "0" | "none"),
        Key::DoVerify => job.do_verify = boolean(value)?,
        Key::VerifyBacklog => job.verify_backlog = number()?,
        Key::VerifyBacklogBatch => job.verify_batch = number()?,
        Key::ReadFua => job.read_fua = boolean(value)?,
        Key::WriteFua => job.write_fua = boolean(value)?,
        Key::ZoneMode => job.strided = strided(value)?,
        Key::ZoneSize => job.zone_size = bytes(value)?,
        Key::ZoneRange => job.zone_range = bytes(value)?,
        Key::ZoneSkip => job.zone_skip = bytes(value)?,
        Key::TimeBased | Key::NoRandomMap | Key::Stonewall | Key::NewGroup | Key::ExitAll => {}
        // The lines of the file stand in its place.
        Key::VerifyOnly | Key::Include => {}
    }
    Ok(())
}

fn within(word: &str, units: Units, least: u64, most: u64) -> Result<u64, String> {
    let value = bytes(word, units)?;
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    match most {
        u64::MAX => Err(format!("is {value}, but must be at least {least}")),
        _ => Err(format!("is {value}, but must be from {least} to {most}")),
    }
}

fn choice<T: Copy>(word: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        format!("`{word}` is none of {}", names.join(", "))
    })
}

fn named(value: &str) -> Result<String, String> {
    match value {
        "" => Err("is empty".into()),
        name => Ok(name.to_owned()),
    }
}

/// A size in place of one before it. In fio a number of bytes leaves an earlier percentage as it
/// is, which matters unless it is `whole`.
fn sized(word: &str, units: Units, before: Option<Size>, whole: u8) -> Result<Size, String> {
    let size = size(word, units)?;
    match (before, size) {
        (Some(Size::Percent(percent)), Size::Bytes(_)) if percent != 0 && percent != whole => {
            Err(format!(
                "`{word}` comes after `{percent}%`, as of [global] and the job: fio keeps both, and \
                 takes that percentage where these bytes are meant: give one of them"
            ))
        }
        _ => Ok(size),
    }
}

/// Adds files of a job to those that an earlier `filename` gave it, as fio does.
fn add_files(files: &mut Vec<String>, value: &str) -> Result<(), String> {
    let mut begin = 0;
    let colons = value.match_indices(':').map(|(at, _)| at);
    let ends = colons.filter(|&at| !value[..at].ends_with('\\')).chain([value.len()]);
    for end in ends {
        let name = named(&value[begin..end])?;
        begin = end + 1;
        files.push(name);
    }
    Ok(())
}

/// A service's distribution, or the I/Os that a file gets at a time.
fn service(value: &str, units: Units) -> Result<Service, String> {
    let (kind, after) = value.split_once(':').unwrap_or((value, ""));
    let ios = || match after {
        "" => Ok(1),
        ios => within(ios, units, 1, u64::from(u32::MAX)),
    };
    Ok(match kind {
        "roundrobin" => Service::RoundRobin(ios()?),
        "random" => Service::Random(ios()?),
        "sequential" => Service::Sequential,
        "zipf" | "pareto" | "normal" => Service::Ranked(distribution(value, units)?),
        "gauss" => Service::Ranked(distribution(&value.replace("gauss", "normal"), units)?),
        _ => {
            return Err(format!(
                "`{kind}` is none of random, zipf, pareto, normal, gauss, roundrobin, sequential"
            ))
        }
    })
}

fn strided(value: &str) -> Result<bool, String> {
    match value {
        "none" => Ok(false),
        "strided" => Ok(true),
        "zbd" => Err("fio has `zbd`, sim has not: jobs keep no write pointers, open no zones and \
                      reset none; run fio in a guest on a zoned drive"
            .into()),
        _ => Err(format!("`{value}` is none of none, strided, zbd")),
    }
}

/// An engine, and whether its files are drives.
fn engine(value: &str) -> Result<(Engine, bool), String> {
    let file = value.strip_prefix("external:").unwrap_or(value);
    let loaded = file.rsplit_once('/').map(|(_, name)| name);
    let value = match loaded {
        None => value,
        Some(name) => {
            let known = table::LOADED.iter().find(|(file, _)| *file == name);
            known.map(|(_, engine)| *engine).ok_or_else(|| {
                format!(
                    "`{value}` is an engine of its own, which fio loads and sim does not: name one \
                     that does I/Os in the same way, such as libaio, or run fio in a guest"
                )
            })?
        }
    };
    let of_drives = table::OF_DRIVES.contains(&value);
    if table::SYNCHRONOUS.contains(&value) {
        return Ok((Engine::Synchronous, of_drives));
    }
    if table::ASYNCHRONOUS.contains(&value) {
        let engine = Engine::Asynchronous {
            waits_for_flush: table::WAITS_FOR_FLUSH.contains(&value),
            waits_for_trim: table::WAITS_FOR_TRIM.contains(&value),
        };
        return Ok((engine, of_drives));
    }
    match value {
        "cpuio" => Ok((Engine::Processor, false)),
        _ if table::OTHER_ENGINES.contains(&value) => Err(format!(
            "fio has `{value}`, sim has not: it does no I/O on blocks of a drive, or has to be run"
        )),
        _ => Err(format!(
            "`{value}` is no engine of block I/O that sim knows; there are {}, {}, cpuio",
            table::ASYNCHRONOUS.join(", "),
            table::SYNCHRONOUS.join(", ")
        )),
    }
}

fn direction(job: &mut Job, value: &str, units: Units) -> Result<(), String> {
    let (word, step) = match value.split_once(':') {
        Some((word, step)) => (word, Some(step)),
        None => (value, None),
    };
    (job.direction, job.random) = match word {
        "read" => (Direction::Read, false),
        "write" => (Direction::Write, false),
        "trim" => (Direction::Trim, false),
        "rw" | "readwrite" => (Direction::Mixed, false),
        "randread" => (Direction::Read, true),
        "randwrite" => (Direction::Write, true),
        "randtrim" => (Direction::Trim, true),
        "randrw" => (Direction::Mixed, true),
        "trimwrite" => (Direction::TrimWrite, false),
        "randtrimwrite" => (Direction::TrimWrite, true),
        _ => {
            return Err(format!(
                "`{word}` is none of read, write, randread, randwrite, rw, randrw, trim, randtrim, \
                 trimwrite, randtrimwrite"
            ))
        }
    };
    (job.every, job.hole) = (1, 0);
    match step {
        Some(step) if job.random => job.every = within(step, Units { base: 1024 }, 1, 1 << 31)?,
        Some(step) => {
            let hole = bytes(step.strip_prefix('-').unwrap_or(step), units)?;
            let hole = i64::try_from(hole).map_err(|_| format!("`{step}` is too large"))?;
            job.hole = if step.starts_with('-') { -hole } else { hole };
        }
        None => {}
    }
    Ok(())
}

/// As [`each`], for values that are not copied.
fn splits<T: Clone>(
    word: &str,
    mut read: impl FnMut(&str) -> Result<T, String>,
    before: &[T; 3],
) -> Result<[T; 3], String> {
    let parts: Vec<_> = word.split(',').collect();
    if parts.len() > 3 {
        return Err(format!("`{word}` has more than three values: reads, writes, trims"));
    }
    let mut values = before.clone();
    let mut last = None;
    for (index, value) in values.iter_mut().enumerate() {
        match parts.get(index).map(|part| part.trim()) {
            // An empty place keeps its value.
            Some("") => continue,
            Some(part) => last = Some(read(part)?),
            None => {}
        }
        if let Some(last) = &last {
            value.clone_from(last);
        }
    }
    Ok(values)
}

fn distribution(word: &str, units: Units) -> Result<Distribution, String> {
    let (kind, value) = word.split_once(':').unwrap_or((word, ""));
    if value.contains(',') {
        return Err(
            "fio has values for reads, writes and trims, sim has not: use a job for each".into()
        );
    }
    let real = |fallback: f64| match value {
        "" => Ok(fallback),
        value if kind != "zoned" && value.contains('/') => {
            Err(format!("`{value}`: fio has a centre, sim has not: leave it away"))
        }
        _ => value.parse::<f64>().map_err(|_| format!("`{value}` is no number")),
    };
    Ok(match kind {
        "random" => Distribution::Uniform,
        // The defaults are fio's.
        "zipf" => match real(1.1)? {
            theta if theta > 0.0 && theta < 100.0 && theta != 1.0 => Distribution::Zipf(theta),
            theta => return Err(format!("theta is {theta}, but must be above 0, and not 1")),
        },
        "pareto" => match real(0.2)? {
            h if h > 0.0 && h < 1.0 => Distribution::Pareto(h),
            h => return Err(format!("h is {h}, but must be between 0 and 1")),
        },
        "normal" => match real(0.0)? {
            deviation if (0.0..100.0).contains(&deviation) => Distribution::Normal(deviation),
            deviation => {
                return Err(format!("deviation is {deviation}, but must be from 0 to 100"))
            }
        },
        "zoned" => Distribution::Zoned(zones(value)?),
        "zoned_abs" => Distribution::ZonedBytes(absolute_zones(value, units)?),
        _ => {
            return Err(format!(
                "`{kind}` is none of random, zipf, pareto, normal, zoned, zoned_abs"
            ))
        }
    })
}
