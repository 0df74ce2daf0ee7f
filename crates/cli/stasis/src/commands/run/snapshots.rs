//! The words of `stasis run` about snapshots.

use anyhow::{anyhow, ensure, Result};
use stasis_block::units;
use stasis_runner::{Snapshotted, StartAt};

/// The word for the last snapshot.
const LAST: &str = "last";

/// Snapshots that a run takes, and the one at which it begins.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub struct SnapshotArguments {
    /// Keep a snapshot each time so much virtual time has passed, from which debug, shell and --from
    /// go on: 100ms
    #[arg(long, value_name = "INTERVAL", conflicts_with_all = ["power_cut", "profile"])]
    snapshots: Option<String>,
    /// Begin at the last snapshot that this same run has kept before this time, or at the last of all:
    /// the results are those of the whole run
    #[arg(long, value_name = "TIME|last", conflicts_with_all = ["power_cut", "profile"])]
    from: Option<String>,
}

impl SnapshotArguments {
    /// The use that a run makes of snapshots, if any.
    pub fn snapshotted(&self) -> Result<Option<Snapshotted>> {
        let time = |option: &str, word: &str| {
            units::parse_duration(word).map_err(|error| anyhow!("{option}: {error}"))
        };
        let every = self.snapshots.as_deref().map(|word| time("--snapshots", word)).transpose()?;
        ensure!(every != Some(0), "--snapshots: 0s is no interval; 100ms is one");
        let from = match self.from.as_deref() {
            None => StartAt::Begin,
            Some(LAST) => StartAt::Last,
            Some(word) => StartAt::Before(time("--from", word)?),
        };
        let is_used = every.is_some() || from != StartAt::Begin;
        Ok(is_used.then_some(Snapshotted { every, from, must: from != StartAt::Begin }))
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
        let made =
            |every, from| Ok(Some(Snapshotted { every, from, must: from != StartAt::Begin }));
        assert_eq!(of(&["--snapshots=100ms"]), made(Some(100_000_000), StartAt::Begin));
        assert_eq!(of(&["--from=1.5s"]), made(None, StartAt::Before(1_500_000_000)));
        assert_eq!(
            of(&["--from=last", "--snapshots=1s"]),
            made(Some(1_000_000_000), StartAt::Last)
        );
        for (word, begin) in [
            ("--snapshots=0s", "--snapshots: 0s is no interval"),
            ("--snapshots=x", "--snapshots: "),
            ("--from=first", "--from: "),
        ] {
            assert!(of(&[word]).unwrap_err().starts_with(begin), "{word}");
        }
    }
}
