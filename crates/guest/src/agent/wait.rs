//! Waiting for device nodes without spinning.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::os::fd::AsFd;

use super::AgentError;

/// How long a device may take to appear, in seconds of virtual time: longer
/// than the slowest drive needs for its controller's initialization
/// (NVMe lets CAP.TO give up to 127.5 s, but Stasis's become ready at once).
const PATIENCE: u64 = 30;

/// Waits until each drive, a name below `/dev`, can be opened. Opening waits
/// for the kernel's partition scan too, so that none of its I/Os fall into the
/// command's time.
pub(super) fn for_drives(names: &[String]) -> Result<(), AgentError> {
    names.iter().try_for_each(|name| for_device(&Path::new("/dev").join(name)))
}

/// Waits until the device node is there and opens.
pub(super) fn for_device(node: &Path) -> Result<(), AgentError> {
    let name = || node.display().to_string();
    if opens(node) {
        return Ok(());
    }
    let error = |e: Errno| AgentError::new("wait for", name(), e);
    let folder = node.parent().unwrap_or(Path::new("/dev"));
    let changes = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).map_err(error)?;
    changes.add_watch(folder, AddWatchFlags::IN_CREATE).map_err(error)?;
    // A node that exists but does not open yet gives no event: look again
    // every so often.
    const LOOKS_PER_SECOND: u64 = 20;
    for _ in 0..PATIENCE * LOOKS_PER_SECOND {
        if opens(node) {
            return Ok(());
        }
        let mut waiting = [PollFd::new(changes.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waiting, PollTimeout::from((1000 / LOOKS_PER_SECOND) as u16)) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => drop(changes.read_events().map_err(error)?),
            Err(e) => return Err(error(e)),
        }
    }
    Err(AgentError::NoDevice { name: name(), seconds: PATIENCE })
}

fn opens(node: &Path) -> bool {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(node).is_ok()
}
