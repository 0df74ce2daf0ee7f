//! Drives as block devices of a host whose kernel has ublk: a guest under stock
//! QEMU is that host. Needs QEMU, and the network once for the guest:
//! `cargo test -p stasis --test ublk -- --ignored --nocapture`.
//! `KILLS` is how often the server is killed while fio verifies.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stasis_guest_image::{build, default_cache, Recipe};
use stasis_qemu_vm::{Config, Job, Piece, Vm};

#[test]
#[ignore = "boots a guest with another kernel: make system-test"]
fn drives_are_block_devices_of_a_host() {
    let cache = std::env::var_os("STASIS_TEST_CACHE").map(PathBuf::from);
    let cache = cache.or_else(default_cache).unwrap();
    // The first Debian release whose kernel has what is needed.
    // The modules are those of the test `nvme_tcp`, so that both have one guest.
    let recipe = Recipe {
        suite: "trixie".into(),
        kernel: "linux-image-amd64".into(),
        modules: vec!["nvme-tcp".into()],
        ..Recipe::default()
    };
    let program = Path::new(env!("CARGO_BIN_EXE_stasis"));
    let guest = build(&recipe, program, &cache, &mut |progress| eprintln!("{progress:?}")).unwrap();
    let mut vm = Vm::start(&Config { memory: 1 << 30, ..Config::new(guest) }).unwrap();
    let script = include_str!("guest/ublk.sh");
    let mut job = Job::new(vec!["bash".into(), "-c".into(), script.into()]);
    let kills = std::env::var("KILLS").unwrap_or_else(|_| "3".into());
    let kills: u64 = kills.parse().unwrap();
    job.environment.insert("KILLS".into(), kills.to_string());
    job.environment.insert("KILLS_BYTES".into(), format!("{}M", 16 * (kills + 1)));
    job.limit_ms = Duration::from_secs(120 + 15 * kills).as_millis() as u64;
    // The guest's agent may be a copy of an earlier program.
    let mut files = tar::Builder::new(Vec::new());
    files.append_path_with_name(program, "tmp/stasis").unwrap();
    let files = files.into_inner().unwrap();
    job.has_input = true;
    let mut said = String::new();
    let outcome = vm.run(&job, &mut files.as_slice(), &mut |piece| {
        if let Piece::Output(_, bytes) = piece {
            said += &String::from_utf8_lossy(bytes);
        }
    });
    let outcome = outcome.unwrap();
    eprintln!("{said}");
    assert_eq!((outcome.status, outcome.message.as_str()), (0, ""), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    let expected = [
        "size 67108864 block 512 cache write back",
        "gone after a stop",
        "1",
        &format!("fio after {kills} kills: ok"),
        "the same device",
        "ended in time",
        "stopped",
    ];
    for line in expected {
        assert!(lines.contains(&line), "there is no line `{line}` in:\n{said}");
    }
    assert!(said.contains("another program serves"), "{said}");
}
