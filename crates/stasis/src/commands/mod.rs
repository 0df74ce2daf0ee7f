//! What each subcommand does.

pub mod guest;
pub mod reproduce;
pub mod run;
