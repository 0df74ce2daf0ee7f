//! Mistakes are reported in one message, at once, before anything is started; failures beside the
//! drives are reported with their cause.

use std::time::Duration;

use crate::support::{Bench, Finished};

/// Runs with `words` and checks that it fails quickly, saying `expected`.
#[track_caller]
fn fails(bench: &Bench, words: &[&str], expected: &[&str]) {
    let run = bench.run(&[words, &["--", "true"]].concat());
    assert!(!matches!(run.status, Some(0) | None), "{run:#?}");
    run.says(expected);
    assert!(run.wall < Duration::from_secs(5), "took {:?}", run.wall);
}

#[test]
fn words_that_are_not_known_name_their_place_and_the_nearest_right_one() {
    let bench = Bench::new();
    fails(&bench, &["--drive=modle=null,medium=ram:64MiB"], &["modle", "model"]);
    fails(&bench, &["--drive=model=dcpm,medium=ram:64MiB"], &["dcpm", "dcpmm"]);
    fails(&bench, &["--drive=model=fixed:100uss,medium=ram:64MiB"], &["100uss"]);
    fails(&bench, &["--drive=model=null,medium=ram:64MiX"], &["64MiX"]);
    fails(&bench, &["--drive=model=null,medium=rem:64MiB"], &["rem", "ram"]);
    fails(&bench, &["--drive=model=null"], &["medium"]);
    fails(&bench, &["--vcpus=65"], &["65", "64"]);
    fails(&bench, &["--memory=1GiBB"], &["--memory", "1GiBB"]);
    std::fs::write(bench.path("e.toml"), "seed = 1\n[machine]\nvcpu = 2\n").unwrap();
    fails(&bench, &["e.toml"], &["e.toml", "vcpu", "vcpus"]);
    fails(&bench, &["missing.toml"], &["missing.toml"]);
    std::fs::write(bench.path("e.toml"), "[guest]\nmodules = ['nfsd;x']\n").unwrap();
    fails(&bench, &["e.toml"], &["kernel module", "nfsd;x"]);
}

#[test]
fn media_that_cannot_be_used() {
    let bench = Bench::new();
    fails(&bench, &["--drive=model=null,medium=file:missing.img"], &["missing.img"]);
    bench.image("small.img", 4096);
    fails(&bench, &["--drive=model=null,medium=file:small.img"], &["small.img", "too small"]);
    bench.image("odd.img", (2 << 20) + 100);
    fails(&bench, &["--drive=model=null,medium=file:odd.img"], &["multiple", "512"]);
    bench.image("empty.img", 0);
    fails(&bench, &["--drive=model=null,medium=file:empty.img"], &["empty.img"]);
    std::fs::create_dir(bench.path("folder")).unwrap();
    fails(&bench, &["--drive=model=null,medium=file:folder"], &["folder"]);
    fails(&bench, &["--file=missing.txt"], &["missing.txt"]);
}

#[test]
fn a_machine_that_has_not_what_it_takes() {
    let bench = Bench::new();
    let mut command = bench.command(&["run", "--engine=exact", "--", "true"]);
    command.env("PATH", bench.path("."));
    let run = bench.finish(command);
    assert!(!matches!(run.status, Some(0) | None), "{run:#?}");
    run.says(&["qemu-system-x86"]);
    fails(&bench, &["--engine=exact", "--memory=100TiB"], &["memory"]);
}

/// Runs with `words`, where `small` is a disk of its own of that size.
fn run_on_small_disk(bench: &Bench, size: &str, words: &[&str]) -> Finished {
    std::fs::create_dir(bench.path("small")).unwrap();
    // In name spaces that end with the run.
    let mut command = std::process::Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let run = bench.command(words);
    let mount = format!("mount -t tmpfs -o size={size} tmpfs small && exec \"$@\"");
    command.args(["--mount", "sh", "-c", &mount, "sh"]).arg(run.get_program()).args(run.get_args());
    command.current_dir(bench.path("."));
    for (name, value) in run.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    command.stdin(std::process::Stdio::null());
    bench.finish(command)
}

#[test]
fn a_disk_without_room_for_results_is_told_before_anything_boots() {
    let bench = Bench::new();
    let run = run_on_small_disk(&bench, "4m", &["run", "--results=small/r", "--", "true"]);
    assert_eq!(run.status, Some(125), "{run:#?}");
    run.says(&["small/r", "room for 4 MiB more", "may take 16 MiB", "--results"]);
    assert!(run.wall < Duration::from_secs(5), "took {:?}", run.wall);
}

#[test]
fn a_full_disk_of_the_host_is_told_with_the_image_and_what_the_guest_was_told() {
    let bench = Bench::new();
    let words = [
        "run",
        "--drive=model=fixed:100us,medium=file:small/d.img,size=64MiB",
        "--",
        "sh",
        "-c",
        "dd if=/dev/zero of=/dev/nvme0n1 bs=1M count=8 oflag=direct 2>/dev/null; echo dd $?",
    ];
    let run = run_on_small_disk(&bench, "4m", &words);
    assert_eq!((run.status, run.stdout.trim()), (Some(0), "dd 1"), "{run:#?}");
    for word in [
        "file:small/d.img: write of",
        "the host's disk that holds",
        "is full (0 B free)",
        "Write Fault (0x280)",
    ] {
        assert!(run.stderr.contains(word), "no {word:?} in {run:#?}");
    }
    let drive = &bench.json("results/summary.json")["drives"][0];
    assert!(drive["first_error"]["cause"].as_str().unwrap().contains("is full"), "{drive}");
    assert!(bench.text("results/report.html").contains("Write Fault (0x280)"));
}
