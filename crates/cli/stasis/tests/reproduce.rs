//! `stasis reproduce` as the documents have it, in its quick form.

use std::process::{Command, Stdio};

use serde_json::Value;

/// Publications, and the least that their quick form measures.
const PUBLICATIONS: [(&str, usize); 5] = [
    ("freezing-time", 20),
    ("femu", 20),
    ("barrier", 10),
    ("coordination", 20),
    ("controller", 10),
];

#[test]
#[ignore = "takes half an hour: make slow-test"]
fn each_publication_is_repeated() {
    for (name, least) in PUBLICATIONS {
        let folder = tempfile::tempdir().unwrap();
        let status = Command::new(env!("CARGO_BIN_EXE_stasis"))
            .args(["reproduce", name, "--quick", "--results", "r"])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{name}: {status}");
        let figures = std::fs::read(folder.path().join("r/figures.json")).unwrap();
        let figures: Vec<Value> = serde_json::from_slice(&figures).unwrap();
        let measured = figures.iter().filter(|figure| !figure["measured"].is_null()).count();
        assert!(measured >= least, "{name}: {measured} of {} figures", figures.len());
        assert!(folder.path().join("r/report.html").exists(), "{name}");
    }
}
