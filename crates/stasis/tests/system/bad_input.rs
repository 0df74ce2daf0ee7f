//! Mistakes are told in one message, at once, before anything is started.

use std::time::Duration;

use crate::support::Bench;

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
