//! A stock guest with a port for help, and the host's side as a process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};
use stasis_guest_image::{build, default_cache, Guest, Recipe};
use stasis_qemu_vm::{Accelerator, Config, Drive, Job, Vm};

const PROGRAM: &str = env!("CARGO_BIN_EXE_stasis-coordinate");
/// Longer than any wait here takes on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

fn guest() -> Guest {
    let cache = std::env::var_os("STASIS_TEST_CACHE").map(PathBuf::from);
    let cache = cache.or_else(default_cache).unwrap();
    // The agent is the main program.
    let stasis = Path::new(PROGRAM).with_file_name("stasis");
    assert!(stasis.exists(), "`make build` makes {}", stasis.display());
    build(
        &Recipe::default(),
        &stasis,
        &cache,
        &std::sync::atomic::AtomicBool::new(false),
        &mut |p| eprintln!("{p:?}"),
    )
    .unwrap()
}

/// `stasis coordinate host`, and its output.
pub struct Host {
    child: Child,
    output: Receiver<String>,
}

impl Host {
    pub fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.arg("host").args(arguments).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (say, output) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                eprintln!("{line}");
                if say.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, output }
    }

    /// Waits for a line of output that ends with `end`.
    pub fn wait(&self, end: &str) -> Instant {
        let until = Instant::now() + TIMEOUT;
        loop {
            let remaining = until.saturating_duration_since(Instant::now());
            let line = self.output.recv_timeout(remaining);
            let line = line.unwrap_or_else(|_| panic!("it does not say `{end}`"));
            if line.ends_with(end) {
                return Instant::now();
            }
        }
    }

    pub fn signal(&mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
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
pub fn start(folder: &Path, drive: Drive) -> (Vm, PathBuf) {
    let socket = folder.join("help");
    let mut config = Config::new(guest());
    config.accelerator = Accelerator::Emulation;
    config.drives = vec![drive];
    let chardev = format!("socket,id=help,path={},server=on,wait=off", socket.display());
    let port = "virtserialport,chardev=help,name=org.stasis.help.0";
    for (option, value) in [("-chardev", chardev.as_str()), ("-device", port)] {
        config.arguments.extend([option.into(), value.into()]);
    }
    let mut vm = Vm::start(&config).unwrap();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_path_with_name(PROGRAM, "usr/local/bin/stasis-coordinate").unwrap();
    let input = archive.into_inner().unwrap();
    let script = "modprobe bfq && echo bfq >/sys/block/vda/queue/scheduler";
    let mut job = Job::new(vec!["sh".into(), "-c".into(), script.into()]);
    job.has_input = true;
    let outcome = vm.run(&job, &mut &input[..], &mut |_| {}).unwrap();
    assert_eq!((outcome.status, outcome.message.as_str()), (0, ""));
    (vm, socket)
}

/// Runs a script whose children stay; it is to succeed.
pub fn run(vm: &mut Vm, script: &str) -> String {
    let mut job = Job::new(vec!["sh".into(), "-c".into(), script.into()]);
    (job.keep_processes, job.send_results) = (true, false);
    let mut collected = Vec::new();
    let outcome = vm.run(&job, &mut std::io::empty(), &mut |piece| {
        if let stasis_qemu_vm::Piece::Output(_, bytes) = piece {
            collected.extend_from_slice(bytes);
        }
    });
    let output = String::from_utf8_lossy(&collected).into_owned();
    assert_eq!(outcome.unwrap().status, 0, "{output}");
    output
}

/// Begins to watch in the guest.
pub const WATCH: &str = "stasis-coordinate guest >/tmp/said 2>&1 & echo $! >/tmp/id
    until grep -q watching /tmp/said; do cat /tmp/said; kill -0 $! || exit 1; sleep 0.1; done";
