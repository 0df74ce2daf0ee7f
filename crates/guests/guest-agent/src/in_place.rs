//! A root file system that is read where it lies, on a device: it was not made for a guest.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::mount::{umount2, MntFlags, MsFlags};
use stasis_channel::RootDevice;

use crate::mounts::{below, folder};
use crate::wait::Announcements;
use crate::{kernel, AgentError};

/// Folders that are mounted on, or worked in.
const FOLDERS: [&str; 7] = ["dev", "proc", "sys", "run", "tmp", "root", "results"];

/// Mounts a root that is not in memory at `/lower`. Of Btrfs's volumes it is the default one, or
/// one that distributions have their root in.
pub(crate) fn mount(device: &RootDevice, announcements: &Announcements) -> Result<(), AgentError> {
    const VOLUMES: [Option<&str>; 3] = [None, Some("subvol=root"), Some("subvol=@")];
    kernel::load_list(Path::new("/modules"), "order-root")?;
    announcements.wait_for(&device.device)?;
    let node = format!("/dev/{}", device.device);
    let volumes = if device.file_system == "btrfs" { &VOLUMES[..] } else { &VOLUMES[..1] };
    for volume in volumes {
        match below(&node, "/lower", &device.file_system, *volume) {
            // There is no volume of that name.
            Err(_) if volume.is_some() => continue,
            mounted => mounted?,
        }
        // As links they may lead nowhere here.
        if ["/lower/bin", "/lower/usr"].iter().any(|name| fs::symlink_metadata(name).is_ok()) {
            return Ok(());
        }
        umount2("/lower", MntFlags::empty()).map_err(|e| AgentError::new("unmount", &node, e))?;
    }
    let kind = &device.file_system;
    Err(AgentError::NoLinux { file_system: kind.clone() })
}

/// Makes in the new root at `new` what is mounted on, or worked in. Gives the folder of modules
/// that is at `beside`.
pub(crate) fn make_folders(new: &str, beside: &str) -> Result<File, AgentError> {
    FOLDERS.iter().try_for_each(|name| folder(&format!("{new}/{name}")))?;
    let open = File::open(format!("{beside}/lib/modules"));
    open.map_err(|e| AgentError::new("open", "the kernel's modules", e))
}

/// Gives a root that was not made for a guest the kernel's modules. The crate `guest-root` does the
/// same to a root that it copies.
pub(crate) fn complete(modules: &File) -> Result<(), AgentError> {
    const MODULES: &str = "/lib/modules";
    fs::create_dir_all(MODULES).map_err(|e| AgentError::new("make the folder", MODULES, e))?;
    // The place where it was mounted is out of reach: this process has another root now.
    let from = format!("/proc/self/fd/{}", modules.as_raw_fd());
    nix::mount::mount(Some(from.as_str()), MODULES, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .map_err(|e| AgentError::new("mount the modules on", MODULES, e))
}
