//! What each subcommand does.

pub mod calibrate;
pub mod crash_test;
pub mod doctor;
pub mod function;
pub mod guest;
pub mod image;
pub mod models;
pub mod reproduce;
pub mod run;
pub mod serve;
pub mod shell;
pub mod sim;

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};

/// Prints to the standard output. A reader that has seen enough, such as
/// `head`, is no error.
pub fn print(text: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to the standard output"),
    }
}
