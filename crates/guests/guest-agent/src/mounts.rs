//! Mounts, and folders to mount on.

use std::fs;

use nix::errno::Errno;
use nix::mount::{mount, MsFlags};

use crate::AgentError;

/// Mounts what is only read.
pub(crate) fn below(
    device: &str,
    place: &'static str,
    kind: &str,
    options: Option<&str>,
) -> Result<(), AgentError> {
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOATIME;
    let mounted = mount(Some(device), place, Some(kind), flags, options);
    mounted.map_err(|e| AgentError::new("mount the root file system", device, e))
}

/// Mounts a file system of the kernel's own.
pub(crate) fn new(
    kind: &'static str,
    place: &str,
    flags: MsFlags,
    options: &str,
) -> Result<(), AgentError> {
    match mount(Some(kind), place, Some(kind), flags, Some(options)) {
        // The kernel has mounted it itself (CONFIG_DEVTMPFS_MOUNT).
        Ok(()) | Err(Errno::EBUSY) => Ok(()),
        Err(e) => Err(AgentError::new("mount", format!("{kind} on {place}"), e)),
    }
}

/// Moves a mount.
pub(crate) fn move_to(from: &str, to: &str) -> Result<(), AgentError> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_MOVE, None::<&str>)
        .map_err(|e| AgentError::new("move the mount", format!("{from} to {to}"), e))
}

/// Makes a folder, if it is not there.
pub(crate) fn folder(path: &str) -> Result<(), AgentError> {
    match fs::create_dir(path) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(AgentError::new("make the folder", path, e))
        }
        _ => Ok(()),
    }
}
