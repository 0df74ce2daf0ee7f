//! Damages of files that later runs use again: each is named, and the run is the run without.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::repeat::with_cache;
use crate::support::{Bench, Finished};

const SCRIPT: &str =
    "for word in a b c d e f; do echo $word; dd if=/dev/nvme0n1 of=/dev/null bs=4k \
                      count=9 iflag=direct 2>/dev/null; sleep 0.02; done";

/// A drive that makes another machine, with the same first boot: from the third run on it is kept itself.
fn other(number: usize) -> String {
    format!("--drive=model=null,medium=ram:{}MiB", 64 + number / 3)
}

/// A run with kept files of its own.
fn run(bench: &Bench, results: &str, more: &[&str]) -> Finished {
    let drive = "--drive=model=uniform:50us-150us,medium=ram:64MiB";
    let results = format!("--results={results}");
    let words = ["run", "--engine=exact", "--quiet", "--ios=csv", "--seed=5", drive, &results];
    let words = [&words[..], more, &["--", "sh", "-c", SCRIPT]].concat();
    bench.finish(with_cache(bench, bench.command(&words), "cache"))
}

/// All kept files, by their folder below the cache and their name.
fn files(cache: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(cache).unwrap().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// The kind of a kept file: the folder of its kind, its depth there, and its name.
fn kind(cache: &Path, path: &Path) -> Option<(String, usize, String)> {
    let parts: Vec<_> = path.strip_prefix(cache).ok()?.iter().map(|part| part.to_str()).collect();
    let parts: Vec<&str> = parts.into_iter().collect::<Option<_>>()?;
    let is_kept = matches!(parts[0], "guests" | "firsts" | "snapshots") && parts.len() > 2;
    let name = *parts.last()?;
    // The list of sound files is made again; a lock has no content.
    let is_content = !["sound", "recorded"].contains(&name);
    (is_kept && is_content).then(|| (parts[0].to_owned(), parts.len(), name.to_owned()))
}

/// Flips a bit of the first byte in the last MiB that is not zero, or else of the first byte.
fn flip(path: &Path) -> bool {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let mut begin = length.saturating_sub(1 << 20);
    let mut byte = [0];
    while begin < length {
        file.read_exact_at(&mut byte, begin).unwrap();
        if byte[0] != 0 {
            file.write_all_at(&[byte[0] ^ 0x10], begin).unwrap();
            return true;
        }
        begin += 1;
    }
    length > 0 && {
        file.read_exact_at(&mut byte, 0).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], 0).unwrap();
        true
    }
}

/// Ways to damage a file.
fn damage(way: &str, path: &Path) -> bool {
    match way {
        "flip" => flip(path),
        "cut" => {
            let file = File::options().write(true).open(path).unwrap();
            let length = file.metadata().unwrap().len();
            file.set_len(length / 2).unwrap();
            length > 0
        }
        _ => std::fs::remove_file(path).is_ok(),
    }
}

/// Damages a file of each of these kinds in each of these ways, and runs from it.
fn damages(ways: &[&str], least: usize, kinds: impl Fn(&str, &str) -> bool) {
    let bench = Bench::ended_after(Duration::from_secs(3600));
    let alone = run(&bench, "alone", &[]);
    alone.expect(0);
    run(&bench, "again", &[]).expect(0);
    let cache = bench.path("cache/stasis/softkvm");
    run(&bench, "kept", &["--snapshots=30ms"]).expect(0);
    // Machines with other drives are kept as well later on.
    let guests = std::fs::read_dir(cache.join("guests")).unwrap().flatten();
    let own: Vec<PathBuf> = guests.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    let is_other = |path: &Path| {
        path.starts_with(cache.join("guests")) && !own.iter().any(|own| path.starts_with(own))
    };
    let mut done = std::collections::BTreeSet::new();
    for way in ways {
        loop {
            run(&bench, "kept", &["--snapshots=30ms"]).expect(0);
            let mut all = Vec::new();
            files(&cache, &mut all);
            all.sort();
            let next = all.into_iter().find_map(|path| {
                let kind = kind(&cache, &path).filter(|_| !is_other(&path))?;
                let is_new = kinds(&kind.0, &kind.2) && !done.contains(&(*way, kind.clone()));
                is_new.then_some((path, kind))
            });
            let Some((path, kind)) = next else { break };
            done.insert((*way, kind.clone()));
            if !damage(way, &path) {
                continue;
            }
            // First boots are used where a kept guest is not there; snapshots by runs from them.
            let (from, other) = (["--from=last"], other(done.len()));
            let other = [other.as_str()];
            let more: &[&str] = match kind.0.as_str() {
                "firsts" => &other,
                "snapshots" => &from,
                _ => &[],
            };
            let found = run(&bench, "found", more);
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(found.stderr.contains("is damaged"), "{way} {kind:?}: {found:?}");
            assert!(found.stderr.contains(name), "{way} {kind:?}: {found:?}");
            // Without the base of all snapshots none is left.
            if found.status != Some(0) {
                assert!(kind.0 == "snapshots" && kind.1 == 3, "{way} {kind:?}: {found:?}");
                continue;
            }
            if more != other {
                assert_eq!(found.stdout, alone.stdout, "{way} {kind:?}");
                let same = bench.text("found/ios.csv") == bench.text("alone/ios.csv");
                assert!(same, "{way} {kind:?}: other I/Os");
            }
        }
    }
    assert!(done.len() >= least * ways.len(), "{done:?}");
}

#[test]
fn a_damaged_machine_or_snapshot_is_named_and_not_used() {
    damages(&["flip"], 2, |folder, name| {
        matches!((folder, name), ("guests", "ram") | ("snapshots", "pages"))
    });
}

#[test]
#[ignore = "runs a guest two hundred times: make slow-test"]
fn any_damage_of_any_kept_file_is_named() {
    damages(&["flip", "cut", "lose"], 4, |_, _| true);
}
