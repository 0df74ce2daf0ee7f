//! `stasis function` from outside. Tests that boot a guest need QEMU, and the main program (`make build`):
//! `cargo test -p stasis-function --test function -- --ignored`.

#[path = "../../stasis/tests/server/mod.rs"]
mod server;
#[path = "../../../realtime/serve/tests/support/mod.rs"]
#[allow(dead_code)]
mod support;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use server::{serve, Process};
use support::Guest;

/// `stasis function`, by the words of that command.
fn command(folder: &Path, words: &[&str]) -> Command {
    assert_eq!(words[0], "function");
    let mut command = Command::new(env!("CARGO_BIN_EXE_stasis-function"));
    command.args(&words[1..]).current_dir(folder).stdin(Stdio::null());
    command
}

fn stasis(folder: &Path, words: &[&str]) -> Output {
    command(folder, words).output().unwrap()
}

fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = stasis(folder, arguments);
    assert_eq!(output.status.code(), Some(125), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn functions_are_listed_and_begun() {
    let folder = tempfile::tempdir().unwrap();
    let list = stasis(folder.path(), &["function", "list", "--state", "."]);
    let text = String::from_utf8(list.stdout).unwrap();
    for name in ["nfs", "smb", "compress", "template"] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(name)), "{text}");
    }
    let new = stasis(folder.path(), &["function", "new", "mine"]);
    assert_eq!(String::from_utf8(new.stdout).unwrap(), "mine/function.toml\n");
    let again = refused(folder.path(), &["function", "new", "mine"]);
    assert!(again.contains("mine/function.toml"), "{again}");
    assert!(refused(folder.path(), &["function", "status", "x", "--state", "."]).contains("list"));
    assert!(refused(folder.path(), &["function", "stop", "x", "--state", "."]).contains("runs"));
}

#[test]
fn results_are_documents_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let document = |words: &[&str]| -> (Option<i32>, Value) {
        let output = stasis(folder.path(), &[&["function", "--json"], &words[1..]].concat());
        let document = serde_json::from_slice(&output.stdout);
        (output.status.code(), document.unwrap_or_else(|error| panic!("{error}: {output:?}")))
    };
    let (status, listed) = document(&["function", "list", "--state", "."]);
    assert_eq!((status, &listed["status"]), (Some(0), &0.into()));
    assert!(listed["shipped"].is_array() && listed["running"].is_array(), "{listed}");
    assert_eq!(document(&["function", "new", "mine"]).1["file"], "mine/function.toml");
    for words in ["status", "stop"] {
        let (status, failed) = document(&["function", words, "nobody", "--state", "."]);
        assert_eq!((status, &failed["error"]["code"]), (Some(125), &"not-found".into()));
    }
    let schema = stasis(folder.path(), &["function", "schema"]).stdout;
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    assert_eq!(schema["title"], "A storage function of Stasis");
}

#[test]
fn what_does_not_go_together_is_refused_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.toml"), "init = 1\n").unwrap();
    for (arguments, part) in [
        (&["nsf"][..], "`nfs`"),
        (&["./bad.toml"], "bad.toml"),
        (&["nfs", "--set", "size=1G"], "it has: threads"),
        (&["nfs", "--set", "threads"], "threads"),
        (&["nfs", "--port", "smb=1"], "it has: nfs"),
        (&["nfs", "--port", "nfs=0"], "nfs=2049"),
        (&["nfs", "--cpus", "x"], "2,4-6"),
        (&["nfs", "--network", "bridge"], "tap:INTERFACE:ADDRESS"),
        (&["nfs", "--memory", "many"], "many"),
        (&["nfs", "--socket", "a", "--socket", "b"], "1 drives (data), but 2 are given"),
    ] {
        let stderr =
            refused(folder.path(), &[&["function", "run", "--state", "."], arguments].concat());
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_port_in_use_is_found_before_anything_boots() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let number = taken.local_addr().unwrap().port();
    let port = format!("nfs={number}");
    let stderr = refused(
        folder.path(),
        &["function", "run", "--state", ".", "nfs", "--network", "user", "--port", &port]
            .into_iter()
            .chain(["--drive", "model=null,medium=ram:64MiB"])
            .collect::<Vec<_>>(),
    );
    assert!(
        stderr.contains(&format!("port {number}")) && stderr.contains("--port NAME="),
        "{stderr}"
    );
    assert!(!stderr.contains("QEMU"), "{stderr}");
}

