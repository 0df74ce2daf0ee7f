//! `stasis serve` from outside: its control interface, its replacement, its end.

use crate::server;
use crate::support;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};
use serde_json::{json, Value};
use stasis_nvme::{Config, KeptState, Namespace, Zones};
use stasis_qcow2::{create, CreateOptions};

struct Served {
    process: server::Process,
    folder: PathBuf,
}

fn serve(folder: &Path, more: &[&str]) -> Served {
    let drive = ["--drive", "name=d,model=null,medium=file:disk"];
    let process = server::serve(folder, &[&drive, more].concat());
    Served { process, folder: folder.to_owned() }
}

impl Served {
    fn ask(&self, request: &Value) -> Value {
        let stream = UnixStream::connect(self.folder.join("control.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        writeln!(&stream, "{request}").unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Waits for its end: its exit status, and its output.
    fn end(mut self) -> (i32, String) {
        let limit = Instant::now() + Duration::from_secs(60);
        let status = loop {
            if let Some(status) = self.process.0.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < limit, "the server ends");
            std::thread::sleep(Duration::from_millis(5));
        };
        let log = std::fs::read_to_string(self.folder.join("serve.log")).unwrap();
        (status.code().unwrap_or(-1), log)
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.process.0), Signal::TERM).unwrap();
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::File::create(folder.path().join("disk")).unwrap().set_len(4 << 20).unwrap();
    folder
}

#[test]
fn drives_come_grow_and_go_while_it_serves() {
    let folder = folder();
    let server = serve(folder.path(), &[]);
    let list = server.ask(&json!({ "do": "list" }));
    assert_eq!(list["drives"][0]["name"], "d");
    assert_eq!(list["drives"][0]["capacity"], 4 << 20);
    let table = json!({ "name": "e", "model": "null", "medium": { "file": "e", "size": "8MiB" } });
    let made = server.ask(&json!({ "do": "create", "drive": table }));
    assert_eq!(made["drive"], "e", "{made}");
    assert!(UnixStream::connect(folder.path().join("e.sock")).is_ok());
    let grown = server.ask(&json!({ "do": "resize", "drive": "e", "size": "16MiB" }));
    assert_eq!(grown["capacity"], 16 << 20, "{grown}");
    assert_eq!(std::fs::metadata(folder.path().join("e")).unwrap().len(), 16 << 20);
    let timed = server.ask(&json!({ "do": "timing", "drive": "e", "model": "fixed:1ms" }));
    assert_eq!(timed["model"], "fixed:1ms", "{timed}");
    let one = server.ask(&json!({ "do": "statistics", "drive": "e" }));
    assert_eq!(one["drives"][0]["counts"]["failed"], 0);
    assert!(server.ask(&json!({ "do": "statistics", "drive": "x" }))["error"].is_string());
    assert!(server.ask(&json!({ "do": "lits" }))["error"].as_str().unwrap().contains("list"));
    assert_eq!(server.ask(&json!({ "do": "detach", "drive": "e" }))["detached"], "e");
    assert!(!folder.path().join("e.sock").exists());
    let word = "name=e,model=null,medium=file:e";
    assert_eq!(server.ask(&json!({ "do": "attach", "drive": word }))["drive"], "e");
    server.terminate();
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("d: 0 reads"), "{log}");
    assert!(!folder.path().join("d.sock").exists());
}

/// Contents of the files of a folder, except for the server's log.
fn files(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| (path.clone(), std::fs::read(path).ok());
    entries.filter(|path| !path.ends_with("serve.log")).map(read).collect()
}

/// The state file that a drive with zones of 1 MiB leaves beside its medium.
fn zones() -> String {
    let zoned = Some(Zones::new(1 << 20));
    let namespaces = vec![Namespace { zoned, ..Namespace::new(8192, 512) }];
    let state = KeptState::as_made(&Config { namespaces, ..Config::default() });
    let form = "stasis drive state 1";
    json!({ "form": form, "in_use": false, "medium": "", "state": state }).to_string()
}

