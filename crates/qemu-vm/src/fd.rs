//! Descriptors between this program and QEMU.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A pipe (read end, write end), both closed on exec.
///
/// # Errors
/// There are no more descriptors.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors that pipe2 writes.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both descriptors are new and nobody else's.
    let pair = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    // A writer waits for the pipe to drain; 1 MiB is the most
    // that a user may ask for by default (pipe(7)). A smaller pipe works too.
    // SAFETY: no memory is passed.
    unsafe { libc::fcntl(pair.1.as_raw_fd(), libc::F_SETPIPE_SZ, 1 << 20) };
    Ok(pair)
}

/// Waits until one of `fds` can be read or `milliseconds` have passed, and
/// tells which can (closed ones count).
///
/// # Errors
/// The system refuses, which a signal is not.
pub fn readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    milliseconds: i32,
) -> io::Result<[bool; N]> {
    let mut polled =
        fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    // SAFETY: `polled` has N entries.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), N as libc::nfds_t, milliseconds) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok([false; N]);
    }
    Ok(polled.map(|entry| entry.revents != 0))
}
