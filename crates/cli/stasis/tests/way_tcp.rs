//! The time that the way to an NVMe/TCP target's host takes is measured, and in the results.

use crate::server;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Instant;

use crate::tcp_host::TcpHost;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use stasis_nvme::Config;

/// Serves a drive of a model while a host reads 1,500 blocks one by one: the summary, the page, the
/// server's log, and the mean latency at the host (ns).
fn read(folder: &Path, model: &str) -> (Value, String, String, f64) {
    let address: SocketAddr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let drive = format!("name=d,model={model},medium=ram:16MiB,serial=W");
    let (at, results) = (address.to_string(), folder.join("results"));
    let results = results.to_str().unwrap();
    let words = ["--drive", &drive, "--nvme-tcp", &at, "--results", results];
    let mut process = server::serve(folder, &words);
    let nqn = Config { serial: "W".into(), ..Config::default() }.nqn();
    let mut host = TcpHost::connect(address, &nqn, 1).unwrap();
    let begin = Instant::now();
    for block in 0..1_500 {
        host.read(block).unwrap();
    }
    let mean = begin.elapsed().as_nanos() as f64 / 1_500.0;
    drop(host);
    kill_process(Pid::from_child(&process.0), Signal::TERM).unwrap();
    assert_eq!(process.0.wait().unwrap().code(), Some(0));
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let summary = serde_json::from_str(&text("results/summary.json")).unwrap();
    (summary, text("results/report.html"), text("serve.log"), mean)
}

#[test]
fn a_model_that_is_faster_than_the_way_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (summary, page, log, mean) = read(folder.path(), "fixed:100ns");
    let drive = &summary["drives"][0];
    let way = drive["way_ns"].as_f64().unwrap();
    assert!((1_000.0..mean).contains(&way), "{way} of {mean} ns");
    let delivered = drive["read"]["delivered_ns"]["mean"].as_f64().unwrap();
    let part = drive["read"]["way_percent"].as_f64().unwrap();
    assert!((part - 100.0 * way / (way + delivered)).abs() < 1e-9, "{part} %");
    assert!(drive["write"].get("way_percent").is_none(), "no write was there");
    let warning = summary["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("drive d: the model's read takes 100 ns on average"), "{warning}");
    assert!(
        page.contains("less than the way to its host") && page.contains("of what it saw of a read")
    );
    assert_eq!(log.matches("the model takes 100ns on average, and the way").count(), 1, "{log}");
    assert!(log.contains("; the way to the host "), "{log}");
}

#[test]
fn a_slower_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (summary, page, log, _) = read(folder.path(), "fixed:2ms");
    assert!(summary["drives"][0]["read"]["way_percent"].as_f64().unwrap() < 50.0);
    assert!(summary.get("warnings").is_none(), "{summary}");
    assert!(page.contains("of what it saw of a read"));
    assert!(!log.contains("the host sees the way"), "{log}");
}
