//! Descriptors that go to QEMU, and locks.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// A pair of sockets of which the second holds as few unread writes as can be.
pub(crate) fn narrow() -> io::Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let least: libc::c_int = 1;
    // SAFETY: the option's value is an int, whose size is given. The kernel
    // raises it to the least that it allows.
    let set = unsafe {
        libc::setsockopt(
            theirs.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            (&raw const least).cast(),
            std::mem::size_of_val(&least) as libc::socklen_t,
        )
    };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((ours, theirs))
}

/// Whether a lock excludes all others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    Shared,
    Exclusive,
}

/// Locks `file` (flock(2)), waiting for others; closing the file unlocks it.
pub(crate) fn lock(file: &File, kind: Lock) -> io::Result<()> {
    let operation = if kind == Lock::Shared { libc::LOCK_SH } else { libc::LOCK_EX };
    loop {
        // SAFETY: no memory is passed.
        if unsafe { libc::flock(file.as_raw_fd(), operation) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Locks `file` exclusively if nobody else has it locked; whether it could.
pub(crate) fn try_lock(file: &File) -> bool {
    // SAFETY: no memory is passed.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_narrow_socket_holds_less_than_a_handshake() {
        let (_ours, mut theirs) = narrow().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let held = (0..10_000).take_while(|_| theirs.write(&[0]).is_ok()).count();
        assert!(held < crate::packet::HANDSHAKE / 2, "{held} bytes");
    }
}
