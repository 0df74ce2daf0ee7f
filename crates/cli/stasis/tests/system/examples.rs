//! The examples of help that boot a guest, as a user copies them. Those that do not run in
//! `tests/examples`.

#[path = "../examples/help.rs"]
mod help;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::Bench;

/// The examples' `experiment.toml`: a file system, and time for a power cut in it.
const EXPERIMENT: &str = r#"
command = ["sh", "-c", "mkfs.ext4 -q /dev/nvme0n1 && sync && sleep 2"]

[[drive]]
model  = "fixed:100us"
medium = { ram = "64MiB" }
"#;

#[test]
fn examples_that_boot_work() {
    let bench = Bench::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    std::fs::copy(root.join("examples/job.fio"), bench.path("job.fio")).unwrap();
    let measured = root.join("crates/drives/models/tests/data/blkparse.txt");
    std::fs::copy(measured, bench.path("sdb.txt")).unwrap();
    std::fs::write(bench.path("experiment.toml"), EXPERIMENT).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_stasis")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let shell = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", command]).env("PATH", &path).current_dir(bench.path("."));
        let run = bench.finish({
            shell.stdin(Stdio::null());
            shell
        });
        assert_eq!(run.status, Some(0), "`{command}`: {}\n{}", run.stdout, run.stderr);
    };
    shell("stasis image create disk.qcow2 256MiB && stasis calibrate sdb.txt -o sdb.json");
    let all = help::examples().into_iter().flat_map(|(_, examples)| examples);
    let boots = |example: &String| {
        ["stasis run ", "stasis on "].iter().any(|command| example.starts_with(command))
    };
    let runs: BTreeSet<_> = all.filter(boots).collect();
    assert!(runs.len() >= 8, "{runs:?}");
    runs.iter().for_each(|example| shell(example));
}
