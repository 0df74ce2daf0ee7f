//! The I/Os of a job file in the installed fio.

use std::path::Path;
use std::process::Command;

use crate::common::Access;
use crate::prepare::Prepared;

/// Reason why there are no I/Os.
pub enum Failure {
    /// fio refuses the file: its message.
    Refused(String),
    /// It cannot be run here.
    NotRun(String),
}

/// An I/O of a file, by the file's number.
#[derive(Debug, Clone, Copy)]
pub struct Logged {
    /// The file.
    pub file: u64,
    /// The I/O; its place is one in the file.
    pub io: Access,
}

/// Runs a file, and gives the I/Os of each thread.
pub fn run(text: &str, prepared: &Prepared) -> Result<Vec<Vec<Logged>>, Failure> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut logged = String::new();
    let mut job = None;
    let next = |job: Option<usize>| Some(job.map_or(0, |job| job + 1));
    // The logs are options of each job, at its end.
    let end = |job: Option<usize>, is_job: bool| match job.filter(|_| is_job) {
        Some(job) if !prepared.jobs[job].by_latency => format!("write_iolog=job{job}.iolog\n"),
        Some(job) => format!("write_lat_log=job{job}\nper_job_logs=1\nlog_offset=1\n"),
        None => String::new(),
    };
    let mut is_job = false;
    for line in text.lines() {
        if line.starts_with('[') {
            logged += &end(job, is_job);
            is_job = !line.starts_with("[global");
            if is_job {
                job = next(job);
            }
        }
        logged += &format!("{line}\n");
    }
    logged += &end(job, is_job);
    for index in 0..prepared.jobs.len() {
        let drive = std::fs::File::create(path(&format!("drive{index}"))).unwrap();
        drive.set_len(prepared.capacity).map_err(|error| Failure::NotRun(error.to_string()))?;
    }
    std::fs::write(path("job.fio"), &logged).unwrap();
    // No run takes as long, but for one that lays out a file.
    let output = Command::new("timeout")
        .args(["-s", "KILL", "20", "fio", "job.fio", "--output=report"])
        .current_dir(folder.path())
        .output()
        .expect("timeout");
    let output_text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    let line =
        output_text.lines().find(|line| line.starts_with("fio: ")).or(output_text.lines().next());
    let message = line.unwrap_or_default().to_owned();
    if output_text.contains("dropped") || output_text.contains("failed parsing") {
        return Err(Failure::Refused(message));
    }
    let mut threads = Vec::new();
    for (index, job) in prepared.jobs.iter().enumerate() {
        let before = threads.len();
        for clone in 0..job.threads as usize {
            // fio numbers the clones of a thread from the last one down.
            let number = before + 1 + if clone == 0 { 0 } else { job.threads as usize - clone };
            let name = match job.by_latency {
                false => format!("job{index}.iolog"),
                true => format!("job{index}_lat.{number}.log"),
            };
            let lines = std::fs::read_to_string(path(&name));
            if lines.is_err() && !output.status.success() {
                return Err(Failure::NotRun(format!("{}: {message}", output.status)));
            }
            let lines = lines.unwrap_or_default();
            threads.push(match job.by_latency {
                false => iolog(&lines),
                true => lines.lines().filter_map(latency).collect(),
            });
        }
    }
    if !output.status.success() && threads.iter().all(Vec::is_empty) {
        return Err(Failure::NotRun(format!("{}: {message}", output.status)));
    }
    remove(folder.path());
    Ok(threads)
}

/// Frees the files at once: their blocks need not reach the disk.
fn remove(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
}

/// fio's log of I/Os, version 3: time, file, action, place, length.
fn iolog(text: &str) -> Vec<Logged> {
    let mut files: Vec<String> = Vec::new();
    let mut ios = Vec::new();
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [_, name, action, ref rest @ ..] = words[..] else { continue };
        let kind = match action {
            "add" => {
                files.push(name.to_owned());
                continue;
            }
            "read" => 'r',
            "write" => 'w',
            "trim" => 't',
            "sync" | "datasync" => 'f',
            _ => continue,
        };
        let file = files.iter().position(|file| file == name).unwrap_or(0) as u64;
        let number = |index: usize| rest.get(index).and_then(|word: &&str| word.parse().ok());
        let (place, length) = (number(0).unwrap_or(0), number(1).unwrap_or(0));
        let io = if kind == 'f' { ('f', 0, 0) } else { (kind, place, length) };
        // A cpuio job logs a read of nothing.
        if kind == 'f' || length > 0 {
            ios.push(Logged { file, io });
        }
    }
    ios
}

/// A line of fio's log of latencies: time, latency, direction, length, place.
fn latency(line: &str) -> Option<Logged> {
    let mut words = line.split(',').map(str::trim).skip(2);
    let kind = match words.next()? {
        "0" => 'r',
        "1" => 'w',
        "2" => 't',
        _ => return None,
    };
    let length = words.next()?.parse().ok().filter(|length| *length > 0)?;
    let place = words.next()?;
    let place = match place.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => place.parse().ok()?,
    };
    Some(Logged { file: 0, io: (kind, place, length) })
}
