//! The I/Os of a job file in the installed fio and here, and their comparison.

// The peer is a program.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
// Each test uses its own part.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::process::{Command, Output};

use stasis_block::{Fate, Operation};
use stasis_workload::{JobFile, Load, Workload};

/// Bytes of the drive.
pub const DRIVE: u64 = 64 << 20;

/// An I/O: its operation, its first byte, its length.
pub type Access = (char, u64, u64);

/// Comparison of a case's I/Os.
#[derive(Clone, Copy, PartialEq)]
pub enum Agree {
    /// One by one.
    Exactly,
    /// As a set: each once.
    AsSet,
    /// By the number of each operation and length, and all within the same bounds.
    InNumber,
    /// In the steps from each I/O to the next: whether it is behind it, at the same place, or
    /// elsewhere.
    InSteps,
    /// By the share of each operation and length, within the spread of their numbers.
    InShares,
    /// One by one, where places are numbered as they first appear.
    Renamed,
    /// As [`Agree::InShares`], and at the end what was written is read by place.
    ReadAgain,
    /// As [`Agree::InNumber`]; and as many places are met, of which the most frequent ones are as
    /// frequent.
    InSpread,
    /// By their bytes; and each write is as long as the trim before it, at its place.
    Pairs,
}

pub fn fio(arguments: &[&str], folder: &Path) -> Output {
    Command::new("fio").args(arguments).current_dir(folder).output().expect("fio: scripts/setup")
}

/// A job's section. Where an option ends with a comment, the next begins a line as well.
pub fn section(name: &str, options: &str) -> String {
    let lines: String = options.split(' ').map(|option| format!("{option}\n")).collect();
    format!("[{name}]\n{lines}")
}

/// Runs fio on a dedicated drive, and gives the I/Os of each job by name.
pub fn in_fio(text: &str) -> BTreeMap<String, Vec<Access>> {
    in_fio_on_files(text, 0)
}

/// The same of several files, each of which begins so many bytes after the one before it.
pub fn in_fio_on_files(text: &str, distance: u64) -> BTreeMap<String, Vec<Access>> {
    let folder = tempfile::tempdir().unwrap();
    let names = text.lines().filter_map(|line| line.strip_prefix("filename="));
    // Without a distance all are drives, which are there before.
    let names = names.filter(|names| distance == 0 || !names.contains(':'));
    for name in names.flat_map(|names| names.split(':')) {
        std::fs::File::create(folder.path().join(name)).unwrap().set_len(DRIVE).unwrap();
    }
    let mut logged = String::new();
    for line in text.lines() {
        logged += &format!("{line}\n");
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let log = if name == "global" {
                String::new()
            } else {
                format!("write_iolog={name}.iolog\n")
            };
            logged += &log;
        }
    }
    std::fs::write(folder.path().join("job.fio"), &logged).unwrap();
    let output = fio(&["job.fio", "--output=report"], folder.path());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let mut jobs = BTreeMap::new();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "iolog") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            jobs.insert(name, text.lines().filter_map(|line| logged_io(line, distance)).collect());
        }
    }
    jobs
}

/// A line of fio's log, version 3: time, file, action, place, length. The number of one of several
/// files ends its name.
pub fn logged_io(line: &str, distance: u64) -> Option<Access> {
    let mut words = line.split(' ').skip(1);
    let number = words.next()?.rsplit('.').next()?.parse().unwrap_or(0u64);
    let kind = match words.next()? {
        "read" => 'r',
        "write" => 'w',
        "trim" => 't',
        "sync" | "datasync" => return Some(('f', 0, 0)),
        _ => return None,
    };
    let place = words.next()?.parse::<u64>().ok()? + number * distance;
    let access = (kind, place, words.next()?.parse().ok()?);
    // A cpuio job logs a read of nothing.
    (access.2 > 0).then_some(access)
}

