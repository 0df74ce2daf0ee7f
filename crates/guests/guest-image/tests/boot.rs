//! Builds the default guest and boots it in stock QEMU (TCG), with the channel
//! over QEMU's shared-memory device. Needs the network, QEMU, and minutes:
//! `cargo test -p stasis-guest-image --test boot -- --ignored --test-threads=1`.
//! `STASIS_TEST_SUITE` and `STASIS_TEST_KERNEL` choose another Debian release
//! and kernel, `STASIS_TEST_CACHE` another cache.

use std::fs::{self, File, OpenOptions};
use std::io::{Cursor, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use stasis_channel::{Host, Job, Mailbox, Request, Response, Stream, MAILBOX_SIZE};
use stasis_guest_image::{build, default_cache, Guest, Recipe};

/// As in `crates/guests/guest-agent/examples/init.rs`.
const RUNG: u64 = MAILBOX_SIZE as u64;
const ANSWERED: u64 = MAILBOX_SIZE as u64 + 64;

struct SharedFile(File);

impl Mailbox for SharedFile {
    fn read(&self, offset: usize, into: &mut [u8]) {
        self.0.read_exact_at(into, offset as u64).unwrap();
    }
    fn write(&mut self, offset: usize, from: &[u8]) {
        self.0.write_all_at(from, offset as u64).unwrap();
    }
}

/// The agent, statically linked.
fn agent() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "-p", "stasis-guest-agent", "--example", "init"])
        .args(["--target", "x86_64-unknown-linux-gnu"])
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env("CARGO_TARGET_DIR", &target)
        .status();
    assert!(status.unwrap().success());
    target.join("x86_64-unknown-linux-gnu/release/examples/init")
}

fn guest() -> &'static Guest {
    static GUEST: OnceLock<Guest> = OnceLock::new();
    GUEST.get_or_init(|| {
        let cache = std::env::var_os("STASIS_TEST_CACHE").map(PathBuf::from);
        let cache = cache.or_else(default_cache).unwrap();
        let mut recipe = Recipe::default();
        recipe.suite = std::env::var("STASIS_TEST_SUITE").unwrap_or(recipe.suite);
        recipe.kernel = std::env::var("STASIS_TEST_KERNEL").unwrap_or(recipe.kernel);
        build(&recipe, &agent(), &cache, &AtomicBool::new(false), &mut |p| eprintln!("{p:?}"))
            .unwrap()
    })
}

#[derive(Debug, Default)]
struct Run {
    output: String,
    errors: String,
    log: String,
    ending: Option<(u8, String)>,
    results: Vec<u8>,
    input_ended: bool,
    finished: bool,
    console: String,
}

/// Boots the guest with one NVMe drive, and plays the machine's part.
fn run(job: &Job, input: &[u8]) -> Run {
    run_with(job, input, &["-accel", "tcg"], "quiet")
}

fn run_with(job: &Job, input: &[u8], machine: &[&str], words: &str) -> Run {
    let guest = guest();
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("shared");
    let console = folder.path().join("console");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&shared).unwrap();
    file.set_len(2 * MAILBOX_SIZE as u64).unwrap();
    let size = fs::metadata(&guest.root).unwrap().len();
    assert_eq!(size % (2 << 20), 0);
    let backend =
        format!("memory-backend-file,id=m,share=on,mem-path={},size=8M", shared.display());
    let loader = format!("loader,file={},addr=0x30000000,force-raw=on", guest.root.display());
    let serial = format!("file:{}", console.display());
    let root = format!("memmap={}M!768M", size >> 20);
    let line = format!("console=ttyS0 panic=-1 {words} mitigations=off stasis_test=1 {root}");
    let mut qemu = Command::new("qemu-system-x86_64")
        .args(["-machine", "q35", "-cpu", "EPYC", "-m", "1536", "-smp", "1,maxcpus=2"])
        .args(machine)
        .args(["-nodefaults", "-display", "none", "-no-reboot", "-serial", &serial])
        .args(["-object", &backend, "-device", "ivshmem-plain,memdev=m", "-device", &loader])
        .args(["-drive", "if=none,id=d,driver=null-co,read-zeroes=on,size=64M"])
        .args(["-device", "nvme,drive=d,serial=test", "-append", &line])
        .arg("-kernel")
        .arg(&guest.vmlinux)
        .arg("-initrd")
        .arg(&guest.initramfs)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut run = serve(&mut qemu, SharedFile(file), job, input);
    // After `Finished` the agent powers the machine off by itself.
    qemu.wait().unwrap();
    run.console = String::from_utf8_lossy(&fs::read(&console).unwrap()).into_owned();
    run
}

