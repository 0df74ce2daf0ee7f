//! The words of `stasis run` about snapshots.

use anyhow::{anyhow, ensure, Result};
use stasis_block::units;
use stasis_run_events::Moment;
use stasis_runner::{At, Snapshotted, StartAt};

use super::super::why::which;

/// The word for the last snapshot.
const LAST: &str = "last";

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
}

impl SnapshotArguments {
    /// The use that a run makes of snapshots, if any.
    pub fn snapshotted(&self) -> Result<Option<Snapshotted>> {
        let time = |option: &str, word: &str| {
            units::parse_duration(word).map_err(|error| anyhow!("{option}: {error}"))
        };
        let (mut every, mut at) = (None, Vec::new());
        for word in &self.snapshots {
            if let Some(pattern) = word.strip_prefix("output:") {
                let checked = stasis_experiment::check_pattern(pattern);
                checked.map_err(|error| anyhow!("--snapshots: {error}"))?;
                at.push(At::Moment(Moment::Output(pattern.to_owned())));
            } else if let Some(io) = word.strip_prefix("io:") {
                let (drive, order) = which(io).map_err(|error| anyhow!("--snapshots: {error}"))?;
                at.push(At::Io(drive, order));
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
        let wish = Snapshotted { every, at, from, must: from != StartAt::Begin };
        Ok((wish.must || wish.takes()).then_some(wish))
    }
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
        let of = |words: &[&str]| {
            let words = Words::try_parse_from([&["x"], words].concat()).unwrap();
            words.snapshots.snapshotted().map_err(|error| error.to_string())
        };
        assert_eq!(of(&[]), Ok(None));
        let made = |every, from| {
            Ok(Some(Snapshotted { every, at: vec![], from, must: from != StartAt::Begin }))
        };
        assert_eq!(of(&["--snapshots=100ms"]), made(Some(100_000_000), StartAt::Begin));
        assert_eq!(of(&["--from=1.5s"]), made(None, StartAt::Before(1_500_000_000)));
        assert_eq!(
            of(&["--from=last", "--snapshots=1s"]),
            made(Some(1_000_000_000), StartAt::Last)
        );
        let moments = of(&["--snapshots=io:d:7", "--snapshots=output:^x"]).unwrap().unwrap().at;
        let output = At::Moment(Moment::Output("^x".into()));
        assert_eq!(moments, [At::Io("d".into(), 7), output]);
        assert_eq!(
            of(&["--snapshots=1s", "--snapshots=2s"]).unwrap_err(),
            "--snapshots: there are two intervals"
        );
        for (word, begin) in [
            ("--snapshots=io:d", "--snapshots: must be a drive's name and a number"),
            ("--snapshots=output:(", "--snapshots: "),
            ("--snapshots=0s", "--snapshots: 0s is no interval"),
            ("--snapshots=x", "--snapshots: "),
            ("--from=first", "--from: "),
        ] {
            assert!(of(&[word]).unwrap_err().starts_with(begin), "{word}");
        }
    }
}
