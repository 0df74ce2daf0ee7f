//! Ways to NVMe drives that cannot be: `stasis serve` says what is wrong and what to do.

use crate::server;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const DRIVE: &str = "name=d,model=null,medium=ram:16MiB";

fn command(folder: &Path, way: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
    command.args(["serve", "--sockets", "sockets", "--drive", DRIVE]).args(way);
    command.current_dir(folder).stderr(Stdio::piped());
    command
}

fn said(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[track_caller]
fn refused(folder: &Path, way: &[&str], words: &[&str]) {
    let (status, stderr) = said(command(folder, way).spawn().unwrap());
    assert_eq!(status, Some(125), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "{word}: {stderr}");
    }
}

#[test]
fn a_port_in_use_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let words = [&format!("cannot listen on {address} for NVMe/TCP"), "Address already in use"];
    refused(folder.path(), &["--nvme-tcp", &address], &words);
    refused(folder.path(), &["--nvme-tcp", &address], &["choose another, or stop it"]);
    let twice = [&format!("nvme-tcp has {address} twice"), "an address of its own"];
    refused(folder.path(), &["--nvme-tcp", &format!("{address},{address}")], &twice);
}

/// A host would take two drives of one serial number for one.
#[test]
fn each_target_has_a_serial_number_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let other = "name=e,model=null,medium=ram:16MiB,serial=STASIS0";
    let words = ["two drives have the serial number STASIS0", "its own `serial`"];
    refused(folder.path(), &["--nvme-tcp", "127.0.0.1:0", "--drive", other], &words);
    refused(folder.path(), &["--vfio-user", ".", "--drive", other], &words);
}

#[test]
fn a_name_that_no_host_has_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "").unwrap();
    let long = "n".repeat(224);
    let words = ["`hosts`", "by 224 bytes", "1 to 223"];
    refused(folder.path(), &["--nvme-tcp", "127.0.0.1:0", "--hosts", &long], &words);
    let words = ["`host-secrets`", "by 224 bytes", "1 to 223"];
    let secret = format!("{long}=secret");
    refused(folder.path(), &["--nvme-tcp", "127.0.0.1:0", "--host-secret", &secret], &words);
}

#[test]
fn a_socket_that_is_there_stays() {
    let folder = tempfile::tempdir().unwrap();
    let [file, live] = ["file.sock", "live.sock"].map(|name| folder.path().join(name));
    std::fs::write(&file, "kept").unwrap();
    let words = ["file.sock: this is no socket", "remove it"];
    refused(folder.path(), &["--vfio-user", "file.sock"], &words);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    let _another = UnixListener::bind(&live).unwrap();
    let words = ["live.sock: another program serves this", "--replace"];
    refused(folder.path(), &["--vfio-user", "live.sock"], &words);
}

#[test]
fn a_socket_that_cannot_be_made_is_named_with_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["none/d.sock: its folder is not there"];
    refused(folder.path(), &["--vfio-user", "none/d.sock"], &words);
    let words = ["its path has 108 bytes, and a socket's at most 107"];
    refused(folder.path(), &["--vfio-user", &"s".repeat(108)], &words);
}

#[test]
fn each_controller_has_a_socket_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    for (sockets, words) in [
        ("a.sock,b.sock,a.sock", ["vfio-user names a.sock twice", "a socket of its own"]),
        ("a.sock,", ["`a.sock,`", "empty name"]),
        ("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", ["17 sockets", "at most 16 controllers"]),
    ] {
        refused(folder.path(), &["--vfio-user", sockets], &words);
    }
    assert!(!folder.path().join("a.sock").exists());
}

/// One that a program has left is nobody's.
#[test]
fn a_socket_that_nobody_serves_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    drop(UnixListener::bind(folder.path().join("d.sock")).unwrap());
    let _server = server::serve(folder.path(), &["--drive", DRIVE, "--vfio-user", "d.sock"]);
}

#[test]
fn an_old_qemu_is_named_with_what_to_install() {
    let folder = tempfile::tempdir().unwrap();
    let qemu = folder.path().join("qemu-system-x86_64");
    std::fs::write(&qemu, "#!/bin/sh\necho QEMU emulator version 7.2.22\n").unwrap();
    std::fs::set_permissions(&qemu, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(folder.path().join("d.sock"), "").unwrap();
    let path = std::env::join_paths([folder.path(), Path::new("/usr/bin"), Path::new("/bin")]);
    let mut command = command(folder.path(), &["--vfio-user", "d.sock"]);
    // It ends by itself: the socket cannot be made.
    let (status, stderr) = said(command.env("PATH", path.unwrap()).spawn().unwrap());
    assert_eq!(status, Some(125), "{stderr}");
    for word in ["QEMU is 7.2", "no vfio-user-pci", "10.1 or later", "apt install"] {
        assert!(stderr.contains(word), "{word}: {stderr}");
    }
}
