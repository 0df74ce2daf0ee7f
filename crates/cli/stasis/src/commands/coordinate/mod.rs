//! `stasis coordinate`: guests under stock QEMU ask this host's BFQ for help.

mod guest;
mod host;
mod metrics;

use std::process::ExitCode;

use anyhow::Result;
use stasis_block::units::parse_duration;

/// The two ends.
#[derive(Debug, clap::Subcommand)]
pub enum CoordinateCommand {
    /// In a guest: watch its BFQ, and ask through a virtio port
    Guest(guest::Arguments),
    /// On the host: hear guests, and set the weights of their cgroups
    Host(host::Arguments),
}

/// `stasis coordinate`.
pub fn main(command: &CoordinateCommand) -> Result<ExitCode> {
    match command {
        CoordinateCommand::Guest(arguments) => guest::main(arguments),
        CoordinateCommand::Host(arguments) => host::main(arguments),
    }
}

/// A duration as a word of the command line.
fn duration(word: &str) -> Result<u64, String> {
    parse_duration(word).map_err(|error| error.to_string())
}

/// A line for whoever looks after the program.
fn log(text: &str) {
    use std::io::Write;
    // Nobody reads it any more: nothing to be done.
    let _ = writeln!(std::io::stderr().lock(), "stasis coordinate: {text}");
}
