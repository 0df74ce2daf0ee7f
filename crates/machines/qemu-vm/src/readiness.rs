//! Waiting until a program that was started is ready, as systemd does (sd_notify(3)).

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::Process;

/// Interval between looks at a program that is not ready yet.
const LOOK: Duration = Duration::from_millis(20);

/// The place where a program that is started here reports that it is ready: by `READY=1` on the
/// socket that `NOTIFY_SOCKET` names.
#[derive(Debug)]
pub struct Readiness {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Readiness {
    /// Makes the socket, `notify.sock` in `folder`.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let path = std::path::absolute(folder)?.join("notify.sock");
        // One that was left behind.
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path)?;
        socket.set_read_timeout(Some(LOOK))?;
        Ok(Self { socket, path })
    }

    /// Makes the program of `command` report there.
    pub fn notified_by<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("NOTIFY_SOCKET", &self.path)
    }

    /// Waits until the program is ready. Gives false if `ended` returns that it has ended, or if it
    /// takes longer than `limit`.
    pub fn wait(self, limit: Duration, mut ended: impl FnMut() -> bool) -> bool {
        let begun = Instant::now();
        let mut message = [0; 256];
        loop {
            if let Ok(length) = self.socket.recv(&mut message) {
                // Another program of the folder may end meanwhile, and report that.
                if message[..length].split(|&byte| byte == b'\n').any(|line| line == b"READY=1") {
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

/// Starts `command`, with its log `NAME.log` in `folder`; returns when it is ready.
///
/// # Errors
/// The program cannot be started, or is not ready within `limit`.
pub fn start(
    mut command: Command,
    name: &str,
    folder: &Path,
    limit: Duration,
) -> io::Result<Process> {
    let ready = Readiness::new(folder).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot make a socket in {}: {error}", folder.display()),
        )
    })?;
    ready.notified_by(&mut command);
    let mut process = Process::start(command, &[], &folder.join(format!("{name}.log")))
        .map_err(|error| io::Error::new(error.kind(), format!("cannot start {name}: {error}")))?;
    if !ready.wait(limit, || process.ended().is_some()) {
        return Err(io::Error::other(format!("{name} does not get ready{}", process.detail())));
    }
    Ok(process)
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
            ready.notified_by(command.args(["-c", script]));
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
