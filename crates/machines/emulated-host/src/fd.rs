//! Descriptors that go to QEMU, locks, and room on disks.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{flock, statvfs, FlockOperation};
use rustix::io::retry_on_intr;
use rustix::net::sockopt::set_socket_send_buffer_size;

/// A pair of sockets of which the second holds as few unread writes as can be.
pub(crate) fn narrow() -> io::Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    // The kernel raises it to the least that it allows.
    set_socket_send_buffer_size(&theirs, 1)?;
    Ok((ours, theirs))
}

/// Kinds of locks, by the others that they exclude.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    Shared,
    Exclusive,
}

/// Locks `file` (flock(2)), waiting for others; closing the file unlocks it.
pub(crate) fn lock(file: &File, kind: Lock) -> io::Result<()> {
    let operation = match kind {
        Lock::Shared => FlockOperation::LockShared,
        Lock::Exclusive => FlockOperation::LockExclusive,
    };
    Ok(retry_on_intr(|| flock(file, operation))?)
}

/// Locks `file` exclusively if nobody else has it locked. Returns whether the file is locked.
pub(crate) fn try_lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Bytes that this user can write where `folder` is; None if the file system does not report them.
pub(crate) fn free(folder: &Path) -> Option<u64> {
    let disk = statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
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
