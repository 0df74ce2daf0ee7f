//! The words of `stasis run` about snapshots.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, ensure, Result};
use stasis_block::units;
use stasis_run_events::Moment;
use stasis_runner::{At, Snapshotted, StartAt};

use super::super::why::which;

/// The word for the last snapshot.
const LAST: &str = "last";
/// The word for the end of the run's commands.
const END: &str = "end";

/// Snapshots that a run takes, and the one at which it begins.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub struct SnapshotArguments {
    /// Keep a snapshot each time so much virtual time has passed (100ms), when a drive has delivered
    /// this I/O (io:drive0:1000), or when a line of output matches (output:REGEX), from which debug,
    /// shell and --from go on; repeatable
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["power_cut", "profile", "guest_times"])]
    snapshots: Vec<String>,
    /// Begin at the last snapshot that this same run has kept before this time, or at the last of all:
    /// the results are those of the whole run; with --profile, samples begin there
    #[arg(long, value_name = "TIME|last", conflicts_with = "power_cut")]
    from: Option<String>,
    /// From the moment of --from on (which is also io:DRIVE:ORDER, output:REGEX or end then), be another
    /// run: with another seed (seed=7, or seed=1..8 for eight runs), or as another experiment file says,
    /// which differs in seed, commands, faults, drives' models and sharing, or limits of time;
    /// repeatable
    #[arg(long, value_name = "WHAT", requires = "from")]
    branch: Vec<String>,
    /// Branches at the same time [default: one for each core]
    #[arg(long, value_name = "N", requires = "branch", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
}

/// A branch of a run, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchWord {
    /// Another seed.
    Seed(u64),
    /// As this experiment file says.
    File(PathBuf),
}

/// The branches of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Branches {
    /// The moment; None for where the last snapshot is.
    pub at: Option<At>,
    /// The beginning of each.
    pub snapshotted: Snapshotted,
    /// The branches, in order.
    pub branches: Vec<BranchWord>,
    /// How many are run at the same time, if that is given.
    pub jobs: Option<usize>,
}

impl Branches {
    /// The experiment files of branches.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.branches.iter().filter_map(|branch| match branch {
            BranchWord::File(path) => Some(path.as_path()),
            BranchWord::Seed(_) => None,
        })
    }
}

/// Limit on the branches of a command.
const MAX_BRANCHES: usize = 1000;

impl SnapshotArguments {
    /// Returns whether the run is a branch, or several.
    pub fn has_branches(&self) -> bool {
        !self.branch.is_empty()
    }

    /// The branches of the run, if there are any.
    pub fn branches(&self) -> Result<Option<Branches>> {
        let Some(from) = self.from.as_deref().filter(|_| self.has_branches()) else {
            return Ok(None);
        };
        ensure!(
            self.snapshots.is_empty(),
            "--branch begins at a snapshot that the run has kept already, and a branch keeps none: \
             run once with --snapshots, then without it with --from and --branch"
        );
        let begin = |from, must| Snapshotted { from, must, branches: true, ..Default::default() };
        let (at, snapshotted) = match from {
            LAST => (None, begin(StartAt::Last, true)),
            END => (Some(At::Moment(Moment::End)), begin(StartAt::Last, false)),
            word => match moment("--from", word)? {
                Some(at) => (Some(at), begin(StartAt::Begin, false)),
                None => {
                    let time = time("--from", word)?;
                    (Some(At::Moment(Moment::At(time))), begin(StartAt::Before(time), false))
                }
            },
        };
        let mut branches = Vec::new();
        for word in &self.branch {
            branches.extend(branch(word).map_err(|error| anyhow!("--branch: {error}"))?);
            ensure!(branches.len() <= MAX_BRANCHES, "--branch: more than {MAX_BRANCHES} of them");
        }
        let jobs = self.jobs.map(usize::from);
        Ok(Some(Branches { at, snapshotted, branches, jobs }))
    }

    /// The use that a run makes of snapshots, if any.
    pub fn snapshotted(&self) -> Result<Option<Snapshotted>> {
        let (mut every, mut at) = (None, Vec::new());
        for word in &self.snapshots {
            if let Some(moment) = moment("--snapshots", word)? {
                at.push(moment);
            } else {
                let interval = time("--snapshots", word)?;
                ensure!(interval > 0, "--snapshots: 0s is no interval; 100ms is one");
                ensure!(every.is_none(), "--snapshots: there are two intervals");
                every = Some(interval);
            }
        }
        let from = match self.from.as_deref() {
            None => StartAt::Begin,
            Some(LAST) => StartAt::Last,
            Some(word) => StartAt::Before(time("--from", word)?),
        };
        let must = from != StartAt::Begin;
        let wish = Snapshotted { every, at, from, must, branches: false };
        Ok((wish.must || wish.takes()).then_some(wish))
    }
}

/// A time in words.
fn time(option: &str, word: &str) -> Result<u64> {
    units::parse_duration(word).map_err(|error| anyhow!("{option}: {error}"))
}

