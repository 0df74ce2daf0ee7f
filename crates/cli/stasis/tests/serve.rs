//! `stasis serve` from outside: its control interface, its replacement, its end.

mod server;
#[path = "../../../realtime/serve/tests/support/mod.rs"]
#[allow(dead_code)]
mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

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

    /// Waits for its end: its exit status, and what was said.
    fn end(mut self) -> (i32, String) {
        let limit = Instant::now() + Duration::from_secs(60);
        let status = loop {
            if let Some(status) = self.process.0.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < limit, "the server ends");
            std::thread::sleep(Duration::from_millis(5));
        };
        let said = std::fs::read_to_string(self.folder.join("serve.log")).unwrap();
        (status.code().unwrap_or(-1), said)
    }

    fn terminate(&self) {
        let kill = Command::new("kill").arg(self.process.0.id().to_string()).status();
        assert!(kill.unwrap().success());
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
    let again = server.ask(&json!({ "do": "create", "drive": table }));
    assert!(again["error"].as_str().unwrap().contains("attach"), "{again}");
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
    let (code, said) = server.end();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("d: 0 reads"), "{said}");
    assert!(!folder.path().join("d.sock").exists());
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
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(125) && said.contains("--replace"), "{said}");
    let second = serve(folder.path(), &["--replace"]);
    let (code, said) = first.end();
    assert_eq!(code, 0, "{said}");
    let list = second.ask(&json!({ "do": "list" }));
    assert_eq!(list["drives"][0]["name"], "d");
    assert!(UnixStream::connect(folder.path().join("d.sock")).is_ok());
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
    let (code, said) = server.end();
    assert!(code == 0 && said.contains("results in results"), "{said}");
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
    // What it had to do can be done again by the model alone, to the nanosecond.
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
