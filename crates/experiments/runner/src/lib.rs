//! Runs an experiment: an [`Experiment`](stasis_experiment::Experiment) goes in, [`Event`]s
//! come out while it runs, and [`Results`] at its end. The command line, the reproductions,
//! the suite, the crash tests and a program of a user's own all run experiments this way:
//!
//! ```no_run
//! use stasis_experiment::Experiment;
//! use stasis_runner::{Event, Runner};
//!
//! fn main() -> anyhow::Result<()> {
//!     // This program is the guest's first process and the software host's, too.
//!     stasis_runner::enter();
//!     let mut experiment = Experiment { command: vec!["true".into()], ..Experiment::default() };
//!     experiment.finish()?;
//!     let results = Runner::new(&experiment).run(&mut |event: Event| {
//!         if let Event::Output(bytes) = event {
//!             println!("{}", String::from_utf8_lossy(bytes));
//!         }
//!         Ok(())
//!     })?;
//!     println!("{} I/Os, status {}", results.summary.ios(), results.status);
//!     Ok(())
//! }
//! ```
//!
//! Promises:
//! - Errors in an experiment are reported before a machine is made for it.
//! - Nothing is written to the terminal: the caller receives [`Event`]s.
//! - The results' folder belongs to one run, and holds all results obtained, however the run ends.
//! - Where the machine runs, on this host's KVM or in a software host, changes none of this.

// Some code is used only on systems where guests run.
#![cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), allow(dead_code))]

mod attended;
pub mod batch;
mod begins;
mod branched;
mod changed;
mod changes;
mod container;
pub mod controller;
mod debugged;
pub mod engine;
mod enter;
mod event;
pub mod failure;
pub mod first_boot;
pub mod free_space;
pub mod guest;
pub mod input;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod inside;
pub mod job_file;
pub mod keep;
mod live;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod local;
mod logged_drive;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod machine_inputs;
mod media;
mod networks;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod opened_drives;
mod output;
mod outside;
mod pace;
mod placed;
mod plan;
mod prepare;
mod profiled;
pub mod program;
pub mod provenance;
mod relay;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod root;
mod run;
mod run_error;
mod run_setup;
pub mod self_check;
mod sharing;
mod snapshotted;
pub mod software_host;
mod stopped;
pub mod trace;

pub use attended::Attended;
pub use branched::Branched;
pub use changed::{Changed, Difference};
pub use debugged::{At, Debugged};
pub use enter::enter;
pub use event::{Event, Observer};
pub use keep::{leave_zones, state_file};
pub use live::LivePage;
pub use logged_drive::trace_of_log;
pub use opened_drives::fault_seed;
pub use output::check_output;
pub use pace::Pace;
pub use plan::{describe, drive_seed, parameters};
pub use prepare::check_drives;
pub use profiled::Profiled;
pub use run::{keep_model, Results, Runner};
pub use snapshotted::Snapshotted;
pub use stasis_channel::Call;
pub use stasis_emulated_host::StartAt;
pub use stasis_results::OUTPUT_FILE;
pub use trace::TraceOptions;
