//! A job file made fit to run in a few seconds on this machine, in the same way for both: a file in
//! place of a drive, an engine that there is, small sizes, short times.

use std::collections::BTreeMap;
use std::fmt::Write;

use stasis_workload::{fio, Direction, Job, JobFile};

use crate::common::{Access, DRIVE};
use crate::here;

/// I/Os of a thread at most.
const THREAD_IOS: u64 = 1000;
/// Bytes that a thread moves at most, as they are written to a disk.
const THREAD_BYTES: u64 = 16 << 20;
/// Threads of a job at most.
const THREADS: u32 = 3;
/// I/Os of all threads after which a file is long.
const PROBE: usize = 60_000;
/// Runtime of a job that goes on for a time.
const RUNTIME: &str = "200ms";

/// Options of the machine on which fio runs, which change no I/O, and would fail here or spoil what
/// is logged: they are left away for both.
const OF_THE_MACHINE: &[&str] = &[
    "directory",
    "cpumask",
    "cpus_allowed",
    "cpus_allowed_policy",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "gpu_dev_id",
    "cgroup",
    "cgroup_nodelete",
    "uid",
    "gid",
    "nice",
    "mem",
    "iomem",
    "hugepage-size",
    "lockmem",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "write_hist_log",
    "write_iolog",
    "per_job_logs",
    "log_avg_msec",
    "log_hist_msec",
    "log_hist_coarseness",
    "log_window_value",
    "log_max_value",
    "log_offset",
    "log_prio",
    "log_issue_time",
    "log_compression",
    "log_compression_cpus",
    "log_store_compressed",
    "log_entries",
    "disable_lat",
    "disable_clat",
    "disable_slat",
    "gtod_reduce",
    "gtod_cpu",
    "clocksource",
    "prio",
    "prioclass",
    "hipri",
    "hipri_percentage",
    "sqthread_poll",
    "sqthread_poll_cpu",
    "unlink",
    "unlink_each_loop",
    "overwrite",
    "filename_format",
    "filetype",
    "fallocate",
    "verify_fatal",
    "verify_state_save",
    "verify_dump",
    "exitall_on_error",
    "continue_on_error",
    "allow_file_create",
    "create_on_open",
    "verify_async_cpus",
    "buffer_pattern",
    "file_append",
];

/// A value for a variable of the environment, by its name.
fn stand_in(name: &str) -> &'static str {
    let name = name.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&["ENGINE"]) {
        "libaio"
    } else if has(&["DIRECT"]) {
        "1"
    } else if has(&["SYNC"]) {
        "0"
    } else if has(&["MIX"]) {
        "70"
    } else if has(&["RATE"]) {
        "1000"
    } else if has(&["RW", "READWRITE", "PATTERN", "MODE"]) {
        "randrw"
    } else if has(&["BS", "BLOCK", "BLK"]) {
        "4k"
    } else if has(&["SIZE"]) {
        "64m"
    } else if has(&["OFF"]) {
        "0"
    } else if has(&["DIR", "FILE", "DEV", "DISK", "PATH", "MNT", "NAME"]) {
        "target"
    } else {
        "2"
    }
}

/// A text whose variables have values: those of the environment that its author had are not known.
pub fn with_variables(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        out += before;
        let braced = after.strip_prefix('{').and_then(|after| after.split_once('}'));
        let bare = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let bare = after.split_at(bare.unwrap_or(after.len()));
        let upper =
            bare.0.starts_with(|c: char| c.is_ascii_alphabetic()) && !bare.0.starts_with("jobn");
        match (braced, bare) {
            (Some((name, after)), _) => {
                out += stand_in(name);
                rest = after;
            }
            (None, (name, after))
                if upper && !["ncpus", "mb_memory", "pagesize"].contains(&name) =>
            {
                out += stand_in(name);
                rest = after;
            }
            _ => {
                out += "$";
                rest = after;
            }
        }
    }
    out + rest
}

fn is_trim(job: &Job) -> bool {
    matches!(job.direction, Direction::Trim | Direction::TrimWrite)
}

