//! `stasis serve` is killed, and the next server goes on with the drive's whole state: zones, chunks,
//! formats, marks of Write Uncorrectable, and the namespaces that a host has created, over NVMe/TCP
//! and over vfio-user.
//! `KILLS=300 cargo test --release -p stasis --test served kept_killed:: -- --nocapture`

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use crate::server::{serve, Process};
use crate::tcp_host::TcpHost;
use crate::vfio_host::VfioHost;
use stasis_nvme::Config;
use tempfile::TempDir;

/// Zone Invalid Write (NVM Express Zoned Namespace Command Set Specification 1.1, 3.4.1), Out of
/// Order Write (Open-Channel SSD 2.0, 3.3), and Unrecovered Read Error (NVMe 2.0, figure 97), as they
/// stand in a completion without More and Do Not Retry.
const ZONE_INVALID_WRITE: u16 = 0x1bc;
const OUT_OF_ORDER_WRITE: u16 = 0x2f2;
const UNRECOVERED_READ: u16 = 0x281;

const WRITE: u8 = 0x01;
const WRITE_UNCORRECTABLE: u8 = 0x04;
const VERIFY: u8 = 0x0c;
const ZONE_SEND: u8 = 0x79;
const MANAGEMENT: u8 = 0x0d;
const ATTACHMENT: u8 = 0x15;
const FORMAT: u8 = 0x80;

/// A host, by either way.
enum Host {
    Tcp(TcpHost),
    Vfio(Box<VfioHost>),
}

impl Host {
    /// Carries out a command of the admin queue (0) or the I/O queue (1): its result and status.
    fn run(&mut self, queue: usize, mut entry: [u8; 64], data: &[u8]) -> (u32, u16) {
        match self {
            Self::Tcp(host) => {
                entry[1] = 0x40;
                entry[32..36].copy_from_slice(&(data.len() as u32).to_le_bytes());
                entry[39] = u8::from(!data.is_empty());
                let connection = if queue == 0 { &mut host.admin } else { &mut host.io };
                let (result, status) = connection.run(&entry, data).unwrap();
                (result.into(), status)
            }
            Self::Vfio(host) => {
                let (result, status) = host.run(queue, entry, data).unwrap();
                (result, status & 0x7ff)
            }
        }
    }

    /// Begins a write, whose end nobody waits for.
    fn begin_write(&mut self, block: u64) {
        match self {
            Self::Tcp(host) => host.io.write(9, block, &[0xee; 4096]).unwrap(),
            Self::Vfio(host) => host.begin_write(9, block, &[0xee; 4096]).unwrap(),
        }
    }

    fn controller(&self) -> u16 {
        match self {
            Self::Tcp(host) => host.controller,
            Self::Vfio(_) => 0,
        }
    }

    fn read(&mut self, block: u64) -> Vec<u8> {
        match self {
            Self::Tcp(host) => host.read(block).unwrap(),
            Self::Vfio(host) => host.read(block).unwrap(),
        }
    }

    /// Carries out an I/O command on `blocks` logical blocks of namespace 1: its status.
    fn io(&mut self, opcode: u8, lba: u64, blocks: u16, data: &[u8]) -> u16 {
        let mut entry = command(opcode, 1);
        entry[40..48].copy_from_slice(&lba.to_le_bytes());
        entry[48..50].copy_from_slice(&(blocks - 1).to_le_bytes());
        self.run(1, entry, data).1
    }

    /// Carries out an admin command on a namespace with Dword 10: its result and status.
    fn admin(&mut self, opcode: u8, nsid: u32, dword10: u32, data: &[u8]) -> (u32, u16) {
        let mut entry = command(opcode, nsid);
        entry[40..44].copy_from_slice(&dword10.to_le_bytes());
        self.run(0, entry, data)
    }
}

fn command(opcode: u8, nsid: u32) -> [u8; 64] {
    let mut entry = [0; 64];
    entry[0] = opcode;
    entry[4..8].copy_from_slice(&nsid.to_le_bytes());
    entry
}

