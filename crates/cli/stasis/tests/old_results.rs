//! Results of an earlier command outlive one that ends before it has its own; as far as no guest is
//! needed. `tests/system/old_results.rs` has runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};

const JOB: &str = "[job]\nrw=randread\nbs=4k\nnumber_ios=2000\n";
/// A load that goes on until it is stopped.
const ENDLESS: &str = "[job]\nrw=randread\nbs=4k\nsize=64m\ntime_based\nruntime=100d\n";

fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
    command.args(words).current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn stasis(folder: &Path, words: &[&str]) -> Output {
    command(folder, words).output().unwrap()
}

/// All below a folder, with contents; none of a folder.
fn below(path: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(below(&path));
        }
        all.insert(path.clone(), std::fs::read(path).ok());
    }
    all
}

/// A folder with loads, and with results in `r` and `other`, and of several in `all`.
fn prepared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).unwrap();
    write("job.fio", JOB);
    write("endless.fio", ENDLESS);
    write("wrong.fio", "[job]\nrw=sideways\n");
    write("wrong.toml", "vcpu = 1\n");
    write(
        "run.toml",
        "command = ['true']\nresults = 'r'\n[[drive]]\nmodel = 'null'\nmedium = 'ram:64MiB'\n",
    );
    for (model, results) in [("fixed:10us", "r"), ("fixed:20us", "other")] {
        sim(path, &[model, "--workload=job.fio", "--results", results]);
    }
    sim(path, &["fixed:10us", "fixed:20us", "--workload=job.fio", "--results=all"]);
    let output = stasis(path, &["compare", "r", "other", "--results", "compared"]);
    assert!(output.status.success(), "{output:?}");
    std::fs::write(path.join("r/mine"), "mine").unwrap();
    folder
}