fn serve(qemu: &mut Child, mut mailbox: SharedFile, job: &Job, input: &[u8]) -> Run {
    let mut run = Run::default();
    let mut host = Host::new();
    let mut input = Cursor::new(input);
    let mut piece = Vec::new();
    let mut answered = 0;
    let deadline = Instant::now() + Duration::from_secs(120);
    while !run.finished && qemu.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            qemu.kill().unwrap();
            break;
        }
        let mut rung = [0; 4];
        mailbox.0.read_exact_at(&mut rung, RUNG).unwrap();
        if u32::from_le_bytes(rung) == answered {
            std::thread::sleep(Duration::from_micros(200));
            continue;
        }
        piece.clear();
        let response = match host.receive(&mut mailbox).unwrap() {
            Request::Hello => Response::Job(&job.without_command()),
            Request::Command => Response::Job(job),
            Request::ReadInput { max } => {
                input.by_ref().take(max as u64).read_to_end(&mut piece).unwrap();
                run.input_ended = piece.is_empty();
                Response::Bytes(&piece)
            }
            Request::Ready => Response::Bytes(&[1, 0, 0, 0]),
            Request::HelpPage { .. } | Request::Help { .. } | Request::Started => Response::Done,
            Request::Output { stream, bytes } => {
                let text = String::from_utf8_lossy(bytes);
                match stream {
                    Stream::Output => run.output += &text,
                    Stream::Error => run.errors += &text,
                }
                Response::Done
            }
            Request::Exited { status } => {
                run.ending = Some((status, String::new()));
                Response::Done
            }
            Request::NotStarted { status, message } => {
                run.ending = Some((status, message.into_owned()));
                Response::Done
            }
            Request::Results { bytes } => {
                run.results.extend_from_slice(bytes);
                Response::Done
            }
            Request::Branch => Response::Done,
            Request::Typed
            | Request::Fault { .. }
            | Request::Orders
            | Request::Ordered { .. }
            | Request::Health { .. }
            | Request::Callable { .. } => Response::Refused(stasis_channel::Refusal::Failed),
            Request::Log { text } => {
                run.log += &text;
                Response::Done
            }
            Request::Finished => {
                run.finished = true;
                Response::Done
            }
        };
        Host::respond(&mut mailbox, response);
        answered += 1;
        mailbox.0.write_all_at(&answered.to_le_bytes(), ANSWERED).unwrap();
    }
    run
}

fn shell(script: &str) -> Job {
    let mut job = Job::new(["sh", "-c", script].map(String::from).to_vec());
    job.drives = vec!["nvme0n1".into()];
    job.realtime_ns = 1_600_000_000_000_000_000;
    job.seed = 1;
    job
}

#[test]
#[ignore = "builds a guest and boots it: make slow-test"]
fn a_command_runs_in_the_guest() {
    let mut job = shell(
        "set -e; grep dax /proc/fs/ext4/pmem0/options; date +%Y; hostname; pwd; echo $GREETING
        cat /etc/from-outside; id -u; test -b /dev/nvme0n1; modprobe bfq; modprobe xfs
        echo bfq >/sys/block/nvme0n1/queue/scheduler; cat /sys/block/nvme0n1/queue/scheduler
        nvme list; blktrace -V; sqlite3 :memory: 'select 6*7'
        fio --name=r --filename=/dev/nvme0n1 --rw=randread --ioengine=libaio --direct=1 --size=1M >/results/fio.txt
        cat /sys/class/net/lo/flags; echo complaint >&2
        mkdir /results/folder; ln -s ../fio.txt /results/folder/link
        sleep 1000 & (sleep 0.1; true) & kill -TERM $$",
    );
    job.hostname = "subject".into();
    job.working_directory = "/tmp".into();
    job.environment.insert("GREETING".into(), "hello, guest".into());
    job.has_input = true;
    let mut input = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(8);
    header.set_mode(0o644);
    input.append_data(&mut header, "etc/from-outside", &b"outside\n"[..]).unwrap();
    let run = run(&job, &input.into_inner().unwrap());
    assert_eq!(run.ending, Some((128 + 15, String::new())), "{run:?}");
    for expected in
        ["dax=always", "2020", "subject\n/tmp\nhello, guest\noutside\n0\n", "[bfq]", "\n42\n0x9\n"]
    {
        assert!(run.output.contains(expected), "{expected} is not in:\n{}", run.output);
    }
    assert_eq!(run.errors, "complaint\n");
    assert!(run.finished && run.input_ended);
    let mut names = Vec::new();
    for entry in tar::Archive::new(&run.results[..]).entries().unwrap() {
        names.push(entry.unwrap().path().unwrap().display().to_string());
    }
    assert_eq!(names, ["fio.txt", "folder", "folder/link"]);
}

