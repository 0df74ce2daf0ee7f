//! The state of an NVMe/TCP target, its zones, is kept beside its medium, and where the
//! next server begins. `kept_killed.rs` has all that survives kills.

use crate::server;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use crate::tcp_host::{Event, TcpHost};
use rustix::process::{kill_process, Pid, Signal};
use stasis_nvme::Config;

/// Zones of 1 MiB, which are 256 blocks of 4096 bytes.
const DRIVE: &str = "name=z,model=null,medium=file:disk.img,size=16MiB,zones.size=1MiB,serial=Z";
/// Zone Invalid Write, as it stands in a completion (NVM Express Zoned Namespace Command Set
/// Specification 1.1, 3.4.1), without the phase.
const ZONE_INVALID_WRITE: u16 = 0x1bc;

fn write(host: &mut TcpHost, block: u64, byte: u8) -> u16 {
    host.io.write(1, block, &[byte; 4096]).unwrap();
    let Event::Done(1, _, status) = host.io.next().unwrap() else { panic!("no completion") };
    status
}

/// A server of [`DRIVE`] with more keys, and a host of it.
fn connect(folder: &Path, keys: &str) -> (server::Process, TcpHost) {
    // A port that was free a moment ago.
    let address: SocketAddr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    connect_at(address, folder, keys, &[])
}

/// The same at this address, with more options.
fn connect_at(
    address: SocketAddr,
    folder: &Path,
    keys: &str,
    more: &[&str],
) -> (server::Process, TcpHost) {
    let (drive, place) = (format!("{DRIVE}{keys}"), address.to_string());
    let arguments = ["--drive", &drive, "--nvme-tcp", &place];
    let process = server::serve(folder, &[&arguments, more].concat());
    let nqn = Config { serial: "Z".into(), ..Config::default() }.nqn();
    // All command sets.
    (process, TcpHost::connect_for(6, address, &nqn, 1).unwrap())
}

fn stop(mut process: server::Process) {
    kill_process(Pid::from_child(&process.0), Signal::TERM).unwrap();
    assert_eq!(process.0.wait().unwrap().code(), Some(0));
}

#[test]
fn zones_are_where_the_last_server_left_them() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("disk.img.state");
    let (process, mut host) = connect(folder.path(), "");
    for block in 0..3 {
        assert_eq!(write(&mut host, 256 + block, block as u8 + 1), 0);
    }
    assert!(std::fs::read_to_string(&state).unwrap().contains("\"in_use\":true"));
    stop(process);
    assert!(std::fs::read_to_string(&state).unwrap().contains("\"in_use\":false"));

    // Another server goes on at the write pointer.
    let (mut process, mut host) = connect(folder.path(), "");
    for block in 0..3 {
        assert_eq!(host.read(256 + block).unwrap(), [block as u8 + 1; 4096]);
    }
    assert_eq!(write(&mut host, 256, 9), ZONE_INVALID_WRITE, "its zone is written already");
    assert_eq!(write(&mut host, 256 + 3, 4), 0);

    // A server that is killed has kept them before each completion.
    process.kill();
    let (mut process, mut host) = connect(folder.path(), "");
    assert_eq!(host.read(256 + 3).unwrap(), [4; 4096]);
    assert_eq!(write(&mut host, 256 + 3, 9), ZONE_INVALID_WRITE, "it is written already");
    assert_eq!(write(&mut host, 256 + 4, 5), 0);

    // The place where they end after the host was started anew is not known: the file may be an
    // older one.
    process.kill();
    let text = std::fs::read_to_string(&state).unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(text.contains(boot.trim()), "{text}");
    std::fs::write(&state, text.replace(boot.trim(), "another")).unwrap();
    let mut words = Command::new(env!("CARGO_BIN_EXE_stasis"));
    words.args(["serve", "--sockets", ".", "--nvme-tcp", "0", "--drive", DRIVE]);
    let output = words.current_dir(folder.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    for part in ["drive z", "disk.img.state", "was cut off", "state = \"last\""] {
        assert!(stderr.contains(part), "no {part:?} in {stderr}");
    }
    let (process, mut host) = connect(folder.path(), ",state=last");
    assert_eq!(write(&mut host, 256 + 4, 5), 0, "as when that server began");
    stop(process);
    let (process, mut host) = connect(folder.path(), ",state=new");
    assert_eq!(write(&mut host, 256, 6), 0, "a new drive");
    stop(process);
}

#[test]
fn another_server_goes_on_at_the_same_address() {
    let folder = tempfile::tempdir().unwrap();
    let address: SocketAddr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (mut first, mut host) = connect_at(address, folder.path(), "", &[]);
    assert_eq!(write(&mut host, 256, 7), 0);
    // The host is connected still.
    let (second, mut again) = connect_at(address, folder.path(), "", &["--replace"]);
    assert_eq!(first.0.wait().unwrap().code(), Some(0));
    assert!(host.read(256).is_err(), "its connection is no more");
    assert_eq!(again.read(256).unwrap(), [7; 4096]);
    assert_eq!(write(&mut again, 256, 9), ZONE_INVALID_WRITE, "the pointer is where it was");
    assert_eq!(write(&mut again, 257, 8), 0);
    stop(second);
}

/// The cost of keeping the zones: writes one by one, beside those of a drive without zones.
#[test]
#[ignore = "measures on an idle machine: make slow-test"]
fn figures() {
    for keys in ["", ",zones.size=1MiB", ",zones.size=64KiB"] {
        let folder = tempfile::tempdir().unwrap();
        let address: SocketAddr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let drive = format!("name=z,model=null,medium=file:disk.img,size=256MiB,serial=Z{keys}");
        let at = address.to_string();
        let process = server::serve(folder.path(), &["--drive", &drive, "--nvme-tcp", &at]);
        let nqn = Config { serial: "Z".into(), ..Config::default() }.nqn();
        let sets = if keys.is_empty() { 0 } else { 6 };
        let mut host = TcpHost::connect_for(sets, address, &nqn, 1).unwrap();
        let mut times: Vec<_> = (0..16_000)
            .map(|block| {
                let begin = std::time::Instant::now();
                assert_eq!(write(&mut host, block, 1), 0);
                begin.elapsed()
            })
            .collect();
        times.sort();
        println!("`{keys}`: a write of 4 KiB takes {:?} in the median", times[times.len() / 2]);
        stop(process);
    }
}