/// Each request of the control socket, in ways that are refused: by words that its answer has.
fn refusals() -> Vec<(Value, &'static str)> {
    let resize = |size: &str| json!({ "do": "resize", "drive": "d", "size": size });
    let attach = |word: &str| json!({ "do": "attach", "drive": word });
    let create = |word: &str| json!({ "do": "create", "drive": word });
    let fault = |drive: &str, table| json!({ "do": "fault", "drive": drive, "fault": table });
    vec![
        // A name in use, then what would have gone to the other file.
        (attach("name=d,model=null,medium=file:other"), "already"),
        (resize("1MiB"), "shrink"),
        (attach("name=other,model=null,medium=file:disk"), "another program"),
        (attach("name=other,model=null,medium=file:missing"), "create it"),
        (attach("name=other,model=null,medium=file:other,size=5MiB"), "4MiB"),
        (attach("name=other,model=null,medium=file:odd"), "multiple"),
        (attach("name=other,model=null,medium=file:other,block-size=1000"), "block"),
        (attach("name=other,model=null,medium=file:other,serial=123456789012345678901"), "20"),
        (attach("name=a/b,model=null,medium=file:other"), "letters"),
        (json!({ "do": "ana", "drive": "d", "path": 1, "state": "change" }), "no NVMe/TCP target"),
        (json!({ "do": "ana", "drive": "d", "path": 1, "state": "lost" }), "persistent-loss"),
        (json!({ "do": "detach-namespace", "drive": "d", "namespace": 1 }), "no NVMe drive"),
        (json!({ "do": "attach-namespace", "drive": "d" }), "`namespace`"),
        (
            json!({ "do": "attach-namespace", "drive": "d", "namespace": 1, "host": "" }),
            "1 to 223 bytes",
        ),
        // Keys that only a machine of this program can have.
        (attach("name=other,model=null,medium=file:other,scheduler=bfq"), "`scheduler`"),
        (attach("name=other,model=null,medium=file:other,limits.iops=9"), "`limits`"),
        (attach("name=other,model=null,medium=file:other,namespaces=2"), "`namespaces`"),
        (attach("name=other,model=null,medium=file:other,placement=streams:4"), "`placement`"),
        (attach("name=other,model=null,medium=file:other,doorbells=lazy"), "`doorbells`"),
        (attach("name=other,model=nul,medium=file:other"), "null"),
        // Plain block devices do not write where zones end.
        (
            attach("name=other,model=null,medium=file:zoned"),
            "zoned.state: an NVMe drive with zones",
        ),
        (
            attach("name=other,model=null,medium=file:zoned,state=last"),
            "zoned.state: an NVMe drive",
        ),
        (attach("name=other,model=null,medium=ordered:zoned"), "zoned.state: an NVMe drive"),
        (attach("name=other,model=null,medium=qcow2:other"), "other"),
        (attach("name=control,model=null,medium=file:other"), "control.sock"),
        (json!({ "do": "attach" }), "drive"),
        (create("name=d,model=null,medium=file:new,size=1MiB"), "already"),
        (create("name=new,model=null,medium=file:other,size=4MiB"), "attach"),
        (create("name=new,model=null,medium=file:new"), "how large"),
        (create("name=new,model=null,medium=file:new,size=1000"), "1000 bytes"),
        (create("name=new,model=null,medium=file:new,size=1048577"), "1048577 bytes"),
        (create("name=new,model=null,medium=file:new,size=8000000TiB"), "new"),
        (create("name=new,model=null,medium=file:new,size=1MiB,block-size=1000"), "block"),
        (create("name=new,model=null,medium=file:none/new,size=1MiB"), "new"),
        (create("name=new,model=null,medium=qcow2:new"), "image create"),
        (create("name=new,model=null,medium=ordered:other,size=4MiB"), "attach"),
        (create("name=control,model=null,medium=ordered:new,size=4MiB"), "control.sock"),
        (resize("0"), "at least 1MiB"),
        (resize("1000"), "at least 1MiB"),
        (resize("4194305"), "multiple"),
        (resize("4000000TiB"), "disk"),
        (resize("much"), "size"),
        (resize("-1"), "size"),
        (json!({ "do": "resize", "drive": "d" }), "size"),
        (json!({ "do": "resize", "drive": "x", "size": "8MiB" }), "no drive `x`"),
        (json!({ "do": "resize", "drive": "m", "size": "8MiB" }), "raw image"),
        (json!({ "do": "resize", "drive": "q", "size": "8MiB" }), "raw image"),
        (json!({ "do": "resize", "drive": "d", "size": "8MiB", "shrnk": true }), "shrnk"),
        (json!({ "do": "timing", "drive": "d", "model": "fixd:1ms" }), "fixed"),
        (json!({ "do": "timing", "drive": "x", "model": "null" }), "no drive `x`"),
        (json!({ "do": "timing", "drive": "d" }), "model"),
        (fault("x", json!({ "kind": "stall" })), "no drive `x`"),
        (fault("d", json!({ "kind": "stal" })), "did you mean `stall`"),
        (fault("d", json!({ "kind": "stall", "drive": "q" })), "of drive q"),
        (fault("d", json!({ "kind": "stall", "rate": 0.5 })), "rate"),
        (fault("d", json!({ "kind": "slow" })), "needs factor or delay"),
        (fault("d", json!({ "kind": "stall", "name": "a", "when": "asked" })), "leave `name`"),
        (fault("d", json!({ "kind": "pause" })), "of a machine"),
        (fault("d", json!({ "kind": "full" })), "`full` is of `stasis run`"),
        (fault("d", json!({ "kind": "gone" })), "detach the drive"),
        (fault("d", json!({ "kind": "path-inaccessible" })), "say `ana`"),
        (fault("d", json!({ "kind": "stuck-queue" })), "or of a drive by --vfio-user"),
        (json!({ "do": "fault", "drive": "d" }), "`fault`"),
        (json!({ "do": "end-fault", "drive": "d", "fault": 0 }), "no fault 0, and no other"),
        (json!({ "do": "end-fault", "drive": "x", "fault": 0 }), "no drive `x`"),
        (json!({ "do": "detach", "drive": "x" }), "no drive `x`"),
        (json!({ "do": "detach" }), "drive"),
        (json!({ "do": "statistics", "drive": "x" }), "no drive `x`"),
        // A drive in memory is there.
        (json!({ "do": "replace" }), "in memory"),
        (json!({ "do": "lits" }), "list"),
        (json!({ "do": "list", "drive": "d" }), "drive"),
        (json!("list"), "object"),
    ]
}

