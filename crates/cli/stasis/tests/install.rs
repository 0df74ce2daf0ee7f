//! `make install`, whose work `scripts/install` does.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Programs beside the main one.
const BESIDE: [&str; 3] = ["stasis-reproduce", "stasis-function", "stasis-coordinate"];

/// The main program as it is built. Those beside it are other packages', and may not be there: it stands for
/// them.
fn built(folder: &Path) -> PathBuf {
    let folder = folder.join("built");
    std::fs::create_dir(&folder).unwrap();
    let program = folder.join("stasis");
    std::fs::copy(env!("CARGO_BIN_EXE_stasis"), &program).unwrap();
    BESIDE.iter().for_each(|name| std::fs::hard_link(&program, folder.join(name)).unwrap());
    program
}

fn install() -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/install");
    Command::new(script)
}

fn said(output: &Output) -> String {
    String::from_utf8([&*output.stdout, &*output.stderr].concat()).unwrap()
}

/// A program in `folder`, for PATH.
fn program(folder: &Path, name: &str, script: &str) {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn what_is_installed_works_and_is_stripped() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("stage");
    let program = built(folder.path());
    let mut command = install();
    command.arg(&program).arg("/usr/local").arg(&to).env("BUILT", "yes");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let there = |path: &str| -> PathBuf { to.join("usr/local").join(path) };
    let installed = there("bin/stasis");
    BESIDE.iter().for_each(|name| assert!(there("bin").join(name).exists(), "{name}"));
    let version = Command::new(&installed).arg("--version").output().unwrap();
    assert!(said(&version).starts_with("stasis "), "{}", said(&version));
    // No section of debugging information, nor of symbols.
    let bytes = std::fs::read(&installed).unwrap();
    for section in [&b"\0.debug_line\0"[..], b"\0.symtab\0"] {
        let name = String::from_utf8_lossy(section);
        assert!(!bytes.windows(section.len()).any(|window| window == section), "{name}");
    }
    // With debugging information 174 MB, with names of functions 57.
    assert!(bytes.len() < 45_000_000, "{} bytes", bytes.len());
    for file in [
        "share/man/man1/stasis.1",
        "share/man/man1/stasis-crash-test.1",
        "share/bash-completion/completions/stasis",
        "share/zsh/site-functions/_stasis",
        "share/fish/vendor_completions.d/stasis.fish",
    ] {
        assert!(std::fs::metadata(there(file)).unwrap().len() > 100, "{file}");
    }
    std::fs::remove_file(program.with_file_name(BESIDE[1])).unwrap();
    let output = command.output().unwrap();
    assert!(!output.status.success() && said(&output).contains(BESIDE[1]), "{}", said(&output));
}

#[test]
fn under_sudo_the_user_builds() {
    let folder = tempfile::tempdir().unwrap();
    let [tools, to] = ["tools", "to"].map(|name| folder.path().join(name));
    std::fs::create_dir(&tools).unwrap();
    program(&tools, "id", "echo 0");
    program(&tools, "sudo", &format!("echo \"$@\" >{}/called", tools.display()));
    program(&tools, "make", "echo built by root; exit 1");
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let output = install()
        .arg(built(folder.path()))
        .arg("/usr/local")
        .arg(&to)
        .env("PATH", path)
        .env("SUDO_USER", "ada")
        .env("CARGO_TARGET_DIR", "/elsewhere")
        .env_remove("BUILT")
        .env_remove("SCOPE")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let called = std::fs::read_to_string(tools.join("called")).unwrap();
    assert!(called.starts_with("--set-home --user ada make "), "{called}");
    assert!(called.trim_end().ends_with("build CARGO_TARGET_DIR=/elsewhere"), "{called}");
    assert!(to.join("usr/local/bin/stasis").exists());
}

#[test]
fn a_prefix_that_is_not_the_users_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    std::fs::create_dir(&prefix).unwrap();
    std::fs::set_permissions(&prefix, PermissionsExt::from_mode(0o555)).unwrap();
    let mut command = match rustix::process::geteuid().is_root() {
        // Root may write everywhere.
        true => {
            let mut command = Command::new("setpriv");
            std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            command.arg(install().get_program());
            command
        }
        false => install(),
    };
    // Any program: nothing is installed.
    let output = command
        .args(["/bin/true".as_ref(), prefix.as_os_str()])
        .env("BUILT", "yes")
        .output()
        .unwrap();
    let printed = said(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("`sudo make install`") && printed.contains("PREFIX=$HOME/.local"),
        "{printed}"
    );
    assert_eq!(std::fs::read_dir(&prefix).unwrap().count(), 0);
}
