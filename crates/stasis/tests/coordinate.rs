//! `stasis coordinate` with a stock guest under stock QEMU. Needs QEMU, and a
//! guest, which is built where it is not yet there:
//! `cargo test -p stasis --test coordinate -- --ignored --test-threads=1`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

use stasis_guest::build::{build, default_cache, Guest, Recipe};
use stasis_qemu::{Accelerator, Cache, Config, Drive, Job, Vm};

const STASIS: &str = env!("CARGO_BIN_EXE_stasis");
/// Longer than any wait here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn guest() -> Guest {
    let cache = std::env::var_os("STASIS_TEST_CACHE").map(PathBuf::from);
    let cache = cache.or_else(default_cache).unwrap();
    build(&Recipe::default(), Path::new(STASIS), &cache, &mut |p| eprintln!("{p:?}")).unwrap()
}

/// A folder that looks like a cgroup with a weight of bfq's.
fn cgroup(folder: &Path, name: &str) -> PathBuf {
    let cgroup = folder.join(name);
    fs::create_dir(&cgroup).unwrap();
    fs::write(cgroup.join("cgroup.procs"), "").unwrap();
    fs::write(cgroup.join("io.bfq.weight"), "default 100\n").unwrap();
    cgroup
}

fn weight(cgroup: &Path) -> String {
    let text = fs::read_to_string(cgroup.join("io.bfq.weight")).unwrap();
    text.trim().trim_start_matches("default ").to_owned()
}

/// `stasis coordinate host`, and what it says.
struct Host {
    child: Child,
    said: Receiver<String>,
}

impl Host {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(STASIS);
        command.args(["coordinate", "host"]).args(arguments).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (say, said) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                eprintln!("{line}");
                if say.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, said }
    }

    /// Waits until it says something that ends so.
    fn wait(&self, end: &str) -> Instant {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.said.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("it does not say `{end}`"));
            if line.ends_with(end) {
                return Instant::now();
            }
        }
    }

    fn signal(&mut self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        self.child.wait().unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A guest with a drive behind its own bfq, and a port for help.
fn start(folder: &Path) -> (Vm, PathBuf) {
    let disk = folder.join("disk");
    fs::File::create(&disk).unwrap().set_len(256 << 20).unwrap();
    let socket = folder.join("help");
    let mut config = Config::new(guest());
    config.accelerator = Accelerator::Emulation;
    config.drives = vec![Drive::raw(&disk, Cache::Writeback)];
    let chardev = format!("socket,id=help,path={},server=on,wait=off", socket.display());
    let port = "virtserialport,chardev=help,name=org.stasis.help.0";
    for (option, value) in [("-chardev", chardev.as_str()), ("-device", port)] {
        config.arguments.extend([option.into(), value.into()]);
    }
    let mut vm = Vm::start(&config).unwrap();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_path_with_name(STASIS, "usr/local/bin/stasis").unwrap();
    let input = archive.into_inner().unwrap();
    let script = "modprobe bfq && echo bfq >/sys/block/vda/queue/scheduler";
    let mut job = Job::new(vec!["sh".into(), "-c".into(), script.into()]);
    job.has_input = true;
    let outcome = vm.run(&job, &mut &input[..], &mut |_| {}).unwrap();
    assert_eq!((outcome.status, outcome.message.as_str()), (0, ""));
    (vm, socket)
}

/// Runs a script whose children stay; it is to succeed.
fn run(vm: &mut Vm, script: &str) -> String {
    let mut job = Job::new(vec!["sh".into(), "-c".into(), script.into()]);
    (job.keep_processes, job.send_results) = (true, false);
    let mut said = Vec::new();
    let outcome = vm.run(&job, &mut std::io::empty(), &mut |piece| {
        if let stasis_qemu::Piece::Output(_, bytes) = piece {
            said.extend_from_slice(bytes);
        }
    });
    let said = String::from_utf8_lossy(&said).into_owned();
    assert_eq!(outcome.unwrap().status, 0, "{said}");
    said
}

const WATCH: &str = "stasis coordinate guest >/tmp/said 2>&1 & echo $! >/tmp/id
    until grep -q watching /tmp/said; do cat /tmp/said; kill -0 $! || exit 1; sleep 0.1; done";
/// A program that was idle and begins to read: bfq raises its weight.
const READ: &str = "dd if=/dev/vda of=/dev/null bs=4k count=2000 iflag=direct 2>/dev/null";

#[test]
#[ignore = "boots a guest"]
fn a_guests_bfq_raises_the_weight_of_its_cgroup() {
    let folder = tempfile::tempdir().unwrap();
    let (mut vm, socket) = start(folder.path());
    let (cgroup, state) = (cgroup(folder.path(), "guest"), folder.path().join("state"));
    let words = [format!("{}={}", socket.display(), cgroup.display()), state.display().to_string()];
    let arguments = ["--state", &words[1], &words[0]];
    run(&mut vm, WATCH);
    let mut host = Host::start(&arguments);
    host.wait(": connected");
    assert_eq!(weight(&cgroup), "100");
    run(&mut vm, READ);
    host.wait(": helped");
    host.wait(": not helped any more");
    assert_eq!(weight(&cgroup), "100");

    // Killed while it helps: the weight stays, and the next one restores it.
    run(&mut vm, &format!("while :; do {READ}; done >/dev/null 2>&1 & echo $! >/tmp/reader"));
    host.wait(": helped");
    assert_eq!(weight(&cgroup), "1000");
    host.signal("-KILL");
    assert_eq!(weight(&cgroup), "1000");
    let mut host = Host::start(&arguments);
    host.wait(": helped");
    host.signal("-TERM");
    assert_eq!(weight(&cgroup), "100");

    // The guest's side dies while it asks.
    let host = Host::start(&arguments);
    host.wait(": helped");
    run(&mut vm, "kill -STOP $(cat /tmp/id)");
    host.wait(": not helped any more");
    run(&mut vm, "kill -CONT $(cat /tmp/id)");
    host.wait(": helped");
    assert_eq!(weight(&cgroup), "1000");
    run(&mut vm, "kill $(cat /tmp/id); until grep -q woken /tmp/said; do sleep 0.1; done");
    host.wait(": not helped any more");
    print!("{}", run(&mut vm, "cat /tmp/said"));

    // The whole guest goes.
    run(&mut vm, WATCH);
    host.wait(": helped");
    drop(vm);
    host.wait(": disconnected");
    let until = Instant::now() + PATIENCE;
    while weight(&cgroup) != "100" {
        assert!(Instant::now() < until);
        std::thread::yield_now();
    }
    std::io::stdout().flush().unwrap();
}
