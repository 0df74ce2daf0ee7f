//! The commands that mmdebstrap runs in the new root file system.

use std::path::Path;

/// A hook that fetches `kernel`, and makes the archive and the image, with the
/// kernel modules `more` beside those for storage. The build began at `started`, in
/// seconds since 1970.
///
/// `kernel` is a package's name by Debian's rules, so it needs no quoting; it
/// is quoted nevertheless.
pub(crate) fn hook(kernel: &str, more: &[String], started: u64) -> String {
    let script = include_str!("customize.sh");
    let (kernel, more) = (quote(kernel), quote(&more.join(" ")));
    format!("kernel={kernel}\nmore={more}\nstarted={started}\n{script}")
}

/// A hook that sees whether the release has `packages` and `kernel`, before any is fetched.
/// `kernel`: the package's name, or nothing for one of the user's own.
pub(crate) fn look_up(packages: &[String], kernel: &str) -> String {
    let script = include_str!("setup.sh");
    let (packages, kernel) = (quote(&packages.join(" ")), quote(kernel));
    format!("packages={packages}\nkernel={kernel}\n{script}")
}

/// A hook that has dpkg in the new root leave out what lies in `folders` of /usr/share, before any package is
/// there. mmdebstrap's own option for it (`--dpkgopt`) pipes each essential package through a program in Python.
pub(crate) fn exclude(folders: &[&str]) -> String {
    let lines = folders.iter().map(|name| format!("'path-exclude=/usr/share/{name}/*'"));
    let lines = lines.collect::<Vec<_>>().join(" ");
    format!("cd \"$1\" && mkdir -p {DPKG} && printf '%s\\n' {lines} >{DPKG}/stasis")
}

/// Configuration of dpkg in the new root.
const DPKG: &str = "etc/dpkg/dpkg.cfg.d";

/// A hook that empties `folders` of /usr/share, which essential packages were unpacked into without dpkg,
/// and makes the folders `kept` that packages' own scripts expect, such as update-alternatives with its links
/// to manual pages.
pub(crate) fn empty(folders: &[&str], kept: &[String]) -> String {
    let removed = folders.iter().map(|name| format!("usr/share/{name}"));
    let removed = removed.collect::<Vec<_>>().join(" ");
    format!("cd \"$1\" && rm -rf {removed} && mkdir -p {}", kept.join(" "))
}

/// A hook that copies `from` in the new root to `to` on this machine.
pub(crate) fn download(from: &str, to: &Path) -> String {
    format!("download {from} {}", quote(&to.display().to_string()))
}

/// Place in the new root of a kernel of the user's own for [`hook`], which takes it away.
const OWN_KERNEL: &str = "/.stasis-kernel";

/// A hook that makes that folder.
pub(crate) fn own_kernel_folder() -> String {
    format!("mkdir \"$1{OWN_KERNEL}\"")
}

/// A hook that unpacks `archive` of this machine there.
pub(crate) fn unpack_own_kernel(archive: &Path) -> String {
    format!("tar-in {} {OWN_KERNEL}", quote(&archive.display().to_string()))
}

/// Text as one word of a POSIX shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn quoted_text_is_one_word() {
        for text in ["plain", "with blank", "it's", "$HOME `id` \\"] {
            let script = format!("printf %s {}", quote(text));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }

    /// The modules that those in `list` bring with them, by the hook's own function.
    fn needed(list: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "modules.dep",
            "kernel/block/zram.ko.xz: kernel/mm/zsmalloc.ko.xz\nkernel/mm/zsmalloc.ko.xz:\n\
             kernel/fs/nfsd.ko.xz: kernel/net/sunrpc.ko.xz kernel/fs/nfs-acl.ko.xz\n\
             kernel/net/sunrpc.ko.xz:\nkernel/fs/nfs-acl.ko.xz: kernel/net/sunrpc.ko.xz\n\
             kernel/crypto/md5.ko.xz: kernel/lib/sums.ko.xz\nkernel/lib/sums.ko.xz:\n\
             kernel/net/nf-log-syslog.ko.xz:\nkernel/net/other.ko.xz:\n",
        );
        write(
            "modules.softdep",
            "# comment\nsoftdep nfsd pre: crypto-md5 missing post: nf_log_syslog\nsoftdep other\n",
        );
        write("modules.alias", "alias crypto-md5 md5\nalias pci:v*d* other\nalias\n");
        write("list", list);
        let script = include_str!("customize.sh");
        let start = script.find("needed_modules() {").unwrap();
        let end = start + script[start..].find("\n}\n").unwrap() + 3;
        let script = format!("set -eu\n{}\nneeded_modules . list", &script[start..end]);
        let mut command = Command::new("sh");
        let output = command.args(["-c", &script]).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut lines: Vec<_> =
            String::from_utf8(output.stdout).unwrap().lines().map(String::from).collect();
        lines.sort();
        lines
    }

    #[test]
    fn modules_come_with_all_that_they_need() {
        let zram = ["kernel/block/zram.ko.xz", "kernel/mm/zsmalloc.ko.xz"];
        assert_eq!(needed("kernel/block/zram.ko.xz\n"), zram);
        // Soft dependencies by name or by alias, and those that they need; each once.
        let of_nfsd = [
            "kernel/crypto/md5.ko.xz",
            "kernel/fs/nfs-acl.ko.xz",
            "kernel/fs/nfsd.ko.xz",
            "kernel/lib/sums.ko.xz",
            "kernel/net/nf-log-syslog.ko.xz",
            "kernel/net/sunrpc.ko.xz",
        ];
        assert_eq!(needed("kernel/fs/nfsd.ko.xz\nkernel/fs/nfs-acl.ko.xz\n"), of_nfsd);
        assert_eq!(needed(""), [""; 0]);
    }

    #[test]
    fn the_hook_is_a_script() {
        let script = hook("linux-image-amd64", &["nfsd".into(), "tun".into()], 1);
        let status = Command::new("sh").args(["-n", "-c", &script]).status();
        assert!(status.unwrap().success());
    }
}
