//! Common mistakes and their messages: each mistake is reported in one message, at once, with the
//! wrong word and its correction. No guest is needed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Status of what the program refuses, and of what the command line's grammar does.
const REFUSED: i32 = 125;
const USAGE: i32 = 2;

/// Words that a message must not have: they are the parser's, or a programmer's.
const FOREIGN: [&str; 12] = [
    "panicked",
    "expected a sequence",
    "expected u",
    "expected i6",
    "expected struct",
    "invalid type",
    "Some(",
    "None",
    "Err(",
    " 1 bytes",
    "unwrap",
    "(os error 17): ",
];

struct Case {
    words: &'static [&'static str],
    status: i32,
    says: &'static [&'static str],
}

const fn refused(words: &'static [&'static str], says: &'static [&'static str]) -> Case {
    Case { words, status: REFUSED, says }
}

const fn usage(words: &'static [&'static str], says: &'static [&'static str]) -> Case {
    Case { words, status: USAGE, says }
}

const CASES: &[Case] = &[
    // Words.
    usage(&["run", "--seed", "-1", "--", "true"], &["`-1` is no seed", "from 0 to"]),
    usage(&["run", "--seed=-1", "--", "true"], &["`-1` is no seed"]),
    usage(&["sim", "null", "--seed", "-1"], &["`-1` is no seed"]),
    usage(&["crash-test", "x.toml", "--seed", "-1"], &["`-1` is no seed"]),
    usage(
        &["run", "--vcpus", "2", "fio", "job.fio", "--direct=1"],
        &["goes after `--`: stasis run --vcpus 2 -- fio job.fio --direct=1"],
    ),
    usage(&["run", "ls", "-l"], &["stasis run -- ls -l"]),
    usage(&["shell", "bash", "-c", "echo a"], &["stasis shell -- bash -c 'echo a'"]),
    // Drives in words.
    refused(
        &["run", "--drive=modle=null,medium=ram:64MiB", "--", "true"],
        &["modle", "did you mean `model`"],
    ),
    refused(&["run", "--drive=model=dcpm,medium=ram:64MiB", "--", "true"], &["dcpm", "dcpmm"]),
    refused(
        &["run", "--drive=model=fixed:1u,medium=ram:64MiB", "--", "true"],
        &["unit `u`", "did you mean `us`"],
    ),
    refused(
        &["run", "--drive=model=fixed:100,medium=ram:64MiB", "--", "true"],
        &["needs a unit", "100us"],
    ),
    refused(
        &["run", "--drive=model=null,medium=ram:64Mib", "--", "true"],
        &["Mib", "did you mean `MiB`"],
    ),
    refused(&["run", "--drive=model=null,medium=ram:1", "--", "true"], &["at least 1MiB"]),
    refused(
        &["run", "--drive=model=null,medium=rem:64MiB", "--", "true"],
        &["rem", "did you mean `ram`"],
    ),
    refused(&["run", "--drive=model=null", "--", "true"], &["medium is missing", "ram:1GiB"]),
    refused(&["run", "--drive=model=null,medium=ram:64MiB,size=1GiB", "--", "true"], &["ram:SIZE"]),
    refused(
        &["run", "--drive=model=null,medium=file:no.img", "--", "true"],
        &["no.img", "no such image", "size=1GiB"],
    ),
    refused(
        &["run", "--drive=model=null,medium=file:folder", "--", "true"],
        &["folder", "directory"],
    ),
    refused(
        &["run", "--drive=model=null,medium=file:empty.img", "--", "true"],
        &["empty.img", "truncate -s"],
    ),
    refused(
        &["run", "--drive=model=null,medium=file:small.img", "--", "true"],
        &["small.img", "too small"],
    ),
    refused(
        &["run", "--drive=model=null,medium=device:small.img", "--", "true"],
        &["not a block device", "small.img`"],
    ),
    refused(
        &["run", "--drive=model=null,medium=ordered:small.img", "--", "true"],
        &["stasis serve"],
    ),
    refused(&["run", "--drive=model=jpt39c,medium=ram:2TiB", "--", "true"], &["jpt39c", "1TB"]),
    refused(&["run", "--drive=model=null,medium=ram:64MiB,queues=0", "--", "true"], &["1 to 64"]),
    // Experiment files.
    refused(&["run", "nofile.toml"], &["nofile.toml", "No such file"]),
    refused(
        &["run", "job.fio"],
        &["job.fio", "stasis sim MODEL --workload job.fio", "--file job.fio -- fio job.fio"],
    ),
    refused(&["crash-test", "job.fio"], &["a job file of fio"]),
    refused(&["run", "text.toml"], &["text.toml", "line 1", "is not a list", "[\"one\", \"two\"]"]),
    refused(&["run", "vcpus.toml"], &["line 2", "`-1`", "whole number"]),
    refused(&["run", "word.toml"], &["vcpu", "did you mean `vcpus`"]),
    refused(&["run", "table.toml"], &["`7` is not a list"]),
    refused(&["run", "model.toml"], &["fixed:100us", "line 2"]),
    refused(&["crash-test", "text.toml"], &["text.toml", "is not a list"]),
    // Machines.
    refused(&["run", "--vcpus=65", "--", "true"], &["65", "1 to 64"]),
    refused(&["run", "--memory=1GiBB", "--", "true"], &["--memory", "1GiBB"]),
    refused(&["run", "--memory=1MiB", "--", "true"], &["at least 192MiB"]),
    usage(&["run", "--cpu-speed=0", "--", "true"], &["5GHz"]),
    usage(&["run", "--engine=qemu", "--", "true"], &["kvm", "exact"]),
    refused(&["run", "fio"], &["fio", "after `--`", "stasis run -- fio"]),
    refused(&["run"], &["no command", "stasis run -- uname -a"]),
    // Simulations.
    usage(&["sim", "null"], &["--workload", "--trace"]),
    refused(&["sim", "nosuch", "--workload=job.fio"], &["nosuch", "stasis models"]),
    refused(&["sim", "null", "--workload=nofile.fio"], &["nofile.fio", "No such file"]),
    refused(&["sim", "null", "--workload=text.toml"], &["line 1", "[global]"]),
    refused(&["sim", "null", "--workload=job.fio"], &["job.fio", "--size"]),
    refused(&["sim", "null", "--workload=job.fio", "--size=1"], &["--size", "512"]),
    refused(&["sim", "null", "--trace=small.img"], &["no trace", "blkparse"]),
    // Images.
    refused(&["image", "create", "new.qcow2", "0"], &["a size of 0", "not 0"]),
    refused(&["image", "create", "new.qcow2", "1"], &["1B", "512"]),
    refused(&["image", "create", "small.img", "1MiB"], &["small.img", "File exists"]),
    refused(
        &["image", "check", "small.img"],
        &["no qcow2 image", "file:small.img", "stasis image convert"],
    ),
    refused(&["image", "convert", "no.img", "new.qcow2"], &["no.img", "No such file"]),
    // Servers.
    refused(&["run", "fault.toml"], &["fault[0].kind", "line 6", "did you mean `lost-write`?"]),
    refused(&["serve", "gone.toml"], &["`gone`", "no effect on a served drive"]),
    refused(&["serve"], &["no drive to serve", "--drive"]),
    refused(
        &[
            "serve",
            "--sockets=sockets",
            "--drive=model=null,medium=ram:64MiB",
            "--drive=model=null,medium=ram:64MiB",
            "--vfio-user=d.sock",
        ],
        &["one socket, d.sock", "2 drives", "name a folder"],
    ),
    refused(
        &["serve", "--drive=model=null,medium=ram:64MiB,zones.size=8MiB", "--sockets=sockets"],
        &["`zones` is NVMe's", "--vfio-user"],
    ),
    refused(
        &["serve", "--drive=model=null,medium=ram:64MiB,metadata-size=8", "--sockets=sockets"],
        &["`metadata` is NVMe's", "--vfio-user"],
    ),
    refused(
        &["serve", "--drive=model=null,medium=ram:64MiB,metadata-size=8", "--nvme-tcp=0"],
        &["behind the data", "extended = true"],
    ),
    refused(
        &["run", "--drive=model=null,medium=ram:64MiB,metadata-size=8,scheduler=bfq", "--", "true"],
        &["metadata", "no scheduler"],
    ),
    refused(
        &[
            "serve",
            "--sockets=sockets",
            "--drive=model=null,medium=ram:64MiB",
            "--vfio-user=/dev/null",
        ],
        &["/dev/null", "no socket"],
    ),
    refused(
        &["serve", "--sockets=sockets", "--drive=model=null,medium=ram:16384TiB"],
        &["this machine has"],
    ),
    refused(
        &["serve", "--sockets=sockets", "--drive=model=null,medium=ram:64MiB,delay=1ms"],
        &["delay", "fixed:"],
    ),
    // The rest.
    refused(&["models", "nosuch"], &["nosuch", "stasis models"]),
    refused(&["calibrate", "small.img"], &["small.img", "blkparse"]),
    usage(&["reproduce", "nosuch"], &["freezing-time", "femu"]),
    usage(&["rum"], &["run"]),
];

