//! Descriptors between this program and QEMU.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::pipe::{fcntl_setpipe_size, pipe_with, PipeFlags};

/// A pipe (read end, write end), both closed on exec.
///
/// # Errors
/// There are no more descriptors.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    // A writer waits for the pipe to drain; 1 MiB is the largest size that a user may ask for by
    // default (pipe(7)). A smaller pipe works too.
    let _ = fcntl_setpipe_size(&writer, 1 << 20);
    Ok((reader, writer))
}

/// Waits until one of `fds` can be read or `milliseconds` have passed (for ever if it is negative),
/// and returns which can (closed ones count).
///
/// # Errors
/// The system refuses, which a signal is not.
pub fn readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    milliseconds: i32,
) -> io::Result<[bool; N]> {
    let mut polled = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let timeout = u32::try_from(milliseconds).ok().map(|limit| Timespec {
        tv_sec: i64::from(limit / 1000),
        tv_nsec: i64::from(limit % 1000) * 1_000_000,
    });
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) => Ok(polled.map(|entry| !entry.revents().is_empty())),
        Err(Errno::INTR) => Ok([false; N]),
        Err(error) => Err(error.into()),
    }
}