/// Gives `on` the I/Os of a load with their threads, each of which takes `latency`, up to `limit`;
/// returns whether the load ended before.
pub fn each_io(
    load: &mut Load,
    latency: u64,
    limit: usize,
    mut on: impl FnMut(usize, Access),
) -> Result<bool, String> {
    let mut flying = VecDeque::new();
    let mut count = 0;
    while count < limit {
        match (load.next_at(), flying.front().copied()) {
            (None, None) => return Ok(true),
            (next, Some((end, io))) if next.is_none_or(|next| end <= next) => {
                flying.pop_front();
                load.complete(end, &io, Fate::Done);
            }
            (next, _) => {
                let Some(io) = load.take().map_err(|error| error.to_string())? else { continue };
                let kind = match io.command.operation {
                    Operation::Read => 'r',
                    Operation::Write => 'w',
                    Operation::Discard => 't',
                    _ => 'f',
                };
                on(usize::from(io.thread), (kind, io.command.offset, io.command.length));
                flying.push_back((next.unwrap() + latency, io));
                count += 1;
            }
        }
    }
    Ok(false)
}

/// The I/Os of each job by name, each of which takes `latency`.
pub fn here(text: &str, latency: u64) -> Result<BTreeMap<String, Vec<Access>>, String> {
    let file = JobFile::parse(text, &|_| None).map_err(|error| error.to_string())?;
    let mut load = Load::new(&file, DRIVE, 1, 0).map_err(|error| error.to_string())?;
    let threads: Vec<String> =
        load.jobs().iter().flat_map(|(name, count)| vec![name.clone(); *count]).collect();
    let mut jobs: BTreeMap<String, Vec<Access>> = BTreeMap::new();
    each_io(&mut load, latency, usize::MAX, |thread, access| {
        jobs.entry(threads[thread].clone()).or_default().push(access);
    })?;
    Ok(jobs)
}

/// Numbers of I/Os by operation and length.
pub type Counts = BTreeMap<(char, u64), u64>;

/// Returns whether the shares of each kind of I/O are equal within the spread of their numbers.
pub fn same_shares(theirs: &Counts, ours: &Counts) -> bool {
    let total = |counts: &Counts| counts.values().sum::<u64>() as f64;
    let (n, m) = (total(theirs), total(ours));
    theirs.keys().chain(ours.keys()).all(|key| {
        let share_of = |counts: &Counts, all| counts.get(key).copied().unwrap_or(0) as f64 / all;
        let (p, q) = (share_of(theirs, n), share_of(ours, m));
        let share = (p + q) / 2.0;
        // Five deviations of a difference of shares.
        (p - q).abs() <= 5.0 * (share * (1.0 - share) * (1.0 / n + 1.0 / m)).sqrt() + 2.0 / n
    }) && (n / m - 1.0).abs() < 0.1
}