#[test]
fn a_refused_request_changes_nothing() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("disk"), vec![0xdd; 4 << 20]).unwrap();
    std::fs::write(at("other"), vec![0x00; 4 << 20]).unwrap();
    std::fs::write(at("odd"), vec![0x0f; (2 << 20) + 1]).unwrap();
    std::fs::write(at("zoned"), vec![0x20; 4 << 20]).unwrap();
    std::fs::write(at("zoned.state"), zones()).unwrap();
    let options = CreateOptions { size: Some(4 << 20), ..CreateOptions::default() };
    create(&at("image"), &options).unwrap();
    let image = ["--drive", "name=q,model=null,medium=qcow2:image"];
    let memory = ["--drive", "name=m,model=null,medium=ram:4MiB"];
    let server = serve(folder.path(), &[image, memory].concat());
    let mut guest = support::Guest::connect(&at("d.sock"));
    // The list has it in use from its first I/O on.
    guest.check(8, 5);
    let (before, list) = (files(folder.path()), server.ask(&json!({ "do": "list" })));
    for (request, word) in refusals() {
        let answer = server.ask(&request);
        let error = answer["error"].as_str().unwrap_or_else(|| panic!("{request}: {answer}"));
        assert!(error.contains(word), "{request}: {error}");
        let after = files(folder.path());
        for (path, bytes) in &after {
            assert!(before.get(path) == Some(bytes), "{request} changed {}", path.display());
        }
        assert_eq!(after.len(), before.len(), "{request}");
        let now = server.ask(&json!({ "do": "list" }));
        assert_eq!(now, list, "{request}");
    }
    guest.check(8, 5);
    drop(guest);
    // A request that was refused once succeeds where it is right, and is done whole.
    let smaller = json!({ "do": "resize", "drive": "d", "size": "1MiB", "shrink": true });
    assert_eq!(server.ask(&smaller)["capacity"], 1 << 20);
    assert_eq!(std::fs::metadata(at("disk")).unwrap().len(), 1 << 20);
    let larger = json!({ "do": "resize", "drive": "d", "size": "2MiB" });
    assert_eq!(server.ask(&larger)["capacity"], 2 << 20);
    support::Guest::connect(&at("d.sock")).check(2048, 6);
    let bytes = std::fs::read(at("disk")).unwrap();
    assert!(
        bytes[1 << 20..(1 << 20) + 4096] == [6; 4096]
            && bytes[(1 << 20) + 4096..] == [0; (1 << 20) - 4096]
    );
    assert!(std::fs::read(at("other")).unwrap() == vec![0; 4 << 20]);
    // A drive that begins anew takes the medium, and what was kept of the old one goes.
    let new = "name=z,model=null,medium=file:zoned,state=new";
    let answer = server.ask(&json!({ "do": "attach", "drive": new }));
    assert!(answer["error"].is_null() && !at("zoned.state").exists(), "{answer}");
    support::Guest::connect(&at("z.sock")).check(8, 7);
}

