//! The whole of the software host: boots it and runs jobs in it. This test's
//! own binary is also what runs inside, so it must be static:
//!
//! ```text
//! RUSTFLAGS="-C target-feature=+crt-static" cargo test --release \
//!   --target x86_64-unknown-linux-gnu -p stasis-emulated-host --test host
//! ```
//!
//! Built otherwise the test checks only the message about that. The cache is `$STASIS_CACHE`, or a
//! temporary folder. With `-- --starts 100` it boots the software host so often and does nothing else.

use stasis_emulated_host::inside::{self, Inside, Later};
use stasis_emulated_host::{run, Control, Error, Host, Input, Job, Mode, PassedDrive};
use stasis_qemu_vm::probe;
use stasis_run_events::{EventSink, RunEvent};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SECTOR: usize = 512;

/// The words of a usable host: its KVM, the extensions that it offers, its processors.
const USABLE: &str = "Usable, AVX false, 2\n";

fn main() {
    if inside::is_here() {
        inside::main(inner);
    }
    let temporary = tempfile::tempdir().unwrap();
    let given = std::env::var_os("STASIS_CACHE");
    let cache = given.map_or_else(|| temporary.path().to_owned(), Into::into);
    if std::env::args().any(|argument| argument == "--hang") {
        let _ = run(
            &host(&cache),
            &Job::new(b"hang"),
            &mut Collector::default(),
            &Control::default(),
            &mut |_, _| {},
        );
        return;
    }
    if !cfg!(target_feature = "crt-static") {
        let error = run_job(&host(&cache), &Job::new("exit")).0.unwrap_err();
        assert!(matches!(error, Error::NotStatic(_)), "{error}");
        println!("not static: the rest is left out");
        return;
    }
    if let Some(count) = starts() {
        done(&host(&cache), "probe");
        for number in 1..=count {
            let start = Instant::now();
            rebuilds(&cache);
            println!("start {number} of {count}: {:.1} s", start.elapsed().as_secs_f64());
        }
        return;
    }
    type Check = fn(&Path);
    let checks: [(&str, Check); 14] = [
        ("it comes up", comes_up),
        ("its KVM is usable", usable),
        ("the exact mode repeats to the nanosecond", repeats),
        ("inputs and results arrive whole", arrives),
        ("a flush reaches the file", flushes),
        ("a panic is told", panics),
        ("a crash is told", crashes),
        ("a job that just ends is an error", ends),
        ("a stop is heard, and enforced", stops),
        ("a damaged machine is built again", rebuilds),
        ("the program's death takes QEMU along", dies),
        ("the exact mode takes inputs, drives and a stop too", exact),
        ("the exact mode's machine is kept from the second run on", kept),
        ("jobs go on from a first part that was done once", after_first),
    ];
    for (name, check) in checks {
        let start = Instant::now();
        check(&cache);
        println!("ok: {name} ({:.1} s)", start.elapsed().as_secs_f64());
        assert!(children(std::process::id()).is_empty(), "a process is left after: {name}");
    }
}

/// The number behind `--starts`.
fn starts() -> Option<u32> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--starts");
    arguments.nth(1).map(|count| count.parse().expect("a number behind --starts"))
}

fn host(cache: &Path) -> Host {
    Host {
        mode: Mode::Fast,
        memory: 1 << 30,
        inputs: Vec::new(),
        drives: Vec::new(),
        executable: std::env::current_exe().unwrap(),
        cache: cache.to_owned(),
        snapshot: true,
        log: None,
    }
}

/// The clock of the software host.
fn clock() -> u64 {
    // SAFETY: rdtsc has no effect on memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn sum(bytes: &[u8]) -> u64 {
    bytes
        .chunks_exact(8)
        .fold(0, |sum: u64, word| sum.rotate_left(1) ^ u64::from_le_bytes(word.try_into().unwrap()))
}

// ---- inside ----

/// Returns whether KVM offers its guests XSAVE or AVX (CPUID leaf 1, ECX bits 26 and 28).
fn offers_avx() -> bool {
    let kvm = kvm_ioctls::Kvm::new().unwrap();
    let leaves = kvm.get_supported_cpuid(kvm_bindings::KVM_MAX_CPUID_ENTRIES).unwrap();
    let leaf = leaves.as_slice().iter().find(|entry| entry.function == 1).unwrap();
    leaf.ecx & (1 << 26 | 1 << 28) != 0
}

