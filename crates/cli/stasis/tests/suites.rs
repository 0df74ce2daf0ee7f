//! Suites of others in a guest under stock QEMU, on drives that it reaches by `WAY`: `vfio-user` (QEMU
//! 10.1 or later), or `tcp`, where the guest has the server as well. `SUITE` is `blktests` or, over
//! TCP, `nvme-cli`; `SOURCE` its folder, built; `TESTS` names the only tests to run, `RESULTS` a folder.
//! `WAY=tcp SUITE=blktests SOURCE=DIR cargo test --release -p stasis --test served suites:: -- --ignored --nocapture`

use crate::newer_qemu;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::server::serve;
use serde_json::json;
use stasis_guest_image::{build, default_cache, Recipe};
use stasis_qemu_vm::{Config, Job, Piece, Vm};

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(scripts().join(path)).unwrap()
}

fn said(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The packages of the suite's experiment, and the usual ones, in Debian 13.
fn recipe(suite: &str) -> Recipe {
    let experiment: toml::Table = text(&format!("conformance.d/{suite}.toml")).parse().unwrap();
    let packages = experiment["guest"]["packages"].as_array().unwrap();
    let release = said("RELEASE").unwrap_or_else(|| "trixie".into());
    let mut recipe = Recipe { suite: release, ..Recipe::default() };
    recipe.packages.extend(packages.iter().map(|package| package.as_str().unwrap().to_owned()));
    recipe
}

/// The drives of the suites as options of `stasis serve`, in the order of `blktests.sh`.
fn drives() -> [String; 3] {
    let served = text("conformance-served");
    ["plain", "zoned", "whole"].map(|name| {
        let prefix = format!("served_{name}=");
        let keys = served.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap();
        format!("name={name},serial={name},{keys}")
    })
}

/// The guest's files: the suite, what runs it, and the server.
fn files(suite: &str, source: &Path) -> Vec<u8> {
    let mut files = tar::Builder::new(Vec::new());
    files.follow_symlinks(false);
    for name in ["conformance-guest", "conformance-served", "conformance-target"] {
        files.append_path_with_name(scripts().join(name), format!("root/{name}")).unwrap();
    }
    let run = scripts().join(format!("conformance.d/{suite}.sh"));
    files.append_path_with_name(run, "root/run.sh").unwrap();
    files.append_path_with_name(env!("CARGO_BIN_EXE_stasis"), "root/stasis").unwrap();
    let taken: &[&str] = match suite {
        "blktests" => &["check", "common", "src", "tests"],
        _ => &["tests", ".build/nvme"],
    };
    for name in taken {
        let (here, there) = (source.join(name), format!("root/suite/{name}"));
        let added = match here.is_dir() {
            true => files.append_dir_all(&there, &here),
            false => files.append_path_with_name(&here, &there),
        };
        added.unwrap_or_else(|error| panic!("{}: {error}", here.display()));
    }
    files.into_inner().unwrap()
}

#[test]
#[ignore = "runs a suite of others, by vfio-user under a QEMU that few have: make conformance"]
fn tests_end_as_expected() {
    let [suite, way, source] = ["SUITE", "WAY", "SOURCE"].map(|name| {
        said(name)
            .unwrap_or_else(|| panic!("{name} is to be set (docs/development/conformance.md)"))
    });
    // The way's own list comes first: the first line about a test is taken.
    let lists: &[&str] = match (suite.as_str(), way.as_str()) {
        ("blktests", "tcp") => &["blktests-tcp"],
        ("blktests", "vfio-user") => &["blktests-vfio-user"],
        ("nvme-cli", "tcp") => &["nvme-cli-tcp", "nvme-cli"],
        _ => panic!("{suite} is not run by {way}"),
    };
    let lists = lists.iter().map(|list| text(&format!("conformance.d/{list}.expected")));
    let lines: String = lists.collect();
    let only = said("TESTS").unwrap_or_default();
    let results = said("RESULTS").map(PathBuf::from);
    let results =
        results.unwrap_or_else(|| scripts().join(format!("../results/conformance/{suite}-{way}")));

    let cache = std::env::var_os("STASIS_TEST_CACHE").map(PathBuf::from);
    let cache = cache.or_else(default_cache).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_stasis"));
    let guest = build(
        &recipe(&suite),
        program,
        &cache,
        &std::sync::atomic::AtomicBool::new(false),
        &mut |at| eprintln!("{at:?}"),
    )
    .unwrap();
    let mut config =
        Config { shared_memory: true, memory: 2 << 30, vcpus: 2, ..Config::new(guest) };
    let folder = tempfile::tempdir().unwrap();
    let drives = drives();
    let _by_vfio_user = (way == "vfio-user").then(|| {
        let sockets = folder.path().join("vfio");
        std::fs::create_dir(&sockets).unwrap();
        for name in ["plain", "zoned", "whole"] {
            let socket = sockets.join(format!("{name}.sock"));
            let device = json!({ "driver": "vfio-user-pci", "id": name,
                                 "socket": { "type": "unix", "path": socket } });
            config.arguments.extend(["-device".into(), device.to_string().into()]);
        }
        let mut words: Vec<&str> = drives.iter().flat_map(|drive| ["--drive", drive]).collect();
        words.extend(["--vfio-user", "vfio"]);
        (newer_qemu::find(), serve(folder.path(), &words))
    });
    let mut vm = Vm::start(&config).unwrap();

    let mut command = vec!["bash".to_owned(), "/root/run.sh".into(), format!("way={way}")];
    let never = lines.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    command
        .extend(never.filter(|row| row.get(2) == Some(&"never")).map(|row| format!("-{}", row[0])));
    command.extend(only.split_whitespace().map(str::to_owned));
    let mut job = Job::new(command);
    job.has_input = true;
    job.limit_ms = Duration::from_secs(6 * 3600).as_millis() as u64;
    let files = files(&suite, Path::new(&source));
    let mut archive = Vec::new();
    vm.run(&job, &mut files.as_slice(), &mut |piece| match piece {
        Piece::Output(_, bytes) => eprint!("{}", String::from_utf8_lossy(bytes)),
        Piece::Results(bytes) => archive.extend_from_slice(bytes),
    })
    .unwrap();
    std::fs::create_dir_all(&results).unwrap();
    tar::Archive::new(archive.as_slice()).unpack(&results).unwrap();
    let list = folder.path().join("expected");
    std::fs::write(&list, lines).unwrap();
    let mut compare = Command::new(scripts().join("conformance-compare"));
    let ended = results.join("tests.tsv");
    let compared = compare.arg(list).arg(ended).arg(&only).status().unwrap();
    assert!(compared.success());
}