fn prepare(folder: &Path) {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("text.toml", "command = \"fio\"\n");
    write("vcpus.toml", "[machine]\nvcpus = -1\n");
    write("word.toml", "[machine]\nvcpu = 2\n");
    write("table.toml", "drive = 7\n");
    write("model.toml", "[[drive]]\nmodel = 7\nmedium = \"ram:64MiB\"\n");
    let fault = |kind: &str| {
        format!(
            "command = [\"true\"]\n[[drive]]\nmodel = \"null\"\nmedium = \"ram:64MiB\"\n\
             [[fault]]\nkind = \"{kind}\"\n"
        )
    };
    write("fault.toml", &fault("lost-writes"));
    write("gone.toml", &fault("gone"));
    write("job.fio", "[job]\nrw=randread\nbs=4k\nnumber_ios=10\n");
    write("empty.img", "");
    write("small.img", &"\0".repeat(4096));
    std::fs::create_dir(folder.join("folder")).unwrap();
}

#[test]
fn mistakes_are_told_at_once_and_in_plain_words() {
    assert!(CASES.len() >= 40);
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let mut wrong = Vec::new();
    for case in CASES {
        let began = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_stasis"))
            .args(case.words)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let mut problems: Vec<String> = Vec::new();
        if output.status.code() != Some(case.status) {
            problems.push(format!("ends with {:?}", output.status.code()));
        }
        if !output.stdout.is_empty() {
            problems.push("prints to its output".into());
        }
        let missing = case.says.iter().filter(|part| !stderr.contains(**part));
        problems.extend(missing.map(|part| format!("does not say {part:?}")));
        let foreign = FOREIGN.iter().filter(|part| stderr.contains(**part));
        problems.extend(foreign.map(|part| format!("says {part:?}")));
        if stderr.lines().count() > 12 {
            problems.push("is long".into());
        }
        if began.elapsed() > Duration::from_secs(5) {
            problems.push(format!("takes {:?}", began.elapsed()));
        }
        if !problems.is_empty() {
            wrong.push(format!("{:?} {}:\n{stderr}", case.words, problems.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for made in
        ["new.qcow2", "no.img", "sockets/control.sock", "results/ios.csv", "results/ios.parquet"]
    {
        assert!(!folder.path().join(made).exists(), "{made} was left");
    }
}

#[test]
fn a_raw_image_is_described() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let info = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
        command.args(["image", "info", "small.img"]).args(words).current_dir(folder.path());
        String::from_utf8(command.stdin(Stdio::null()).output().unwrap().stdout).unwrap()
    };
    assert!(info(&[]).contains("small.img: raw\ndisk: 4KiB"), "{}", info(&[]));
    let json: serde_json::Value = serde_json::from_str(&info(&["--json"])).unwrap();
    assert_eq!((json["format"].as_str(), json["size"].as_u64()), (Some("raw"), Some(4096)));
}

#[test]
fn a_named_model_says_how_large_its_drive_is() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let output = Command::new(env!("CARGO_BIN_EXE_stasis"))
        .args(["sim", "samsung-980-pro", "--workload=job.fio"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary = std::fs::read_to_string(folder.path().join("results/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["capacity"].as_u64(), Some(1_000_204_886_016));
}
