//! The examples of help and of man pages: a user copies them. Here those run that start no guest;
//! those that do run in `tests/system/examples.rs`; all others are at least accepted, by a test of
//! `src/cli.rs`.

#[path = "help.rs"]
pub mod help;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Commands that run here, by their beginning.
const RUN: &[&str] = &[
    "stasis cache",
    "stasis calibrate ",
    "stasis compare ",
    "stasis completions ",
    "stasis export ",
    "stasis guest list",
    "stasis image ",
    "stasis import ",
    "stasis inspect ",
    "stasis man ",
    "stasis models",
    "stasis page ",
    "stasis schema",
    "stasis sim ",
    "stasis why results",
    "blkparse -i trace/",
];

/// Commands that do not run here, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("stasis run ", "boots a guest: tests/system/examples.rs"),
    ("stasis on ", "boots guests: tests/system/examples.rs"),
    ("stasis debug ", "boots a guest and starts gdb: tests/system/debug.rs"),
    ("stasis shell", "boots a guest and takes a terminal: tests/system/shell.rs"),
    (
        "stasis archive ",
        "takes files as the run left them: guides/archive in tests/system/readme.rs",
    ),
    ("stasis export profiled ", "takes a profile: tests/system/profile.rs"),
    ("stasis why results --waits ", "takes the waits of a run: tests/system/profile.rs"),
    ("stasis why results --calls ", "the same"),
    ("stasis why results pid:", "the same"),
    ("stasis export results --off-cpu ", "the same"),
    (
        "stasis export crash-results ",
        "takes a crash test's trace: guides/mount-options, in slow-test",
    ),
    ("stasis repeat ", "repeats an archive: guides/archive in tests/system/readme.rs"),
    ("stasis crash-test ", "boots a guest: tests/system/crash.rs"),
    ("stasis explore ", "boots guests: tests/system/explore.rs"),
    ("stasis doctor", "boots a guest: tests/cli.rs, tests/system/measure.rs"),
    ("stasis serve ", "goes on until it is stopped: tests/serve.rs"),
    ("stasis function ", "a program of its own: crates/cli/function/tests"),
    ("stasis schema function", "the same"),
    ("stasis coordinate ", "needs a host's BFQ: crates/cli/coordinate/tests"),
    ("stasis reproduce ", "takes minutes: crates/cli/reproduce/tests"),
    ("stasis suite", "takes minutes: tests/system/suite.rs"),
    ("stasis sweep ", "the Python package's: python/tests"),
    ("stasis guest build", "makes a guest: tests/system"),
    ("stasis guest remove ", "takes the name of a guest that is kept: tests/cli.rs"),
    ("taplo ", "somebody else's program"),
    ("nfs-ls ", "somebody else's program"),
    ("echo ", "takes a server that runs"),
    ("fio job.fio ", "measures a real drive"),
    ("blkparse -i sdb", "measures a real drive"),
];

/// Files that an example makes and must not find, by the example's end.
const MADE: &[(&str, &str)] = &[
    ("image create disk.qcow2 10GiB", "disk.qcow2"),
    ("image convert disk.img disk.qcow2", "disk.qcow2"),
    ("image convert disk.qcow2 disk.img --to raw", "disk.img"),
];

