//! A guest under stock QEMU that is the host of a server, with another kernel than the usual one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stasis_guest_image::{build, default_cache, Guest, Recipe};
use stasis_qemu_vm::{Job, Vm};

use crate::job;

/// The functions that scripts in such a guest share.
const FUNCTIONS: &str = include_str!("../guest/host.sh");

/// The guest with these modules, of the first Debian release whose kernel has what is needed, or
/// of `SUITE`, with its kernel or `KERNEL` (`linux-image-amd64/trixie-backports`). Tests that name the same modules have one guest.
pub fn guest(modules: &[&str]) -> Guest {
    let cache = std::env::var_os("STASIS_TEST_CACHE").map(PathBuf::from);
    let cache = cache.or_else(default_cache).unwrap();
    let recipe = Recipe {
        suite: std::env::var("SUITE").unwrap_or_else(|_| "trixie".into()),
        kernel: std::env::var("KERNEL").unwrap_or_else(|_| "linux-image-amd64".into()),
        modules: modules.iter().map(|module| module.to_string()).collect(),
        ..Recipe::default()
    };
    let program = Path::new(env!("CARGO_BIN_EXE_stasis"));
    build(&recipe, program, &cache, &std::sync::atomic::AtomicBool::new(false), &mut |progress| {
        eprintln!("{progress:?}")
    })
    .unwrap()
}

/// Returns the number of times that the server is killed while fio verifies, from `KILLS`.
pub fn kills() -> u64 {
    std::env::var("KILLS").map_or(3, |count| count.parse().expect("a number"))
}

/// Runs a script for at most `limit` seconds in a guest that has this program as /tmp/stasis, and
/// returns what it says. It is to succeed. The guest's agent may be a copy of an earlier program.
pub fn run(vm: &mut Vm, script: &str, limit: u64) -> String {
    let script = format!("{FUNCTIONS}\n{script}");
    let mut job = Job::new(vec!["bash".into(), "-c".into(), script]);
    let kills = kills();
    for (name, value) in [
        ("WATCH", (limit - 10).to_string()),
        ("KILLS", kills.to_string()),
        ("KILLS_BYTES", format!("{}M", 16 * (kills + 1))),
    ] {
        job.environment.insert(name.into(), value);
    }
    job.limit_ms = Duration::from_secs(limit).as_millis() as u64;
    let mut files = tar::Builder::new(Vec::new());
    files.append_path_with_name(env!("CARGO_BIN_EXE_stasis"), "tmp/stasis").unwrap();
    let files = files.into_inner().unwrap();
    job.has_input = true;
    job::succeed(vm, &job, &files)
}

/// Checks that a script has said each of these lines.
#[allow(dead_code)]
pub fn expect(output: &str, expected: &[&str]) {
    let lines: Vec<&str> = output.lines().collect();
    for line in expected {
        assert!(lines.contains(line), "there is no line `{line}` in:\n{output}");
    }
}
