//! The commands that are programs beside the main one.

use crate::{coordinate, function, reproduce, suite};

/// Their words.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Run storage functions, such as a file server, in virtual machines of their own
    #[command(
        subcommand,
        after_help = "Examples:
  stasis function list
  stasis function run nfs --drive model=null,medium=file:disk.img
  stasis function status nfs"
    )]
    Function(function::FunctionCommand),
    /// Have this host's BFQ help stock QEMU guests whose BFQ raises weights
    #[command(
        subcommand,
        after_help = "Examples:
  stasis coordinate guest --dry-run
  stasis coordinate host --dry-run /run/guest1.help=machine.slice/guest1.scope"
    )]
    Coordinate(coordinate::CoordinateCommand),
    /// Repeat a publication's experiments and print its figures beside ours
    Reproduce(reproduce::Arguments),
    /// Measure throughput and start-up times of a guest that shares a drive with its host
    Suite(suite::Arguments),
}

impl Command {
    /// The program that has the command.
    pub fn program(&self) -> &'static str {
        match self {
            Self::Function(_) => "stasis-function",
            Self::Coordinate(_) => "stasis-coordinate",
            Self::Reproduce(_) | Self::Suite(_) => "stasis-reproduce",
        }
    }
}
