//! The commands whose results are archived.

use anyhow::Result;

use crate::arguments::RunArguments;
use crate::commands::{crash_test, on};

/// A command whose results are archived, with its words read.
pub enum Made {
    /// `stasis run`
    Run(Box<RunArguments>),
    /// `stasis on`
    On(Box<on::Arguments>),
    /// `stasis sim`
    Sim(Box<stasis_simulation::Arguments>),
    /// `stasis crash-test`
    CrashTest(Box<crash_test::Arguments>),
    /// `stasis reproduce`, not as a study
    Reproduce,
    /// `stasis sweep`
    Sweep,
    /// Another command
    Other,
}

/// Reads the words of a command, without the program.
pub type Parse = fn(&[String]) -> Result<Made>;
