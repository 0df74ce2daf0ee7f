//! Guests are put together as the machine that they stand for: device nodes, modules, udev's rules.

use std::fs;
use std::process::Command;

use crate::root::make_with;
use crate::support::Bench;

/// Prints the modules that a module of the root needs and that are not there. depmod's own list leaves
/// them out.
const MISSING: &str = "cd /lib/modules/$(uname -r)
    find kernel -name '*.ko*' >/tmp/files; [ $(wc -l </tmp/files) -gt 100 ]
    sed 's|.*/||; s|[.]ko.*||; s|-|_|g' /tmp/files modules.builtin >/tmp/there
    modinfo -F depends $(cat /tmp/files) | tr , '\\n' | tr - _ | sort -u | grep . >/tmp/needed
    grep -vxFf /tmp/there /tmp/needed || echo nothing is missing";

#[test]
fn a_guest_has_the_nodes_and_modules_of_its_kernel() {
    let bench = Bench::new();
    let script = format!(
        "set -e; mount -t cgroup2 | cut -d ' ' -f 3
        stat -c '%n %a %U:%G' /dev/btrfs-control /dev/fuse /dev/loop-control /dev/mapper/control
        mkfs.btrfs -q -d raid1 -m raid1 /dev/nvme0n1 /dev/nvme1n1 >/dev/null
        mount /dev/nvme0n1 /mnt; umount /mnt; echo of two drives
        truncate -s 16M /tmp/file; mkfs.ext4 -q -F /tmp/file
        mount -o loop /tmp/file /mnt; umount /mnt; echo of a file
        modprobe zram; modprobe udf; modprobe lockd; {MISSING}
        cat /proc/sys/kernel/tainted"
    );
    fs::write(bench.path("script.sh"), script).unwrap();
    let drive = "[[drive]]\nmodel = 'null'\nmedium = 'ram:256MiB'\n";
    let text = format!(
        "engine = 'exact'\ncommand = ['sh', '/root/script.sh']\n[guest]\nfiles = ['script.sh']\n\
         [machine]\nkernel-command-line = 'module.sig_enforce=1'\n{drive}{drive}"
    );
    fs::write(bench.path("e.toml"), text).unwrap();
    let run = bench.run(&["e.toml"]);
    run.expect(0);
    let expected = "/sys/fs/cgroup\n/dev/btrfs-control 600 root:root\n/dev/fuse 666 root:root\n\
        /dev/loop-control 660 root:disk\n/dev/mapper/control 600 root:root\n\
        of two drives\nof a file\nnothing is missing\n0\n";
    assert_eq!(run.stdout, expected, "{}", run.stderr);
}

/// Programs of device-mapper wait for the rules that their packages bring.
#[test]
#[ignore = "makes a root of Debian's packages: make slow-test"]
fn a_root_with_udevd_has_mapped_devices() {
    let bench = Bench::new();
    let root = bench.path("root.tar");
    let packages = "--include=usr-is-merged,udev,dmsetup,lvm2,kmod";
    let mut made = Command::new("mmdebstrap");
    made.args(["--quiet", "--variant=essential", packages, "bookworm"]).arg(root);
    assert!(made.status().unwrap().success());
    let script = "set -e; dmsetup create x --table '0 1000 linear /dev/nvme0n1 0'
        readlink /dev/mapper/x; dmsetup remove x; dmsetup udevcookies | grep -c 0x || true
        vgcreate -q -y v /dev/nvme0n1 >/dev/null; lvcreate -q -y -L 16M -n l v >/dev/null
        readlink /dev/v/l; cd /run/udev/rules.d; readlink 60-block.rules
        for rule in 55-dm 60-persistent-storage-dm 95-dm-notify; do [ ! -e $rule.rules ]; done
        cat /proc/sys/kernel/tainted";
    let drive = "--drive=model=null,medium=ram:64MiB";
    let words = ["--engine=exact", "--virtual-limit=60s", "--root=root.tar", drive];
    let run = bench.run(&[&words[..], &["--", "sh", "-c", script]].concat());
    run.expect(0);
    assert_eq!(run.stdout, "../dm-0\n0\n../dm-0\n/dev/null\n0\n", "{}", run.stderr);
}

/// The root has no program that loads modules.
#[test]
#[ignore = "builds a guest: make slow-test"]
fn modules_are_to_be_had_beside_a_root() {
    let bench = Bench::new();
    make_with(&bench.path("tree"), &["/bin/sh", "/bin/cat"]);
    let script = "[ -c /dev/net/tun ] && while read -r name rest; do
            case $name in tun|bridge|overlay) echo $name ;; esac
        done </proc/modules; cat /proc/sys/kernel/tainted";
    let text = format!(
        "engine = 'exact'\ncommand = ['sh', '-c', '''{script}''']\n\
         [guest]\nroot = 'tree'\nmodules = ['tun', 'bridge']\n"
    );
    fs::write(bench.path("e.toml"), text).unwrap();
    let run = bench.run(&["e.toml"]);
    run.expect(0);
    let mut lines: Vec<_> = run.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0", "bridge", "overlay", "tun"], "{}", run.stderr);
}
