//! The words of `stasis function`.

use std::path::PathBuf;

use anyhow::Result;

use crate::runtime_folder::runtime_folder;

/// Commands of `stasis function`.
#[derive(Debug, clap::Subcommand)]
pub enum FunctionCommand {
    /// Start a function and watch it until it is stopped
    Run(Box<RunArguments>),
    /// List the functions that come with the program, and those that run
    #[command(after_help = "Example:
  stasis function list")]
    List {
        /// The folder of functions
        #[command(flatten)]
        place: PlaceArguments,
    },
    /// Say how a function is
    #[command(after_help = "Examples:
  stasis function status nfs
  stasis function status nfs --json

Exit status: 0 if it is well, 1 if not, 125 if there is none.")]
    Status {
        /// Its name
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// The folder of functions
        #[command(flatten)]
        place: PlaceArguments,
    },
    /// End a function in order
    #[command(after_help = "Example:
  stasis function stop nfs")]
    Stop {
        /// Its name
        name: String,
        /// The folder of functions
        #[command(flatten)]
        place: PlaceArguments,
    },
    /// Begin a function of your own: writes an explained definition to DIR/function.toml
    #[command(after_help = "Example:
  stasis function new mine && stasis function run ./mine --drive model=null,medium=ram:64MiB")]
    New {
        /// The folder; made if it is not there
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// The folder of running functions, as an argument.
#[derive(Debug, clap::Args)]
pub struct PlaceArguments {
    /// Folder of running functions [default: `functions` in the default of `stasis serve --sockets`]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

impl PlaceArguments {
    /// The folder.
    ///
    /// # Errors
    /// If there is none of this user's alone.
    pub fn folder(&self) -> Result<PathBuf> {
        match &self.state {
            Some(folder) => Ok(folder.clone()),
            None => Ok(runtime_folder("--state")?.join("functions")),
        }
    }
}

/// Arguments of `stasis function run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "FUNCTION is a name that `stasis function list` lists, or a definition's file or folder. Its drives, in the
order of its definition, are those of EXPERIMENT.toml and --drive, which a `stasis serve` of its own serves, or
the sockets of one that runs already (--socket).

A function whose machine ends, or whose health check fails or is not answered in time, is ended and started again, after
half a second at first and half a minute at most. What its drives acknowledged is with the server.

Examples:
  stasis function run nfs --drive model=null,medium=file:disk.img
  stasis function run smb --socket /run/stasis/drive0.sock --port smb=445
  stasis function run compress storage.toml --set size=100G
  stasis function run ./mine --drive model=null,medium=ram:1GiB --network tap:stasis0:10.77.0.2
  nfs-ls 'nfs://127.0.0.1/?version=4&nfsport=12049'

Exit status: 0 once it was stopped (SIGTERM, SIGINT, `stasis function stop`), 125 if it cannot run."
)]
pub struct RunArguments {
    /// The function
    #[arg(value_name = "FUNCTION")]
    pub function: String,
    /// An experiment file with its drives
    #[arg(value_name = "EXPERIMENT.toml")]
    pub experiment: Option<PathBuf>,
    /// Add a drive: what it is like and where its bytes live
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub drive: Vec<String>,
    /// Take a drive from the vhost-user-blk socket of a server that runs
    #[arg(long, value_name = "PATH", conflicts_with_all = ["experiment", "drive"])]
    pub socket: Vec<PathBuf>,
    /// Name of this instance [default: the function's name]
    #[arg(long)]
    pub name: Option<String>,
    /// Change a setting of the definition
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Put a port of the definition elsewhere on the host
    #[arg(long, value_name = "NAME=PORT")]
    pub port: Vec<String>,
    /// Processors [default: the definition's]
    #[arg(long, value_name = "N")]
    pub vcpus: Option<u32>,
    /// Memory [default: the definition's]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Bind its threads to these processors, the vCPUs first, such as 2,4-6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Polling by guest and server: always, adaptive or never [default: always with KVM and
    /// processors to spare, else adaptive]
    #[arg(long, value_name = "WORD", value_parser = ["always", "adaptive", "never"])]
    pub poll: Option<String>,
    /// user, or tap[:INTERFACE:ADDRESS] [default: tap with KVM, vhost-net and root, else user]
    #[arg(long, value_name = "NETWORK")]
    pub network: Option<String>,
    /// Way to run its instructions: best, kvm or emulation
    #[arg(long, value_name = "WORD", default_value = "best", value_parser = ["best", "kvm", "emulation"])]
    pub accelerator: String,
    /// The folder of functions
    #[command(flatten)]
    pub place: PlaceArguments,
}