/// The moment that a word of `option` names, if that is no time.
fn moment(option: &str, word: &str) -> Result<Option<At>> {
    if let Some(pattern) = word.strip_prefix("output:") {
        let checked = stasis_experiment::check_pattern(pattern);
        checked.map_err(|error| anyhow!("{option}: {error}"))?;
        return Ok(Some(At::Moment(Moment::Output(pattern.to_owned()))));
    }
    let Some(io) = word.strip_prefix("io:") else { return Ok(None) };
    let (drive, order) = which(io).map_err(|error| anyhow!("{option}: {error}"))?;
    Ok(Some(At::Io(drive, order)))
}

/// The branches that a word of `--branch` names.
fn branch(word: &str) -> Result<Vec<BranchWord>> {
    let Some(seeds) = word.strip_prefix("seed=") else {
        return Ok(vec![BranchWord::File(PathBuf::from(word))]);
    };
    let seed = |word: &str| units::parse_seed(word).map_err(|error| anyhow!(error));
    let (first, last) = match seeds.split_once("..") {
        Some((first, last)) => (seed(first)?, seed(last)?),
        None => (seed(seeds)?, seed(seeds)?),
    };
    ensure!(first <= last, "the seeds {seeds} go backwards");
    ensure!(last - first < MAX_BRANCHES as u64, "{seeds} are more than {MAX_BRANCHES} seeds");
    Ok((first..=last).map(BranchWord::Seed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Words {
        #[command(flatten)]
        snapshots: SnapshotArguments,
    }

    #[test]
    fn words_of_snapshots() {
        let parsed = |words: &[&str]| {
            let words = Words::try_parse_from([&["x"], words].concat()).unwrap();
            words.snapshots.snapshotted().map_err(|error| error.to_string())
        };
        assert_eq!(parsed(&[]), Ok(None));
        let made = |every, from| {
            Ok(Some({
                let must = from != StartAt::Begin;
                Snapshotted { every, from, must, ..Snapshotted::default() }
            }))
        };
        assert_eq!(parsed(&["--snapshots=100ms"]), made(Some(100_000_000), StartAt::Begin));
        assert_eq!(parsed(&["--from=1.5s"]), made(None, StartAt::Before(1_500_000_000)));
        assert_eq!(
            parsed(&["--from=last", "--snapshots=1s"]),
            made(Some(1_000_000_000), StartAt::Last)
        );
        let moments = parsed(&["--snapshots=io:d:7", "--snapshots=output:^x"]).unwrap().unwrap().at;
        let output = At::Moment(Moment::Output("^x".into()));
        assert_eq!(moments, [At::Io("d".into(), 7), output]);
        assert_eq!(
            parsed(&["--snapshots=1s", "--snapshots=2s"]).unwrap_err(),
            "--snapshots: there are two intervals"
        );
        for (word, begin) in [
            ("--snapshots=io:d", "--snapshots: must be a drive's name and a number"),
            ("--snapshots=output:(", "--snapshots: "),
            ("--snapshots=0s", "--snapshots: 0s is no interval"),
            ("--snapshots=x", "--snapshots: "),
            ("--from=first", "--from: "),
        ] {
            assert!(parsed(&[word]).unwrap_err().starts_with(begin), "{word}");
        }
    }

    #[test]
    fn words_of_branches() {
        let parsed = |words: &[&str]| {
            let words = Words::try_parse_from([&["x"], words].concat()).unwrap();
            words.snapshots.branches().map_err(|error| error.to_string())
        };
        assert_eq!(parsed(&["--from=last"]), Ok(None));
        let all =
            parsed(&["--from=1s", "--branch=seed=3..5", "--branch=slow.toml"]).unwrap().unwrap();
        assert_eq!(all.at, Some(At::Moment(Moment::At(1_000_000_000))));
        assert_eq!(all.snapshotted.from, StartAt::Before(1_000_000_000));
        assert!(all.snapshotted.branches && !all.snapshotted.must);
        let seeds = [3, 4, 5].map(BranchWord::Seed);
        assert_eq!(all.branches[..3], seeds);
        assert_eq!(all.branches[3], BranchWord::File("slow.toml".into()));
        let last = parsed(&["--from=last", "--branch=seed=1", "--jobs=2"]).unwrap().unwrap();
        assert_eq!((last.at, last.snapshotted.must, last.jobs), (None, true, Some(2)));
        let end = parsed(&["--from=end", "--branch=seed=1"]).unwrap().unwrap();
        assert_eq!(end.at, Some(At::Moment(Moment::End)));
        let io = parsed(&["--from=io:d:7", "--branch=seed=1"]).unwrap().unwrap();
        assert_eq!(io.at, Some(At::Io("d".into(), 7)));
        for (word, begin) in [
            ("--branch=seed=x", "--branch: `x` is no seed"),
            ("--branch=seed=5..3", "--branch: the seeds 5..3 go backwards"),
            ("--branch=seed=0..9999", "--branch: 0..9999 are more than 1000 seeds"),
        ] {
            let error = parsed(&["--from=1s", word]).unwrap_err();
            assert!(error.starts_with(begin), "{word}: {error}");
        }
        for words in [&["--branch=seed=1"][..], &["--jobs=2", "--from=1s"]] {
            assert!(Words::try_parse_from([&["x"], words].concat()).is_err(), "{words:?}");
        }
    }
}