fn inner(inside: &mut Inside, mut job: Vec<u8>) {
    fn say(inside: &mut Inside, text: String) {
        inside.events().event(RunEvent::Output(text.into_bytes())).unwrap();
    }
    if inside.is_first() {
        let first = String::from_utf8(job).unwrap();
        let whole = inside.input_length("whole");
        job = inside.end_first().unwrap();
        assert_eq!((whole, inside.input_length("whole")), (Some(3), None));
        say(inside, format!("after {first}: "));
    }
    match job.as_slice() {
        b"probe" => {
            let processors = std::thread::available_parallelism().unwrap();
            let text = format!("{:?}, AVX {}, {processors}\n", probe::probe(), offers_avx());
            say(inside, text);
        }
        b"clock" => {
            inside.events().event(RunEvent::Results(vec![1; 100_000])).unwrap();
            say(inside, format!("{}\n", clock()));
        }
        b"data" => {
            let mut data = vec![0; inside.input_length("data").unwrap() as usize];
            inside.read_input("data", 0, &mut data).unwrap();
            say(inside, format!("{:016x}\n", sum(&data)));
            // Backwards, unaligned.
            let mut piece = vec![0; 10_001];
            inside.read_input("data", 12_345, &mut piece).unwrap();
            assert_eq!(piece, data[12_345..][..10_001]);
            assert!(inside.read_input("data", data.len() as u64 - 1, &mut [0; 2]).is_err());
            assert!(inside.read_input("none", 0, &mut []).is_err());
            assert_eq!(inside.input_length("none"), None);
            // More than one bulk packet.
            inside.events().event(RunEvent::Results(data[..5_000_000].to_vec())).unwrap();
        }
        b"drive" => {
            assert_eq!(inside.drive_path(2), None);
            let open = |index| {
                let path = inside.drive_path(index).unwrap();
                std::fs::OpenOptions::new().read(true).write(true).open(path)
            };
            let written = open(1).and_then(|drive| {
                drive.write_all_at(&[1; SECTOR], 0)?;
                drive.sync_all()
            });
            assert!(written.is_err(), "a read-only drive was written");
            let drive = open(0).unwrap();
            let mut first = [0; 7];
            drive.read_exact_at(&mut first, 510).unwrap();
            assert_eq!(&first, b"\0\0first");
            let mut second = [0; SECTOR];
            second[..6].copy_from_slice(b"second");
            drive.write_all_at(&second, SECTOR as u64).unwrap();
            drive.sync_all().unwrap();
            say(inside, "flushed\n".into());
            // The following write is never flushed: the host is killed.
        }
        b"later" => {
            say(inside, "before\n".into());
            let mut later = Later::take().unwrap();
            let input = later.input("data").unwrap().unwrap();
            assert_eq!(later.input("none").unwrap(), None);
            say(inside, format!("{} ", String::from_utf8(later.job).unwrap()));
            say(inside, String::from_utf8(input).unwrap());
        }
        b"panic" => panic!("as asked"),
        // SAFETY: raises a signal against this process.
        b"crash" => unsafe {
            libc::raise(libc::SIGSEGV);
        },
        b"exit" => return,
        b"wait" => {
            say(inside, "waiting\n".into());
            let (flag, poll) = (inside.stop_flag(), inside.stop_poll());
            while !flag.load(Ordering::Relaxed) {
                match &poll {
                    Some(poll) => poll(),
                    None => std::thread::sleep(Duration::from_millis(100)),
                }
            }
            say(inside, format!("{:?}\n", inside.stop_reason()));
        }
        _ => {
            say(inside, "hanging\n".into());
            loop {
                std::thread::park();
            }
        }
    }
    inside.events().event(RunEvent::Failed("done".into())).unwrap();
}

// ---- outside ----

#[derive(Default)]
struct Collector {
    output: String,
    results: Vec<u8>,
    failed: Option<String>,
    /// Set at the first output.
    started: Option<Arc<AtomicBool>>,
}

impl EventSink for Collector {
    fn event(&mut self, event: RunEvent) -> std::io::Result<()> {
        match event {
            RunEvent::Output(bytes) => {
                self.output.push_str(&String::from_utf8_lossy(&bytes));
                if let Some(flag) = &self.started {
                    flag.store(true, Ordering::Relaxed);
                }
                if self.output == "hanging\n" {
                    println!("hanging");
                }
            }
            RunEvent::Results(bytes) => self.results.extend_from_slice(&bytes),
            RunEvent::Failed(message) => self.failed = Some(message),
            other => panic!("{other:?}"),
        }
        Ok(())
    }
}

fn run_job(host: &Host, job: &Job) -> (Result<(), Error>, Collector) {
    let mut events = Collector::default();
    // A software host that hangs is to fail the test, not to hold it up.
    let control =
        Control { deadline: Some(Instant::now() + Duration::from_secs(180)), ..Control::default() };
    let result = run(host, job, &mut events, &control, &mut |_, _| {}).map(drop);
    (result, events)
}

fn done(host: &Host, job: &str) -> Collector {
    job_done(host, &Job::new(job))
}

