//! What each subcommand does.

pub mod guest;
pub mod run;
