//! Device nodes that are there before their driver: whoever opens one has the kernel load it.
//!
//! depmod(8) lists them in `modules.devname`; elsewhere kmod(8) and systemd-tmpfiles(8) make them,
//! and udevd gives them the rights of its rules.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{chown, PermissionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::stat::{makedev, mknod, Mode, SFlag};

use crate::mounts::folder;
use crate::AgentError;

/// Rights of nodes that not only root uses, and their group: those of udev's own rules
/// (`50-udev-default.rules`). The others are root's alone, as kmod(8) makes them.
const RIGHTS: [(&str, u32, &str); 9] = [
    ("fuse", 0o666, "root"),
    ("kvm", 0o660, "kvm"),
    ("loop-control", 0o660, "disk"),
    ("net/tun", 0o666, "root"),
    ("snd/seq", 0o660, "audio"),
    ("snd/timer", 0o660, "audio"),
    ("vfio/vfio", 0o666, "root"),
    ("vhost-net", 0o660, "kvm"),
    ("vhost-vsock", 0o660, "kvm"),
];
const OF_ROOT: u32 = 0o600;

/// A line of `modules.devname`.
#[derive(Debug, PartialEq, Eq)]
struct Node<'a> {
    /// Path below `/dev`.
    name: &'a str,
    kind: SFlag,
    major: u64,
    minor: u64,
}

impl<'a> Node<'a> {
    /// Reads `MODULE NAME cMAJOR:MINOR`, or `b` for a block device; None for a comment, for a name
    /// that leads out of `/dev`, and for a line that cannot be understood.
    fn of_line(line: &'a str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (module, name, device) = (words.next()?, words.next()?, words.next()?);
        let leads_out = name.starts_with('/') || name.split('/').any(|part| part == "..");
        if module.starts_with('#') || leads_out {
            return None;
        }
        let kind = match device.as_bytes().first()? {
            b'c' => SFlag::S_IFCHR,
            b'b' => SFlag::S_IFBLK,
            _ => return None,
        };
        let (major, minor) = device.get(1..)?.split_once(':')?;
        Some(Self { name, kind, major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

/// Makes the nodes of the modules in the root. A root without that list gets none.
pub(crate) fn make() -> Result<(), AgentError> {
    const RELEASE: &str = "/proc/sys/kernel/osrelease";
    let release = fs::read_to_string(RELEASE).map_err(|e| AgentError::new("read", RELEASE, e))?;
    let list = format!("/lib/modules/{}/modules.devname", release.trim_end());
    let list = match fs::read_to_string(&list) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(AgentError::new("read", list, e)),
    };
    // A root without groups has no file of them either.
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    list.lines().filter_map(Node::of_line).try_for_each(|node| make_one(&node, &groups))
}

fn make_one(node: &Node<'_>, groups: &str) -> Result<(), AgentError> {
    let path = format!("/dev/{}", node.name);
    for (at, _) in node.name.match_indices('/') {
        folder(&format!("/dev/{}", &node.name[..at]))?;
    }
    let mode = Mode::from_bits_truncate(OF_ROOT);
    match mknod(Path::new(&path), node.kind, mode, makedev(node.major, node.minor)) {
        // Its driver is there already.
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(e) => return Err(AgentError::new("make the node", path, e)),
    }
    let Some((_, mode, group)) = RIGHTS.iter().find(|(name, ..)| *name == node.name) else {
        return Ok(());
    };
    let error = |e| AgentError::new("set the rights of", path.clone(), e);
    if let Some(group) = number_of(group, groups).filter(|group| *group != 0) {
        chown(&path, None, Some(group)).map_err(error)?;
    }
    fs::set_permissions(&path, Permissions::from_mode(*mode)).map_err(error)
}

/// The number of a group in the text of group(5).
fn number_of(name: &str, groups: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next() == Some(name);
        found.then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_depmod_is_read() {
        let node = |name, kind, major, minor| Some(Node { name, kind, major, minor });
        assert_eq!(Node::of_line("tun net/tun c10:200"), node("net/tun", SFlag::S_IFCHR, 10, 200));
        assert_eq!(Node::of_line("x loop0 b7:0"), node("loop0", SFlag::S_IFBLK, 7, 0));
        for line in [
            "# Device nodes to trigger on-demand module loading.",
            "",
            "x",
            "x y",
            "x y d1:2",
            "x y c1",
            "x y c1:z",
            "x ../y c1:2",
            "x /y c1:2",
            "x y \u{e9}1:2",
        ] {
            assert_eq!(Node::of_line(line), None, "{line}");
        }
    }

    #[test]
    fn a_group_has_the_number_of_the_roots_own_list() {
        let groups = "root:x:0:\ndisk:x:6:one,two\nkvm:x:no number:\nshort\n";
        assert_eq!(number_of("disk", groups), Some(6));
        assert_eq!(number_of("dis", groups), None);
        assert_eq!(number_of("kvm", groups), None);
        assert_eq!(number_of("short", groups), None);
    }
}