/// Writes the next number to one of sixteen blocks and makes it durable; then the number is
/// acknowledged, which the report shows, and `then` happens.
fn writer(then: &str) -> String {
    r#"
about = "writes number after number"
memory = "192MiB"
drives = ["data"]
init = '''
# The guest polls its drive for who asks, also with one processor.
[ "$(cat /sys/block/vda/queue/io_poll)" = 1 ] || exit 9
cat >/usr/local/bin/writer <<'END'
i=$(tr -d '\0' </dev/vda | sort -n | tail -n 1)
i=$((i))
echo $i >/run/found
while :; do
  i=$((i + 1))
  printf '%-4095d\n' $i | dd of=/dev/vda bs=4096 count=1 seek=$((i % 16)) iflag=fullblock \
    conv=notrunc,fdatasync status=none || exit 1
  echo $i >/run/new
  mv /run/new /run/acknowledged
  THEN
done
END
sh /usr/local/bin/writer </dev/null >/dev/null 2>&1 &
'''
report = "cat /run/found /run/acknowledged"
health = { command = "pgrep -f usr/local/bin/writer", every = "200ms", deadline = "5s" }
"#
    .replace("THEN", then)
}

/// Message about a guest that hangs or is frozen: after 5 s, or 10 in the midst of a check, for its
/// command may take 5.
const SILENT: &str = "the guest has not answered for";

/// Starts a function.
fn start(folder: &Path, arguments: &[&str]) -> Process {
    let log = std::fs::File::create(folder.join("function.log")).unwrap();
    Process(command(folder, arguments).stdout(Stdio::null()).stderr(log).spawn().unwrap())
}

