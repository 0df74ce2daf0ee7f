//! The command line as a user types it, as far as no guest is needed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::call;

const PROGRAM: &str = env!("CARGO_BIN_EXE_stasis");

fn stasis(arguments: &[&str]) -> Output {
    call::call(PROGRAM, arguments)
}

fn output(arguments: &[&str]) -> String {
    let output = stasis(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn failure(arguments: &[&str], status: i32) -> String {
    call::failure(PROGRAM, arguments, status)
}

fn data(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drives/models/tests/data");
    folder.join(name).to_str().unwrap().to_owned()
}

#[test]
fn every_subcommand_has_help_with_its_options() {
    let help = output(&["--help"]);
    for name in [
        "run",
        "crash-test",
        "sim",
        "suite",
        "guest",
        "image",
        "models",
        "calibrate",
        "coordinate",
        "doctor",
        "schema",
        "completions",
        "man",
    ] {
        assert!(help.contains(&format!("\n  {name} ")), "{name}:\n{help}");
        assert!(output(&[name, "--help"]).contains("Usage: stasis"), "{name}");
    }
    for option in ["--drive", "--vcpus", "--memory", "--seed", "--results", "--engine"] {
        assert!(output(&["run", "--help"]).contains(option), "{option}");
    }
}

#[test]
fn help_lists_every_key_of_a_drive() {
    let help = output(&["run", "--help"]);
    let (_, keys) = help.split_once("Keys of --drive; ").unwrap();
    let (keys, _) = keys.split_once("\n\n").unwrap();
    // However the terminal's width breaks the lines.
    let listed = format!("{} ", keys.split_whitespace().collect::<Vec<_>>().join(" "));
    let keys = stasis_experiment::DriveSpec::keys();
    assert!(keys.len() >= 30, "{keys:?}");
    for key in keys {
        assert!(!key.summary.is_empty(), "{} has no description", key.name);
        assert!(
            listed.contains(&format!(" {} {} ", key.name, key.summary)),
            "{}: {listed}",
            key.name
        );
    }
}

#[test]
fn a_crash_test_of_several_machines_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let drive = "model = 'fixed:100us'\nmedium = { ram = '16MiB' }\n";
    let own = format!("[[machine.drive]]\n{drive}");
    let shared = format!("[[machine.disk]]\non = 'd'\n[[drive]]\nname = 'd'\n{drive}");
    for rest in [own, shared] {
        let file = folder.path().join("two.toml");
        let machines = "command = ['true']\n[[machine]]\nname = 'a'\n[[machine]]\nname = 'b'\n";
        std::fs::write(&file, format!("{machines}{rest}")).unwrap();
        let file = file.to_str().unwrap();
        let error = failure(&["crash-test", file], 125);
        for word in [file, "a crash test is of one machine, and the experiment has 2", "[[fault]]"]
        {
            assert!(error.contains(word), "{word}: {error}");
        }
        let error = failure(&["run", file, "--power-cut=random"], 125);
        assert!(error.contains("--power-cut is of one machine"), "{error}");
    }
}

#[test]
fn a_branch_that_would_keep_snapshots_is_refused_with_the_reason() {
    let words = ["run", "--snapshots=100ms", "--from=last", "--branch=seed=3", "--", "true"];
    let error = failure(&words, 125);
    assert!(error.contains("a branch keeps none: run once with --snapshots, then"), "{error}");
}

#[test]
fn a_message_says_its_cause_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    for (arguments, cause) in [
        (vec!["run", "nofile.toml"], "No such file or directory"),
        (vec!["crash-test", "nofile.toml"], "No such file or directory"),
        (vec!["guest", "build", "nofile.toml"], "No such file or directory"),
        (vec!["calibrate", "nofile.json"], "No such file or directory"),
        (vec!["image", "create", file, "1MiB"], "File exists"),
        (vec!["man", file], "File exists"),
        (vec!["sim", "null", "--trace", "nofile.csv"], "No such file or directory"),
    ] {
        let message = failure(&arguments, 125);
        assert_eq!(message.matches(cause).count(), 1, "{arguments:?}: {message}");
    }
}

