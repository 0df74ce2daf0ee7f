//! Requirements of mmdebstrap beside its tools: mounts in private namespaces.

use std::process::{Command, Stdio};

/// Why a guest cannot be built by this user on this machine, as far as a trial of mmdebstrap's
/// first step shows: a namespace in which it may mount. `None` where that works.
pub fn obstacle() -> Option<String> {
    let is_root = rustix::process::geteuid().is_root();
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !is_root {
        // The kernel may give the namespace and refuse what is done in it (AppArmor on Ubuntu).
        command.args(["--user", "--map-root-user"]);
    }
    let output = command
        .args(["--", "mount", "-t", "tmpfs", "none", "/tmp"])
        .stdin(Stdio::null())
        .output()
        // Without util-linux there is no answer.
        .ok()
        .filter(|output| !output.status.success())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or("it says nothing").trim().to_owned();
    Some(match is_root {
        true => format!("mounts in a namespace of its own, which root may not make here ({said})"),
        false => format!(
            "namespaces of users, which are denied here ({said}): allow them (sysctl \
             kernel.apparmor_restrict_unprivileged_userns=0, or kernel.unprivileged_userns_clone=1), or build it \
             as root: sudo XDG_CACHE_HOME=\"$HOME/.cache\" stasis guest build"
        ),
    })
}