/// A drive on which a file's jobs have room, as far as their options say it.
pub fn capacity(file: &JobFile) -> u64 {
    // A trim may be of gigabytes.
    let least = if file.jobs.iter().any(is_trim) { 256 * DRIVE } else { DRIVE };
    let mut capacity = file.least_capacity().unwrap_or(least).max(1);
    // The file is as large as the other jobs need where some take what there is.
    while file.least_capacity().is_none()
        && capacity < 1 << 50
        && stasis_workload::Load::new(file, capacity, 1, 0).is_err_and(|error| {
            let message = error.to_string();
            message.contains("beyond the drive") || message.contains("smaller than a block")
        })
    {
        capacity *= 2;
    }
    capacity
}

/// Properties of a job that decide what is compared.
#[derive(Debug)]
pub struct PreparedJob {
    /// Its name.
    pub name: String,
    /// Its threads.
    pub threads: u32,
    /// True if its end is one of time, or of another job's.
    pub timed: bool,
    /// True if another job's end may be before its first I/O.
    pub exits: bool,
    /// True if its places or sizes are drawn.
    pub drawn: bool,
    /// True if all places are as probable.
    pub uniform: bool,
    /// True if it goes on in sequence from random places, so that its I/Os depend on one another.
    pub runs: bool,
    /// True if it goes over one drive in several places in turn.
    pub repeated: bool,
    /// True if it has several files.
    pub several: bool,
    /// True if its I/Os are in fio's log of latencies: those of several threads; those of the
    /// engine `null` with a queue, which logs some twice.
    pub by_latency: bool,
    /// True if even the sum of its I/Os is drawn.
    pub sum_is_drawn: bool,
}

/// A file to run.
#[derive(Debug)]
pub struct Prepared {
    /// For both.
    pub text: String,
    /// The drive's size.
    pub capacity: u64,
    /// In the file's order.
    pub jobs: Vec<PreparedJob>,
}

/// Effective options of a job, by their first names.
type Options = BTreeMap<String, String>;

/// A line's option by its first name, and its value.
fn option_of(line: &str) -> Option<(String, String)> {
    let line = line.split([';', '#']).next().unwrap_or_default().trim();
    if line.is_empty() || line.starts_with('[') {
        return None;
    }
    let (key, value) = line.split_once('=').unwrap_or((line, ""));
    let key = key.trim();
    let first = fio::option(key).map_or(key, |option| option.names[0]);
    Some((first.to_owned(), value.trim().to_owned()))
}

/// A section's name, if the line begins one.
fn heading(line: &str) -> Option<&str> {
    let line = line.split([';', '#']).next().unwrap_or_default().trim();
    line.strip_prefix('[').and_then(|line| line.strip_suffix(']'))
}