fn job_done(host: &Host, job: &Job) -> Collector {
    let (result, events) = run_job(host, job);
    result.unwrap();
    assert_eq!(events.failed.as_deref(), Some("done"));
    events
}

fn in_exact(cache: &Path) -> Host {
    Host { mode: Mode::Exact, ..host(cache) }
}

fn comes_up(cache: &Path) {
    for host in [host(cache), in_exact(cache)] {
        stasis_emulated_host::boot(&host, &Control::default(), &mut |_, _| {}).unwrap();
    }
}

fn usable(cache: &Path) {
    assert_eq!(done(&host(cache), "probe").output, USABLE);
    // One that is not saved.
    let anew = Host { snapshot: false, ..host(cache) };
    assert_eq!(done(&anew, "probe").output, USABLE);
}

fn repeats(cache: &Path) {
    let first = done(&in_exact(cache), "clock");
    assert_eq!(first.results, [1; 100_000]);
    for _ in 0..3 {
        assert_eq!(done(&in_exact(cache), "clock").output, first.output);
    }
}

fn arrives(cache: &Path) {
    takes_inputs(host(cache));
}

fn takes_inputs(host: Host) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut state = 1u64;
    let data: Vec<u8> = (0..4_000_000)
        .flat_map(|_| {
            // Numerical Recipes' quick generator: only not to repeat.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_le_bytes()
        })
        .collect();
    file.write_all(&data).unwrap();
    let input =
        Input { name: "data".into(), path: file.path().to_owned(), late: false, first_only: false };
    let events = done(&Host { inputs: vec![input], ..host }, "data");
    assert_eq!(events.output, format!("{:016x}\n", sum(&data)));
    assert!(events.results == data[..5_000_000], "results differ");
}

fn flushes(cache: &Path) {
    takes_drives(host(cache), None);
}

/// Passes drives to a job of this first part, and returns its output.
fn takes_drives(host: Host, first: Option<Vec<u8>>) -> String {
    let folder = tempfile::tempdir().unwrap();
    // A comma in a name is not the end of an option.
    let drives = ["a,b", "c"].map(|name| folder.path().join(name));
    for path in &drives {
        std::fs::write(path, [&[0; SECTOR][..], b"first"].concat()).unwrap();
        std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(1 << 20).unwrap();
    }
    let passed = |index: usize| PassedDrive { path: drives[index].clone(), read_only: index == 1 };
    let host = Host { drives: vec![passed(0), passed(1)], ..host };
    let events = job_done(&host, &Job { first, ..Job::new("drive") });
    let after = |index: usize| std::fs::read(&drives[index]).unwrap()[SECTOR..].to_vec();
    assert!(after(0).starts_with(b"second\0"));
    assert!(after(1).starts_with(b"first\0"));
    events.output
}

fn panics(cache: &Path) {
    let (result, events) = run_job(&host(cache), &Job::new("panic"));
    result.unwrap();
    assert!(events.failed.unwrap().contains("as asked"));
}

fn crashes(cache: &Path) {
    let error = run_job(&host(cache), &Job::new("crash")).0.unwrap_err().to_string();
    assert!(error.contains("ended unexpectedly") && error.contains("signal 11"), "{error}");
}

fn ends(cache: &Path) {
    let error = run_job(&host(cache), &Job::new("exit")).0.unwrap_err();
    assert!(error.to_string().contains("without an outcome"), "{error}");
}

fn stops(cache: &Path) {
    let ask = |job: &str, limit: Option<Duration>| {
        let control = Control {
            stop: Arc::default(),
            deadline: limit.map(|limit| Instant::now() + limit),
            ..Control::default()
        };
        let mut events = Collector::default();
        if limit.is_none() {
            // The first output is at once the request to stop.
            events.started = Some(Arc::clone(&control.stop));
        }
        let start = Instant::now();
        let result = run(&host(cache), &Job::new(job), &mut events, &control, &mut |_, _| {});
        (result, events.output, start.elapsed())
    };
    let (result, output, _) = ask("wait", None);
    result.unwrap();
    assert_eq!(output, "waiting\nSome(Cancelled)\n");
    let (result, output, _) = ask("wait", Some(Duration::from_secs(1)));
    result.unwrap();
    assert_eq!(output, "waiting\nSome(WallLimit)\n");
    let (result, _, took) = ask("hang", None);
    assert!(matches!(result, Err(Error::Stopped)), "{result:?}");
    assert!(took < Duration::from_secs(30), "{took:?}");
    let (result, _, _) = ask("hang", Some(Duration::from_secs(1)));
    assert!(matches!(result, Err(Error::WallLimit)), "{result:?}");
}