/// A way to a drive: its server, and where that is.
struct Way {
    folder: TempDir,
    drive: String,
    /// The address of NVMe/TCP, or the socket of vfio-user.
    place: Result<SocketAddr, PathBuf>,
    command_sets: u32,
    server: Option<Process>,
}

impl Way {
    fn new(tcp: bool, command_sets: u32, keys: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // A port that was free a moment ago.
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let place = if tcp { Ok(free()) } else { Err(folder.path().join("v.sock")) };
        let drive = format!("name=k,model=null,medium=file:disk.img,size=16MiB,serial=K{keys}");
        Self { folder, drive, place, command_sets, server: None }
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills the server, if there is one, and connects to the next.
    fn connect(&mut self) -> Host {
        if let Some(mut server) = self.server.take() {
            server.kill();
        }
        let (option, place) = match &self.place {
            Ok(address) => ("--nvme-tcp", address.to_string()),
            Err(path) => ("--vfio-user", path.display().to_string()),
        };
        let arguments = ["--drive", &self.drive, option, &place];
        self.server = Some(serve(self.folder.path(), &arguments));
        let sets = self.command_sets;
        match &self.place {
            Ok(address) => {
                let nqn = Config { serial: "K".into(), ..Config::default() }.nqn();
                Host::Tcp(TcpHost::connect_for(sets, *address, &nqn, 1).unwrap())
            }
            Err(path) => Host::Vfio(VfioHost::connect_for(sets, path).unwrap().into()),
        }
    }
}

/// Kills of the server, by `KILLS`; each time a write is under way.
fn zones_survive(tcp: bool) {
    let kills: u64 = std::env::var("KILLS").map_or(10, |count| count.parse().expect("a number"));
    // Zones of 1 MiB, which are 2048 logical blocks of 512 bytes.
    let mut way = Way::new(tcp, 6, ",zones.size=1MiB");
    let mut host = way.connect();
    let (mut acknowledged, mut kept) = (0, 0);
    for kill in 0..kills {
        let zone = 2048 * (kill % 16);
        // A zone of an earlier round is reset: its pointer goes back.
        let mut reset = command(ZONE_SEND, 1);
        reset[40..48].copy_from_slice(&zone.to_le_bytes());
        reset[52] = 4;
        assert_eq!(host.run(1, reset, &[]).1, 0, "kill {kill}");
        let writes = kill * 7 % 40;
        for write in 0..writes {
            let data = [(kill + write) as u8; 4096];
            assert_eq!(host.io(WRITE, zone + 8 * write, 8, &data), 0, "kill {kill}");
        }
        acknowledged += writes;
        host.begin_write(zone / 8 + writes);
        // The kill comes at any moment of it.
        std::thread::sleep(std::time::Duration::from_micros(kill * 37 % 400));
        host = way.connect();
        for write in 0..writes {
            let data = host.read(zone / 8 + write);
            assert_eq!(data, [(kill + write) as u8; 4096], "kill {kill}");
        }
        // The write under way has moved the pointer, or has not.
        match host.io(WRITE, zone + 8 * writes, 8, &[0xef; 4096]) {
            0 => {}
            ZONE_INVALID_WRITE => {
                kept += 1;
                let next = zone + 8 * (writes + 1);
                assert_eq!(host.io(WRITE, next, 8, &[0xef; 4096]), 0, "kill {kill}");
            }
            other => panic!("status {other:#x} after kill {kill}"),
        }
    }
    println!("{kills} kills: {acknowledged} writes acknowledged, {kept} more were kept");
}

#[test]
fn zones_survive_over_nvme_tcp() {
    zones_survive(true);
}

#[test]
fn zones_survive_over_vfio_user() {
    zones_survive(false);
}

/// On a drive without zones: nothing but what hosts have changed is kept.
fn namespaces_survive(tcp: bool) {
    let mut way = Way::new(tcp, 0, "");
    let mut host = way.connect();
    let state = way.folder().join("disk.img.state");
    assert_eq!(host.io(WRITE, 0, 8, &[1; 4096]), 0);
    assert!(!state.exists(), "nothing is to be kept yet");

    // A mark, until the blocks are written again.
    assert_eq!(host.io(WRITE_UNCORRECTABLE, 16, 8, &[]), 0);
    assert_eq!(host.io(WRITE_UNCORRECTABLE, 32, 8, &[]), 0);
    assert_eq!(host.io(WRITE, 32, 8, &[2; 4096]), 0);
    assert!(state.exists());
    host = way.connect();
    assert_eq!(host.io(VERIFY, 0, 8, &[]), 0);
    assert_eq!(host.io(VERIFY, 16, 8, &[]), UNRECOVERED_READ);
    assert_eq!(host.io(VERIFY, 32, 8, &[]), 0, "it was written again");

    // A format, to the second size of blocks (4 KiB).
    assert_eq!(host.admin(FORMAT, 1, 1, &[]).1, 0);
    host = way.connect();
    assert_eq!(host.io(WRITE, 1, 1, &[3; 4096]), 0, "a block has 4 KiB");
    assert_eq!(host.io(VERIFY, 4096, 1, &[]) & 0xff, 0x80, "LBA Out of Range");

    // Another namespace takes the place of the first one.
    assert_eq!(host.admin(MANAGEMENT, 1, 1, &[]).1, 0);
    let mut fields = [0; 4096];
    fields[..8].copy_from_slice(&2048u64.to_le_bytes());
    fields[8..16].copy_from_slice(&2048u64.to_le_bytes());
    assert_eq!(host.admin(MANAGEMENT, 0, 0, &fields), (1, 0));
    assert_eq!(host.admin(MANAGEMENT, 0, 0, &fields), (2, 0));
    let mut list = [0; 4096];
    list[0] = 1;
    list[2..4].copy_from_slice(&host.controller().to_le_bytes());
    assert_eq!(host.admin(ATTACHMENT, 1, 0, &list).1, 0);
    assert_eq!(host.io(WRITE, 2040, 8, &[4; 4096]), 0);
    host = way.connect();
    assert_eq!(host.io(VERIFY, 2048, 1, &[]) & 0xff, 0x80, "it has 2048 blocks");
    assert_eq!(host.read(255), [4; 4096], "block 2040 of 512 bytes");
    assert_eq!(host.admin(MANAGEMENT, 0, 0, &fields), (3, 0), "the second one is there too");
    assert_eq!(host.admin(MANAGEMENT, 2, 1, &[]).1, 0);
    host = way.connect();
    assert_eq!(host.admin(MANAGEMENT, 0, 0, &fields), (2, 0), "and now it is not");
}

#[test]
fn what_hosts_have_made_survives_over_nvme_tcp() {
    namespaces_survive(true);
}

#[test]
fn what_hosts_have_made_survives_over_vfio_user() {
    namespaces_survive(false);
}

/// Chunks of 64 sectors of 4 KiB.
fn chunks_survive(tcp: bool) {
    let mut way = Way::new(tcp, 0, ",block-size=4096,ocssd=1x1x64x64");
    let mut host = way.connect();
    for sector in 0..3 {
        assert_eq!(host.io(WRITE, 64 + sector, 1, &[sector as u8 + 1; 4096]), 0);
    }
    host = way.connect();
    assert_eq!(host.io(WRITE, 64, 1, &[9; 4096]), OUT_OF_ORDER_WRITE, "it is written already");
    assert_eq!(host.io(WRITE, 64 + 3, 1, &[4; 4096]), 0, "it goes on at the write pointer");
}

#[test]
fn chunks_survive_over_nvme_tcp() {
    chunks_survive(true);
}

#[test]
fn chunks_survive_over_vfio_user() {
    chunks_survive(false);
}
