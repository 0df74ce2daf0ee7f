//! Snapshots of runs: a run that continues from one is the run, to the byte.

use crate::support::{cut_image, guest_file, Bench};

/// The files of results that do not tell of the wall clock.
const SAME: [&str; 2] = ["ios.csv", "times.txt"];

fn words<'a>(results: &'a str, script: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let machine = ["run", "--quiet", "--ios=csv", "--engine=exact", "--vcpus=2", "--seed=7"];
    let drive = "--drive=name=d,model=flash-tlc,medium=ram:64MiB";
    let rest = ["--results", results, drive, "--file", script, "--", "sh", "/root/debug.sh"];
    [&machine[..], more, &rest].concat()
}

/// Two runs have left the same.
#[track_caller]
fn same(bench: &Bench, alone: &str, other: &str) {
    for file in SAME {
        let bytes_of = |results: &str| bench.bytes(&format!("{results}/{file}"));
        assert!(bytes_of(alone) == bytes_of(other), "{file} differs: {alone}, {other}");
    }
    let figures = |results: &str| {
        let mut summary = bench.json(&format!("{results}/summary.json"));
        let fields = ["virtual_seconds", "boot_virtual_seconds", "processors", "drives"];
        fields.map(|field| summary[field].take())
    };
    assert_eq!(figures(alone), figures(other), "summary.json differs: {alone}, {other}");
}

#[test]
fn a_run_from_a_snapshot_is_the_run() {
    let bench = Bench::new();
    let file = guest_file("debug.sh");
    let run =
        |results: &str, more: &[&str]| bench.finish(bench.command(&words(results, &file, more)));
    // It keeps the boot, from which the others begin.
    run("kept", &["--snapshots=60ms", "--snapshots=output:^mounted$", "--snapshots=io:d:100"])
        .expect(0);
    run("alone", &[]).expect(0);
    same(&bench, "alone", "kept");
    for from in ["100ms", "last"] {
        assert_eq!(run(from, &["--from", from]).expect(0).stdout, "mounted\n");
        same(&bench, "alone", from);
    }
    // Samples from a snapshot on change nothing either, and are of the time from there on.
    run("sampled", &["--from=100ms", "--profile=100us"]).expect(0);
    same(&bench, "alone", "sampled");
    let summary = bench.json("sampled/summary.json");
    let end = summary["virtual_seconds"].as_f64().unwrap();
    let samples = summary["profile"]["samples"].as_f64().unwrap();
    let least = (end - 0.1) / 1e-4 * 2.0 - 4.0;
    assert!((least..least + 1300.0).contains(&samples), "{samples} samples, {least} at least");
    // gdb sees the same at a moment that is reached from a snapshot, and goes back beyond it.
    let script = bench.path("moment.gdb");
    let gdb = "set pagination off\nmonitor time\np $rip\nbreak submit_bio\nreverse-continue\n\
               monitor time\nbt 2\nkill\n";
    std::fs::write(&script, gdb).unwrap();
    let look = |words: &[&str]| {
        let mut command = bench.command(&[&["debug", "--gdb", "--quiet"], words].concat());
        command.stdin(std::fs::File::open(&script).unwrap());
        let run = bench.finish(command);
        let output = format!("{}{}", run.stdout, run.stderr);
        assert!(output.contains("submit_bio") && output.contains("110000000 ns since"), "{output}");
        let its = |line: &&str| line.contains("ns since") || line.starts_with("#");
        output.lines().filter(its).map(str::to_owned).collect::<Vec<_>>()
    };
    let from = look(&["kept", "--at=110ms", "--results=from"]);
    // With another limit it is another run, which has no snapshots.
    let limited = ["--at=110ms", "--virtual-limit=1h"];
    let begun = look(&[&words("begun", &file, &limited)[2..]].concat());
    assert_eq!(from, begun);

    for (words, why) in [
        (&["--engine=exact", "--from=1ms"][..], "there is no snapshot of this run before that"),
        (&["--snapshots=0s"], "--snapshots: 0s is no interval"),
        (&["--snapshots=1ms", "--engine=softkvm"], "snapshots need the engine exact"),
    ] {
        let words = [&["run", "--results=refused"][..], words, &["--", "true"]].concat();
        let refused = bench.finish(bench.command(&words));
        assert!(refused.status != Some(0) && refused.stderr.contains(why), "{refused:?}");
    }
    let early = run("early", &["--from=1ms"]);
    assert!(early.stderr.contains("there is no snapshot of this run before that"), "{early:?}");
    let refused = bench.finish(bench.command(&["debug", "--snapshots=1ms", "--", "true"]));
    assert!(refused.stderr.contains("are for `stasis run`"), "{refused:?}");
}

