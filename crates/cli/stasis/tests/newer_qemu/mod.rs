//! A QEMU with `vfio-user-pci`: this machine's, or that of a root that `scripts/test-on
//! trixie-backports` has made.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// A program of this name before the others in PATH.
const PROGRAM: &str = "qemu-system-x86_64";

fn has_device() -> bool {
    let output = Command::new(PROGRAM).args(["-device", "help"]).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("vfio-user-pci"))
}

/// Has tests of this process start such a QEMU. The folder is to be kept for as long.
pub fn find() -> Option<tempfile::TempDir> {
    if has_device() {
        return None;
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
    let root = cache.unwrap_or_else(home).join("stasis/test-on/trixie-backports/root");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(PROGRAM);
    // The other release's programs and libraries, and all other files of this machine.
    let inside = format!(
        "mount --bind \"$0\" /usr && LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu exec /usr/bin/{PROGRAM} \"$@\""
    );
    let usr = root.join("usr");
    let script = format!(
        "#!/bin/sh\nexec unshare --mount --propagation private -- sh -c '{inside}' '{}' \"$@\"\n",
        usr.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(
        [folder.path().to_owned()].into_iter().chain(std::env::split_paths(&path)),
    );
    std::env::set_var("PATH", path.unwrap());
    assert!(
        has_device(),
        "there is no QEMU with vfio-user-pci: install QEMU 10.1 or later, or run `scripts/test-on trixie-backports` once, which makes a root with one"
    );
    Some(folder)
}
