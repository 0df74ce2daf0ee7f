//! Requirements of mmdebstrap beside its tools: mounts in private namespaces.

use std::path::Path;
use std::process::{Command, Stdio};

/// Returns why this user cannot build a guest on this machine, as far as a trial of mmdebstrap's
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
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.lines().next().unwrap_or("it says nothing").trim().to_owned();
    Some(match is_root {
        true => {
            format!("mounts in a namespace of its own, which root may not make here ({message})")
        }
        false => format!(
            "namespaces of users, which are denied here ({message}): {}build it as root: {}",
            allowing().map(|command| format!("allow them ({command}), or ")).unwrap_or_default(),
            as_root()
        ),
    })
}

/// Switches of the kernel that deny namespaces, with the value by which they do and the one by which
/// they do not.
const SWITCHES: [(&str, &str, &str); 3] = [
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("user/max_user_namespaces", "0", "10000"),
];

/// The command that allows namespaces, if a switch of this kernel's denies them.
fn allowing() -> Option<String> {
    let denies = |(name, denied, _): &&(&str, &str, &str)| {
        let value = std::fs::read_to_string(Path::new("/proc/sys").join(name));
        value.is_ok_and(|value| value.trim() == *denied)
    };
    let (name, _, allowed) = SWITCHES.iter().find(denies)?;
    Some(format!("sudo sysctl {}={allowed}", name.replace('/', ".")))
}

/// The command by which root builds the default guest in this user's cache.
fn as_root() -> String {
    // sudo(8) has its own PATH, and HOME.
    let own = std::env::current_exe().unwrap_or_else(|_| "stasis".into());
    // Programs beside the main one have no such command.
    let program = Some(own.with_file_name("stasis")).filter(|main| main.is_file()).unwrap_or(own);
    let cache = crate::default_cache();
    let base = cache.as_deref().and_then(Path::parent).and_then(Path::parent);
    let base = base.map_or("\"$HOME/.cache\"".into(), quoted);
    format!("sudo XDG_CACHE_HOME={base} {} guest build", quoted(&program))
}

/// A path as a word for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-+=:@%,".contains(c);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
