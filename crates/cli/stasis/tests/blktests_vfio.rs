//! blktests on drives that a guest under stock QEMU, 10.1 or later, reaches by vfio-user. `BLKTESTS` is
//! the suite's folder, built; `TESTS` names the only tests to run, `RESULTS` a folder.
//! `BLKTESTS=DIR TESTS='zbd/001 zbd/002' cargo test --release -p stasis --test blktests_vfio -- --ignored --nocapture`

mod newer_qemu;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use server::serve;
use stasis_guest_image::{build, default_cache, Recipe};
use stasis_qemu_vm::{Config, Job, Piece, Vm};

/// What of the suite the guest needs.
const TAKEN: [&str; 4] = ["check", "common", "src", "tests"];

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(scripts().join(path)).unwrap()
}

/// The packages of the suite's experiment, and the usual ones, in Debian 13.
fn recipe() -> Recipe {
    let experiment: toml::Table = text("conformance.d/blktests.toml").parse().unwrap();
    let packages = experiment["guest"]["packages"].as_array().unwrap();
    let suite = std::env::var("RELEASE").unwrap_or_else(|_| "trixie".into());
    let mut recipe = Recipe { suite, ..Recipe::default() };
    recipe.packages.extend(packages.iter().map(|package| package.as_str().unwrap().to_owned()));
    recipe
}

/// The drives of the suite as options of `stasis serve`, in the order of `blktests.sh`.
fn drives() -> [String; 3] {
    let served = text("conformance-served");
    ["plain", "zoned", "whole"].map(|name| {
        let of = format!("served_{name}=");
        let keys = served.lines().find_map(|line| line.strip_prefix(&of)).unwrap();
        format!("name={name},serial={name},{keys}")
    })
}

/// The guest's files: the suite, and what runs it.
fn files(suite: &Path) -> Vec<u8> {
    let mut files = tar::Builder::new(Vec::new());
    files.follow_symlinks(false);
    for (file, there) in
        [("conformance-guest", "conformance-guest"), ("conformance.d/blktests.sh", "run.sh")]
    {
        files.append_path_with_name(scripts().join(file), format!("root/{there}")).unwrap();
    }
    for name in TAKEN {
        let (here, there) = (suite.join(name), format!("root/suite/{name}"));
        let added = match here.is_dir() {
            true => files.append_dir_all(&there, &here),
            false => files.append_path_with_name(&here, &there),
        };
        added.unwrap_or_else(|error| panic!("{}: {error}", here.display()));
    }
    files.into_inner().unwrap()
}

#[test]
#[ignore = "runs a suite of others under a QEMU that few have: make conformance"]
fn tests_end_as_expected() {
    let suite = std::env::var_os("BLKTESTS")
        .map(PathBuf::from)
        .expect("BLKTESTS is to be blktests' folder, built (docs/development/conformance.md)");
    let only = std::env::var("TESTS").unwrap_or_default();
    let list = scripts().join("conformance.d/blktests-vfio-user.expected");
    let _qemu = newer_qemu::find();
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().join("vfio");
    std::fs::create_dir(&sockets).unwrap();
    let drives = drives();
    let mut arguments: Vec<&str> = drives.iter().flat_map(|drive| ["--drive", drive]).collect();
    arguments.extend(["--vfio-user", "vfio"]);
    let _server = serve(folder.path(), &arguments);

    let cache = std::env::var_os("STASIS_TEST_CACHE").map(PathBuf::from);
    let cache = cache.or_else(default_cache).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_stasis"));
    let guest =
        build(&recipe(), program, &cache, &mut |progress| eprintln!("{progress:?}")).unwrap();
    let mut config =
        Config { shared_memory: true, memory: 1 << 30, vcpus: 2, ..Config::new(guest) };
    for name in ["plain", "zoned", "whole"] {
        let socket = sockets.join(format!("{name}.sock"));
        let device = json!({ "driver": "vfio-user-pci", "id": name,
                             "socket": { "type": "unix", "path": socket } });
        config.arguments.extend(["-device".into(), device.to_string().into()]);
    }
    let mut vm = Vm::start(&config).unwrap();

    let mut command = vec!["bash".to_owned(), "/root/run.sh".into(), "way=pcie".into()];
    let lines = std::fs::read_to_string(&list).unwrap();
    let never = lines.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    command
        .extend(never.filter(|row| row.get(2) == Some(&"never")).map(|row| format!("-{}", row[0])));
    command.extend(only.split_whitespace().map(str::to_owned));
    let mut job = Job::new(command);
    job.has_input = true;
    job.limit_ms = Duration::from_secs(6 * 3600).as_millis() as u64;
    let results = std::env::var_os("RESULTS").map(PathBuf::from);
    let results =
        results.unwrap_or_else(|| scripts().join("../results/conformance/blktests-vfio-user"));
    std::fs::create_dir_all(&results).unwrap();
    let files = files(&suite);
    let mut left = Vec::new();
    vm.run(&job, &mut files.as_slice(), &mut |piece| match piece {
        Piece::Output(_, bytes) => eprint!("{}", String::from_utf8_lossy(bytes)),
        Piece::Results(bytes) => left.extend_from_slice(bytes),
    })
    .unwrap();
    tar::Archive::new(left.as_slice()).unpack(&results).unwrap();
    let mut compare = Command::new(scripts().join("conformance-compare"));
    let compared = compare.arg(list).arg(results.join("tests.tsv")).arg(&only).status().unwrap();
    assert!(compared.success());
}
