//! What each subcommand does.

pub mod cache;
pub mod calibrate;
pub mod coordinate;
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
pub mod suite;

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;

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

/// Something to read from once the program is asked to stop.
pub fn signals() -> Result<UnixStream> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    crate::progress::stops_by_itself();
    let (read, write) = UnixStream::pair().context("cannot make a pair of sockets")?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let write = write.try_clone().context("cannot wait for signals")?;
        signal_hook::low_level::pipe::register(signal, write).context("cannot wait for signals")?;
    }
    Ok(read)
}
