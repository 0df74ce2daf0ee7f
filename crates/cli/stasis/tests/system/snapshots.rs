//! Snapshots of runs: a run that continues from one is the run, to the byte.

use crate::support::{guest_file, Bench};

/// The files of results that do not tell of the wall clock.
const SAME: [&str; 2] = ["ios.csv", "fio.json"];

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
        let of = |results: &str| bench.bytes(&format!("{results}/{file}"));
        assert!(of(alone) == of(other), "{file} differs: {alone}, {other}");
    }
    let told = |results: &str| {
        let mut summary = bench.json(&format!("{results}/summary.json"));
        let fields = ["virtual_seconds", "boot_virtual_seconds", "processors", "drives"];
        fields.map(|field| summary[field].take())
    };
    assert_eq!(told(alone), told(other), "summary.json differs: {alone}, {other}");
}

#[test]
fn a_run_from_a_snapshot_is_the_run() {
    let bench = Bench::new();
    let file = guest_file("debug.sh");
    let run =
        |results: &str, more: &[&str]| bench.finish(bench.command(&words(results, &file, more)));
    run("alone", &[]).expect(0);
    run("kept", &["--snapshots=60ms", "--snapshots=output:^mounted$", "--snapshots=io:d:100"])
        .expect(0);
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
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(said.contains("submit_bio") && said.contains("110000000 ns since"), "{said}");
        let its = |line: &&str| line.contains("ns since") || line.starts_with("#");
        said.lines().filter(its).map(str::to_owned).collect::<Vec<_>>()
    };
    let from = look(&["kept", "--at=110ms", "--results=from"]);
    // Another environment is another run, which has no snapshots.
    let begun = look(&[&words("begun", &file, &["--at=110ms", "--memory=1008MiB"])[2..]].concat());
    assert_eq!(from.len(), begun.len(), "{from:?} {begun:?}");

    bench.finish(bench.command(&["image", "create", "d.qcow2", "1MiB"])).expect(0);
    for (words, why) in [
        (&["--engine=exact", "--from=1ms"][..], "there is no snapshot of this run before that"),
        (&["--snapshots=0s"], "--snapshots: 0s is no interval"),
        (&["--snapshots=1ms", "--engine=softkvm"], "snapshots need the engine exact"),
        (&["--snapshots=1ms", "--drive=model=null,medium=qcow2:d.qcow2"], "medium=ram:SIZE"),
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

/// Writes of a run to a medium on a file are in its snapshots, and not in the file.
#[test]
#[ignore = "runs a guest five times: make slow-test"]
fn a_medium_on_a_file_is_read_and_stays_as_it_is() {
    let bench = Bench::new();
    let bytes: Vec<u8> = (0..16u32 << 20).map(|at| (at >> 12) as u8).collect();
    std::fs::write(bench.path("base.img"), &bytes).unwrap();
    std::fs::copy(bench.path("base.img"), bench.path("d.img")).unwrap();
    let script = "md5sum /dev/nvme0n1; mkfs.ext4 -q /dev/nvme0n1; mount /dev/nvme0n1 /mnt; \
                  dd if=/dev/urandom of=/mnt/f bs=64k count=40 2>/dev/null; sync; \
                  umount /mnt; e2fsck -fn /dev/nvme0n1; md5sum /dev/nvme0n1";
    let run = |results: &str, file: &str, more: &[&str]| {
        let drive = format!("--drive=name=d,model=fixed:50us,medium=file:{file}");
        let words = ["run", "--quiet", "--ios=csv", "--engine=exact", "--results", results, &drive];
        let words = [&words[..], more, &["--", "sh", "-c", script]].concat();
        bench.finish(bench.command(&words)).expect(0).stdout.clone()
    };
    let alone = run("alone", "d.img", &[]);
    assert!(std::fs::read(bench.path("d.img")).unwrap() != bytes, "a plain run writes to its file");
    let kept = run("kept", "base.img", &["--snapshots=20ms"]);
    assert_eq!(kept, alone);
    for results in ["kept", "from"] {
        if results == "from" {
            assert_eq!(run("from", "base.img", &["--from=last"]), alone);
        }
        same_ios(&bench, "alone", results);
        assert!(
            std::fs::read(bench.path("base.img")).unwrap() == bytes,
            "{results}: the file is another"
        );
    }
    // A file that has changed makes another run, which has no snapshots.
    std::fs::write(bench.path("base.img"), &bytes).unwrap();
    let drive = "--drive=name=d,model=fixed:50us,medium=file:base.img";
    let words = ["run", "--quiet", "--engine=exact", "--results=other", "--from=last", drive];
    let other = bench.finish(bench.command(&[&words[..], &["--", "sh", "-c", script]].concat()));
    assert!(other.stderr.contains("there is no snapshot of this run"), "{other:?}");
}

/// Two runs have had the same I/Os.
#[track_caller]
fn same_ios(bench: &Bench, one: &str, other: &str) {
    let of = |results: &str| bench.bytes(&format!("{results}/ios.csv"));
    assert!(of(one) == of(other), "ios.csv differs: {one}, {other}");
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
