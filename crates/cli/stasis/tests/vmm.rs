//! QEMU is killed in the midst of its guest's writes, at times together with the server; data that
//! the guest had acknowledged is there afterwards.
//! `KILLS=300 cargo test -p stasis --test served vmm:: -- --ignored --nocapture`
//!
//! The guest reports each acknowledged write to the host before it continues. It is booted once and
//! saved; each life starts from there and gets the drive by hot-plug.

#[path = "guest/compile.rs"]
mod compile;

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::json;
use stasis_qcow2::{create, CreateOptions};
use stasis_qemu_vm::qmp::Qmp;

use crate::server::{serve, Process};
use crate::support::{Guest, DATA, IN, OUT};
use compile::compile;

const BLOCKS: u64 = 256;
const BLOCK: u64 = 4096;
const SECTORS: u64 = BLOCK / 512;
/// Writers in the guest; block B is that of B modulo this (guest/writers.rs).
const THREADS: usize = 16;
const MAX_WAIT: Duration = Duration::from_secs(120);

/// Waits until `look` finds something; `event` is named if that takes too long.
fn wait<T>(event: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + MAX_WAIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < limit, "{event}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Bench {
    folder: tempfile::TempDir,
    medium: String,
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn serve(&self) -> Process {
        let drive = format!("name=d,model=null,medium={}", self.medium);
        serve(self.folder.path(), &["--drive", &drive])
    }

    /// QEMU with four processors and no drive; the reports of its guest are in the file `told`.
    fn qemu(&self, more: &[&str]) -> Process {
        for name in ["told", "monitor", "console"] {
            let _ = std::fs::remove_file(self.path(name));
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/serve-guest");
        let qemu = Command::new(script)
            .arg("job")
            .args(["-qmp", "unix:monitor,server=on,wait=off"])
            .args(["-chardev", "file,id=told,path=told"])
            .args(["-device", "isa-debugcon,iobase=0xe9,chardev=told"])
            .args(["-device", "pcie-root-port,id=drives,chassis=1"])
            .args(more)
            .current_dir(&self.folder)
            .envs([("WORK", "work"), ("FILES", "writers"), ("MEMORY", "512M"), ("VCPUS", "4")])
            .stdout(std::fs::File::create(self.path("console")).unwrap())
            .stderr(Stdio::inherit())
            .spawn();
        Process(qemu.unwrap())
    }

    fn monitor(&self) -> Qmp<'static> {
        let stream = wait("QEMU starts", || UnixStream::connect(self.path("monitor")).ok());
        Qmp::new(stream, &|| false).unwrap()
    }

    /// Boots the guest to where it waits for the drive, and saves it.
    fn save(&self) {
        let program = self.path("writers");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/writers.rs");
        compile(&source, &program);
        std::fs::write(self.path("job"), "/writers /dev/vda\n").unwrap();
        std::fs::create_dir(self.path("work")).unwrap();
        let _qemu = self.qemu(&[]);
        let mut monitor = self.monitor();
        wait("the guest boots", || {
            std::fs::read_to_string(self.path("console")).ok()?.contains("ready").then_some(())
        });
        let set = json!({ "capabilities": [{ "capability": "events", "state": true }] });
        monitor.execute("migrate-set-capabilities", set).unwrap();
        monitor.execute("migrate", json!({ "uri": "exec:cat >saved" })).unwrap();
        monitor.migrated(MAX_WAIT).unwrap();
    }

    /// Starts the saved guest and gives it the drive; returns once it has written.
    fn live(&self) -> Process {
        let qemu = self.qemu(&["-incoming", "defer"]);
        let mut monitor = self.monitor();
        let set = json!({ "capabilities": [{ "capability": "events", "state": true }] });
        monitor.execute("migrate-set-capabilities", set).unwrap();
        monitor.execute("migrate-incoming", json!({ "uri": "exec:cat saved" })).unwrap();
        monitor.migrated(MAX_WAIT).unwrap();
        wait("the guest goes on", || {
            let status = monitor.execute("query-status", json!({})).unwrap();
            (status["status"] == "running").then_some(())
        });
        let address = json!({ "type": "unix", "data": { "path": "d.sock" } });
        let backend = json!({ "type": "socket", "data": { "addr": address, "server": false } });
        monitor.execute("chardev-add", json!({ "id": "d", "backend": backend })).unwrap();
        let driver = "vhost-user-blk-pci";
        let device = json!({ "driver": driver, "chardev": "d", "num-queues": 4, "bus": "drives" });
        monitor.execute("device_add", device).unwrap();
        wait("the guest writes", || {
            std::fs::metadata(self.path("told")).is_ok_and(|file| file.len() > 0).then_some(())
        });
        qemu
    }

    /// The acknowledged writes, in order: block and number.
    fn told(&self) -> Vec<(usize, u64)> {
        let record = std::fs::read(self.path("told")).unwrap();
        // A record that QEMU has not completed does not count.
        let words = record.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let parts = words.map(|word| {
            assert_eq!(word & 0xff, 0x5a, "a record: {word:x}");
            ((word >> 8 & 0xff) as usize, word >> 16)
        });
        parts.collect()
    }
}

