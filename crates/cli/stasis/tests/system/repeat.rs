//! A run repeats itself, and its medium makes no difference.

use std::process::Command;

use serde_json::Value;
use stasis_results::comparable;

use crate::support::{guest_file, Bench, Finished};

fn run(bench: &Bench, results: &str, medium: &str) -> Finished {
    bench.image("late.img", 64 << 20);
    let run = bench.run(&[
        "--engine=exact",
        "--quiet",
        "--results",
        results,
        "--file",
        &guest_file("timing.sh"),
        &format!("--drive=model=uniform:50us-150us,{medium}"),
        "--",
        "sh",
        "/root/timing.sh",
    ]);
    run.expect(0);
    run
}

#[test]
fn a_run_repeats_itself_and_does_not_depend_on_its_medium() {
    let bench = Bench::new();
    let first = run(&bench, "first", "medium=ram:64MiB");
    // The third run keeps the booted guest, and goes on from there.
    let second = run(&bench, "second", "medium=ram:64MiB");
    let third = run(&bench, "third", "medium=ram:64MiB");
    let late = run(&bench, "late", "medium=file:late.img,delay=5ms");

    let parts = |results: &str| comparable(&bench.json(&format!("{results}/summary.json")));
    let bytes = |summary: &Value| serde_json::to_string_pretty(summary).unwrap();
    for (name, run) in [("second", &second), ("third", &third)] {
        assert_eq!(bytes(&parts("first")), bytes(&parts(name)));
        assert_eq!(first.stdout, run.stdout);
        let ios = bench.bytes("first/ios.csv") == bench.bytes(&format!("{name}/ios.csv"));
        assert!(ios, "the I/Os of the {name} run differ");
    }

    the_clock_is_the_experiments(&bench, &first);
    the_clock_is_the_experiments(&bench, &late);
    for file in ["ios.csv", "fio.json"] {
        let bytes_of = |results: &str| bench.bytes(&format!("{results}/{file}"));
        assert!(bytes_of("first") == bytes_of("late"), "{file} differs on a file that is late");
    }
}

/// Ten seconds of the guest's take hardly any of ours.
fn the_clock_is_the_experiments(bench: &Bench, run: &Finished) {
    let mut lines = run.stdout.lines();
    let summary = bench.json("first/summary.json");
    let date: u64 = lines.next().unwrap().parse().unwrap();
    assert_eq!(Some(date), summary["guest_date"].as_u64());
    let slept: u64 = lines.next().unwrap().strip_prefix("slept ").unwrap().parse().unwrap();
    // Starting `sleep` and `date` takes some milliseconds.
    assert!((10_000_000_000..10_100_000_000).contains(&slept), "slept {slept} ns");
    assert!(summary["skipped_seconds"].as_f64().unwrap() > 9.0);
    assert!(summary["virtual_seconds"].as_f64().unwrap() > 10.0);
}

/// Each process has the addresses of the one before: its code need not be translated again.
#[test]
fn programs_have_the_same_addresses_each_time() {
    let bench = Bench::new();
    let maps = "md5sum /proc/self/maps; cat /proc/sys/kernel/randomize_va_space";
    let run =
        bench.run(&["--engine=exact", "--quiet", "--", "sh", "-c", &format!("{maps}; {maps}")]);
    run.expect(0);
    let lines: Vec<_> = run.stdout.lines().collect();
    assert_eq!((lines.len(), lines[1]), (4, "0"), "{lines:?}");
    assert_eq!(lines[0], lines[2]);
    assert_eq!(bench.json("results/summary.json")["address_randomization"], false);
}

/// `command`, with kept boots of its own in `cache`.
pub(crate) fn with_cache(bench: &Bench, mut command: Command, cache: &str) -> Command {
    let own = bench.path(cache).join("stasis");
    if !own.exists() {
        std::fs::create_dir_all(&own).unwrap();
        let guests = stasis_guest_image::default_cache().unwrap();
        std::os::unix::fs::symlink(guests, own.join("guest")).unwrap();
    }
    command.env("XDG_CACHE_HOME", bench.path(cache));
    command
}

/// Runs an experiment of this seed that tells what is random in it, with kept boots of its own in
/// `cache`; its results.
fn drawn(bench: &Bench, cache: &str, seed: u64, results: &str) -> [String; 3] {
    let fault = "[[fault]]\nkind = 'slow'\ndrive = 'd'\nfactor = 3\nrate = 0.5\nbegin = '1ms'\n";
    let drive = "[[drive]]\nname = 'd'\nmodel = 'uniform:50us-150us'\nmedium = 'ram:64MiB'\n";
    let experiment = bench.path("drawn.toml");
    std::fs::write(&experiment, format!("virtual-limit = '{seed}0s'\n{drive}{fault}")).unwrap();
    let (seed, results) = (format!("--seed={seed}"), format!("--results={results}"));
    let script = guest_file("drawn.sh");
    let words = ["run", "--engine=exact", "--quiet", "--ios=csv", &seed, &results, "drawn.toml"];
    let command = ["--file", &script, "--", "sh", "/root/drawn.sh"];
    let command = bench.command(&[&words[..], &command[..]].concat());
    let run = bench.finish(with_cache(bench, command, cache));
    run.expect(0);
    let results = results.trim_start_matches("--results=");
    let summary = comparable(&bench.json(&format!("{results}/summary.json")));
    let ios = bench.text(&format!("{results}/ios.csv"));
    [run.stdout, serde_json::to_string_pretty(&summary).unwrap(), ios]
}

#[test]
fn a_kept_boot_serves_every_seed() {
    let bench = Bench::new();
    let booted =
        [3, 4].map(|seed| drawn(&bench, &format!("cache{seed}"), seed, &format!("b{seed}")));
    // The third run of a machine keeps its boot, whatever the seeds of those before were.
    let kept = [4, 3].map(|seed| drawn(&bench, "cache3", seed, &format!("k{seed}")));
    let guests = bench.path("cache3/stasis/softkvm/guests");
    let folders =
        std::fs::read_dir(guests).unwrap().flatten().filter(|entry| entry.path().is_dir());
    assert_eq!(folders.count(), 1, "each seed has a boot of its own");
    for (booted, kept) in booted.iter().zip([&kept[1], &kept[0]]) {
        for (booted, kept) in booted.iter().zip(kept) {
            assert_eq!(booted, kept);
        }
    }
    let [three, four] = &booted;
    for (one, other) in three[0].lines().zip(four[0].lines()).take(4) {
        assert_ne!(one, other, "the guest draws the same by another seed");
    }
    assert_ne!(three[2], four[2], "the drive draws the same by another seed");
}
