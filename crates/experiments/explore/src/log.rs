//! The runs that have ended, a JSON object a line in a file of the results' folder: an exploration that
//! was interrupted goes on after them.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_experiment::{Scenario, ScheduledFault};

use crate::findings::Finding;
use crate::verdict::Verdict;

/// Limit on the runs of an exploration; those of a corpus have numbers from there on.
pub const MAX_RUNS: u64 = 1 << 20;

/// A run that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub run: u64,
    /// Its seed.
    pub seed: u64,
    /// Its faults.
    pub faults: Vec<ScheduledFault>,
    /// The time at which each fault happened first, after the commands' start (ns), if it did.
    pub happened_ns: Vec<Option<Nanos>>,
    /// True if the power was cut just after an acknowledgement.
    pub cut_after_acknowledgement: bool,
    /// Its verdict.
    pub verdict: Verdict,
}

/// The first line of a log: what its runs are of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    /// Digest of the experiment and the program.
    pub digest: String,
    /// Seed of the exploration.
    pub seed: u64,
}

impl Entry {
    /// The scenario of the run; `common`: what all have.
    pub fn scenario(&self, common: &Scenario) -> Scenario {
        Scenario { seed: self.seed, faults: self.faults.clone(), ..common.clone() }
    }
}

/// A line after the first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Run(Entry),
    Finding(Finding),
}

/// The log of an exploration.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    entries: Vec<Entry>,
    findings: Vec<Finding>,
    /// The number after the greatest of a run that was drawn.
    pub next: u64,
}

impl Log {
    /// Returns whether there is a log of this exploration at `path`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is_there(path: &Path, heading: &Heading) -> Result<bool> {
        Ok(lines(path, heading)?.is_some())
    }

    /// Opens the log at `path`, or begins one if there is none of this exploration. Lines from the first
    /// one on that a killed program has left half written are cut off.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn open(path: PathBuf, heading: &Heading) -> Result<Self> {
        let (mut entries, mut findings) = (Vec::new(), Vec::new());
        let mut whole = serde_json::to_string(heading)? + "\n";
        for line in lines(&path, heading)?.into_iter().flatten() {
            let line = line.with_context(|| path.display().to_string())?;
            match serde_json::from_str(&line) {
                Ok(Line::Run(entry)) => entries.push(entry),
                Ok(Line::Finding(finding)) => findings.push(finding),
                Err(_) => break,
            }
            whole.push_str(&line);
            whole.push('\n');
        }
        let named = || format!("cannot write {}", path.display());
        std::fs::write(&path, whole).with_context(named)?;
        let file = OpenOptions::new().append(true).open(&path).with_context(named)?;
        let drawn = entries.iter().map(|entry: &Entry| entry.run).filter(|run| *run < MAX_RUNS);
        let next = drawn.max().map_or(0, |last| last + 1);
        Ok(Self { path, file, entries, findings, next })
    }

    /// The runs and the findings that were there, of which the log keeps none in memory.
    pub fn take(&mut self) -> (Vec<Entry>, Vec<Finding>) {
        (std::mem::take(&mut self.entries), std::mem::take(&mut self.findings))
    }

    /// Adds a run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add_run(&mut self, entry: Entry) -> Result<()> {
        self.add(&Line::Run(entry))
    }

    /// Adds a finding.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add_finding(&mut self, finding: &Finding) -> Result<()> {
        self.add(&Line::Finding(finding.clone()))
    }

    fn add(&mut self, line: &Line) -> Result<()> {
        let text = serde_json::to_string(line)? + "\n";
        let written = self.file.write_all(text.as_bytes());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// The entry of a run, read again.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn entry(&self, run: u64) -> Result<Option<Entry>> {
        let named = || self.path.display().to_string();
        let file = File::open(&self.path).with_context(named)?;
        for line in BufReader::new(file).lines().skip(1) {
            let line = line.with_context(named)?;
            match serde_json::from_str(&line) {
                Ok(Line::Run(entry)) if entry.run == run => return Ok(Some(entry)),
                _ => (),
            }
        }
        Ok(None)
    }
}

/// The lines after the first of a log of this exploration.
fn lines(path: &Path, heading: &Heading) -> Result<Option<std::io::Lines<BufReader<File>>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let mut lines = BufReader::new(file).lines();
    let first = lines.next().transpose().with_context(|| path.display().to_string())?;
    let first = first.and_then(|line| serde_json::from_str::<Heading>(&line).ok());
    Ok((first.as_ref() == Some(heading)).then_some(lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(run: u64) -> Entry {
        let fault = ScheduledFault { kind: "power-cut".into(), at: Some(7), ..Default::default() };
        Entry {
            run,
            seed: 3,
            faults: vec![fault],
            happened_ns: vec![Some(7)],
            cut_after_acknowledgement: true,
            verdict: Verdict::Passed,
        }
    }

    #[test]
    fn a_log_goes_on_after_its_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let heading = Heading { digest: "a".into(), seed: 1 };
        let mut log = Log::open(path.clone(), &heading).unwrap();
        log.add_run(entry(4)).unwrap();
        log.add_run(entry(MAX_RUNS + 1)).unwrap();
        log.file.write_all(b"{\"run\": {\"run\": 5, \"se").unwrap();
        let mut log = Log::open(path.clone(), &heading).unwrap();
        assert_eq!((log.take().0, log.next), (vec![entry(4), entry(MAX_RUNS + 1)], 5));
        log.add_run(entry(5)).unwrap();
        assert_eq!(log.entry(5).unwrap(), Some(entry(5)));
        // Another exploration begins anew.
        let other = Heading { digest: "b".into(), seed: 1 };
        assert!(!Log::is_there(&path, &other).unwrap());
        assert_eq!(Log::open(path, &other).unwrap().next, 0);
    }
}
