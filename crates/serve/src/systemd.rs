//! Readiness and sockets as systemd has them (sd_notify(3), sd_listen_fds(3)).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The first descriptor that is handed over.
const FIRST: RawFd = 3;

/// How often a program that is not ready yet is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Tells whoever started the program how it is: `READY=1`, `STOPPING=1`. Where
/// nobody wants to know it does nothing.
pub fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let Ok(socket) = UnixDatagram::unbound() else { return };
    let text = path.to_string_lossy();
    let _ = match text.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)
            .and_then(|address| socket.send_to_addr(state.as_bytes(), &address)),
        None => socket.send_to(state.as_bytes(), &path),
    };
}

/// Where a program that is started here tells that it is ready, as by [`notify`].
#[derive(Debug)]
pub struct Readiness {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Readiness {
    /// Makes the socket, `notify.sock` in `folder`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let path = std::path::absolute(folder)?.join("notify.sock");
        // One that was left behind.
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path)?;
        socket.set_read_timeout(Some(LOOK))?;
        Ok(Self { socket, path })
    }

    /// Has the program of `command` tell it.
    pub fn asked_of<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("NOTIFY_SOCKET", &self.path)
    }

    /// Waits until the program is ready. Gives false if `ended` says that it has
    /// ended, or if it takes longer than `limit`.
    pub fn wait(self, limit: Duration, mut ended: impl FnMut() -> bool) -> bool {
        let begun = Instant::now();
        let mut said = [0; 256];
        loop {
            if let Ok(length) = self.socket.recv(&mut said) {
                // Another program of the folder may end meanwhile, and tell that.
                if said[..length].split(|&byte| byte == b'\n').any(|line| line == b"READY=1") {
                    return true;
                }
            }
            if ended() || begun.elapsed() > limit {
                return false;
            }
        }
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The sockets that the program was started with, by the names that their units
/// give them (`FileDescriptorName=`): a drive's, or `control`. To be called
/// once, before anything else opens descriptors.
pub fn sockets() -> BTreeMap<String, UnixListener> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let mut sockets = BTreeMap::new();
    if number("LISTEN_PID") != Some(std::process::id()) {
        return sockets;
    }
    let count = number("LISTEN_FDS").unwrap_or(0).min(256) as RawFd;
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    for raw in FIRST..FIRST + count {
        let name = names.next().unwrap_or_default();
        // SAFETY: only asked whether it is open, and what it is.
        let borrowed = unsafe { BorrowedFd::borrow_raw(raw) };
        if rustix::net::getsockname(borrowed).is_err() {
            continue;
        }
        // SAFETY: handed over to this program, which takes each once.
        let owned = unsafe { OwnedFd::from_raw_fd(raw) };
        let _ = rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC);
        // `drive0.socket` is what systemd calls it if nothing else is said.
        let name = name.strip_suffix(".socket").unwrap_or(name).to_owned();
        sockets.insert(name, UnixListener::from(owned));
    }
    sockets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_ready_when_it_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let wait = |script: &str, limit| {
            let ready = Readiness::new(folder.path()).unwrap();
            let path = ready.path.clone();
            let teller = UnixDatagram::unbound().unwrap();
            let mut command = Command::new("sh");
            ready.asked_of(command.args(["-c", script]));
            let mut child = command.spawn().unwrap();
            let mut ended = || {
                let ended = child.try_wait().unwrap().map(|status| status.success());
                if ended == Some(true) {
                    teller.send_to(b"STATUS=well\nREADY=1", &path).unwrap();
                }
                ended == Some(false)
            };
            teller.send_to(b"STOPPING=1", &path).unwrap();
            let is_ready = ready.wait(limit, &mut ended);
            let _ = child.kill();
            child.wait().unwrap();
            assert!(!path.exists());
            is_ready
        };
        let long = Duration::from_secs(60);
        assert!(wait("test -S $NOTIFY_SOCKET", long));
        assert!(!wait("exit 1", long), "it ended");
        assert!(!wait("exec sleep 60", Duration::from_millis(50)), "it takes too long");
    }
}