fn status(folder: &Path) -> Value {
    let output = stasis(folder, &["function", "status", "writer", "--json", "--state", "state"]);
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Waits until the function is well after so many restarts and has acknowledged something: returns
/// the number that it found at its start, the number that it acknowledged last, and QEMU's process.
fn acknowledged(folder: &Path, restarts: u64) -> (u64, u64, String) {
    let limit = Instant::now() + Duration::from_secs(120);
    loop {
        let now = status(folder);
        let report = now["report"].as_str().unwrap_or_default();
        let numbers: Vec<u64> = report.lines().filter_map(|line| line.parse().ok()).collect();
        let is_well = now["state"] == "well" && now["restarts"] == restarts;
        if let (true, [found, last]) = (is_well, &numbers[..]) {
            if *last > found + 5 {
                return (*found, *last, now["machine"].to_string());
            }
        }
        let log = || std::fs::read_to_string(folder.join("function.log")).unwrap();
        assert!(Instant::now() < limit, "{now:#}\n{}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The greatest number on the drive.
fn written(folder: &Path) -> u64 {
    let bytes = std::fs::read(folder.join("data")).unwrap();
    let text = String::from_utf8_lossy(&bytes[..16 * 4096]).into_owned();
    let numbers = text.lines().filter_map(|line| line.trim_matches(['\0', ' ']).parse().ok());
    numbers.max().unwrap_or(0)
}

#[test]
#[ignore = "boots a guest: make system-test"]
fn a_killed_and_a_frozen_function_lose_nothing_and_stop_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("writer.toml"), writer(":")).unwrap();
    std::fs::File::create(path.join("data")).unwrap().set_len(16 << 20).unwrap();
    let drives =
        ["name=data,model=null,medium=file:data", "name=own,queues=2,model=null,medium=ram:16MiB"];
    let _server = serve(path, &["--drive", drives[0], "--drive", drives[1]]);

    // The controller's own work: it writes, reads and compares all the time.
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (stopped, counted, socket) = (stop.clone(), done.clone(), path.join("own.sock"));
    let controller = std::thread::spawn(move || {
        let mut guest = Guest::connect(&socket);
        let mut longest = Duration::ZERO;
        while !stopped.load(Ordering::Relaxed) {
            let round = counted.fetch_add(1, Ordering::Relaxed);
            let before = Instant::now();
            guest.check(8 * (round % 1024), round as u8);
            longest = longest.max(before.elapsed());
            std::thread::sleep(Duration::from_millis(1));
        }
        longest
    });

    let run = ["function", "run", "./writer.toml", "--socket", "data.sock", "--state", "state"];
    let mut function = start(path, &[&run[..], &["--accelerator", "emulation"]].concat());
    let (_, mut last, mut machine) = acknowledged(path, 0);
    // More of both: STASIS_FUNCTION_KILLS=20. Pauses grow to half a minute.
    let kills = std::env::var("STASIS_FUNCTION_KILLS").ok().and_then(|word| word.parse().ok());
    for restarts in 1..=kills.unwrap_or(2) {
        let signal = if u64::is_multiple_of(restarts, 2) { Signal::STOP } else { Signal::KILL };
        let before = done.load(Ordering::Relaxed);
        kill_process(Pid::from_raw(machine.parse().unwrap()).unwrap(), signal).unwrap();
        let (found, next, with) = acknowledged(path, restarts);
        assert!(found >= last, "{signal:?}: {last} was acknowledged, and {found} is there");
        assert!(written(path) >= next);
        assert!(done.load(Ordering::Relaxed) > before + 100, "the controller's own I/O goes on");
        eprintln!("{signal:?}: {last} acknowledged, {found} found, {next} by now");
        if signal == Signal::STOP {
            let reason = status(path)["last_failure"].to_string();
            assert!(reason.contains(SILENT), "{reason}");
        }
        (last, machine) = (next, with);
    }
    stop.store(true, Ordering::Relaxed);
    let longest = controller.join().expect("the controller's own I/O is right");
    eprintln!(
        "{} checks of the controller's own, at most {longest:?}",
        done.load(Ordering::Relaxed)
    );

    let ended = stasis(path, &["function", "stop", "writer", "--state", "state"]);
    assert!(ended.status.success());
    assert!(function.0.wait().unwrap().success());
    assert_eq!(status(path)["state"], "stopped");
}

/// A guest that panics at its 10th number, and in its next life hangs at its 20th: a
/// program of the highest real-time priority never lets anything else run.
const ENDS: &str = r"case $i in
  10) echo c >/proc/sysrq-trigger ;;
  20) echo -1 >/proc/sys/kernel/sched_rt_runtime_us; chrt --fifo 99 sh -c 'while :; do :; done' ;;
  esac";

#[test]
#[ignore = "boots a guest: make system-test"]
fn a_guest_that_panics_or_hangs_is_noticed_and_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("writer.toml"), writer(ENDS)).unwrap();
    std::fs::File::create(path.join("data")).unwrap().set_len(16 << 20).unwrap();
    let run = ["function", "run", "./writer.toml", "--accelerator", "emulation"];
    let drive = ["--state", "state", "--drive", "name=data,model=null,medium=file:data"];
    let mut function = start(path, &[&run[..], &drive].concat());
    let (found, last, _) = acknowledged(path, 2);
    assert!(found == 20 && last > 20, "20 was acknowledged, and {found} is there");
    let log = std::fs::read_to_string(path.join("function.log")).unwrap();
    let failures: Vec<_> = log.lines().filter(|line| line.contains("failed (")).collect();
    assert_eq!(failures.len(), 2, "{log}");
    assert!(log.contains("sysrq triggered crash"), "{log}");
    assert!(failures[1].contains(SILENT), "{log}");
    eprintln!("{}", failures.join("\n"));
    assert!(stasis(path, &["function", "stop", "writer", "--state", "state"]).status.success());
    assert!(function.0.wait().unwrap().success());
}
