//! Drives as NVMe/TCP targets: a guest under stock QEMU has the server and Linux's own client,
//! which find each other by the loopback. Needs QEMU, and the network once for the guest:
//! `cargo test -p stasis --test nvme_tcp -- --ignored --nocapture`.
//! `KILLS` is how often the server is killed while fio verifies.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stasis_guest_image::{build, default_cache, Recipe};
use stasis_qemu_vm::{Config, Job, Piece, Vm};

#[test]
#[ignore = "boots a guest with another kernel: make system-test"]
fn linux_connects_by_tcp() {
    let cache = std::env::var_os("STASIS_TEST_CACHE").map(PathBuf::from);
    let cache = cache.or_else(default_cache).unwrap();
    let suite = std::env::var("SUITE").unwrap_or_else(|_| "trixie".into());
    let recipe = Recipe {
        suite,
        kernel: "linux-image-amd64".into(),
        modules: vec!["nvme-tcp".into()],
        ..Recipe::default()
    };
    let program = Path::new(env!("CARGO_BIN_EXE_stasis"));
    let guest = build(&recipe, program, &cache, &mut |progress| eprintln!("{progress:?}")).unwrap();
    let mut vm = Vm::start(&Config { memory: 1 << 30, ..Config::new(guest) }).unwrap();
    let script = include_str!("guest/nvme_tcp.sh");
    let mut job = Job::new(vec!["bash".into(), "-c".into(), script.into()]);
    let kills = std::env::var("KILLS").unwrap_or_else(|_| "3".into());
    let kills: u64 = kills.parse().unwrap();
    let limit = 240 + 15 * kills;
    job.environment.insert("KILLS".into(), kills.to_string());
    job.environment.insert("KILLS_BYTES".into(), format!("{}M", 16 * (kills + 1)));
    job.environment.insert("WATCH".into(), (limit - 10).to_string());
    job.limit_ms = Duration::from_secs(limit).as_millis() as u64;
    let mut said = String::new();
    let outcome = vm.run(&job, &mut std::io::empty(), &mut |piece| {
        if let Piece::Output(_, bytes) = piece {
            said += &String::from_utf8_lossy(bytes);
        }
    });
    let outcome = outcome.unwrap();
    eprintln!("{said}");
    assert_eq!((outcome.status, outcome.message.as_str()), (0, ""), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    let expected = [
        "discovered",
        "size 67108864 block 512 queues 2",
        "health",
        "file system",
        "disconnected",
        "digests",
        "reset",
        "refused",
        "allowed",
        "zoned host-managed zones 16",
        "zone written",
        &format!("fio after {kills} kills: ok"),
        "stopped",
    ];
    for line in expected {
        assert!(lines.contains(&line), "there is no line `{line}` in:\n{said}");
    }
    assert!(said.to_lowercase().contains("invalid"), "{said}");
}
