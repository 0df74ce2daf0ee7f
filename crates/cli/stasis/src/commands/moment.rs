//! A moment of a run.

use std::path::Path;

use anyhow::{anyhow, ensure, Result};
use stasis_block::units;
use stasis_report::why;
use stasis_run_events::Moment;
use stasis_runner::{At, Snapshotted, StartAt};

use super::symbols::Symbols;

/// The function of the kernel that is called when it panics.
const PANIC: &str = "panic";

/// A moment of a run.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub struct MomentArguments {
    /// Stop when so much time has passed since the commands have begun [default: 0s]
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Stop when a drive has delivered the I/O of this number (`order` in ios.parquet)
    #[arg(long, value_name = "DRIVE:ORDER", value_parser = super::why::which, conflicts_with = "at")]
    at_io: Option<(String, u64)>,
    /// Stop when a line of the commands' output matches this regular expression
    #[arg(long, value_name = "REGEX", conflicts_with_all = ["at", "at_io"])]
    at_output: Option<String>,
    /// Stop when this function of the kernel is called, or before the instruction at 0xADDRESS
    #[arg(long, value_name = "FUNCTION", conflicts_with_all = ["at", "at_io", "at_output"])]
    at_function: Option<String>,
    /// Stop when the kernel panics
    #[arg(long, conflicts_with_all = ["at", "at_io", "at_output", "at_function"])]
    at_panic: bool,
    /// Stop when the run has ended
    #[arg(long, conflicts_with_all = ["at", "at_io", "at_output", "at_function", "at_panic"])]
    at_end: bool,
}

impl MomentArguments {
    /// Returns whether a moment is named.
    pub fn is_named(&self) -> bool {
        *self != Self::default()
    }

    /// Returns whether the moment is a panic of the guest's kernel.
    pub fn is_panic(&self) -> bool {
        self.at_panic || self.at_function.as_deref() == Some(PANIC)
    }

    /// Returns whether the moment is a function's, by its name.
    pub fn needs_symbols(&self) -> bool {
        self.function().is_some_and(|function| !function.starts_with("0x"))
    }

    /// The function whose call it is.
    fn function(&self) -> Option<&str> {
        self.at_function.as_deref().or(self.at_panic.then_some(PANIC))
    }

    /// The snapshot at which a run begins that goes to the moment; `results` are those of the same run,
    /// if there are any.
    pub fn snapshot(&self, results: Option<&Path>) -> Snapshotted {
        let before = match (&self.at, &self.at_io, results) {
            (Some(time), ..) => units::parse_duration(time).ok(),
            (_, Some((drive, order)), Some(results)) => why::delivered(results, drive, *order).ok(),
            _ => None,
        };
        let from = match before {
            Some(time) => StartAt::Before(time),
            // A run ends with either.
            None if self.at_end || self.is_panic() => StartAt::Last,
            None => StartAt::Begin,
        };
        Snapshotted { from, ..Snapshotted::default() }
    }

    /// The moment; `symbols` are the kernel's, where that names a function.
    pub fn moment(&self, symbols: Option<&Symbols>) -> Result<At> {
        if let Some(function) = self.function() {
            let address = match function.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => symbols.and_then(|symbols| symbols.address(function)),
            };
            let address = address.ok_or_else(|| {
                anyhow!("--at-function: the guest's kernel has no {function} (/proc/kallsyms)")
            })?;
            // The kernel gives the memory of its start back before the first program runs.
            let place = |name| symbols.and_then(|symbols| symbols.address(name));
            if let (Some(begin), Some(end)) = (place("_sinittext"), place("_einittext")) {
                ensure!(
                    !(begin..end).contains(&address),
                    "--at-function: {function} is a part of the kernel's start, which is over when the commands \
                     begin; name a function that is called after that"
                );
            }
            return Ok(At::Moment(Moment::Instruction(address)));
        }
        Ok(match (&self.at, &self.at_io, &self.at_output, self.at_end) {
            (Some(time), ..) => {
                let time = units::parse_duration(time);
                At::Moment(Moment::At(time.map_err(|error| anyhow!("--at: {error}"))?))
            }
            (_, Some((drive, order)), ..) => At::Io(drive.clone(), *order),
            (_, _, Some(pattern), _) => {
                stasis_experiment::check_pattern(pattern)
                    .map_err(|error| anyhow!("--at-output: {error}"))?;
                At::Moment(Moment::Output(pattern.clone()))
            }
            (.., true) => At::Moment(Moment::End),
            _ => At::Moment(Moment::Begin),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Words {
        #[command(flatten)]
        moment: MomentArguments,
    }

    fn moment(words: &[&str]) -> MomentArguments {
        Words::try_parse_from([&["x"], words].concat()).unwrap().moment
    }

    #[test]
    fn a_moment_has_several_names() {
        let parsed = |words: &[&str]| moment(words).moment(None).unwrap();
        assert_eq!(parsed(&[]), At::Moment(Moment::Begin));
        assert_eq!(parsed(&["--at", "1.25s"]), At::Moment(Moment::At(1_250_000_000)));
        assert_eq!(parsed(&["--at-io", "d:7"]), At::Io("d".into(), 7));
        assert_eq!(parsed(&["--at-output", "^x"]), At::Moment(Moment::Output("^x".into())));
        assert_eq!(parsed(&["--at-function", "0xff"]), At::Moment(Moment::Instruction(255)));
        assert_eq!(parsed(&["--at-end"]), At::Moment(Moment::End));
    }

    #[test]
    fn what_is_no_moment_is_told() {
        for words in [&["--at", "soon"][..], &["--at-output", "("], &["--at-function", "f"]] {
            let error = moment(words).moment(None).unwrap_err().to_string();
            assert!(error.starts_with(words[0]), "{error}");
        }
        for words in [&["--at=1s", "--at-end"][..], &["--at-io=d:1", "--at=1s"], &["--at-io=d"]] {
            assert!(Words::try_parse_from([&["x"], words].concat()).is_err(), "{words:?}");
        }
        assert!(!moment(&[]).is_named() && moment(&["--at=0s"]).is_named());
        assert!(moment(&["--at-panic"]).is_panic() && moment(&["--at-function=panic"]).is_panic());
        assert!(moment(&["--at-panic"]).needs_symbols());
    }
}