#[test]
#[ignore = "builds a guest and boots it: make slow-test"]
fn what_cannot_start_is_told() {
    let missing = run(&Job::new(vec!["no-such-program".into()]), &[]);
    let (status, message) = missing.ending.unwrap();
    assert_eq!(status, 127, "{message}");
    assert!(message.contains("no-such-program: command not found"), "{message}");
    assert!(missing.finished);

    let mut job = shell("true");
    job.drives.push("nvme7n1".into());
    let (status, message) = run(&job, &[]).ending.unwrap();
    assert_eq!(status, 126);
    assert!(message.contains("/dev/nvme7n1 did not appear"), "{message}");
}

#[test]
#[ignore = "builds a guest and boots it: make slow-test"]
fn without_a_channel_the_guest_says_so_and_stops() {
    let guest = guest();
    let output = Command::new("timeout")
        .args([
            "120",
            "qemu-system-x86_64",
            "-machine",
            "q35",
            "-accel",
            "tcg",
            "-m",
            "512",
            "-smp",
            "1,maxcpus=2",
        ])
        .args(["-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"])
        .args(["-append", "console=ttyS0 panic=-1 quiet", "-kernel"])
        .arg(&guest.vmlinux)
        .arg("-initrd")
        .arg(&guest.initramfs)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("stasis: no channel device (PCI 5354:0001) found"), "{text}");
}

/// Those that are not loaded find no hardware, or are no more than a test.
#[test]
#[ignore = "builds a guest and boots it: make slow-test"]
fn each_module_loads() {
    let mut job = shell(
        "cd /lib/modules/$(uname -r); mkdir /tmp/why
        for file in $(find kernel -name '*.ko*' | sort); do
            name=${file##*/}; name=${name%.ko*}
            [ $name != tcrypt ] || continue
            modprobe $name 2>/tmp/why/$name && echo loaded || echo \"$name: $(cat /tmp/why/$name)\"
        done; cat /proc/sys/kernel/tainted",
    );
    job.realtime_ns = 0;
    let run = run(&job, &[]);
    assert_eq!(run.ending, Some((0, String::new())), "{run:?}");
    let loaded = run.output.lines().filter(|line| *line == "loaded").count();
    assert!(loaded > 200, "{loaded}");
    let mut others: Vec<_> = run.output.lines().filter(|line| *line != "loaded").collect();
    assert_eq!(others.pop(), Some("0"), "the kernel is tainted");
    let absent = ["No such device", "Operation not supported"];
    others.retain(|line| !absent.iter().any(|end| line.ends_with(end)));
    // It wants a clock that is less even than a virtual machine's may be.
    others.retain(|line| !line.starts_with("jitterentropy_rng: "));
    assert!(others.is_empty(), "{others:#?}");
}

/// Prints what the agent costs before the command, in guest instructions (QEMU's
/// `-icount shift=0`: one is 1 ns).
#[test]
#[ignore = "builds a guest and boots it: make slow-test"]
fn cost_of_the_start() {
    let job = shell("echo stasis-command >/dev/kmsg; cat /proc/uptime; fio --version; exec dmesg");
    let machine = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"];
    let run = run_with(&job, &[], &machine, "quiet tsc=reliable cryptomgr.notests");
    let stamp = |text: &str| -> f64 {
        let line = run.output.lines().find(|line| line.contains(text)).unwrap_or_default();
        let time = line.trim_start_matches('[').split(']').next().unwrap_or_default();
        time.trim().parse().unwrap_or_else(|_| panic!("{text} is not in:\n{}", run.output))
    };
    let (init, mounted, command) = (stamp("Run /init"), stamp("pmem0"), stamp("stasis-command"));
    let millions = |from: f64, to: f64| (to - from) * 1e3;
    println!("kernel to /init: {:7.1} million instructions", millions(0.0, init));
    println!("/init to root:   {:7.1} million instructions", millions(init, mounted));
    println!("{}", run.output);
    println!("root to command: {:7.1} million instructions", millions(mounted, command));
    assert_eq!(run.ending, Some((0, String::new())));
    assert!(run.output.contains("\nfio-3"), "{run:?}");
}