fn rebuilds(cache: &Path) {
    let machines = cache.join("softkvm/machines");
    for entry in std::fs::read_dir(&machines).unwrap().flatten() {
        if entry.path().is_dir() {
            std::fs::write(entry.path().join("state"), b"noise").unwrap();
        }
    }
    assert_eq!(done(&host(cache), "probe").output, USABLE);
}

fn kept(_: &Path) {
    // Other tests that use a cache that was given may make and remove machines in it.
    let own = tempfile::tempdir().unwrap();
    let cache = own.path();
    let folder = cache.join("softkvm/guests");
    let machines = || {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let input =
        |late| Input { name: "data".into(), path: file.path().to_owned(), late, first_only: false };
    let host = Host { inputs: vec![input(true)], ..in_exact(cache) };
    let mut counts = Vec::new();
    for word in ["one", "two", "three", "four", "five"] {
        file.as_file_mut().set_len(0).unwrap();
        file.as_file_mut().write_all_at(word.as_bytes(), 0).unwrap();
        let (machine, later) = ("later".into(), word.into());
        let job = Job { machine, later, keeps: true, ..Job::default() };
        let mut events = Collector::default();
        run(&host, &job, &mut events, &Control::default(), &mut |_, _| {}).unwrap();
        assert_eq!(events.output, format!("before\n{word} {word}"));
        counts.push(machines().len());
        if word == "four" {
            std::fs::write(machines()[0].join("state"), b"noise").unwrap();
        }
    }
    assert_eq!(counts, [0, 1, 1, 1, 1], "machines kept");
}

fn after_first(_: &Path) {
    let own = tempfile::tempdir().unwrap();
    let file = |text: &str| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    };
    let (data, whole) = (file("data"), file("all"));
    let input = |name: &str, file: &tempfile::NamedTempFile, late| Input {
        name: name.into(),
        path: file.path().to_owned(),
        late,
        first_only: !late,
    };
    let inputs = vec![input("data", &data, true), input("whole", &whole, false)];
    let host = Host { inputs, ..in_exact(own.path()) };
    let machines = |kind: &str| {
        let entries = std::fs::read_dir(own.path().join("softkvm").join(kind));
        entries.into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()).count()
    };
    let mut counts = Vec::new();
    for later in ["one", "two", "three", "four"] {
        let (machine, first) = ("later".into(), Some("part".into()));
        let job = Job { machine, later: later.into(), keeps: true, first, ..Job::default() };
        let mut events = Collector::default();
        run(&host, &job, &mut events, &Control::default(), &mut |_, _| {}).unwrap();
        // The first job begins with nothing: nobody knew that there would be others.
        let before = if later == "one" { "before\n" } else { "after part: before\n" };
        assert_eq!(events.output, format!("{before}{later} data"));
        counts.push((machines("firsts"), machines("guests")));
    }
    assert_eq!(counts, [(0, 0), (1, 0), (1, 1), (1, 1)], "machines kept");
    // A job with drives goes on from the same one.
    assert_eq!(takes_drives(host, Some("part".into())), "after part: flushed\n");
    assert_eq!(machines("firsts"), 1);
}

fn dies(cache: &Path) {
    let mut program = Command::new(std::env::current_exe().unwrap())
        .arg("--hang")
        .env("STASIS_CACHE", cache)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "hanging\n");
    let qemu = children(program.id());
    assert_eq!(qemu.len(), 1);
    program.kill().unwrap();
    program.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while is_running(qemu[0]) {
        assert!(Instant::now() < deadline, "QEMU outlives the program");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn exact(cache: &Path) {
    takes_inputs(in_exact(cache));
    takes_drives(in_exact(cache), None);
    let control = Control {
        stop: Arc::default(),
        deadline: Some(Instant::now() + Duration::from_secs(1)),
        ..Control::default()
    };
    let mut events = Collector::default();
    run(&in_exact(cache), &Job::new(b"wait"), &mut events, &control, &mut |_, _| {}).unwrap();
    assert_eq!(events.output, "waiting\nSome(WallLimit)\n");
}

/// Processes whose parent is `parent`.
fn children(parent: u32) -> Vec<u32> {
    let is_child = |id: &u32| status(*id).is_some_and(|(parent_id, _)| parent_id == parent);
    let ids = std::fs::read_dir("/proc").unwrap().flatten();
    ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_child).collect()
}

fn is_running(id: u32) -> bool {
    status(id).is_some_and(|(_, state)| state != "Z")
}

/// Parent and state of a process (proc(5), /proc/pid/stat).
fn status(id: u32) -> Option<(u32, String)> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut rest = text.rsplit_once(") ")?.1.split(' ');
    let state = rest.next()?.to_owned();
    Some((rest.next()?.parse().ok()?, state))
}
