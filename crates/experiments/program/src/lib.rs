//! The parts that Stasis' programs have in common.
//!
//! The main program, `stasis`, has programs beside it for what few runs need: `stasis-reproduce`,
//! `stasis-function` and `stasis-coordinate`. A user calls them as commands of the main one, which
//! reads their words by [`Command`] and becomes the program ([`beside::become_program`]).
//!
//! Promises:
//! - Words have the same help and the same mistakes the same message, whichever program reads them.
//! - A program beside the main one ends as the main one does: with its exit status, its message and,
//!   with `--json`, one document ([`begin::ended`]).
//! - Its results have the command of the main program by which a user repeats them.

pub mod begin;
pub mod beside;
mod command;
pub mod coordinate;
pub mod dashboard;
pub mod function;
pub mod help;
pub mod here;
pub mod metrics;
pub mod pattern;
pub mod reproduce;
pub mod runtime_folder;
pub mod suite;

pub use command::Command;
