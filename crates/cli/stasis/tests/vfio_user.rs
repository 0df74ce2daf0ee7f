//! Drives by vfio-user in a guest under stock QEMU, 10.1 or later: this machine's, or that of the
//! root of `scripts/test-on trixie-backports`.
//! `cargo test -p stasis --test served vfio_user:: -- --ignored --nocapture`

#[path = "newer_qemu/boot_sector.rs"]
mod boot_sector;

use crate::job;
use crate::newer_qemu;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::server::serve;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::json;
use stasis_guest_image::{build, default_cache, Guest, Recipe};
use stasis_qemu_vm::{Config, Job, Vm};

fn guest() -> Guest {
    let cache = std::env::var_os("STASIS_TEST_CACHE").map(PathBuf::from);
    let cache = cache.or_else(default_cache).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_stasis"));
    build(
        &Recipe::default(),
        program,
        &cache,
        &std::sync::atomic::AtomicBool::new(false),
        &mut |progress| eprintln!("{progress:?}"),
    )
    .unwrap()
}

/// The argument of `-device` for a socket.
fn device(path: &Path, id: &str, bus: &str) -> serde_json::Value {
    json!({ "driver": "vfio-user-pci", "id": id, "bus": bus,
            "socket": { "type": "unix", "path": path } })
}

/// The last commands of a part of the guide, in the guest.
fn guide(part: &str) -> &'static str {
    let guide = include_str!("../../../../docs/guides/vfio-user.md");
    let part = guide.split(&format!("\n## {part}\n")).nth(1).unwrap();
    let part = part.split("\n## ").next().unwrap();
    part.rsplit("```sh\n").next().unwrap().split("```").next().unwrap()
}

/// Runs a step of the guest's script, which is to succeed.
fn step(vm: &mut Vm, name: &str) -> String {
    let script = include_str!("guest/vfio_user.sh");
    let mut job = Job::new(vec!["bash".into(), "-c".into(), script.into()]);
    job.environment.insert("STEP".into(), name.into());
    let part = if name == "holds" { "Two guests, one drive" } else { "In the guest" };
    job.environment.insert("GUIDE".into(), guide(part).into());
    job.limit_ms = Duration::from_secs(240).as_millis() as u64;
    job::succeed(vm, &job, &[])
}

#[test]
#[ignore = "boots a guest under a QEMU that few have: make slow-test"]
fn a_guest_has_drives_and_gets_them_back() {
    let _qemu = newer_qemu::find();
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().join("vfio");
    std::fs::create_dir(&sockets).unwrap();
    std::fs::File::create(folder.path().join("disk")).unwrap().set_len(64 << 20).unwrap();
    let drives = [
        "name=plain,serial=PLAIN,model=null,medium=file:disk",
        "name=fdp,serial=FDP,model=fixed:100us,medium=ram:64MiB,placement=fdp:8x8MiB",
        "name=zns,serial=ZNS,model=null,medium=ram:64MiB,zones.size=8MiB",
    ];
    let mut arguments: Vec<&str> = drives.iter().flat_map(|drive| ["--drive", drive]).collect();
    arguments.extend(["--vfio-user", "vfio"]);
    let mut server = serve(folder.path(), &arguments);
    let mut config = Config { shared_memory: true, memory: 512 << 20, ..Config::new(guest()) };
    config.arguments.extend(["-device".into(), "pcie-root-port,id=bay,chassis=1".into()]);
    for (name, bus) in [("plain", "pcie.0"), ("fdp", "pcie.0"), ("zns", "pcie.0")] {
        let device = device(&sockets.join(format!("{name}.sock")), name, bus).to_string();
        config.arguments.extend(["-device".into(), device.into()]);
    }
    config.arguments.extend(["-m".into(), "slots=4,maxmem=4G".into()]);
    // A server that is gone is found out soon.
    config.kernel_arguments = "nvme_core.io_timeout=5 nvme_core.admin_timeout=5".into();
    let mut vm = Vm::start(&config).unwrap();
    let output = step(&mut vm, "first");
    for line in ["verified", "as the guide says", "placed", "zoned host-managed", "reset"] {
        assert!(output.lines().any(|other| other == line), "there is no line `{line}`");
    }
    assert!(output.to_lowercase().contains("zone invalid write"));

    // Memory is plugged in.
    let backend = json!({ "qom-type": "memory-backend-memfd", "id": "more", "size": 512 << 20, "share": true });
    let dimm = json!({ "driver": "pc-dimm", "id": "dimm", "memdev": "more" });
    vm.monitor().execute("object-add", backend).unwrap();
    vm.monitor().execute("device_add", dimm).unwrap();
    assert!(step(&mut vm, "more").contains("verified in more memory"));

    // The server is killed, and the drive comes back by the monitor.
    server.kill();
    assert!(step(&mut vm, "gone").contains("an I/O fails"));
    let _server = serve(folder.path(), &arguments);
    // QEMU 11.1.3 aborts at `device_del` of such a device: the dead one stays.
    let again = device(&sockets.join("plain.sock"), "again", "bay");
    vm.monitor().execute("device_add", again).unwrap();
    assert!(step(&mut vm, "back").contains("back with its data"));
    let log = std::fs::read_to_string(folder.path().join("serve.log")).unwrap();
    assert!(!log.contains("refused") && !log.contains("reach"), "{log}");
}

