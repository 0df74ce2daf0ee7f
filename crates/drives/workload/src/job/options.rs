//! What each key means.

use stasis_clock::{MICROSECOND, SECOND};

use super::file::Line;
use super::keys::{REFUSED, SILENT, WARNED};
use super::values::{bssplit, bytes, each, flag, number, size, time, zones, Weighted};
use super::{warn, Direction, Distribution, Job};
use crate::JobError;

/// The keys that mean something here, with fio's other names for them.
const KEYS: &[&str] = &[
    "numjobs",
    "iodepth",
    "rw",
    "readwrite",
    "rwmixread",
    "rwmixwrite",
    "bs",
    "blocksize",
    "bssplit",
    "offset",
    "offset_increment",
    "size",
    "filesize",
    "io_size",
    "io_limit",
    "loops",
    "number_ios",
    "runtime",
    "timeout",
    "time_based",
    "ramp_time",
    "startdelay",
    "thinktime",
    "thinktime_blocks",
    "rate_iops",
    "rate",
    "rate_process",
    "fsync",
    "fdatasync",
    "end_fsync",
    "random_distribution",
    "norandommap",
    "randseed",
    "stonewall",
    "wait_for_previous",
];

/// ioengines that wait for each I/O.
const SYNCHRONOUS: &[&str] = &["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice"];

/// The most threads of a job.
const THREADS_MAX: u64 = 65_535;
/// The most I/Os in flight of a thread.
const DEPTH_MAX: u64 = 1 << 20;

/// Takes a line into `job`.
pub fn apply(job: &mut Job, line: &Line, warnings: &mut Vec<String>) -> Result<(), JobError> {
    let Line { number: place, key, value } = line;
    let wrong =
        |problem: String| JobError::Line { line: *place, problem: format!("{key}: {problem}") };
    if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| refused == key) {
        return Err(wrong(format!("not possible here: {instead}")));
    }
    if WARNED.contains(&key.as_str()) {
        warn(warnings, format!("`{key}` makes no difference here"));
        return Ok(());
    }
    if key == "ioengine" {
        job.synchronous = SYNCHRONOUS.contains(&value.as_str());
        return Ok(());
    }
    if SILENT.contains(&key.as_str()) {
        return Ok(());
    }
    if !KEYS.contains(&key.as_str()) {
        let nearest = nearest(key);
        return Err(JobError::Key { line: *place, key: key.clone(), nearest });
    }
    set(job, key, value).map_err(wrong)
}