/// A drive in a file and one in an image, with a fault of the experiment's, then faults that are asked
/// for: each is in the log and in the results, and ends by a word.
#[test]
fn faults_begin_by_a_word_and_end_by_one() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let options = CreateOptions { size: Some(4 << 20), ..CreateOptions::default() };
    create(&at("image"), &options).unwrap();
    let drive = |name: &str, medium: &str| {
        format!("[[drive]]\nname = '{name}'\nmodel = 'null'\nmedium = '{medium}'\n")
    };
    let first = "[[fault]]\nkind = 'write-error'\ndrive = 'd'\ntimes = 1\n";
    let text = [&drive("d", "file:disk"), &drive("q", "qcow2:image"), first].concat();
    std::fs::write(at("e.toml"), text).unwrap();
    let process = server::serve(folder.path(), &["e.toml", "--results", "results"]);
    let server = Served { process, folder: folder.path().to_owned() };
    let begin = |drive: &str, table: Value| {
        let answer = server.ask(&json!({ "do": "fault", "drive": drive, "fault": table }));
        answer["fault"].as_u64().unwrap_or_else(|| panic!("{answer}"))
    };
    let end = |drive: &str, fault: u64| {
        let answer = server.ask(&json!({ "do": "end-fault", "drive": drive, "fault": fault }));
        answer["happened"].as_u64().unwrap_or_else(|| panic!("{answer}"))
    };
    let [mut disk, mut image] =
        ["d.sock", "q.sock"].map(|at| support::Guest::connect(&folder.path().join(at)));
    let status = |guest: &mut support::Guest, kind| {
        guest.request(0, kind, 8);
        assert!(guest.wait(1), "it ends");
        guest.status(0)
    };
    const FAILED: u8 = 1;
    assert_eq!(status(&mut disk, support::OUT), FAILED, "by the experiment");
    disk.check(8, 1);
    image.check(8, 2);
    // One that is stalled ends when the stall does, by a word here; others go on.
    let stall = begin("d", json!({ "kind": "stall" }));
    disk.request(0, support::IN, 8);
    let happened = format!("d: fault {stall} has happened");
    support::until("the stall befalls it", || {
        std::fs::read_to_string(at("serve.log")).unwrap().contains(&happened)
    });
    image.check(16, 3);
    let given = disk.given();
    assert_eq!(end("d", stall), 1);
    assert!(disk.wait(1) && disk.given() == given + 1, "it is let go");
    assert_eq!((disk.status(0), disk.data(0)), (0, vec![1; 4096]));
    // By share and by count, on both.
    for (name, guest) in [("d", &mut disk), ("q", &mut image)] {
        let fails = begin(name, json!({ "kind": "read-error", "times": 2, "rate": 1.0 }));
        let statuses = [support::IN; 3].map(|kind| status(guest, kind));
        assert_eq!((statuses, end(name, fails)), ([FAILED, FAILED, 0], 2), "{name}");
    }
    let lost = begin("d", json!({ "kind": "lost-write", "length": "1MiB" }));
    disk.put(support::DATA, &[9; 4096]);
    assert_eq!((status(&mut disk, support::OUT), status(&mut disk, support::IN)), (0, 0));
    assert_eq!(disk.data(0), [1; 4096], "the write was lost");
    assert_eq!(end("d", lost), 1);
    disk.check(8, 4);
    // A server ends though a drive stalls.
    let last = begin("d", json!({ "kind": "stall", "end": "1h" }));
    disk.request(0, support::IN, 8);
    let happened = format!("d: fault {last} has happened");
    support::until("the stall befalls it", || {
        std::fs::read_to_string(at("serve.log")).unwrap().contains(&happened)
    });
    server.terminate();
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    let summary = std::fs::read_to_string(at("results/summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let faults: Vec<_> = summary["faults"].as_array().unwrap().iter().collect();
    let shown: Vec<_> =
        faults.iter().map(|one| (&one["kind"], &one["target"], &one["happened"])).collect();
    let expected = json!([
        ["write-error", "d", 1],
        ["stall", "d", 1],
        ["read-error", "d", 2],
        ["read-error", "q", 2],
        ["lost-write", "d", 1],
        ["stall", "d", 1]
    ]);
    assert_eq!(json!(shown), expected);
    assert!(at("results/faults.parquet").exists());
}

#[test]
fn a_medium_of_zones_is_not_served() {
    let folder = folder();
    std::fs::write(folder.path().join("disk.state"), zones()).unwrap();
    let mut words = Command::new(env!("CARGO_BIN_EXE_stasis"));
    words.args(["serve", "--sockets", ".", "--drive", "model=null,medium=file:disk"]);
    let output = words.current_dir(folder.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(
        stderr.contains("drive drive0: ") && stderr.contains("disk.state: an NVMe drive"),
        "{stderr}"
    );
    assert!(folder.path().join("disk.state").exists());
}

#[test]
fn what_a_server_cannot_have_has_its_line_in_the_file() {
    let drive = "[[drive]]\nname = 'd'\nmodel = 'null'\nmedium = 'ram:1MiB'\n";
    for (text, words, wanted) in [
        ("threads = 65", &[][..], "e.toml: line 6, column 11: threads is 65"),
        ("hosts = ['x']", &[], "e.toml: line 6, column 9: `hosts` is of NVMe/TCP"),
        ("ublk = ['d', 'e']", &[], "e.toml: line 6, column 14: ublk names the drive `e`"),
        ("[[drive.namespace]]", &[], "e.toml: line 6, column 1: drive d: `namespace` is NVMe's"),
        ("[[fault]]\nkind = 'gone'", &[], "e.toml: line 7, column 8: `gone` is of `stasis run`"),
        (
            "[[fault]]\nkind = 'pause'",
            &[],
            "e.toml: line 7, column 8: the kind `pause` is of a machine",
        ),
        (
            "[[fault]]\nkind = 'stall'\ndrive = 'x'",
            &[],
            "e.toml: line 8, column 9: there is no drive `x`",
        ),
        ("threads = 1", &["--threads", "65"], "stasis: threads is 65"),
    ] {
        let folder = folder();
        let head = if text.starts_with('[') { "" } else { "[serve]" };
        let text = format!("{drive}{head}\n{text}\n");
        std::fs::write(folder.path().join("e.toml"), text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_stasis"))
            .args([&["serve", "--sockets", ".", "e.toml"], words].concat())
            .current_dir(folder.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(stderr.contains(wanted), "{stderr}");
    }
}

#[test]
fn each_line_has_one_answer() {
    let folder = folder();
    let server = serve(folder.path(), &[]);
    let stream = UnixStream::connect(folder.path().join("control.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let long = |length: usize| [vec![b'x'; length], b"\n".to_vec()].concat();
    let lines = [
        long(64 << 10),
        long((64 << 10) - 1),
        long(1 << 20),
        b"\xff\xfe\n".to_vec(),
        b"\n \n{\"do\": \"list\"}\n".to_vec(),
        b"{\"do\": \"list\"}\n".to_vec(),
    ];
    let mut write = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        lines.iter().for_each(|line| write.write_all(line).unwrap());
        write.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let answers: Vec<Value> = BufReader::new(&stream)
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    sender.join().unwrap();
    let errors: Vec<bool> = answers.iter().map(|answer| answer["error"].is_string()).collect();
    // A line of nothing is one, too.
    assert_eq!(errors, [true, true, true, true, true, true, false, false], "{answers:?}");
    assert!(answers[2]["error"].as_str().unwrap().contains("65536 bytes"), "{answers:?}");
    drop(server);
}

#[test]
fn it_ends_in_bounded_time_whatever_is_in_flight() {
    for (medium, poll) in
        [("ram:4MiB", "never"), ("file:disk", "adaptive"), ("qcow2:image", "never")]
    {
        let folder = folder();
        let options = CreateOptions { size: Some(4 << 20), ..CreateOptions::default() };
        create(&folder.path().join("image"), &options).unwrap();
        let drive = format!("name=slow,model=fixed:1h,medium={medium}");
        let process = server::serve(folder.path(), &["--drive", &drive, "--poll", poll]);
        let server = Served { process, folder: folder.path().to_owned() };
        let mut guest = support::Guest::connect(&folder.path().join("slow.sock"));
        (0..4).for_each(|slot| guest.request(slot, support::OUT, 8 * u64::from(slot)));
        let in_flight =
            || server.ask(&json!({ "do": "statistics" }))["drives"][0]["in_flight"].clone();
        while in_flight() != json!(4) {}
        let begun = Instant::now();
        server.terminate();
        let (code, log) = server.end();
        assert_eq!(code, 0, "{medium}: {log}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{medium}: {:?}", begun.elapsed());
        assert_eq!(guest.given(), 0, "what was not over was not acknowledged");
    }
}

#[test]
fn another_server_takes_its_place() {
    let folder = folder();
    let first = serve(folder.path(), &[]);
    let refused = Command::new(env!("CARGO_BIN_EXE_stasis"))
        .args(["serve", "--drive", "name=d,model=null,medium=file:disk", "--sockets", "."])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(125) && stderr.contains("--replace"), "{stderr}");
    assert!(stderr.contains("--sockets DIR"), "{stderr}");
    let second = serve(folder.path(), &["--replace"]);
    let (code, log) = first.end();
    assert_eq!(code, 0, "{log}");
    let list = second.ask(&json!({ "do": "list" }));
    assert_eq!(list["drives"][0]["name"], "d");
    assert!(UnixStream::connect(folder.path().join("d.sock")).is_ok());
}

/// Rows of the page that compares emulators, by their beginning, and keys of an experiment with a
/// drive that has the feature.
const FEATURES: &[(&str, &str)] = &[
    ("read, write, flush", ""),
    ("zones, with random write areas", "zones = { size = '8MiB' }"),
    ("Open-Channel 2.0", "ocssd = { groups = 2, units = 2, chunks = 32, sectors = 1024 }"),
    ("Flexible Data Placement", "placement = 'fdp:4x8MiB'"),
    ("streams", "placement = 'streams:4'"),
    ("Key Value", "key-value = {}"),
    ("computational programs", "programs = {}"),
    ("several namespaces", "namespaces = 2"),
    ("of different kinds", "namespace = [{ size = '16MiB' }, { zones = { size = '8MiB' } }]"),
    ("metadata, apart", "metadata = { size = 8, extended = true }"),
    ("blocks of 512 to 16384", "block-size = 4096"),
    ("endurance groups", "namespace = [{ endurance-group = 1, size = '16MiB' }]"),
    ("power states", "power-states = '8W/3W'"),
    ("controller memory buffer", "memory-buffer = '2MiB'"),
    ("a drive's state kept", "model = { base = 'flash-tlc', state = 'state' }"),
    ("read and write errors", "[[fault]]\nkind = 'read-error'\ndrive = 'd'"),
    ("lost, torn", "[[fault]]\nkind = 'lost-write'\ndrive = 'd'"),
    ("a command that is late", "[[fault]]\nkind = 'slow'\ndrive = 'd'\nfactor = 2"),
    ("power cuts; a full drive", "[[fault]]\nkind = 'full'\ndrive = 'd'"),
    ("a drive that is pulled out", "[[fault]]\nkind = 'gone'\ndrive = 'd'"),
    ("a namespace that changes", ""),
];

#[test]
fn features_are_served_where_the_page_says_so() {
    let page = include_str!("../../../../docs/reference/emulators.md");
    for (row, keys) in FEATURES {
        let line = page.lines().find(|line| line.starts_with(&format!("| {row}")));
        let place = line.unwrap_or_else(|| panic!("no row {row}")).split(" | ").nth(1).unwrap();
        let place = place.split([' ', ';', ':', ',']).next().unwrap();
        let (both, experiments) = (place == "both", place == "experiments");
        assert!(both || experiments, "{row}: {place}");
        let folder = tempfile::tempdir().unwrap();
        let model = if keys.contains("model") { "" } else { "model = 'null'\n" };
        let drive = format!("[[drive]]\nname = 'd'\nmedium = 'ram:64MiB'\n{model}{keys}\n");
        std::fs::write(folder.path().join("e.toml"), drive).unwrap();
        for way in [["--nvme-tcp", "0"], ["--vfio-user", "v.sock"]] {
            let words = [&["e.toml"], &way[..]].concat();
            if both {
                server::serve(folder.path(), &words);
                continue;
            }
            let refused = Command::new(env!("CARGO_BIN_EXE_stasis"))
                .args([&["serve", "--sockets", "."], &words[..]].concat())
                .current_dir(folder.path())
                .output()
                .unwrap();
            let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(125), "{row}: {stderr}");
            assert!(stderr.contains("has no effect on"), "{row}: {stderr}");
        }
    }
    // Each row says where its feature is.
    let rows = page.lines().skip_while(|line| !line.starts_with("## ")).filter(|line| {
        line.starts_with("| ") && !line.starts_with("| feature") && !line.starts_with("| ---")
    });
    for row in rows {
        let place = row.split(" | ").nth(1).unwrap();
        let places = ["both", "experiments", "served", "no"];
        assert!(places.iter().any(|begin| place.starts_with(begin)), "{row}");
    }
}

#[test]
fn a_vfio_user_device_is_handed_over_unless_a_guest_has_it() {
    let folder = folder();
    let first = serve(folder.path(), &["--vfio-user", "v.sock"]);
    let in_use = |wanted: bool| {
        let is = || first.ask(&json!({ "do": "list" }))["drives"][0]["in_use"] == json!(wanted);
        while !is() {}
    };
    let client = UnixStream::connect(folder.path().join("v.sock")).unwrap();
    in_use(true);
    let refused = first.ask(&json!({ "do": "replace" }));
    let message = refused["error"].as_str().unwrap_or_default();
    assert!(
        message.contains("drive d: a guest has it") && message.contains("device_add"),
        "{refused}"
    );
    drop(client);
    in_use(false);
    let second = serve(folder.path(), &["--vfio-user", "v.sock", "--replace"]);
    let (code, log) = first.end();
    assert_eq!(code, 0, "{log}");
    assert!(UnixStream::connect(folder.path().join("v.sock")).is_ok(), "it is the second one's");
    drop(second);
}

#[test]
fn each_io_is_in_its_results() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let server = serve(folder.path(), &["--results", "results"]);
    let timed = json!({ "name": "t", "model": "fixed:1ms", "medium": { "ram": "1MiB" } });
    assert_eq!(server.ask(&json!({ "do": "create", "drive": timed }))["drive"], "t");
    support::Guest::connect(&at("d.sock")).check(0, 1);
    let mut guest = support::Guest::connect(&at("t.sock"));
    (0..5).for_each(|round| guest.check(8 * round, 2));
    server.terminate();
    let (code, log) = server.end();
    assert!(code == 0 && log.contains("results in results"), "{log}");
    let summary: Value =
        serde_json::from_slice(&std::fs::read(at("results/summary.json")).unwrap()).unwrap();
    assert_eq!((&summary["engine"], &summary["lost_ios"]), (&json!("serve"), &json!(0)));
    let [d, t] = [&summary["drives"][0], &summary["drives"][1]];
    assert_eq!((&d["name"], &d["write"]["count"]), (&json!("d"), &json!(1)));
    assert_eq!(
        (&t["read"]["count"], &t["read"]["target_ns"]["max"]),
        (&json!(5), &json!(1_000_000))
    );
    assert_eq!(t["interface"], "vhost-user-blk");
    let page = std::fs::read_to_string(at("results/report.html")).unwrap();
    assert!(page.contains("Drives in real time") && !page.contains("virtual time"));
    // The model alone computes the drive's targets again, to the nanosecond.
    let sim = Command::new(env!("CARGO_BIN_EXE_stasis"))
        .args(["sim", "fixed:1ms", "--trace", "results/ios.csv", "--exact-times"])
        .args(["--trace-drive", "t", "--results", "again", "--ios=csv"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(sim.status.success(), "{}", String::from_utf8_lossy(&sim.stderr));
    let rows = |path: &str| -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(at(path)).unwrap();
        let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
        text.lines().skip(1).map(cells).collect()
    };
    let served: Vec<_> = rows("results/ios.csv").into_iter().filter(|row| row[0] == "t").collect();
    assert_eq!(served.len(), 10);
    let submit_and_target = |row: &Vec<String>| row[6..8].to_vec();
    let again: Vec<_> = rows("again/ios.csv").iter().map(submit_and_target).collect();
    assert_eq!(again, served.iter().map(submit_and_target).collect::<Vec<_>>());
}
