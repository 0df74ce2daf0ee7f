//! Requirements of the software host and their state here, for `stasis doctor`.

use crate::host::available_memory;
use crate::linux;
use crate::{Host, Kernel, Mode};
use stasis_qemu_vm::process::find_qemu;
use std::path::PathBuf;
use std::process::Command;

/// The requirements that are met, and those that are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirements {
    /// QEMU's executable and version.
    pub qemu: Option<(PathBuf, String)>,
    /// Release of the cached kernel; without one, the first run downloads it.
    pub kernel: Option<String>,
    /// True if a booted machine is saved for this host.
    pub snapshot: bool,
    /// Free memory, in bytes.
    pub available_memory: Option<u64>,
    /// Packages to install, by their Debian names.
    pub install: Vec<&'static str>,
}

/// Finds out what `host` needs and has. Starts nothing but `qemu --version`.
pub fn requirements(host: &Host) -> Requirements {
    let qemu = find_qemu().map(|path| {
        let output = Command::new(&path).arg("--version").output();
        let output = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let first = output.unwrap_or_default().lines().next().unwrap_or_default().to_owned();
        let version = first.strip_prefix("QEMU emulator version ").unwrap_or(&first).to_owned();
        (path, version)
    });
    let kernel = Kernel::cached(&host.cache);
    let snapshot = kernel.as_ref().is_some_and(|kernel| linux::is_kept(host, kernel));
    let mut install = Vec::new();
    if qemu.is_none() {
        install.push("qemu-system-x86");
    }
    // Only the first run needs these, where Linux is below the guest.
    for (program, package) in [("apt-get", "apt"), ("apt-cache", "apt"), ("dpkg-deb", "dpkg")] {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
        if host.mode == Mode::Fast && kernel.is_none() && !there && !install.contains(&package) {
            install.push(package);
        }
    }
    Requirements {
        qemu,
        kernel: kernel.map(|kernel| kernel.release),
        snapshot,
        available_memory: available_memory(),
        install,
    }
}