fn set(job: &mut Job, key: &str, value: &str) -> Result<(), String> {
    match key {
        "numjobs" => job.numjobs = within(value, 1, THREADS_MAX)? as u32,
        "iodepth" => job.iodepth = within(value, 1, DEPTH_MAX)? as u32,
        "rw" | "readwrite" => (job.direction, job.random) = direction(value)?,
        "rwmixread" => job.rwmixread = within(value, 0, 100)? as u8,
        "rwmixwrite" => job.rwmixread = 100 - within(value, 0, 100)? as u8,
        "bs" | "blocksize" => {
            let blocks = each(value, ',', bytes, [0; 3])?;
            for (block, &bytes) in job.blocks.iter_mut().zip(&blocks) {
                if bytes > 0 {
                    *block = Weighted::always(bytes);
                }
            }
            if blocks.iter().all(|&bytes| bytes == 0) {
                return Err("a block size is 0".into());
            }
        }
        "bssplit" => {
            let mut last = None;
            for (index, block) in job.blocks.iter_mut().enumerate() {
                if let Some(part) = value.split(',').nth(index) {
                    last = Some(bssplit(part)?);
                }
                if let Some(split) = &last {
                    block.clone_from(split);
                }
            }
        }
        "offset" => job.offset = size(value)?,
        "offset_increment" => job.offset_increment = size(value)?,
        "size" | "filesize" => job.size = Some(size(value)?),
        "io_size" | "io_limit" => job.io_size = Some(size(value)?),
        "loops" => job.loops = within(value, 1, u64::from(u32::MAX))?,
        "number_ios" => job.number_ios = Some(within(value, 1, u64::MAX)?),
        "runtime" | "timeout" => job.runtime = Some(time(value, SECOND)?).filter(|&time| time > 0),
        "time_based" => job.time_based = flag(value)?,
        "ramp_time" => job.ramp_time = time(value, SECOND)?,
        "startdelay" => job.startdelay = time(value, SECOND)?,
        "thinktime" => job.thinktime = time(value, MICROSECOND)?,
        "thinktime_blocks" => job.thinktime_blocks = within(value, 1, u64::MAX)?,
        "rate_iops" => job.rate_iops = each(value, ',', bytes, job.rate_iops)?,
        "rate" => job.rate = each(value, ',', bytes, job.rate)?,
        "rate_process" => {
            job.poisson = match value {
                "linear" => false,
                "poisson" => true,
                _ => return Err(format!("`{value}` is neither linear nor poisson")),
            }
        }
        "fsync" | "fdatasync" => job.fsync = Some(number(value)?).filter(|&every| every > 0),
        "end_fsync" => job.end_fsync = flag(value)?,
        "random_distribution" => job.distribution = distribution(value)?,
        "norandommap" => job.norandommap = flag(value)?,
        "randseed" => job.randseed = number(value)?,
        "stonewall" | "wait_for_previous" => job.stonewall = flag(value)?,
        _ => return Err("not known here".into()),
    }
    Ok(())
}

fn within(word: &str, least: u64, most: u64) -> Result<u64, String> {
    let value = number(word)?;
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    match most {
        u64::MAX => Err(format!("is {value}, but must be at least {least}")),
        _ => Err(format!("is {value}, but must be from {least} to {most}")),
    }
}

fn direction(word: &str) -> Result<(Direction, bool), String> {
    Ok(match word {
        "read" => (Direction::Read, false),
        "write" => (Direction::Write, false),
        "trim" => (Direction::Trim, false),
        "rw" | "readwrite" => (Direction::Mixed, false),
        "randread" => (Direction::Read, true),
        "randwrite" => (Direction::Write, true),
        "randtrim" => (Direction::Trim, true),
        "randrw" => (Direction::Mixed, true),
        _ => {
            return Err(format!(
                "`{word}` is none of read, write, randread, randwrite, rw, randrw, trim, randtrim"
            ))
        }
    })
}

fn distribution(word: &str) -> Result<Distribution, String> {
    let (kind, value) = word.split_once(':').unwrap_or((word, ""));
    let real = |fallback: Option<f64>| match (value, fallback) {
        ("", Some(fallback)) => Ok(fallback),
        _ => value.parse::<f64>().map_err(|_| format!("`{value}` is no number")),
    };
    Ok(match kind {
        "random" => Distribution::Uniform,
        // The defaults are fio's.
        "zipf" => match real(Some(1.1))? {
            theta if theta > 0.0 && theta < 100.0 => Distribution::Zipf(theta),
            theta => return Err(format!("theta is {theta}, but must be above 0")),
        },
        "pareto" => match real(Some(0.2))? {
            h if h > 0.0 && h < 1.0 => Distribution::Pareto(h),
            h => return Err(format!("h is {h}, but must be between 0 and 1")),
        },
        "zoned" => Distribution::Zoned(zones(value)?),
        _ => return Err(format!("`{kind}` is none of random, zipf, pareto, zoned")),
    })
}

/// The key that is most like `key`, if any is like it at all.
fn nearest(key: &str) -> Option<&'static str> {
    KEYS.iter()
        .chain(SILENT)
        .chain(WARNED)
        .map(|known| (strsim::jaro_winkler(key, known), *known))
        .filter(|(alike, _)| *alike > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}
