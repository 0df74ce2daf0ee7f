//! Time until a shell starts in a guest beside readers in it and on the host, with and without
//! `stasis coordinate`, in real time (vIrtical D3.6, chapters 8 and 10).
//!
//! The drive is slow by QEMU's own throttle, and serves one request at a time: qemu-storage-daemon
//! offers it as a file, a loop device makes a drive of it, and the host's own bfq is before that.
//! Guest and readers are in separate cgroups. Needs root, qemu-storage-daemon, loop devices and
//! bfq: `cargo test -p stasis-coordinate --test coordinate start_up -- --ignored --nocapture`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{kill_process_group, Pid, Signal};
use stasis_qemu_vm::{Backend, Drive, Vm};

use crate::support::{run, start, Host, TIMEOUT, WATCH};

/// Bytes a second: the publication's 1.8-inch disk.
const RATE: u64 = 10_000_000;
const READERS: u64 = 5;
const TIMES: usize = 4;
const ROUNDS: usize = 2;
const GIB: u64 = 1 << 30;

fn command(words: &str) -> String {
    let output = Command::new("sh").args(["-c", words]).output().unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A child that ends with its owner.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A loop device with bfq on a throttled disk.
struct Slow {
    device: String,
    _daemon: Ending,
}

impl Slow {
    fn new(folder: &Path) -> Self {
        let [bytes, export] = ["bytes", "export"].map(|name| folder.join(name));
        let size = GIB + READERS * GIB / 4;
        fs::File::create(&bytes).unwrap().set_len(size).unwrap();
        fill(folder, &bytes);
        fs::write(&export, "").unwrap();
        let mut daemon = Command::new("qemu-storage-daemon");
        let throttle = format!("throttle-group,id=slow,x-bps-total={RATE}");
        let (bytes, export) = (bytes.display().to_string(), export.display().to_string());
        daemon.args(["--object", &throttle]);
        daemon.args(["--blockdev", &format!("driver=file,node-name=bytes,filename={bytes}")]);
        daemon.args(["--blockdev", "driver=raw,node-name=raw,file=bytes"]);
        daemon.args(["--blockdev", "driver=throttle,node-name=slow,throttle-group=slow,file=raw"]);
        let fuse = format!("type=fuse,id=out,node-name=slow,mountpoint={export}");
        let daemon = Ending(daemon.args(["--export", &fuse]).spawn().unwrap());
        let until = Instant::now() + TIMEOUT;
        while fs::metadata(&export).map_or(0, |file| file.len()) != size {
            assert!(Instant::now() < until, "no export by qemu-storage-daemon");
            std::thread::sleep(Duration::from_millis(20));
        }
        let device = command(&format!("losetup --find --show --read-only --direct-io=on {export}"));
        let queue = format!("/sys/block/{}/queue", device.trim_start_matches("/dev/"));
        command(&format!("echo bfq >{queue}/scheduler && echo 1 >{queue}/rotational"));
        Self { device, _daemon: daemon }
    }

    /// Bytes read from the device (Documentation/block/stat.rst).
    fn bytes(&self) -> f64 {
        let name = self.device.trim_start_matches("/dev/");
        let text = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
        512.0 * text.split_whitespace().nth(2).unwrap().parse::<f64>().unwrap()
    }
}

/// A file system with a shell and its libraries at the disk's beginning. Made
/// here, as QEMU 7.2's export damages what is written to it by several at once.
fn fill(folder: &Path, disk: &Path) {
    let (app, disk) = (folder.join("app"), disk.display());
    command(&format!(
        "set -e; for file in /bin/bash $(ldd /bin/bash | grep -o '/[^ )]*'); do
            mkdir -p {app}$(dirname $file); cp -L $file {app}$file; done
        mkfs.ext4 -q -F -E root_owner=0:0 -d {app} {disk} 512M",
        app = app.display()
    ));
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

/// A cgroup of this test's, with bfq's weights.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(name: &str) -> Self {
        let script = "awk '$3 == \"cgroup\" && $4 ~ /(^|,)blkio/ || $3 == \"cgroup2\" { print $2 }' /proc/mounts";
        for place in command(script).lines() {
            let cgroup =
                Path::new(place).join(format!("stasis-test-{}-{name}", std::process::id()));
            let _ = fs::create_dir(&cgroup);
            if ["io.bfq.weight", "blkio.bfq.weight"].iter().any(|file| cgroup.join(file).exists()) {
                return Self(cgroup);
            }
            let _ = fs::remove_dir(&cgroup);
        }
        panic!("no cgroup with bfq's weights can be made here");
    }

    fn add(&self, process: u32) {
        fs::write(self.0.join("cgroup.procs"), process.to_string()).unwrap();
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let until = Instant::now() + TIMEOUT;
        while fs::remove_dir(&self.0).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The readers on the host, in their cgroups.
fn readers(device: &str, cgroups: &[Cgroup]) -> Vec<Ending> {
    let start = |(number, cgroup): (usize, &Cgroup)| {
        let skip = 8 * (1024 + 256 * number);
        let read = format!(
            "echo $$ >{}/cgroup.procs; while :; do dd if={device} of=/dev/null bs=128k iflag=direct skip={skip} count=2048 2>/dev/null; done",
            cgroup.0.display()
        );
        let mut sh = Command::new("sh");
        // A separate process group, to be ended as a whole.
        std::os::unix::process::CommandExt::process_group(&mut sh, 0);
        Ending(sh.args(["-c", &read]).stderr(Stdio::null()).spawn().unwrap())
    };
    cgroups.iter().enumerate().map(start).collect()
}

/// Ends the readers with what they have started.
fn end(readers: Vec<Ending>) {
    for reader in &readers {
        let _ = kill_process_group(Pid::from_child(&reader.0), Signal::KILL);
    }
}

/// The shell on the disk, and a reader behind it.
const PREPARE: &str = "echo 1 >/proc/sys/kernel/bpf_stats_enabled
    mkdir -p /tmp/app && mount -o ro,noload /dev/vda /tmp/app || exit 1
    (while :; do dd if=/dev/vda of=/dev/null bs=128k skip=4096 count=4096 iflag=direct 2>/dev/null; done) >/dev/null 2>&1 &";
const START: &str = "echo 3 >/proc/sys/vm/drop_caches; begun=$(date +%s%N)
    timeout 60 chroot /tmp/app /bin/bash -c exit; ended=$(date +%s%N)
    echo $(((ended - begun) / 1000))";

/// Microseconds of some starts.
fn starts(vm: &mut Vm) -> Vec<f64> {
    let mut times = Vec::new();
    for _ in 0..TIMES {
        std::thread::sleep(Duration::from_secs(4));
        let output = run(vm, START);
        times.push(output.trim().parse().unwrap_or_else(|_| panic!("{output}")));
    }
    times
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0
}

#[test]
#[ignore = "boots a guest, changes cgroups and a loop device, takes minutes: make slow-test"]
fn start_up_beside_readers() {
    let folder = tempfile::tempdir().unwrap();
    let slow = Slow::new(folder.path());
    let disk = format!(
        "driver=raw,offset=0,size={GIB},read-only=on,cache.direct=on,file.driver=host_device,file.aio=native,file.filename={}",
        slow.device
    );
    let own = Cgroup::new("guest");
    let others: Vec<_> =
        (0..READERS).map(|number| Cgroup::new(&format!("reader{number}"))).collect();
    let (mut vm, socket) = start(folder.path(), Drive::new(Backend::Other(disk)));
    own.add(vm.process_id());
    run(&mut vm, PREPARE);
    run(&mut vm, WATCH);
    let guest = format!("{}={}", socket.display(), own.0.display());
    let state = folder.path().join("state").display().to_string();
    let load = || fs::read_to_string("/proc/loadavg").unwrap().trim().to_owned();
    // As the initial raises of the readers end.
    let settle = || std::thread::sleep(Duration::from_secs(15));
    let mut times = [const { Vec::new() }; 4];
    // The drive's work meanwhile: bytes, and seconds.
    let mut moved = [(0.0, 0.0); 4];
    for round in 0..ROUNDS {
        let mut measure = |variant: usize, vm: &mut Vm| {
            let (bytes, begun) = (slow.bytes(), Instant::now());
            times[variant].extend(starts(vm));
            moved[variant].0 += slow.bytes() - bytes;
            moved[variant].1 += begun.elapsed().as_secs_f64();
        };
        settle();
        measure(0, &mut vm);
        let reading = readers(&slow.device, &others);
        settle();
        measure(1, &mut vm);
        for variant in [2, 3] {
            let words = ["--state", &state, &guest, "--drive", &slow.device];
            let mut host = Host::start(&words[..if variant == 3 { 5 } else { 3 }]);
            host.wait(": connected");
            measure(variant, &mut vm);
            host.signal(Signal::TERM);
        }
        end(reading);
        println!("round {round}: {times:.0?} us, load {}", load());
    }
    let cost = "cat /proc/$(cat /tmp/id)/stat | cut -d' ' -f14,15; cut -d' ' -f1 /proc/uptime";
    println!("ticks of the guest's side, user and system, and uptime: {}", run(&mut vm, cost));
    let programs = "grep -h run_ /proc/$(cat /tmp/id)/fdinfo/*";
    println!("the programs' time (ns) and runs:\n{}", run(&mut vm, programs));
    println!("{}", run(&mut vm, "kill $(cat /tmp/id); sleep 1; cat /tmp/said"));
    let medians = times.map(|times| median(&times) / 1e6);
    let names = ["idle", "not coordinated", "coordinated", "coordinated with --drive"];
    for ((name, time), (bytes, seconds)) in names.iter().zip(medians).zip(moved) {
        let rate = bytes / seconds / 1e6;
        println!("{name}: {time:.3} s, {:.2} times; {rate:.2} MB/s", time / medians[0]);
    }
    drop(vm);
    assert!(medians[2] < medians[1] && medians[3] < medians[1], "coordination does not help");
}
