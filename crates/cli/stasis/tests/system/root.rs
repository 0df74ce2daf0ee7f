//! Guests on a root file system of the user's own. Each form of one is tested in the crate
//! `guest-root`; here one of each way boots that a guest can have it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::Bench;

/// A root with this machine's shell, its libraries, and nothing else.
fn make(folder: &Path) {
    make_with(folder, &["/bin/sh"]);
}

/// A root with these programs of this machine and their libraries, and nothing else.
pub fn make_with(folder: &Path, programs: &[&str]) {
    for name in ["bin", "etc"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    for program in programs {
        let file = fs::canonicalize(program).unwrap();
        let listed = Command::new("ldd").arg(&file).output().unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        let libraries = text.split_whitespace().filter(|word| word.starts_with('/'));
        for library in libraries {
            let to = folder.join(library.trim_start_matches('/'));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(library, to).unwrap();
        }
        fs::copy(file, folder.join("bin").join(Path::new(program).file_name().unwrap())).unwrap();
    }
    fs::write(folder.join("etc/whose"), "the user's own\n").unwrap();
}

#[test]
fn a_guest_starts_from_a_folder() {
    let bench = Bench::new();
    make(&bench.path("tree"));
    let script = "read -r text < /etc/whose; echo \"$text\"
        [ -b /dev/nvme0n1 ] && [ -d /lib/modules ] && echo complete
        echo written > /etc/whose && echo overlaid > /results/file
        [ -e /usr/bin/fio ] || echo alone
        read -r taint </proc/sys/kernel/tainted; echo \"taint $taint\"
        [ -c /dev/fuse ] && [ -c /dev/loop-control ] && [ -e /sys/fs/cgroup/cgroup.procs ] && echo ready
        [ -e /usr/lib/udev/rules.d/60-block.rules ] && echo kept";
    // The root has no udevd; what it brings for one stays.
    fs::create_dir_all(bench.path("tree/usr/lib/udev/rules.d")).unwrap();
    fs::write(bench.path("tree/usr/lib/udev/rules.d/60-block.rules"), "").unwrap();
    let words = ["--engine=exact", "--root=tree", "--drive=model=fixed:10us,medium=ram:64MiB"];
    let run = bench.run(&[&words[..], &["--", "sh", "-c", script]].concat());
    run.expect(0);
    let expected = "the user's own\ncomplete\nalone\ntaint 0\nready\nkept\n";
    assert_eq!(run.stdout, expected, "{}", run.stderr);
    assert_eq!(bench.text("results/file"), "overlaid\n");
    assert_eq!(fs::read_to_string(bench.path("tree/etc/whose")).unwrap(), "the user's own\n");
    let summary = bench.json("results/summary.json");
    assert_eq!(summary["guest_recipe"]["root"], "tree");
    let digest = summary["guest"].as_str().unwrap().to_owned();
    // The same again, from a file; the error names the part that the root lacks.
    let text = "engine = 'exact'\ncommand = ['fio', '--version']\n[guest]\nroot = 'tree'\n";
    fs::write(bench.path("e.toml"), text).unwrap();
    let run = bench.run(&["e.toml", "--results=again"]);
    assert_eq!(run.status, Some(127), "{run:#?}");
    run.says(&["fio: command not found in the guest", "tree: install the command there"]);
    assert_eq!(bench.json("again/summary.json")["guest"], digest.as_str());
}

/// Most of its bytes are holes: the folder has too much for a guest's memory, and little on the
/// disk.
#[test]
fn a_large_folder_is_read_where_it_lies() {
    let bench = Bench::new();
    let tree = bench.path("tree");
    make_with(&tree, &["/bin/sh", "/usr/bin/sha256sum", "/bin/cat"]);
    let pattern: Vec<u8> = (0..3_000_001u32).flat_map(|word| word.to_le_bytes()).collect();
    fs::write(tree.join("etc/pattern"), &pattern).unwrap();
    bench.image("tree/holes", 3 << 30);
    let script = "cat /etc/whose; sha256sum </etc/pattern
        [ $(cat /sys/block/vda/size) = 131072 ] && [ $(cat /sys/block/vdb/ro) = 1 ] && echo last
        [ -d /lib/modules/*/kernel ] && [ -c /dev/loop-control ] && echo written >/etc/whose && cat /etc/whose";
    let drive = "--drive=model=fixed:10us,medium=ram:64MiB,interface=virtio-blk";
    let words = ["--engine=exact", "--root=tree", drive, "--", "sh", "-c", script];
    let run = bench.run(&words);
    run.expect(0);
    let file = fs::File::open(tree.join("etc/pattern")).unwrap();
    let sum = Command::new("sha256sum").stdin(file).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    let expected = format!("the user's own\n{sum}last\nwritten\n");
    assert_eq!(run.stdout, expected, "{}", run.stderr);
    assert_eq!(fs::read_to_string(tree.join("etc/whose")).unwrap(), "the user's own\n");
    // Reads of the root are no part of the experiment.
    let summary = bench.json("results/summary.json");
    assert_eq!(summary["drives"].as_array().unwrap().len(), 1);
    // Now it is another root, and another guest.
    fs::write(tree.join("etc/whose"), "mine\n").unwrap();
    let run = bench.run(&words);
    run.expect(0);
    assert!(run.stdout.starts_with("mine\n"), "{}", run.stdout);
    assert_ne!(bench.json("results/summary.json")["guest"], summary["guest"]);
}

/// A crash test's check runs many times in a guest under stock QEMU, and so does that of one cut.
#[test]
fn checks_have_the_root_that_the_run_had() {
    let bench = Bench::new();
    make_with(&bench.path("tree"), &["/bin/sh", "/bin/dd"]);
    bench.image("tree/holes", 3 << 30);
    let run = "for word in one two three; do
            echo $word | dd of=/dev/nvme0n1 conv=sync,fsync status=none; echo $word
        done";
    let check = "read -r whose </etc/whose; found=$(dd if=/dev/nvme0n1 bs=6 count=1 status=none); [ -b /dev/vda ] || exit 9
        while read -r line; do last=$line; done <$STASIS_OUTPUT_LINES
        echo \"$whose: $last, $found\"; [ -z \"$last\" ] || case $found in one|two|three) ;; *) exit 1;; esac";
    fs::write(bench.path("run.sh"), run).unwrap();
    fs::write(bench.path("check.sh"), check).unwrap();
    fs::write(
        bench.path("crash.toml"),
        "engine = 'exact'\ncommand = ['sh', '/root/run.sh']\ncheck = 'sh /root/check.sh'\nresults = 'r'\n\
         [guest]\nroot = 'tree'\nfiles = ['run.sh', 'check.sh']\n\
         [[drive]]\nmodel = 'fixed:100us'\nmedium = { ram = '16MiB' }\n",
    )
    .unwrap();
    // Each guest of a check boots.
    let words = ["crash-test", "crash.toml", "--checkers=1", "--states=20"];
    bench.finish(bench.command(&words)).expect(0);
    let report = bench.json("r/crash-test.json");
    assert!(report["checked"].as_u64() > Some(3), "{report}");
    // A check that finds something is heard, with the text of the root's file.
    let words = [
        "crash-test",
        "crash.toml",
        "--checkers=1",
        "--trace=r",
        "--states=1",
        "--check-every=2",
        "--results=again",
    ];
    // Neither on the disks before the command nor on the completed ones.
    let check = "--check=read -r whose </etc/whose; echo \"$whose\"
        [ $STASIS_LINE_COUNT != 1 ] || exit 3";
    bench.finish(bench.command(&[&words[..], &[check]].concat())).expect(1);
    let report = bench.json("again/crash-test.json").to_string();
    assert!(report.contains("the check's status is 3: the user's own"), "{report}");
    bench.run(&["crash.toml", "--power-cut=io:2", "--results=cut"]).expect(0);
    assert_eq!(fs::read_to_string(bench.path("tree/etc/whose")).unwrap(), "the user's own\n");
}

#[test]
fn a_guest_starts_from_a_disk_of_a_file_system_that_only_its_kernel_reads() {
    let bench = Bench::new();
    bench.image("disk.img", 320 << 20);
    let script = "set -e; mkfs.xfs -q /dev/nvme0n1; mount /dev/nvme0n1 /mnt; cd /mnt
        libraries=lib/x86_64-linux-gnu; mkdir -p bin etc lib64 $libraries; cp /bin/sh /bin/cat bin; cp --dereference /lib64/ld-linux-x86-64.so.2 lib64
        cp --dereference /$libraries/libc.so.6 $libraries; echo of XFS >etc/whose";
    let drive = "--drive=model=null,medium=file:disk.img";
    bench.run(&["--engine=exact", drive, "--", "sh", "-c", script]).expect(0);
    let script = "cat /etc/whose; echo more >>/etc/whose; cat /proc/mounts; [ -b /dev/nvme0n1 ]";
    let drive = "--drive=model=null,medium=ram:64MiB";
    let words = ["--engine=exact", "--root=disk.img", drive, "--", "sh", "-c", script];
    for _ in 0..2 {
        let run = bench.run(&words);
        run.expect(0);
        assert!(run.stdout.starts_with("of XFS\n"), "{}", run.stdout);
    }
}

#[test]
fn a_root_that_cannot_be_used_is_told_before_a_guest_is_made() {
    let bench = Bench::new();
    let cache = bench.path("cache");
    let fails = |words: &[&str], expected: &[&str]| {
        let mut command = bench.command(&[&["run"], words, &["--", "true"]].concat());
        command.env("XDG_CACHE_HOME", &cache);
        let run = bench.finish(command);
        assert_eq!(run.status, Some(125), "{run:#?}");
        run.says(expected);
        let count = fs::read_dir(cache.join("stasis/guest")).map_or(0, |entries| entries.count());
        assert_eq!(count, 0, "something is left in the cache");
    };
    fails(&["--root=absent"], &["absent"]);
    fs::create_dir_all(bench.path("empty/etc")).unwrap();
    fails(&["--root=empty"], &["empty", "no /bin/sh"]);
    fs::write(bench.path("text"), "a file").unwrap();
    fails(&["--root=text"], &["text", "neither a folder"]);
    bench.image("image", 4 << 20);
    fails(&["--root=image"], &["image", "no Linux"]);
    make(&bench.path("tree"));
    fails(&["--root=tree", "--packages=jq"], &["packages", "root"]);
    fails(&["--root=/dev/zero"], &["/dev/zero", "neither a folder nor a file"]);
    // Nor does a kernel that cannot be used leave anything.
    fails(&["--kernel=./text"], &["text", "no kernel"]);
    fails(&["--kernel=./text", "--root=tree"], &["text", "no kernel"]);
    fs::write(bench.path("kernel.deb"), "no package").unwrap();
    fails(&["--kernel=./kernel.deb"], &["kernel.deb", "no Debian package"]);
}
