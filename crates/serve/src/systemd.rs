//! Readiness and sockets as systemd has them (sd_notify(3), sd_listen_fds(3)).

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

/// The first descriptor that is handed over.
const FIRST: RawFd = 3;

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