fn sim(folder: &Path, words: &[&str]) {
    let output = stasis(folder, &[&["sim", "--size=64MiB"], words].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_cannot_begin_leaves_earlier_results() {
    let folder = prepared();
    let before = below(folder.path());
    let cases: &[&[&str]] = &[
        // The request is wrong.
        &["sim", "nosuch", "--workload=job.fio", "--results=r"],
        &["sim", "null", "--workload=wrong.fio", "--size=64MiB", "--results=r"],
        &["sim", "null", "--workload=job.fio", "--size=1", "--results=r"],
        &["sim", "null", "--trace=none.csv", "--results=r"],
        &["sim", "null", "nosuch", "--workload=job.fio", "--results=all"],
        &["run", "wrong.toml", "--results=r"],
        &["run", "run.toml", "--drive=model=null,medium=file:none.img"],
        &["run", "run.toml", "--vcpus=99"],
        &["run", "--results=r", "--drive=modle=null,medium=ram:64MiB", "--", "true"],
        &["run", "run.toml", "--from=1s", "--branch=seed=1", "--branch=seed=1"],
        &["on", "nosuch,null", "--results=all", "--", "true"],
        &["on", "null,null", "--results=all", "--", "true"],
        &["crash-test", "wrong.toml", "--results=r"],
        &["crash-test", "run.toml", "--states=0"],
        &["crash-test", "run.toml", "--trace=other"],
        &["compare", "r", "none", "--results=compared"],
        &["compare", "r", "compared", "--results=compared"],
        &["serve", "--drive=model=null,medium=file:none.img", "--sockets=s", "--results=r"],
        &["serve", "--drive=model=null,medium=ram:99999TiB", "--sockets=s", "--results=r"],
        &["export", "none", "--perfetto=r/trace.json"],
        &["archive", "none", "-o", "r/archive"],
    ];
    for words in cases {
        let output = stasis(folder.path(), words);
        assert!(!output.status.success(), "{words:?}");
        let _ = std::fs::remove_dir_all(folder.path().join("s"));
        assert!(below(folder.path()) == before, "{words:?}: {output:?}");
    }
}

/// A simulation that goes on, with results in `r` that are its own.
fn endless(folder: &Path) -> Child {
    let words = ["sim", "fixed:10us", "--workload=endless.fio", "--size=64MiB", "--results=r"];
    // A hangup ends it, also where the tests run under nohup(1).
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").arg(env!("CARGO_BIN_EXE_stasis")).args(words);
    let mut child =
        command.arg("--ios=csv").current_dir(folder).stderr(Stdio::piped()).spawn().unwrap();
    let limit = Instant::now() + Duration::from_secs(60);
    let is_going =
        || std::fs::metadata(folder.join("r/ios.csv")).is_ok_and(|file| file.len() > 1 << 16);
    while !is_going() || !folder.join("r/.stasis-before").exists() {
        assert!(Instant::now() < limit && child.try_wait().unwrap().is_none(), "it does not go on");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn what_is_stopped_on_its_way_has_a_summary_of_its_own() {
    for name in [Signal::INT, Signal::TERM, Signal::HUP] {
        let folder = prepared();
        let child = endless(folder.path());
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{name:?}: {output:?}");
        let summary = std::fs::read_to_string(folder.path().join("r/summary.json")).unwrap();
        assert!(summary.contains(r#""ending": "cancelled""#), "{name:?}");
        let files = below(&folder.path().join("r"));
        assert!(files.keys().all(|path| !path.to_string_lossy().contains(".stasis-b")), "{name:?}");
        assert_eq!(files[&folder.path().join("r/mine")].as_deref(), Some(&b"mine"[..]));
    }
}

#[test]
fn what_is_killed_leaves_both_and_the_next_failure_puts_the_earlier_back() {
    let folder = prepared();
    let before = below(&folder.path().join("r"));
    let mut child = endless(folder.path());
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert!(folder.path().join("r/ios.csv").exists());
    assert!(folder.path().join("r/.stasis-before/summary.json").exists());
    let output = stasis(folder.path(), &["inspect", "r"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("r/.stasis-before"), "{output:?}");
    // A run in the same folder that ends by itself leaves its own alone.
    let words = ["fixed:30us", "--workload=job.fio", "--results=r"];
    sim(folder.path(), &words);
    assert!(!folder.path().join("r/.stasis-before").exists());
    let names = |all: &BTreeMap<PathBuf, _>| all.keys().cloned().collect::<Vec<_>>();
    let after: BTreeMap<_, Option<Vec<u8>>> = below(&folder.path().join("r"));
    assert_eq!(names(&after), names(&before));
}

/// A file system that is full, where this user may mount one.
#[test]
fn a_full_disk_leaves_earlier_results_and_no_half_files() {
    let folder = prepared();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=40m", "none"];
    let mounted =
        Command::new("mount").args(mount).arg(&disk).status().is_ok_and(|it| it.success());
    if !mounted {
        eprintln!("not tried: no file system can be mounted here");
        return;
    }
    let _unmounted = Unmounted(&disk);
    sim(folder.path(), &["fixed:10us", "--workload=job.fio", "--results=disk/r"]);
    let before = below(&disk);
    let words = [
        "sim",
        "fixed:10us",
        "--workload=endless.fio",
        "--size=64MiB",
        "--ios=csv",
        "--results=disk/r",
    ];
    // Full on the way: what there is stays beside what was.
    let output = stasis(folder.path(), &words);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(
        stderr.contains("has room for") && stderr.contains("disk/r/.stasis-before"),
        "{stderr}"
    );
    let files = below(&disk);
    let kept = disk.join("r/.stasis-before");
    for (path, content) in &before {
        let name = path.strip_prefix(disk.join("r")).unwrap();
        if path.is_file() && !path.ends_with(".stasis-results") {
            assert_eq!(files[&kept.join(name)], *content, "{name:?}");
        }
    }
    assert!(files.keys().all(|path| path.extension().is_none_or(|end| end != "part")), "{stderr}");
    // Full from the beginning: the earlier ones are back.
    std::fs::write(disk.join("filler"), vec![0; 30 << 20]).ok();
    let output = stasis(folder.path(), &words);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(kept.exists() || below(&disk.join("r")) == before);
}

struct Unmounted<'a>(&'a Path);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// A terminal that is closed: what goes there fails, and the summary is written.
#[test]
fn a_closed_terminal_ends_a_simulation_with_its_summary() {
    let folder = prepared();
    // script(1) is the terminal; its end closes it.
    let line = format!(
        "exec env --default-signal=HUP {} sim fixed:10us --workload=endless.fio --size=64MiB --results=r",
        env!("CARGO_BIN_EXE_stasis")
    );
    let mut terminal = Command::new("script");
    terminal.args(["-qfc", &line, "/dev/null"]).current_dir(folder.path());
    let Ok(mut terminal) = terminal.stdin(Stdio::piped()).stdout(Stdio::null()).spawn() else {
        eprintln!("not tried: script(1) is not installed");
        return;
    };
    let limit = Instant::now() + Duration::from_secs(60);
    while !folder.path().join("r/.stasis-before").exists() {
        assert!(Instant::now() < limit, "it does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    signal(&terminal, Signal::KILL);
    terminal.wait().unwrap();
    let summary =
        || std::fs::read_to_string(folder.path().join("r/summary.json")).unwrap_or_default();
    while !summary().contains("cancelled") {
        assert!(Instant::now() < limit, "it has no summary");
        std::thread::sleep(Duration::from_millis(10));
    }
}