fn shell(folder: &Path, command: &str) {
    let program = Path::new(env!("CARGO_BIN_EXE_stasis")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-e", "-c", command])
        .current_dir(folder)
        .env("PATH", path)
        .env("HOME", folder)
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .env("XDG_RUNTIME_DIR", folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{command}`: {:?}: {stderr}", output.status.code());
}

/// A folder with the files that a reader of the examples has.
fn prepared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let at = |name: &str| folder.path().join(name);
    let data = root.join("crates/drives/models/tests/data");
    let copies: [(PathBuf, &str); 4] = [
        (root.join("examples/job.fio"), "job.fio"),
        (data.join("fio-randrw.json"), "fio.json"),
        (data.join("blkparse.txt"), "sdb.txt"),
        (data.join("blkparse.txt"), "sdb.blkparse.txt"),
    ];
    for (from, to) in copies {
        std::fs::copy(from, at(to)).unwrap();
    }
    let page = "{\"title\": \"Latency\", \"sections\": [{\"blocks\": [{\"plots\": [{\"lines\": {\
        \"title\": \"p99\", \"x\": {\"label\": \"depth\"}, \"y\": {\"label\": \"latency\", \"quantity\": \"time\"},\
        \"series\": [{\"name\": \"read\", \"points\": [[1, 81000], [2, 83000]]}]}}]}]}]}";
    std::fs::write(at("page.json"), page).unwrap();
    let pairs = "[pairs]\nkeys = 1000\noverwrites = 1000\nretrieves = 1000\n";
    std::fs::write(at("pairs.toml"), pairs).unwrap();
    std::fs::write(at("compose.yaml"), "services:\n  a:\n    image: app\n").unwrap();
    for name in [".config", ".local/share/bash-completion/completions"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    for command in [
        "stasis models samsung-980-pro >my-ssd.toml",
        "stasis -q sim fixed:100us --workload job.fio --results results",
        "for name in before after greedy cost-benefit main branch; do cp -r results $name; done",
        "truncate -s 1M disk.img",
        "stasis image create disk.qcow2 16MiB; qemu-img snapshot -c before-update disk.qcow2",
        "stasis image create base.qcow2 16MiB",
    ] {
        shell(folder.path(), command);
    }
    folder
}

#[test]
fn examples_that_start_no_guest_work() {
    let prepared = prepared();
    let (mut count, mut done) = (0, std::collections::BTreeSet::new());
    for (words, examples) in help::examples() {
        assert!(!examples.is_empty(), "stasis {words:?} has no example");
        for example in examples {
            let line = bare(&example);
            let parts = line.split(" && ").filter(|part| {
                let why = ELSEWHERE.iter().find(|(begin, _)| part.starts_with(begin));
                let runs = why.is_none() && RUN.iter().any(|begin| part.starts_with(begin));
                // Words of a guest's shell, in quotes, are part of what runs elsewhere.
                let is_of_the_line_before = !line.starts_with(part) && line.contains("--check '");
                assert!(runs || why.is_some() || is_of_the_line_before, "nobody runs `{part}`");
                runs
            });
            let command = parts.collect::<Vec<_>>().join(" && ");
            if command.is_empty() || !done.insert(command.clone()) {
                continue;
            }
            count += 1;
            let folder = tempfile::tempdir().unwrap();
            shell(folder.path(), &format!("cp -r {}/. .", prepared.path().display()));
            for (_, file) in MADE.iter().filter(|(end, _)| command.ends_with(end)) {
                std::fs::remove_file(folder.path().join(file)).unwrap();
            }
            shell(folder.path(), &command);
        }
    }
    assert!(count > 35, "{count} examples");
}

/// An example without its comment.
fn bare(line: &str) -> &str {
    line.split("# ").next().unwrap().trim()
}

/// A line of a man page as man(1) shows it (groff_char(7)).
fn shown(line: &str) -> String {
    let marks = [
        ("\\&", ""),
        ("\\-", "-"),
        ("\\(aq", "'"),
        ("\\(dq", "\""),
        ("\\(ga", "`"),
        ("\\(ha", "^"),
    ];
    let marks = marks.into_iter().chain([("\\(ti", "~"), ("\\e", "\\")]);
    marks.fold(line.to_owned(), |line, (mark, shown)| line.replace(mark, shown))
}

#[test]
fn man_pages_have_the_examples_as_they_are_typed() {
    let folder = tempfile::tempdir().unwrap();
    let man = Command::new(env!("CARGO_BIN_EXE_stasis")).arg("man").arg(folder.path()).status();
    assert!(man.unwrap().success());
    for (words, examples) in help::examples() {
        let name = [&["stasis".to_owned()], &words[..]].concat().join("-");
        let page = std::fs::read_to_string(folder.path().join(format!("{name}.1"))).unwrap();
        let (_, section) = page.split_once(".SH EXAMPLES\n.PP\n.nf\n").expect(&name);
        let (lines, _) = section.split_once(".fi\n").expect(&name);
        // Within .nf and .fi no line is filled; each is within the page.
        let lines: Vec<_> = lines.lines().map(shown).collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 73), "{name}: {lines:#?}");
        let joined = lines.join("\n").replace("\\\n  ", "");
        let joined: Vec<_> = joined.lines().map(bare).filter(|line| !line.is_empty()).collect();
        let examples: Vec<_> = examples.iter().map(|example| bare(example)).collect();
        assert_eq!(joined, examples, "{name}");
        assert!(!page.contains("\n.SH EXTRA"), "{name}");
    }
}