/// A loop device, which ends with its owner.
struct Loop(String);

impl Loop {
    /// Over `file`; None where this user or machine has none.
    fn of(file: &std::path::Path) -> Option<Self> {
        let mut command = std::process::Command::new("losetup");
        let made = command.args(["--find", "--show"]).arg(file).output().ok()?;
        let name = String::from_utf8(made.stdout).ok()?;
        made.status.success().then(|| Self(name.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// Writes of a run to a medium on a file, an image or a device are in its snapshots, and not there.
#[test]
#[ignore = "runs a guest fifteen times: make slow-test"]
fn a_medium_that_lasts_is_read_and_stays_as_it_is() {
    let bench = Bench::new();
    let bytes: Vec<u8> = (0..16u32 << 20).map(|at| (at >> 12) as u8).collect();
    let fresh = |name: &str| std::fs::write(bench.path(name), &bytes).unwrap();
    for name in ["base.img", "d.img", "below.img", "device.img", "written.img"] {
        fresh(name);
    }
    for name in ["base.qcow2", "d.qcow2"] {
        let words = ["image", "create", "--backing", "below.img", name];
        bench.finish(bench.command(&words)).expect(0);
    }
    let mut cases = vec![
        ("file:d.img".to_owned(), "file:base.img".to_owned(), "base.img"),
        ("qcow2:d.qcow2".into(), "qcow2:base.qcow2".into(), "base.qcow2"),
    ];
    let devices = ["written.img", "device.img"].map(|name| Loop::of(&bench.path(name)));
    match &devices {
        [Some(written), Some(read)] => cases.push((
            format!("device:{}", written.0),
            format!("device:{}", read.0),
            "device.img",
        )),
        _ => eprintln!("no loop device: devices are left out"),
    }
    for (written, read, file) in &cases {
        stays_as_it_is(&bench, written, read, file);
    }
    // A mounted device changes under the run.
    if let [Some(written), _] = &devices {
        let mounted = bench.path("mounted");
        std::fs::create_dir(&mounted).unwrap();
        let shell = |line: String| {
            std::process::Command::new("sh").args(["-ec", &line]).status().unwrap().success()
        };
        let at = mounted.display();
        if shell(format!("mkfs.ext4 -qF {0}; mount {0} {at}", written.0)) {
            let drive = format!("--drive=name=d,model=fixed:50us,medium=device:{}", written.0);
            let words =
                ["run", "--quiet", "--engine=exact", "--snapshots=1s", &drive, "--", "true"];
            let refused = bench.finish(bench.command(&words));
            shell(format!("umount {at}"));
            assert!(refused.stderr.contains("the device is in use"), "{refused:?}");
        }
    }
}

/// Runs on `written`, and on the same bytes in `read`, which `file` of the bench holds.
#[track_caller]
fn stays_as_it_is(bench: &Bench, written: &str, read: &str, file: &str) {
    let script = "md5sum /dev/nvme0n1; mkfs.ext4 -q /dev/nvme0n1; mount /dev/nvme0n1 /mnt; \
                  dd if=/dev/urandom of=/mnt/f bs=64k count=40 2>/dev/null; sync; \
                  umount /mnt; e2fsck -fn /dev/nvme0n1; md5sum /dev/nvme0n1";
    let words = |results: &str, medium: &str, more: &[&str]| {
        // Its times follow from where the bytes lie.
        let drive = format!("--drive=name=d,model=jpt39c,medium={medium}");
        let words = ["run", "--quiet", "--ios=csv", "--engine=exact", "--results", results, &drive];
        let words = [&words[..], more, &["--", "sh", "-c", script]].concat();
        words.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let run = |results: &str, medium: &str, more: &[&str]| {
        let words = words(results, medium, more);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        bench.finish(bench.command(&words))
    };
    let name = |suffix: &str| format!("{file}.{suffix}");
    let bytes = || std::fs::read(bench.path(file)).unwrap();
    let before = bytes();
    let alone = run(&name("alone"), written, &[]).expect(0).stdout.clone();
    let kept = run(&name("kept"), read, &["--snapshots=20ms"]);
    kept.expect(0);
    assert!(kept.stdout == alone, "{file}: {kept:?}, {alone}");
    assert!(run(&name("from"), read, &["--from=last"]).expect(0).stdout == alone, "{file}");
    for results in ["kept", "from"] {
        same_ios(bench, &name("alone"), &name(results));
        assert!(bytes() == before, "{file}: {results} has changed it");
    }
    // One that has changed makes another run, which has no snapshots.
    match read.strip_prefix("device:") {
        Some(device) => {
            use std::io::Write;
            let mut device = std::fs::File::options().write(true).open(device).unwrap();
            device.write_all(&before[..4096]).unwrap();
        }
        None => std::fs::write(bench.path(file), &before).unwrap(),
    }
    let other = run(&name("other"), read, &["--from=last"]);
    assert!(other.stderr.contains("there is no snapshot of this run"), "{file}: {other:?}");
}

/// A run from a snapshot reads what is still to be read from its medium's file.
#[test]
#[ignore = "runs a guest three times: make slow-test"]
fn a_run_from_a_snapshot_reads_its_file() {
    let bench = Bench::new();
    let bytes: Vec<u8> =
        (0..16u32 << 18).flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    std::fs::write(bench.path("d.img"), bytes).unwrap();
    let script = "dd if=/dev/nvme0n1 bs=4k count=3 iflag=direct 2>/dev/null | md5sum; sleep 0.1; \
                  dd if=/dev/nvme0n1 bs=4k skip=1000 count=100 iflag=direct 2>/dev/null | md5sum";
    let run = |results: &str, more: &[&str]| {
        let words = ["run", "--quiet", "--ios=csv", "--engine=exact", "--results", results];
        let drive = ["--drive=name=d,model=fixed:20us,medium=file:d.img"];
        let words = [&words[..], &drive, more, &["--wall-limit=60s", "--", "sh", "-c", script]];
        bench.finish(bench.command(&words.concat())).expect(0).stdout.clone()
    };
    let alone = run("alone", &[]);
    assert_eq!(run("kept", &["--snapshots=30ms"]), alone);
    // Before the second reader, and after the first one's first command.
    assert_eq!(run("from", &["--from=last"]), alone);
    same_ios(&bench, "alone", "kept");
    same_ios(&bench, "alone", "from");
}

/// A power cut in a run with snapshots leaves of an image what it leaves of one whose file is written, and
/// a run from before the cut, and one from after it, are that run.
#[test]
#[ignore = "runs a guest 12 times: make slow-test"]
fn an_image_whose_power_is_cut_stays_as_it_is() {
    let bench = Bench::new();
    let text = cut_image(
        "engine = \"exact\"\nseed = 3\n",
        "ls /mnt | wc -l; cat /mnt/* | md5sum; umount /mnt",
    );
    std::fs::write(bench.path("cut.toml"), text).unwrap();
    for options in ["cluster_size=65536", "cluster_size=4096,lazy_refcounts=on"] {
        let name = |prefix: &str| format!("{prefix}-{}", options.len());
        let path = bench.path("disk.qcow2").to_str().unwrap().to_owned();
        let create = || {
            let words = ["create", "-q", "-f", "qcow2", "-o", options, &path, "64M"];
            let made = std::process::Command::new("qemu-img").args(words).status();
            assert!(made.expect("qemu-img is installed").success());
        };
        let run = |prefix: &str, more: &[&str]| {
            let results = name(prefix);
            let words = ["run", "cut.toml", "--quiet", "--ios=csv", "--results", &results];
            bench.finish(bench.command(&[&words[..], more].concat())).expect(0).stdout.clone()
        };
        create();
        let alone = run("alone", &[]);
        assert!(alone.starts_with("synced\n"), "{alone}");
        create();
        let before = std::fs::read(&path).unwrap();
        let kept = run("kept", &["--snapshots=30ms"]);
        assert_eq!(kept, alone, "{options}");
        same_ios(&bench, &name("alone"), &name("kept"));
        let cut = bench.text(&format!("{}/ios.csv", name("alone"))).lines().count();
        assert!(cut > 500, "{cut} I/Os");
        // The machine is off for 100 ms before its last boot.
        for from in ["150ms", "200ms", "250ms", "last"] {
            assert_eq!(run(from, &["--from", from]), alone, "{options}, {from}");
            same_ios(&bench, &name("alone"), &name(from));
        }
        assert!(std::fs::read(&path).unwrap() == before, "{options}: the image has changed");
    }
}

/// Images on a shared drive.
#[test]
#[ignore = "runs two guests four times: make slow-test"]
fn images_on_a_shared_drive_stay_as_they_are() {
    let bench = Bench::new();
    let machine = |name: &str| {
        format!(
            "[[machine]]\nname = '{name}'\nmemory = '256MiB'\ncommand = ['sh', '-c', \
             'dd if=/dev/urandom of=/dev/vda bs=4k count=60 oflag=direct; md5sum /dev/vda']\n\
             [[machine.disk]]\non = 'd'\nimage = '{name}.qcow2'\noffset = '{}'\n",
            if name == "one" { "0" } else { "64MiB" }
        )
    };
    let text = format!(
        "engine = 'exact'\n[[drive]]\nname = 'd'\nmodel = 'jpt39c'\nmedium = {{ ram = '256MiB' }}\n\
         scheduler = 'bfq'\n{}{}",
        machine("one"),
        machine("two")
    );
    std::fs::write(bench.path("run.toml"), text).unwrap();
    let create = || {
        for name in ["one.qcow2", "two.qcow2"] {
            let _ = std::fs::remove_file(bench.path(name));
            let words = ["image", "create", name, "16MiB"];
            bench.finish(bench.command(&words)).expect(0);
        }
    };
    let images = || ["one.qcow2", "two.qcow2"].map(|name| std::fs::read(bench.path(name)).unwrap());
    let run = |results: &str, more: &[&str]| {
        let words = ["run", "run.toml", "--quiet", "--ios=csv", "--results", results];
        bench.finish(bench.command(&[&words[..], more].concat())).expect(0).stdout.clone()
    };
    create();
    let before = images();
    let alone = run("alone", &[]);
    assert!(images() != before);
    create();
    let before = images();
    assert_eq!(run("kept", &["--snapshots=20ms"]), alone);
    assert_eq!(run("from", &["--from=last"]), alone);
    assert!(images() == before, "an image has changed");
    same_ios(&bench, "alone", "kept");
    same_ios(&bench, "alone", "from");
}

/// Two runs have had the same I/Os.
#[track_caller]
fn same_ios(bench: &Bench, one: &str, other: &str) {
    let bytes_of = |results: &str| bench.bytes(&format!("{results}/ios.csv"));
    assert!(bytes_of(one) == bytes_of(other), "ios.csv differs: {one}, {other}");
}

/// Two machines on a network with flash drives that collect garbage, and a run from each of fifty
/// snapshots.
#[test]
#[ignore = "continues a run of two machines with 16 processors fifty times: make slow-test"]
fn each_of_fifty_snapshots_is_the_run() {
    let bench = Bench::new();
    let experiment = r#"
engine = "exact"
seed   = 3
[[network]]
name  = "lan"
delay = "50us"
[[machine]]
name    = "server"
vcpus   = 8
wait    = false
command = ["sh", "-c", """
fio --name=w --filename=/dev/nvme0n1 --rw=randwrite --bs=4k --direct=1 --size=48M --numjobs=4 --number_ios=1000 >/dev/null &
exec perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(LocalPort => 7, Listen => 9, ReuseAddr => 1) or die; while ($c = $s->accept) { while (sysread $c, $b, 65536) { syswrite $c, $b } }'"""]
[[machine.drive]]
name   = "s"
model  = { kind = "flash", base = "flash-tlc", precondition = "steady" }
medium = { ram = "64MiB" }
[[machine]]
name    = "client"
vcpus   = 8
command = ["sh", "-c", """
fio --name=m --filename=/dev/nvme0n1 --rw=randrw --bs=4k --direct=1 --size=48M --numjobs=4 --number_ios=500 --output-format=json --output=/results/fio.json &
perl -MIO::Socket::INET -e 'select undef, undef, undef, 0.05; $s = IO::Socket::INET->new("server:7") or die "$!"; for (1 .. 100) { syswrite $s, "x" x 100; sysread $s, $b, 100 } print "done\n"'; wait"""]
[[machine.drive]]
name   = "c"
model  = { kind = "flash", base = "flash-tlc", precondition = "steady" }
medium = { ram = "64MiB" }
"#;
    std::fs::write(bench.path("two.toml"), experiment).unwrap();
    let run = |results: &str, more: &[&str]| {
        let words = ["run", "two.toml", "--quiet", "--ios=csv", "--results", results];
        bench.finish(bench.command(&[&words[..], more].concat())).expect(0);
        let output = bench.bytes(&format!("{results}/ios.csv"));
        (output, bench.bytes(&format!("{results}/lan.pcapng")))
    };
    let alone = run("alone", &[]);
    assert!(run("kept", &["--snapshots=5ms"]) == alone, "a run that keeps snapshots is another");
    let end = bench.json("alone/summary.json")["virtual_seconds"].as_f64().unwrap();
    let mut continued = 0;
    for number in 1..=50 {
        let from = format!("{}us", (end * 1e6 * f64::from(number) / 50.0) as u64);
        if end * 1e3 * f64::from(number) / 50.0 < 10.0 {
            continue;
        }
        continued += 1;
        assert!(run(&from, &["--from", &from]) == alone, "the run from {from} is another");
    }
    assert!(continued >= 40, "{continued} snapshots in {end} s");
}