#[test]
#[ignore = "boots two guests under a QEMU that few have: make slow-test"]
fn two_guests_reserve_one_drive() {
    let _qemu = newer_qemu::find();
    let folder = tempfile::tempdir().unwrap();
    let drive = "name=d,serial=SHARED,model=fixed:100us,medium=ram:64MiB";
    let _server = serve(folder.path(), &["--drive", drive, "--vfio-user", "one.sock,two.sock"]);
    let [mut one, mut two] = ["one", "two"].map(|name| {
        let mut config = Config { shared_memory: true, memory: 512 << 20, ..Config::new(guest()) };
        let device = device(&folder.path().join(format!("{name}.sock")), "d", "pcie.0");
        config.arguments.extend(["-device".into(), device.to_string().into()]);
        Vm::start(&config).unwrap()
    });
    assert!(step(&mut one, "holds").contains("reserved as the guide says"));
    assert!(step(&mut two, "refused").contains("refused by name"));
    assert!(step(&mut one, "write").contains("written"));
    assert!(step(&mut two, "preempt").contains("reads what the other guest has written"));
    assert!(step(&mut one, "preempted").contains("refused by name, and told"));
}

/// By the NVMe driver of the firmware, which polls without interrupts.
#[test]
#[ignore = "boots a machine under a QEMU that few have: make slow-test"]
fn a_machine_boots_from_a_drive_and_reboots() {
    let _qemu = newer_qemu::find();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("disk"), boot_sector::disk()).unwrap();
    let drive = "name=d,model=fixed:100us,medium=file:disk";
    let mut server = serve(folder.path(), &["--drive", drive, "--vfio-user", "d.sock"]);
    let device = json!({ "driver": "vfio-user-pci", "bootindex": 1,
                         "socket": { "type": "unix", "path": folder.path().join("d.sock") } });
    let mut command = std::process::Command::new("timeout");
    command.args(["120", "qemu-system-x86_64", "-nodefaults", "-display", "none", "-m", "128M"]);
    command.args(["-machine", "q35,memory-backend=mem", "-accel", "tcg"]);
    command.args(["-object", "memory-backend-memfd,id=mem,size=128M,share=on"]);
    command.args(["-debugcon", "stdio", "-device", "isa-debug-exit,iobase=0xf4"]);
    let output = command.args(["-device", &device.to_string()]).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(stdout, "012.", "{}", String::from_utf8_lossy(&output.stderr));
    // QEMU's exit status is twice the value, and one.
    assert_eq!(output.status.code(), Some(0x21));
    server.kill();
    assert_eq!(std::fs::read(folder.path().join("disk")).unwrap()[512], b'3');
}

/// Medians of three rounds, in turns in one guest.
#[test]
#[ignore = "measures for minutes on an idle machine: make slow-test"]
fn figures() {
    let _qemu = newer_qemu::find();
    let folder = tempfile::tempdir().unwrap();
    let drive = "name=d,serial=STASIS,model=null,medium=ram:64MiB";
    let mut server = serve(folder.path(), &["--drive", drive, "--vfio-user", "d.sock"]);
    let mut config = Config { shared_memory: true, ..Config::new(guest()) };
    let device = device(&folder.path().join("d.sock"), "d", "pcie.0").to_string();
    config.arguments.extend(["-device".into(), device.into()]);
    for argument in [
        "-blockdev",
        "null-co,node-name=null,size=67108864,read-zeroes=on",
        "-device",
        "nvme,serial=QEMU,drive=null",
    ] {
        config.arguments.push(argument.into());
    }
    let mut vm = Vm::start(&config).unwrap();
    let output = step(&mut vm, "bench");
    let median = |name: &str, depth: &str| {
        let rates = output.lines().filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let is = words.first() == Some(&name) && words.get(1) == Some(&depth);
            is.then(|| words[2].parse::<f64>().unwrap())
        });
        let mut rates: Vec<f64> = rates.collect();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    for depth in ["1", "32"] {
        let (ours, other) = (median("STASIS", depth), median("QEMU", depth));
        println!("QD{depth}: {ours:.0} IOPS, QEMU's nvme {other:.0}, ratio {:.2}", ours / other);
    }
    drop(vm);
    let _ = kill_process(Pid::from_child(&server.0), Signal::TERM);
    let _ = server.0.wait();
    let log = std::fs::read_to_string(folder.path().join("serve.log")).unwrap();
    let number = |before: &str| -> f64 {
        let text = log.split(before).next().unwrap();
        text.trim_end().rsplit(' ').next().unwrap().parse().unwrap()
    };
    let trapped = number(" accesses to registers trapped") / number(" reads,");
    println!("{trapped:.5} register accesses trapped an I/O");
    assert!(trapped <= 0.01);
}