/// Bytes of a plain number with a unit of one letter.
fn plain_bytes(value: &str) -> Option<u64> {
    let value = value.to_ascii_lowercase();
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let shift = match unit.trim_end_matches(['b', 'i']) {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    if unit.ends_with("ib") {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// An engine that there is on every Linux, of the same kind.
fn engine(named: &str, trims: bool) -> &str {
    match named {
        "cpuio" => "cpuio",
        _ if trims => "null",
        "null" | "libaio" | "posixaio" | "psync" | "sync" | "vsync" | "pvsync" | "pvsync2"
        | "mmap" => named,
        _ if fio::ASYNCHRONOUS.contains(&named) => "libaio",
        _ => "psync",
    }
}

impl Prepared {
    /// Prepares a file that is read here.
    pub fn new(text: &str, file: &JobFile) -> Result<Self, String> {
        let original = Self::scaled(text, file, 1)?;
        let probe = here::run(&original.text, original.capacity, 20_000)?;
        // A trim moves nothing.
        let moved = |io: &Access| if io.0 == 't' { 0 } else { io.2 };
        let largest = probe.threads.iter().flatten().map(moved).max().unwrap_or(0).max(4096);
        if largest > THREAD_BYTES {
            return Err("its blocks are too large to run here".into());
        }
        let (mut prepared, mut factor) = (original, 1);
        // First as it is: perhaps it is small. Otherwise regions are made smaller, so that the ends
        // of passes are seen.
        for _ in 0..14 {
            let run = here::run(&prepared.text, prepared.capacity, PROBE)?;
            let fits = |(thread, ios): (usize, &Vec<Access>)| {
                prepared.jobs[run.job_of[thread]].timed
                    || (ios.len() as u64) <= THREAD_IOS
                        && ios.iter().map(moved).sum::<u64>() <= THREAD_BYTES
            };
            if run.ended && run.threads.iter().enumerate().all(fits) {
                break;
            }
            factor *= 8;
            match Self::scaled(text, file, factor) {
                Ok(next) if here::run(&next.text, next.capacity, 1).is_ok() => prepared = next,
                _ => break,
            }
        }
        // Jobs that are still long end by their number of I/Os.
        prepared.limit(largest);
        Ok(prepared)
    }

    /// The file with all regions divided by a factor.
    fn scaled(text: &str, file: &JobFile, factor: u64) -> Result<Self, String> {
        let trims_at_all = file.jobs.iter().any(is_trim);
        let whole = capacity(file);
        let mut global = Options::new();
        let mut sections: Vec<(bool, String, Options, Vec<String>)> = Vec::new();
        for line in text.lines() {
            if let Some(name) = heading(line) {
                let is_global = name.starts_with("global");
                if let Some((true, _, options, _)) = sections.last() {
                    global.clone_from(options);
                }
                sections.push((is_global, name.to_owned(), global.clone(), Vec::new()));
                continue;
            }
            let (Some((key, value)), Some((_, _, options, lines))) =
                (option_of(line), sections.last_mut())
            else {
                continue;
            };
            let of_the_path = fio::option(&key).is_some_and(|option| {
                matches!(option.verdict, fio::Verdict::NoEffect(why) if why.starts_with("How I/Os reach"))
            });
            if of_the_path || OF_THE_MACHINE.contains(&key.as_str()) {
                continue;
            }
            if key == "filename" {
                // A drive is a file of its own for each job; several files keep their names.
                let names = options.entry(key).or_default();
                *names += if names.is_empty() { "" } else { ":" };
                *names += &value.replace('/', "_");
                continue;
            }
            options.insert(key.clone(), value.clone());
            if key == "ioengine" {
                continue;
            }
            let regions = ["size", "io_size", "filesize", "offset", "offset_increment"];
            let bytes =
                plain_bytes(&value).filter(|_| factor > 1 && regions.contains(&key.as_str()));
            // fio's engine `null` has no drive of which there are percents.
            let of_drive = value.strip_suffix('%').and_then(|percent| percent.parse::<u64>().ok());
            let of_drive = of_drive.filter(|_| {
                trims_at_all && ["size", "offset", "offset_increment"].contains(&key.as_str())
            });
            let bytes = bytes.or(of_drive.map(|percent| whole / 100 * percent));
            lines.push(match bytes {
                // Multiples of 64 KiB keep the alignment of most block sizes.
                Some(bytes) => {
                    let part = bytes / factor;
                    let unit = if part >= 1 << 20 { 1 << 20 } else { 1 << 16 };
                    let part =
                        if part >= unit { part - part % unit } else { part.max(bytes.min(unit)) };
                    format!("{key}={part}")
                }
                None => line.split([';', '#']).next().unwrap_or_default().trim().to_owned(),
            });
        }
        let exits = text.lines().filter_map(option_of).any(|(key, _)| key == "exitall");
        let mut jobs = Vec::new();
        let mut out = String::new();
        for (is_global, name, options, lines) in &sections {
            let _ = writeln!(out, "[{name}]\n{}", lines.join("\n"));
            if *is_global {
                continue;
            }
            let job = &file.jobs[jobs.len()];
            let option_text = |key: &str| options.get(key).map_or("", String::as_str);
            let trims = is_trim(job);
            let engine = engine(
                if option_text("ioengine").is_empty() {
                    fio::ENGINE
                } else {
                    option_text("ioengine")
                },
                trims,
            );
            let names: Vec<_> = option_text("filename").split(':').collect();
            let repeated = names.len() > 1 && names.iter().all(|name| *name == names[0]);
            let several =
                !repeated && (names.len() > 1 || !["", "1"].contains(&option_text("nrfiles")));
            let threads = job.numjobs.min(THREADS);
            let paced = ["rate", "rate_iops", "thinktime"]
                .iter()
                .any(|key| !["", "0"].contains(&option_text(key)));
            let timed = job.time_based || paced || exits || engine == "cpuio";
            let drawn = job.random
                || job.direction == Direction::Mixed
                || ["bssplit", "bsrange"].iter().any(|key| options.contains_key(*key))
                || option_text("file_service_type").starts_with(['r', 'z', 'p', 'n', 'g'])
                    && option_text("file_service_type").split(':').next() != Some("roundrobin");
            let distribution = option_text("random_distribution").split(':').next().unwrap_or("");
            let uniform = job.random
                && ["", "random", "zoned", "zoned_abs"].contains(&distribution)
                && option_text("percentage_random").is_empty();
            let mut set = |key: &str, value: &str| {
                let _ = writeln!(out, "{key}={value}");
            };
            set("ioengine", engine);
            // One process, which can be ended.
            set("thread", "1");
            set("numjobs", &threads.to_string());
            set("direct", "0");
            set("ramp_time", "0");
            set("startdelay", "0");
            set("continue_on_error", "all");
            set("fallocate", "none");
            set("runtime", if timed { RUNTIME } else { "0" });
            // fio before 3.37 reads only once what a job that reads verifies.
            let verifies = !["", "0", "none"].contains(&option_text("verify"));
            let once = verifies && job.direction == Direction::Read;
            if !option_text("loops").is_empty() {
                let loops =
                    plain_bytes(option_text("loops")).unwrap_or(1).min(if once { 1 } else { 3 });
                set("loops", &loops.to_string());
            }
            // Nor is there its size.
            if engine == "null"
                && option_text("size").is_empty()
                && option_text("filesize").is_empty()
            {
                set("size", &(whole / factor).to_string());
            }
            // fio before 3.38 leaves out flushes of a queue that is not full.
            let flushes =
                ["fsync", "fdatasync"].iter().any(|key| !["", "0"].contains(&option_text(key)));
            if flushes && job.iodepth > 1 {
                set("iodepth", "1");
            }
            if !["", "0"].contains(&option_text("thinktime")) {
                set("thinktime", "20us");
            }
            let drive = format!("drive{}", jobs.len());
            match several {
                true if option_text("filename").is_empty() => {}
                true => set("filename", option_text("filename")),
                false => set("filename", &vec![drive; names.len()].join(":")),
            }
            jobs.push(PreparedJob {
                name: job.name.clone(),
                threads,
                timed,
                exits,
                drawn,
                uniform,
                several,
                runs: job.random
                    && (!option_text("percentage_random").is_empty()
                        || option_text("rw").contains(':')),
                repeated,
                by_latency: threads > 1
                    || engine == "null" && !["", "1"].contains(&option_text("iodepth")),
                sum_is_drawn: verifies && drawn,
            });
        }
        let made = JobFile::parse(&out, &|_| None).map_err(|error| format!("prepared: {error}"))?;
        Ok(Self { text: out, capacity: capacity(&made), jobs })
    }

    /// Ends each job by its number of I/Os, where it is not ended earlier.
    fn limit(&mut self, largest: u64) {
        let ios = (THREAD_BYTES / largest).clamp(64, THREAD_IOS);
        let mut out = String::new();
        let mut given = None;
        let mut global = None;
        let mut is_global = true;
        let end = |out: &mut String, is_global: bool, given: Option<u64>| {
            if !is_global {
                let _ = writeln!(out, "number_ios={}", given.map_or(ios, |given| given.min(ios)));
            }
        };
        for line in self.text.lines() {
            if let Some(name) = heading(line) {
                end(&mut out, is_global, given);
                if is_global {
                    global = given;
                }
                is_global = name.starts_with("global");
                given = global;
            }
            if let Some((key, value)) = option_of(line) {
                if key == "number_ios" {
                    given = plain_bytes(&value);
                }
            }
            let _ = writeln!(out, "{line}");
        }
        end(&mut out, is_global, given);
        self.text = out;
    }
}