#[test]
fn models_are_listed_and_shown() {
    let json: serde_json::Value = serde_json::from_str(&output(&["models", "--json"])).unwrap();
    let models = json.as_array().unwrap();
    let list = output(&["models"]);
    for model in models {
        let name = model["name"].as_str().unwrap();
        assert!(list.contains(name), "{name}");
        assert!(!model["source"].as_str().unwrap().is_empty(), "{name}");
        assert!(!model["figures"].as_array().unwrap().is_empty(), "{name}");
    }
    for name in ["dcpmm", "cloudspeed-500", "jpt39c"] {
        assert!(models.iter().any(|model| model["name"] == name), "{name}");
    }
    let disk = output(&["models", "jpt39c"]);
    assert!(disk.contains("rpm = 7200") && disk.contains("# source: Bona"), "{disk}");
    assert!(output(&["models", "fixed:100us"]).contains("latency = \"100us\""));
    assert!(failure(&["models", "dcpm"], 125).contains("did you mean `dcpmm`?"));
}

#[test]
fn a_profile_is_made_of_fios_output_and_of_blkparses() {
    let folder = tempfile::tempdir().unwrap();
    for (source, operations) in
        [("fio-randrw.json", &["read", "write"][..]), ("blkparse.txt", &["read", "write"])]
    {
        let profile = folder.path().join(source).with_extension("profile.json");
        let profile = profile.to_str().unwrap();
        let printed = output(&["calibrate", &data(source), "-o", profile]);
        assert!(printed.contains(&format!("--drive model=profile:{profile}")), "{printed}");
        let text = std::fs::read_to_string(profile).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        for operation in operations {
            assert!(value["operations"][operation].is_array(), "{source}: {operation}");
        }
        // Once more would overwrite it.
        assert!(failure(&["calibrate", &data(source), "-o", profile], 125).contains("--force"));
        assert_eq!(output(&["calibrate", &data(source), "-o", "-"]), text);
    }
}

#[test]
fn what_is_no_measurement_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| -> String {
        let path: PathBuf = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (path, expected) in [
        (folder.path().join("missing").to_str().unwrap().to_owned(), "cannot read"),
        (file("empty", b""), "no completed I/O"),
        (file("binary", &[0x7f, 0xff, 0xfe, 0]), "is no text"),
        (file("other.json", b"{\"jobs\": 7}"), "`jobs`"),
    ] {
        let message = failure(&["calibrate", &path, "-o", "-"], 125);
        assert!(message.contains(expected) && message.contains(&path), "{message}");
    }
}