/// The difference, if there is one.
pub fn differ(theirs: &[Access], ours: &[Access], agree: Agree) -> Option<String> {
    let count = |all: &[Access]| {
        let mut counts = Counts::new();
        all.iter().for_each(|(kind, _, length)| *counts.entry((*kind, *length)).or_default() += 1);
        counts
    };
    let bounds = |all: &[Access]| {
        let least = all.iter().map(|io| io.1).min();
        (least, all.iter().map(|io| io.1 + io.2).max())
    };
    let sorted = |all: &[Access]| {
        let mut all = all.to_vec();
        all.sort_unstable();
        all
    };
    let same = match agree {
        Agree::Exactly => theirs == ours,
        Agree::AsSet => sorted(theirs) == sorted(ours),
        Agree::InNumber => {
            // Random places reach the bounds nearly: within a sixteenth of the range.
            let ((a, b), (c, d)) = (bounds(theirs), bounds(ours));
            let near = |one: Option<u64>, other: Option<u64>| {
                let range = b.unwrap_or(0) - a.unwrap_or(0);
                one.unwrap_or(0).abs_diff(other.unwrap_or(0)) <= range / 16
            };
            count(theirs) == count(ours) && near(a, c) && near(b, d)
        }
        Agree::InSteps => {
            let step = |two: &[Access]| (two[1].1 == two[0].1 + two[0].2, two[1].1 == two[0].1);
            theirs.len() == ours.len() && theirs.windows(2).map(step).eq(ours.windows(2).map(step))
        }
        Agree::InShares => same_shares(&count(theirs), &count(ours)),
        Agree::Renamed => {
            let renamed = |all: &[Access]| {
                let mut names = BTreeMap::new();
                let mut name = |place: u64| {
                    let next = names.len();
                    *names.entry(place).or_insert(next)
                };
                all.iter().map(|io| (io.0, name(io.1), io.2)).collect::<Vec<_>>()
            };
            renamed(theirs) == renamed(ours)
        }
        Agree::InSpread => {
            let spread = |all: &[Access]| {
                let mut places = BTreeMap::<u64, u64>::new();
                all.iter().for_each(|io| *places.entry(io.1).or_default() += 1);
                let mut times: Vec<_> = places.into_values().collect();
                times.sort_unstable();
                let tenth = times.len() - times.len() / 10;
                (times.len() as f64, times[tenth..].iter().sum::<u64>() as f64)
            };
            let near = |a: f64, b: f64| (a - b).abs() <= 0.1 * a.max(b);
            let ((a, b), (c, d)) = (spread(theirs), spread(ours));
            count(theirs) == count(ours) && near(a, c) && near(b, d)
        }
        Agree::Pairs => {
            let pairs = |all: &[Access]| {
                all.len() > 100
                    && all.chunks(2).all(|two| match two {
                        [('t', place, length), ('w', at, long)] => (place, length) == (at, long),
                        _ => false,
                    })
            };
            let bytes = |all: &[Access]| all.iter().map(|io| io.2).sum::<u64>();
            pairs(theirs) && pairs(ours) && bytes(theirs).abs_diff(bytes(ours)) <= 16 << 10
        }
        Agree::ReadAgain => {
            let read_again = |all: &[Access]| {
                let written: BTreeSet<_> =
                    all.iter().filter(|io| io.0 == 'w').map(|io| (io.1, io.2)).collect();
                let tail = all[all.len().saturating_sub(written.len())..].iter();
                tail.copied().eq(written.into_iter().map(|(place, length)| ('r', place, length)))
            };
            same_shares(&count(theirs), &count(ours)) && read_again(theirs) && read_again(ours)
        }
    };
    let head = |all: &[Access]| format!("{} {:?}", all.len(), &all[..all.len().min(24)]);
    (!same).then(|| {
        format!(
            "fio: {}\nhere: {}\n{:?}\n{:?}",
            head(theirs),
            head(ours),
            count(theirs),
            count(ours)
        )
    })
}

/// Shares of the I/Os (percent) by the I/Os in flight once their batch was submitted: from 1, 2, 4, 8,
/// 16, 32 and 64 on. I/Os take no time.
pub fn depths(text: &str, batch: usize) -> Result<Vec<f64>, String> {
    let file = JobFile::parse(text, &|_| None).map_err(|error| error.to_string())?;
    let mut load = Load::new(&file, DRIVE, 1, 0).map_err(|error| error.to_string())?;
    let (mut flying, mut levels) = (std::collections::VecDeque::new(), [0u64; 7]);
    loop {
        let mut submitted = 0;
        while let Some(at) = load.next_at() {
            let Some(io) = load.take().map_err(|error| error.to_string())? else { continue };
            flying.push_back((at, io));
            submitted += 1;
            if submitted == batch {
                levels[flying.len().ilog2().min(6) as usize] += batch as u64;
                submitted = 0;
            }
        }
        if submitted > 0 {
            levels[flying.len().ilog2().min(6) as usize] += submitted as u64;
        }
        let Some((at, io)) = flying.pop_front() else { break };
        load.complete(at, &io, Fate::Done);
    }
    let all = levels.iter().sum::<u64>().max(1) as f64;
    Ok(levels.iter().map(|level| 100.0 * *level as f64 / all).collect())
}
