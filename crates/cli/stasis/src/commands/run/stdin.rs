//! The standard input of the command in the guest.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use anyhow::{bail, Context, Result};
use rustix::event::{poll, PollFd, PollFlags};
use rustix::time::Timespec;
use tempfile::NamedTempFile;

/// Limit on the bytes read of this program's standard input: they go into the guest's memory.
const MAX_STDIN: u64 = 64 << 20;

/// Time for which a pipe may be silent before it counts as empty. A service or a test often has a
/// pipe without a writer.
const TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Source of the command's standard input, unless the experiment names a file.
pub enum Source {
    /// Standard input of this program, whose own words the run is described by.
    Own,
    /// A file, or nothing.
    Kept(Option<PathBuf>),
}

/// The input that this program is given by `<` or by a pipe, in a file: `None` where nothing is
/// given.
///
/// # Errors
/// The standard input cannot be read, or is too long.
pub fn given() -> Result<Option<NamedTempFile>> {
    let stdin = io::stdin();
    // A device is nobody's input: /dev/null, /dev/zero.
    let kind =
        rustix::fs::fstat(&stdin).map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode));
    let readable = matches!(kind, Ok(kind) if kind.is_file() || kind.is_fifo() || kind.is_socket());
    if stdin.is_terminal() || !readable {
        return Ok(None);
    }
    let mut ready = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
    if poll(&mut ready, Some(&TIMEOUT)).context("cannot wait for standard input")? == 0 {
        return Ok(None);
    }
    let mut file = NamedTempFile::new().context("cannot keep standard input")?;
    let length = io::copy(&mut stdin.lock().take(MAX_STDIN + 1), file.as_file_mut())
        .context("cannot read standard input")?;
    if length > MAX_STDIN {
        bail!(
            "standard input has more than {}, which goes into the guest's memory: give the guest the file \
             with --file, or put it on a drive",
            stasis_block::units::format_size(MAX_STDIN)
        );
    }
    file.flush().context("cannot keep standard input")?;
    Ok((length > 0).then_some(file))
}