#[test]
fn doctor_says_what_a_run_takes() {
    let output = stasis(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let problems = report["problems"].as_array().unwrap();
    assert_eq!(output.status.success(), problems.is_empty(), "{report}");
    assert!(!report["reason"].as_str().unwrap().is_empty());
    if problems.is_empty() {
        assert!(["kvm", "exact"].iter().any(|engine| report["engine"] == *engine), "{report}");
    }
    if problems.is_empty() && report["engine"] == "exact" {
        assert_eq!(report["soft_host_boots"], true, "{report}");
    }
}

/// A QEMU that is installed and boots nothing: that it is there is not enough.
#[test]
fn doctor_boots_the_software_host_before_it_says_yes() {
    let folder = tempfile::tempdir().unwrap();
    let qemu = folder.path().join("qemu-system-x86_64");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && exec echo 'QEMU emulator version 9.9'\n\
                  echo 'no such firmware' >&2\nexit 3\n";
    std::fs::write(&qemu, script).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&qemu, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let output = Command::new(env!("CARGO_BIN_EXE_stasis"))
        .args(["doctor", "--json"])
        .env("PATH", path)
        .env("XDG_CACHE_HOME", folder.path())
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    if report["engine"] == "kvm" {
        return; // A machine with KVM needs no software host.
    }
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert_eq!(report["soft_host_boots"], false, "{report}");
    let problems = report["problems"].to_string();
    assert!(problems.contains("no such firmware") && problems.contains("status 3"), "{report}");
}

/// A machine on which namespaces are forbidden.
#[test]
fn doctor_says_that_no_guest_can_be_built() {
    let folder = tempfile::tempdir().unwrap();
    let unshare = folder.path().join("unshare");
    let script = "#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n";
    std::fs::write(&unshare, script).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&unshare, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let output = Command::new(env!("CARGO_BIN_EXE_stasis"))
        .args(["doctor"])
        .env("PATH", path)
        .env("XDG_CACHE_HOME", folder.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("namespace") && stdout.contains("Operation not permitted"), "{stdout}");
    assert!(!stdout.contains("can run here"), "{stdout}");
}

/// A cache that root has built in a user's place is the user's problem, and doctor says so.
#[test]
fn doctor_tries_the_cache_as_the_user_who_asks() {
    use std::os::unix::fs::{chown, MetadataExt};
    const NOBODY: &str = "65534";
    let home = tempfile::tempdir().unwrap();
    if std::fs::metadata(home.path()).unwrap().uid() != 0 {
        eprintln!("not tried: only root can be another user");
        return;
    }
    // The program is where nobody may not look.
    let program = home.path().join("stasis");
    std::fs::copy(env!("CARGO_BIN_EXE_stasis"), &program).unwrap();
    let guests = home.path().join(".cache/stasis/guest");
    std::fs::create_dir_all(&guests).unwrap();
    for folder in [home.path(), &home.path().join(".cache")] {
        chown(folder, Some(65534), Some(65534)).unwrap();
    }
    let doctor = || {
        let mut command = Command::new("/usr/bin/setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(&program);
        command.args(["doctor", "--json"]).env("HOME", home.path()).env_remove("XDG_CACHE_HOME");
        // Nothing is booted: no QEMU is found.
        let output = command.env("PATH", "/nowhere").output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let is_told =
        |report: &serde_json::Value| report["problems"].to_string().contains("chown -R 65534");
    let report = doctor();
    assert!(is_told(&report), "{report:#}");
    // The remedy helps.
    let chown =
        ["-R", NOBODY, home.path().join(".cache/stasis").to_str().unwrap()].map(str::to_owned);
    assert!(Command::new("chown").args(chown).status().unwrap().success());
    let report = doctor();
    assert!(!is_told(&report), "{report:#}");
}

#[test]
fn doctor_without_a_way_to_run_says_what_to_install() {
    let cache = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_stasis"))
        .args(["doctor", "--json"])
        .env("PATH", cache.path())
        .env("XDG_CACHE_HOME", cache.path())
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["guest_built"], false);
    if report["engine"] == "kvm" {
        return; // A machine with KVM needs no QEMU.
    }
    assert_eq!(output.status.code(), Some(1));
    assert!(report["engine"].is_null());
    let install = report["install"].as_array().unwrap();
    assert!(install.iter().any(|package| package == "qemu-system-x86"), "{report}");
}

#[test]
fn wrong_words_are_named_before_anything_starts() {
    let ram = "medium=ram:1GiB";
    for (arguments, expected) in [
        (vec!["run"], "no command"),
        (vec!["run", "--vcpus", "65", "--", "true"], "1 to 64"),
        (vec!["run", "--memory", "1GB1", "--", "true"], "--memory"),
        (vec!["run", "--virtual-limit", "10", "--", "true"], "--virtual-limit"),
        (vec!["run", "missing.toml"], "missing.toml"),
        (vec!["run", "--drive", "modle=null,medium=ram:1GiB", "--", "true"], "`model`?"),
        (vec!["run", "--drive", ram, "--", "true"], "model is missing"),
    ] {
        let message = failure(&arguments, 125);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    // The command line's own grammar has clap's status.
    let message = failure(&["run", "--engine", "exat", "--", "true"], 2);
    assert!(message.contains("did you mean `exact`?"), "{message}");
    assert!(failure(&["modles"], 2).contains("models"));
}

#[test]
fn words_paths_begin_in_the_current_folder_whatever_the_experiments_is() {
    let folder = tempfile::tempdir().unwrap();
    let beside = folder.path().join("beside");
    std::fs::create_dir(&beside).unwrap();
    std::fs::write(beside.join("e.toml"), "command = ['true']\n").unwrap();
    for name in ["only-there.txt", "only-there.json"] {
        std::fs::write(beside.join(name), "").unwrap();
    }
    let profile = "model=profile:only-there.json,medium=ram:1MiB";
    for (words, name) in [
        (["--file", "only-there.txt"], "only-there.txt"),
        (["--drive", profile], "only-there.json"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_stasis"))
            .args(["run", "beside/e.toml"])
            .args(words)
            .current_dir(&folder)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let named = folder.path().canonicalize().unwrap().join(name);
        assert_eq!(output.status.code(), Some(125), "{stderr}");
        assert!(stderr.contains(&named.display().to_string()), "{stderr}");
    }
}

#[test]
fn completions_and_man_pages_know_the_subcommands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(output(&["completions", shell]).contains("calibrate"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    output(&["man", folder.path().to_str().unwrap()]);
    let page = std::fs::read_to_string(folder.path().join("stasis-run.1")).unwrap();
    assert!(page.contains("cpu\\-speed"), "{page}");
    assert!(output(&["man"]).contains(".TH stasis 1"));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stasis"))
        .args(["models", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn wrong_words_of_power_cuts_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [file, record] = ["e.toml", "run.record"].map(name);
    let error = failure(&["run", "--power-cut", "soon", "--", "true"], 2);
    assert!(error.contains("io:1000") && error.contains("flushes:1s..2s"), "{error}");
    assert!(failure(&["run", "--check", "true", "--", "true"], 2).contains("--power-cut"));
    let error = failure(&["run", "--power-cut", "1s", "--results", &name("r"), "--", "true"], 125);
    assert!(error.contains("no drive"), "{error}");
    fn words<'a>(file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["crash-test", file], more].concat()
    }
    assert!(failure(&words(&file, &[]), 125).contains("e.toml"));
    std::fs::write(&file, "command = ['true']\n").unwrap();
    assert!(failure(&words(&file, &[]), 125).contains("no drives"));
    for option in ["--inject", "--plant"] {
        assert!(failure(&words(&file, &[option, "bug"]), 2).contains("dropped-barrier"));
    }
    let drive = "[[drive]]\nmodel = 'fixed:1us'\nmedium = { device = '/dev/null' }\n";
    std::fs::write(&file, format!("command = ['true']\n{drive}")).unwrap();
    let from = folder.path().to_str().unwrap();
    for option in ["--trace", "--record"] {
        let again = words(&file, &[option, from, "--results", from]);
        assert!(failure(&again, 125).contains("run.record"));
    }
    let again = words(&file, &["--trace", from, "--results", from]);
    std::fs::write(&record, "not one").unwrap();
    assert!(failure(&again, 125).contains("no trace"));
    std::fs::write(&record, b"stasis record 1\n\x01\0\0\0\0\0\0\0x").unwrap();
    assert!(failure(&again, 125).contains("trace the run again"));
}

#[test]
fn the_examples_are_experiments() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let mut experiment = stasis_experiment::Experiment::read(&path).unwrap();
            if experiment.command.is_empty() {
                // A drive alone, for `stasis sim`.
                experiment.command = vec!["true".into()];
            }
            experiment.finish().unwrap();
            for file in &experiment.guest.files {
                let source = file.split(':').next().unwrap();
                assert!(path.with_file_name(source).exists(), "{}: {file}", path.display());
            }
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn images_are_made_filled_checked_and_copied() {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [raw, image, overlay, back] = ["d.img", "d.qcow2", "o.qcow2", "back.img"].map(name);
    let mut disk = vec![0; 3 << 20];
    disk[1_000_000..1_200_000].fill(7);
    std::fs::write(&raw, &disk).unwrap();
    output(&["image", "convert", &raw, &image]);
    assert!(output(&["image", "check", &image]).contains("sound"));
    assert!(output(&["image", "info", &image]).contains("disk: 3MiB"));
    output(&["image", "create", "--backing", "d.qcow2", &overlay]);
    output(&["image", "grow", &overlay, "4MiB"]);
    let map: serde_json::Value =
        serde_json::from_str(&output(&["image", "map", "--json", &overlay])).unwrap();
    assert!(map.as_array().unwrap().iter().any(|extent| extent["kind"] == "below"), "{map}");
    output(&["image", "convert", "--to", "raw", &overlay, &back]);
    disk.resize(4 << 20, 0);
    assert!(std::fs::read(&back).unwrap() == disk);
    assert!(failure(&["image", "create", &image, "1MiB"], 125).contains("d.qcow2"));
    assert!(output(&["image", "info", &raw]).contains("raw\ndisk: 3MiB"));
    assert!(failure(&["image", "check", &raw], 125).contains("no qcow2 image"));
}

#[test]
fn what_is_kept_is_listed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("stasis");
    let in_cache = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
        let output = command.args(arguments).env("XDG_CACHE_HOME", folder.path()).output().unwrap();
        let both = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(both).unwrap())
    };
    assert_eq!(in_cache(&["guest", "list"]).1, "no guests; `stasis guest build` makes one\n");
    let (status, printed) = in_cache(&["guest", "remove", "0123456789abcdef"]);
    assert_eq!(status, Some(125));
    assert!(printed.contains("no guest 0123456789abcdef; `stasis guest list`"), "{printed}");
    for machine in ["guests/aa", "machines/bb"] {
        let machine = cache.join("softkvm").join(machine);
        std::fs::create_dir_all(&machine).unwrap();
        std::fs::write(machine.join("ram"), vec![1; 1 << 20]).unwrap();
    }
    std::fs::create_dir_all(cache.join("softkvm/kernel-1")).unwrap();
    let (_, listed) = in_cache(&["cache"]);
    let line = |title: &str| {
        let line = listed.lines().find(|line| line.starts_with(title)).expect(title);
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(line("guests that are booted"), ["guests that are booted", "1", "1.004 MiB"]);
    assert_eq!(line("kernels")[1], "1");
    let (status, printed) = in_cache(&["cache", "prune"]);
    assert!(status == Some(0) && printed.starts_with("2.0"), "{printed}");
    assert!(!cache.join("softkvm/guests/aa").exists() && cache.join("softkvm/kernel-1").exists());
    in_cache(&["cache", "prune", "--all"]);
    assert!(!cache.join("softkvm/kernel-1").exists());
}

#[test]
fn a_sweep_says_how_to_have_it_or_becomes_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_stasis"));
        command.args(words).env("PATH", folder.path()).output().unwrap()
    };
    let words = ["sweep", "study.toml", "--verify", "20"];
    let missing = run(&words);
    assert_eq!(missing.status.code(), Some(125));
    let stderr = String::from_utf8_lossy(&missing.stderr);
    assert!(stderr.contains("pip install ./python "), "{stderr}");
    program(folder.path(), "stasis-sweep", "echo \"$@\"; exit 7");
    let found = run(&words);
    assert_eq!(found.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&found.stdout), "study.toml --verify 20\n");
    let refused = run(&["reproduce", "femu", "--workers", "2"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--on"), "{refused:?}");
}

/// A program of a shell's, in `folder`.
fn program(folder: &Path, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn a_program_of_its_own_is_found_beside_this_one_or_in_path_or_named() {
    let folder = tempfile::tempdir().unwrap();
    let [own, path] = ["own", "path"].map(|name| folder.path().join(name));
    for folder in [&own, &path] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::copy(env!("CARGO_BIN_EXE_stasis"), own.join("stasis")).unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(own.join("stasis"));
        let output = command.args(words).env("PATH", &path).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    for (words, name, handed_on) in [
        (&["-q", "reproduce", "femu", "--quick"][..], "stasis-reproduce", "-q femu --quick\n"),
        (&["suite", "--jobs=1", "--", "ls"], "stasis-reproduce", "suite --jobs=1 -- ls\n"),
        (&["--json", "function", "list"], "stasis-function", "--json list\n"),
        (&["schema", "function"], "stasis-function", "schema\n"),
        (&["coordinate", "host", "a=b"], "stasis-coordinate", "host a=b\n"),
    ] {
        let (status, output, error) = run(words);
        assert_eq!((status, output.contains("\"error\"")), (Some(125), words[0] == "--json"));
        for part in [name, "make build", "package"] {
            assert!(error.contains(part), "{words:?}: {part}: {error}");
        }
        program(&path, name, "echo \"$@\"; exit 7");
        assert_eq!(run(words), (Some(7), handed_on.to_owned(), String::new()));
        program(&own, name, "echo beside");
        assert_eq!(run(words).1, "beside\n", "{words:?}");
        for folder in [&own, &path] {
            std::fs::remove_file(folder.join(name)).unwrap();
        }
    }
    // Words are read before.
    let (status, _, error) = run(&["reproduce", "nosuch"]);
    assert!(status == Some(2) && error.contains("freezing-time"), "{error}");
    assert!(run(&["function", "run", "--help"]).1.contains("Usage: stasis function run"));
}
