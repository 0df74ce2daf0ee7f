//! Readiness and sockets as systemd has them (sd_notify(3), sd_listen_fds(3)).

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;

use sd_notify::NotifyState;

/// Notifies systemd, or another service manager that started the program, that it is ready. Without
/// one it does nothing.
pub fn ready() {
    notify(NotifyState::Ready);
}

/// Notifies the service manager that the program ends.
pub fn stopping() {
    notify(NotifyState::Stopping);
}

fn notify(state: NotifyState<'_>) {
    // A listener that is gone needs no message.
    let _ = sd_notify::notify(&[state]);
}

/// The sockets that the program was started with, by the names that their units
/// give them (`FileDescriptorName=`): a drive's, or `control`. To be called
/// once, before anything else opens descriptors.
pub fn sockets() -> BTreeMap<String, UnixListener> {
    let mut sockets = BTreeMap::new();
    for (raw, name) in sd_notify::listen_fds_with_names().into_iter().flatten() {
        // SAFETY: only its type is queried; a descriptor that is not open is an error.
        let borrowed = unsafe { BorrowedFd::borrow_raw(raw) };
        if rustix::net::getsockname(borrowed).is_err() {
            continue;
        }
        // SAFETY: handed over to this program, which takes each once.
        let owned = unsafe { OwnedFd::from_raw_fd(raw) };
        // `drive0.socket` is systemd's default name.
        let name = name.strip_suffix(".socket").unwrap_or(&name).to_owned();
        sockets.insert(name, UnixListener::from(owned));
    }
    sockets
}
