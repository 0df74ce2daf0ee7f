//! The activity of a guest's bfq reaches a folder that looks like a cgroup.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::process::Signal;
use stasis_qemu_vm::{Cache, Drive};

use crate::support::{run, start, Host, TIMEOUT, WATCH};

/// A folder that looks like a cgroup with a weight of bfq's.
fn cgroup(folder: &Path, name: &str) -> PathBuf {
    let cgroup = folder.join(name);
    fs::create_dir(&cgroup).unwrap();
    fs::write(cgroup.join("cgroup.procs"), "").unwrap();
    fs::write(cgroup.join("io.bfq.weight"), "default 100\n").unwrap();
    cgroup
}

fn weight(cgroup: &Path) -> String {
    let text = fs::read_to_string(cgroup.join("io.bfq.weight")).unwrap();
    text.trim().trim_start_matches("default ").to_owned()
}

/// A program that was idle and begins to read: bfq raises its weight.
const READ: &str = "dd if=/dev/vda of=/dev/null bs=4k count=2000 iflag=direct 2>/dev/null";

#[test]
#[ignore = "boots a guest: make system-test"]
fn a_guests_bfq_raises_the_weight_of_its_cgroup() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::File::create(&disk).unwrap().set_len(256 << 20).unwrap();
    let (mut vm, socket) = start(folder.path(), Drive::raw(&disk, Cache::Writeback));
    let (cgroup, state) = (cgroup(folder.path(), "guest"), folder.path().join("state"));
    let words = [format!("{}={}", socket.display(), cgroup.display()), state.display().to_string()];
    let arguments = ["--state", &words[1], &words[0]];
    run(&mut vm, WATCH);
    let mut host = Host::start(&arguments);
    host.wait(": connected");
    assert_eq!(weight(&cgroup), "100");
    run(&mut vm, READ);
    host.wait(": helped");
    host.wait(": not helped any more");
    assert_eq!(weight(&cgroup), "100");

    // Killed while it helps: the weight stays, and the next one restores it.
    run(&mut vm, &format!("while :; do {READ}; done >/dev/null 2>&1 & echo $! >/tmp/reader"));
    host.wait(": helped");
    assert_eq!(weight(&cgroup), "1000");
    host.signal(Signal::KILL);
    assert_eq!(weight(&cgroup), "1000");
    let mut host = Host::start(&arguments);
    host.wait(": helped");
    host.signal(Signal::TERM);
    assert_eq!(weight(&cgroup), "100");

    // The guest's side dies while it asks.
    let host = Host::start(&arguments);
    host.wait(": helped");
    run(&mut vm, "kill -STOP $(cat /tmp/id)");
    host.wait(": not helped any more");
    run(&mut vm, "kill -CONT $(cat /tmp/id)");
    host.wait(": helped");
    assert_eq!(weight(&cgroup), "1000");
    run(&mut vm, "kill $(cat /tmp/id); until grep -q woken /tmp/said; do sleep 0.1; done");
    host.wait(": not helped any more");
    print!("{}", run(&mut vm, "cat /tmp/said"));

    // The whole guest goes.
    run(&mut vm, WATCH);
    host.wait(": helped");
    drop(vm);
    host.wait(": disconnected");
    let until = Instant::now() + TIMEOUT;
    while weight(&cgroup) != "100" {
        assert!(Instant::now() < until);
        std::thread::yield_now();
    }
}

/// In the guest, whose kernel has cgroup v2: a missing part is reported, and a weight that a killed
/// process has left is restored.
const VERSION_2: &str =
    "umount /sys/fs/cgroup; mkdir /tmp/cg; mount -t cgroup2 none /tmp/cg; mkdir /tmp/cg/guest
    host() { timeout -s INT 2 stasis-coordinate host --state /tmp/state /tmp/none=$1 2>&1; }
    host /tmp/cg; host /tmp/cg/guest
    echo +io >/tmp/cg/cgroup.subtree_control; cat /tmp/cg/guest/io.bfq.weight
    host /tmp/cg/guest
    printf 'default 100\\nraised to\\ndefault 1000\\nend\\n' >/tmp/state/%2Ftmp%2Fcg%2Fguest
    echo 1000 >/tmp/cg/guest/io.bfq.weight; cat /tmp/cg/guest/io.bfq.weight
    host guest; cat /tmp/cg/guest/io.bfq.weight; cat /tmp/state/*guest; true";

#[test]
#[ignore = "boots a guest: make system-test"]
fn weights_of_cgroup_v2_are_understood() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::File::create(&disk).unwrap().set_len(1 << 20).unwrap();
    let (mut vm, _) = start(folder.path(), Drive::raw(&disk, Cache::Writeback));
    let output = run(&mut vm, VERSION_2);
    let lines: Vec<&str> = output.lines().collect();
    let expected = [
        "is the root of its hierarchy",
        "echo +io > /tmp/cg/cgroup.subtree_control",
        "default 100",
        "it is not there yet",
        "weight set 0 times, failed 0",
        "default 1000",
        "it is not there yet",
        "weight set 0 times, failed 0",
        "default 100",
    ];
    assert_eq!(lines.len(), expected.len(), "{output}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.contains(expected), "{line}: {expected} in\n{output}");
    }
}
