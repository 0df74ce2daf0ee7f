//! Files from this machine for the guest, as one tar archive.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use rustix::event::{poll, PollFd, PollFlags};
use rustix::time::Timespec;
use stasis_experiment::GuestSpec;
use tempfile::NamedTempFile;

/// Where the guest has the command's standard input until it starts.
pub const STDIN: &str = "/run/stasis-stdin";

/// The most that is read of this program's standard input (bytes): it goes into
/// the guest's memory.
const LONGEST_STDIN: u64 = 64 << 20;

/// How long a pipe may be silent before it counts as empty. A service or a test
/// often has one that nobody writes to.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// What this program is given by `<` or by a pipe, in a file: `None` where that
/// is nothing.
///
/// # Errors
/// If it cannot be read, or is too long.
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
    if poll(&mut ready, Some(&PATIENCE)).context("cannot wait for standard input")? == 0 {
        return Ok(None);
    }
    let mut file = NamedTempFile::new().context("cannot keep standard input")?;
    let length = io::copy(&mut stdin.lock().take(LONGEST_STDIN + 1), file.as_file_mut())
        .context("cannot read standard input")?;
    if length > LONGEST_STDIN {
        bail!(
            "standard input has more than {}, which goes into the guest's memory: give the guest the file \
             with --file, or put it on a drive",
            stasis_block::units::format_size(LONGEST_STDIN)
        );
    }
    file.flush().context("cannot keep standard input")?;
    Ok((length > 0).then_some(file))
}

/// Packs the files of `guest` ("SOURCE" or "SOURCE:DESTINATION") and its standard
/// input; relative sources start at `base`, relative destinations at the guest's
/// /root. Empty where there are none.
pub fn pack(guest: &GuestSpec, base: &Path) -> Result<Vec<u8>> {
    let files = &guest.files;
    if files.is_empty() && guest.stdin.is_none() {
        return Ok(Vec::new());
    }
    let mut archive = tar::Builder::new(Vec::new());
    // The same files make the same archive, whoever owns them and since when.
    archive.mode(tar::HeaderMode::Deterministic);
    for word in files {
        let (source, destination) = match word.split_once(':') {
            Some((source, destination)) => (source, PathBuf::from(destination)),
            None => {
                let name = Path::new(word).file_name();
                (word.as_str(), PathBuf::from(name.context(format!("--file {word}: no name"))?))
            }
        };
        let path = base.join(source);
        let destination = Path::new("/root").join(destination);
        let inside = destination.strip_prefix("/").unwrap_or(&destination);
        let context = || format!("cannot copy {} into the guest", path.display());
        if path.is_dir() {
            archive.append_dir_all(inside, &path).with_context(context)?;
        } else {
            archive.append_path_with_name(&path, inside).with_context(context)?;
        }
    }
    if let Some(path) = &guest.stdin {
        let path = base.join(path);
        let context = || format!("cannot read the standard input {}", path.display());
        archive
            .append_path_with_name(&path, STDIN.trim_start_matches('/'))
            .with_context(context)?;
    }
    archive.into_inner().context("cannot pack the files for the guest")
}
