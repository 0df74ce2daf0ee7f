//! `stasis-coordinate`, which users call as `stasis coordinate`: guests under stock QEMU ask this
//! host's BFQ for help.

mod guest;
mod host;
mod log;
mod metrics;

use std::process::ExitCode;

use anyhow::bail;
use stasis_program::begin;
use stasis_program::coordinate::CoordinateCommand;
use stasis_program::Command;

fn main() -> ExitCode {
    begin::program("coordinate", &[], &[], |command| match command {
        Command::Coordinate(CoordinateCommand::Guest(arguments)) => guest::main(&arguments),
        Command::Coordinate(CoordinateCommand::Host(arguments)) => host::main(&arguments),
        other => bail!("{} has this command", other.program()),
    })
}