/// The stamp of a block that is whole.
fn stamp(block: usize, data: &[u8]) -> u64 {
    let mut stamps = data.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let first = stamps.next().unwrap();
    assert!(stamps.all(|stamp| stamp == first), "block {block} is whole");
    first
}

#[test]
#[ignore = "boots a guest under QEMU: make slow-test"]
fn a_killed_vmm_loses_nothing_that_its_guest_acknowledged() {
    let kills = std::env::var("KILLS").map_or(5, |count| count.parse().expect("a number"));
    let medium = std::env::var("MEDIUM").unwrap_or_else(|_| "file:disk".into());
    let bench = Bench { folder: tempfile::tempdir().unwrap(), medium };
    let disk = std::fs::File::create(bench.path("disk")).unwrap();
    disk.set_len(BLOCKS * BLOCK).unwrap();
    bench.save();
    let socket = bench.path("d.sock");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut server = bench.serve();
    let mut known = vec![0; BLOCKS as usize];
    let (mut writes, mut midway, mut of_both) = (0, 0, 0);
    let begun = Instant::now();
    for life in 1..=kills {
        // Which life it is, for the guest.
        let mut host = Guest::connect(&socket);
        host.put(DATA, &u64::to_le_bytes(life).repeat(BLOCK as usize / 8));
        host.request(0, OUT, 0);
        assert!(host.wait(1) && host.status(0) == 0, "the host writes");
        drop(host);
        known[0] = life;

        let mut qemu = bench.live();
        std::thread::sleep(Duration::from_millis(random.next_u64() % 300));
        // Whichever is killed first.
        match random.next_u64() % 6 {
            0 => {
                of_both += 1;
                qemu.kill();
                server.kill();
                server = bench.serve();
            }
            1 => {
                of_both += 1;
                server.kill();
                qemu.kill();
                server = bench.serve();
            }
            _ => qemu.kill(),
        }
        let acknowledged = bench.told();
        let mut last = [0; THREADS];
        for &(block, number) in &acknowledged {
            let before = std::mem::replace(&mut last[block % THREADS], number);
            assert!(number > before, "a thread's numbers grow");
            known[block] = life << 32 | number;
        }
        writes += acknowledged.len();

        let mut host = Guest::connect(&socket);
        for block in 0..BLOCKS as usize {
            host.request(0, IN, block as u64 * SECTORS);
            assert!(host.wait(1) && host.status(0) == 0, "the host reads");
            let found = stamp(block, &host.data(0));
            // The one write that its thread was about may be there.
            let under_way = block > 0 && found == (life << 32 | (last[block % THREADS] + 1));
            assert!(
                found == known[block] || under_way,
                "life {life}: block {block} holds {found:x}, and {:x} was acknowledged",
                known[block]
            );
            if found != known[block] {
                midway += 1;
                known[block] = found;
            }
        }
    }
    println!(
        "{kills} kills of QEMU, {of_both} of them with the server: {writes} writes acknowledged, none lost; \
         {midway} more were done that were not acknowledged yet; {:.1} s each",
        begun.elapsed().as_secs_f64() / kills as f64
    );
    assert!(writes as u64 >= kills, "guests wrote");
}

/// A file system is made, and fio makes every fourth write durable, one request at a time: on a
/// disk image, of which each request is several of the file below.
#[test]
#[ignore = "boots a guest under QEMU: make slow-test"]
fn a_stock_guest_syncs_on_an_image_however_its_server_looks_for_work() {
    for (poll, durability) in [("never", "flush"), ("adaptive", "flush"), ("never", "ordered")] {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let options = CreateOptions { size: Some(64 << 20), ..CreateOptions::default() };
        create(&at("image"), &options).unwrap();
        let job = "mkfs.ext4 -q -F /dev/vda && fio --name=w --filename=/dev/vda --rw=randwrite \
                   --bs=4k --size=16m --number_ios=400 --fdatasync=4 && echo all is done\n";
        std::fs::write(at("job"), job).unwrap();
        let drive = format!("name=d,model=null,medium=qcow2:image,durability={durability}");
        let mut server = serve(folder.path(), &["--drive", &drive, "--poll", poll]);
        std::fs::create_dir(at("work")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/serve-guest");
        let mut guest = Command::new(script);
        guest.args(["job", "-chardev", "socket,id=c,path=d.sock"]);
        guest.args(["-device", "vhost-user-blk-pci,chardev=c,num-queues=1"]);
        guest.env("WORK", "work").current_dir(&folder);
        guest.stdout(std::fs::File::create(at("console")).unwrap());
        let mut guest = Process(guest.spawn().unwrap());
        wait("the guest ends", || guest.0.try_wait().unwrap());
        let console = std::fs::read_to_string(at("console")).unwrap();
        assert!(console.contains("all is done"), "{poll}, {durability}: {console}");
        kill_process(Pid::from_child(&server.0), Signal::TERM).unwrap();
        let ended = wait("the server ends", || server.0.try_wait().unwrap());
        assert!(ended.success(), "{poll}, {durability}");
    }
}
