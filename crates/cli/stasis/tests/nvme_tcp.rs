//! Drives as NVMe/TCP targets: a guest under stock QEMU has the server and Linux's own client,
//! which find each other by the loopback. Needs QEMU, and the network once for the guest:
//! `cargo test -p stasis --test nvme_tcp -- --ignored --nocapture`.
//! `KILLS` is how often the server is killed while fio verifies.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stasis_guest_image::{build, default_cache, Recipe};
use stasis_qemu_vm::{Config, Job, Piece, Vm};

/// A guest of another kernel than the usual one, with these modules.
fn guest(modules: &[&str]) -> stasis_guest_image::Guest {
    let cache = std::env::var_os("STASIS_TEST_CACHE").map(PathBuf::from);
    let cache = cache.or_else(default_cache).unwrap();
    let suite = std::env::var("SUITE").unwrap_or_else(|_| "trixie".into());
    let recipe = Recipe {
        suite,
        kernel: "linux-image-amd64".into(),
        modules: modules.iter().map(|module| module.to_string()).collect(),
        ..Recipe::default()
    };
    let program = Path::new(env!("CARGO_BIN_EXE_stasis"));
    build(&recipe, program, &cache, &mut |progress| eprintln!("{progress:?}")).unwrap()
}

/// Runs a script in a guest that has this program as /tmp/stasis, and returns what it says.
fn run(vm: &mut Vm, script: &str, limit: u64, environment: &[(&str, String)]) -> String {
    let mut job = Job::new(vec!["bash".into(), "-c".into(), script.into()]);
    job.environment.insert("WATCH".into(), (limit - 10).to_string());
    for (name, value) in environment {
        job.environment.insert(name.to_string(), value.clone());
    }
    job.limit_ms = Duration::from_secs(limit).as_millis() as u64;
    let mut said = String::new();
    // The guest's agent may be a copy of an earlier program.
    let mut files = tar::Builder::new(Vec::new());
    files.append_path_with_name(env!("CARGO_BIN_EXE_stasis"), "tmp/stasis").unwrap();
    let files = files.into_inner().unwrap();
    job.has_input = true;
    let outcome = vm.run(&job, &mut files.as_slice(), &mut |piece| {
        if let Piece::Output(_, bytes) = piece {
            said += &String::from_utf8_lossy(bytes);
        }
    });
    let outcome = outcome.unwrap();
    eprintln!("{said}");
    assert_eq!((outcome.status, outcome.message.as_str()), (0, ""), "{said}");
    said
}

#[test]
#[ignore = "boots a guest with another kernel: make system-test"]
fn linux_connects_by_tcp() {
    let guest = guest(&["nvme-tcp"]);
    let mut vm = Vm::start(&Config { memory: 1 << 30, ..Config::new(guest) }).unwrap();
    let kills = std::env::var("KILLS").unwrap_or_else(|_| "3".into());
    let kills: u64 = kills.parse().unwrap();
    let environment =
        [("KILLS", kills.to_string()), ("KILLS_BYTES", format!("{}M", 16 * (kills + 1)))];
    let script = include_str!("guest/nvme_tcp.sh");
    let said = run(&mut vm, script, 240 + 15 * kills, &environment);
    let lines: Vec<&str> = said.lines().collect();
    let expected = [
        "discovered",
        "size 67108864 block 512 queues 2",
        "health",
        "file system",
        "disconnected",
        "digests",
        "reset",
        "nothing failed",
        "refused",
        "allowed",
        "two paths",
        "one path is enough",
        "written before",
        "the holder writes",
        "zoned host-managed zones 16",
        "zone written",
        &format!("fio after {kills} kills: ok"),
        "stopped",
    ];
    for line in expected {
        assert!(lines.contains(&line), "there is no line `{line}` in:\n{said}");
    }
    let lower = said.to_lowercase();
    assert!(lower.contains("zone invalid write"), "{said}");
    assert!(lower.contains("reservation conflict"), "{said}");
}

#[test]
#[ignore = "measures for minutes on an idle machine: make slow-test"]
fn figures() {
    let guest = guest(&["nvme-tcp", "nvmet-tcp", "brd"]);
    // The server and its client compute side by side.
    let config = Config { memory: 1 << 30, vcpus: 2, ..Config::new(guest) };
    let mut vm = Vm::start(&config).unwrap();
    let said = run(&mut vm, include_str!("guest/nvme_tcp_bench.sh"), 600, &[]);
    let median = |target: &str, depth: &str| {
        let of = said.lines().filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words.first() == Some(&target) && words.get(1) == Some(&depth))
                .then(|| words[2].parse::<f64>().unwrap())
        });
        let mut of: Vec<f64> = of.collect();
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    };
    for depth in ["1", "32"] {
        let (ours, kernel) = (median("stasis", depth), median("nvmet", depth));
        println!("QD{depth}: {ours:.0} IOPS, nvmet {kernel:.0}, ratio {:.2}", ours / kernel);
    }
}
