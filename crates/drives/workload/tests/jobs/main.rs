//! Job files of others mean the same here as in the installed fio: each is run in both.
//!
//! `FIO_JOBS=FOLDER cargo test --release -p stasis-workload --test jobs -- --ignored` reads every
//! file in a folder; `FIO_REPORT=FILE` gets a line for each. See docs/development/conformance.md.

// The peer is a program, and the job files are on a disk.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

#[path = "../common/mod.rs"]
mod common;
mod compare;
mod here;
mod peer;
mod prepare;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use stasis_workload::{Included, JobFile, JobText, Load};

use prepare::Prepared;

/// The end of a job file's run.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// It makes the same I/Os.
    Agrees,
    /// It makes other I/Os: the differences.
    Differs(String),
    /// It is refused here, with the reason.
    Refused(String),
    /// fio refuses it: its message.
    RefusedByFio(String),
    /// It is read here, but cannot be run here in fio, with the reason.
    NotRun(String),
}

/// A job file with the files that it includes.
fn read(path: &Path) -> Result<JobText, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let include = |name: &str, from: Option<&str>| {
        let found = from.map_or(path, Path::new).with_file_name(name);
        let text = std::fs::read_to_string(&found).map_err(|error| format!("`{name}`: {error}"))?;
        Ok(Included { name: found.display().to_string(), text })
    };
    JobText::new(&String::from_utf8_lossy(&bytes), &include).map_err(|error| error.to_string())
}

/// Runs a job file in both.
fn run(text: &JobText) -> Outcome {
    let text = prepare::with_variables(&text.to_string());
    let file = match JobFile::parse(&text, &|_| None) {
        Ok(file) => file,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    let capacity = prepare::capacity(&file);
    if let Err(error) = Load::new(&file, capacity, 1, 0) {
        return Outcome::Refused(error.to_string());
    }
    let prepared = match Prepared::new(&text, &file) {
        Ok(prepared) => prepared,
        Err(reason) => return Outcome::NotRun(reason),
    };
    both(&prepared, &prepared.text)
}

/// Runs a prepared file here and another in fio.
fn both(ours: &Prepared, theirs: &str) -> Outcome {
    let here = match here::run(&ours.text, ours.capacity, here::IOS) {
        Ok(run) => run,
        Err(error) => return Outcome::NotRun(format!("prepared: {error}")),
    };
    let there = match peer::run(theirs, ours) {
        Ok(there) => there,
        Err(peer::Failure::Refused(message)) => {
            return Outcome::RefusedByFio(message + "\n" + &ours.text)
        }
        Err(peer::Failure::NotRun(message)) => return Outcome::NotRun(message + "\n" + &ours.text),
    };
    let mut differences = String::new();
    for (thread, (ours_io, theirs_io)) in here.threads.iter().zip(&there).enumerate() {
        let job = &ours.jobs[here.job_of[thread]];
        if let Some(difference) = compare::differ(theirs_io, ours_io, job) {
            let _ = writeln!(differences, "thread {thread} ({}): {difference}", job.name);
        }
    }
    match differences.is_empty() {
        true => Outcome::Agrees,
        false => Outcome::Differs(differences + "\n" + &ours.text),
    }
}

/// All files below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("FIO_JOBS is a folder") {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    found
}

/// A message without what is of one file: its line, names in quotes and numbers.
fn kind(message: &str) -> String {
    let mut kind = String::new();
    let message = match message.split_once(": ") {
        Some((place, rest)) if place.starts_with("line ") || place.starts_with("job `") => rest,
        _ => message,
    };
    for (index, part) in message.lines().next().unwrap_or_default().split('`').enumerate() {
        kind += if index % 2 == 0 { part } else { "`..`" };
    }
    kind.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[test]
#[ignore = "job files of others: make conformance"]
fn job_files_of_others_mean_the_same() {
    let folder = PathBuf::from(std::env::var_os("FIO_JOBS").expect("FIO_JOBS names a folder"));
    let mut report = String::new();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut reasons: BTreeMap<(&str, String), (u64, String)> = BTreeMap::new();
    let mut differences = Vec::new();
    for path in files(&folder) {
        let shown = path.strip_prefix(&folder).unwrap_or(&path).display().to_string();
        let (word, details) = match read(&path).map_or_else(Outcome::Refused, |text| run(&text)) {
            Outcome::Agrees => ("agrees", String::new()),
            Outcome::Differs(details) => ("differs", details),
            Outcome::Refused(details) => ("refused", details),
            Outcome::RefusedByFio(details) => ("refused by fio", details),
            Outcome::NotRun(details) => ("not run", details),
        };
        *counts.entry(word).or_default() += 1;
        let line = details.lines().next().unwrap_or_default();
        let _ = writeln!(report, "{word}\t{shown}\t{line}");
        println!("{word}: {shown} {line}");
        match word {
            "agrees" => {}
            "differs" => differences.push(format!("== {shown}\n{details}")),
            _ => {
                let all = reasons.entry((word, kind(&details))).or_insert((0, shown));
                all.0 += 1;
            }
        }
    }
    if let Some(path) = std::env::var_os("FIO_REPORT").map(PathBuf::from) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &report).unwrap();
    }
    println!("{}", differences.join("\n"));
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|((word, _), (count, _))| (*word, std::cmp::Reverse(*count)));
    for ((word, reason), (count, first)) in reasons {
        println!("{count:5} {word}: {reason} ({first})");
    }
    println!("{counts:?}");
    assert!(!counts.is_empty(), "no files in {}", folder.display());
    assert!(differences.is_empty(), "{} files differ", differences.len());
}

const SAMPLE: &str = "[global]\nioengine=libaio\niodepth=8\ndirect=1\nfilename=/dev/nvme0n1\n\
    runtime=60\n[seq]\nrw=write\nbs=128k\nsize=10g\nfsync=8\n[rand]\nstonewall\nrw=randrw\nbs=4k\n\
    rwmixread=70\ntime_based\nsize=50%\nnumjobs=2\n";

/// A file agrees with itself, and not with one that does something else.
#[test]
fn a_difference_is_found() {
    let text = JobText::alone(SAMPLE).unwrap();
    assert_eq!(run(&text), Outcome::Agrees);
    let file = JobFile::parse(SAMPLE, &|_| None).unwrap();
    let prepared = Prepared::new(SAMPLE, &file).unwrap();
    for (from, to, at) in [
        ("fsync=8", "fsync=16", "(seq)"),
        ("rwmixread=70", "rwmixread=30", "(rand)"),
        ("rw=randrw", "rw=rw", "(rand)"),
        ("bs=4k", "bs=4k\noffset=25%", "(rand)"),
    ] {
        let other = prepared.text.replace(from, to);
        assert_ne!(other, prepared.text);
        match both(&prepared, &other) {
            Outcome::Differs(differences) => {
                assert!(differences.contains(at), "{from}: {differences}")
            }
            outcome => panic!("{from} for {to}: {outcome:?}"),
        }
    }
}

#[test]
fn a_refusal_has_its_reason() {
    let text = JobText::alone("[a]\nsize=1m\nflow=8\n").unwrap();
    assert!(matches!(run(&text), Outcome::Refused(reason) if reason.contains("flow: fio has it")));
}
