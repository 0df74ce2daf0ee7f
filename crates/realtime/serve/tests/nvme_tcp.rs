//! NVMe/TCP on real sockets of the loopback.

#[allow(dead_code)]
mod support;
#[path = "support/tcp_host.rs"]
mod tcp_host;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stasis_nvme::{Config, Namespace, Subsystem};
use stasis_nvme_auth::{Group, Secret, Secrets};
use stasis_serve::{NewNvme, NvmeTcp, Poll, Server};
use support::{counts, drive, until};
use tcp_host::{Connection, Event, TcpHost};

/// A server of a drive at a port of the loopback, its address and its subsystem's name.
fn serve(medium: &str, model: Option<&str>, poll: Poll) -> (Arc<Server>, SocketAddr, String) {
    serve_with_secret(medium, model, poll, None)
}

/// The same, where the first host may connect, and another one that has a secret.
fn serve_with_secret(
    medium: &str,
    model: Option<&str>,
    poll: Poll,
    secret: Option<&str>,
) -> (Arc<Server>, SocketAddr, String) {
    let name = |host: u8| format!("nqn.2014-08.org.example:host{host}");
    let secrets = |text| Secrets { host: Secret::parse(text).unwrap(), subsystem: None };
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let config = Config { serial: "T".into(), queue_entries: 128, ..Config::default() };
    let nqn = config.nqn();
    let mut new = drive("d", folder.path(), medium, model);
    new.nvme_tcp = Some(NvmeTcp {
        listeners: vec![listener],
        hosts: secret.map(|_| name(1)).into_iter().collect(),
        secrets: secret.map(|text| (name(2), secrets(text))).into_iter().collect(),
        groups: vec![Group::Ffdhe8192],
        discovery: vec![],
        subsystem: Box::new(move |capacity, _| {
            let namespaces = vec![Namespace::new(capacity / 512, 512)];
            let made = Subsystem::new(Config { namespaces, ..config });
            Ok(NewNvme { nvme: made.map_err(|error| error.to_string())?, keep: None, follow: None })
        }),
    });
    let server = Arc::new(Server::new(1, poll).unwrap());
    server.attach(new).unwrap();
    (server, address, nqn)
}

#[test]
fn hosts_read_what_others_have_written() {
    let (server, address, nqn) = serve("ram:16MiB", None, Poll::Adaptive);
    let mut one = TcpHost::connect(address, &nqn, 1).unwrap();
    let mut other = TcpHost::connect(address, &nqn, 2).unwrap();
    for block in 0..64u64 {
        one.write(block, &[block as u8 + 1; 4096]).unwrap();
    }
    for block in 0..64u64 {
        assert_eq!(other.read(block).unwrap(), [block as u8 + 1; 4096]);
    }
    let counted = counts(&server);
    assert_eq!(
        (counted.writes, counted.reads, counted.failed, counted.connections),
        (64, 64, 0, 4)
    );
    assert_eq!(server.report()[0].socket, address.to_string());
    drop(one);
    until("the controller is gone", || other.read(0).is_ok());
    server.stop().unwrap();
    assert!(other.read(0).is_err(), "the drive has ended");
}

#[test]
fn a_hostile_host_harms_no_other() {
    let (server, address, nqn) = serve("ram:16MiB", None, Poll::Adaptive);
    let mut kept = TcpHost::connect(address, &nqn, 1).unwrap();
    kept.write(5, &[7; 4096]).unwrap();
    for fault in 1..=40u64 {
        let mut bad = TcpHost::connect(address, &nqn, 2).unwrap();
        // A write under way, then an unknown PDU, or half a PDU and silence.
        bad.io.write(9, 6, &[1; 4096]).unwrap();
        match fault % 2 {
            0 => {
                bad.io.send(&[0x55, 0, 8, 0, 8, 0, 0, 0]).unwrap();
                let ended = std::iter::from_fn(|| bad.io.next().ok());
                assert!(ended.into_iter().any(|event| event == Event::Termination(1)));
            }
            _ => bad.io.send(&[4, 0, 72, 72, 0]).unwrap(),
        }
        drop(bad);
        assert_eq!(kept.read(5).unwrap(), [7; 4096]);
    }
    until("faults are counted", || counts(&server).faults == 20);
    server.stop().unwrap();
}

/// A secret of 32 ones.
const SECRET: &str = "DHHC-1:00:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQHMnzFi:";

/// Begins an authentication: the target is to compute a power of the largest group.
fn negotiate(host: &mut Connection) {
    let mut message = [0; 72];
    // One protocol, DH-HMAC-CHAP, with SHA-256 and the group ffdhe8192 (NVMe 2.0 section 8.13.5.2).
    (message[7], message[8], message[10], message[11]) = (1, 1, 1, 1);
    (message[12], message[42]) = (1, 5);
    let mut entry = [0; 64];
    (entry[0], entry[1], entry[4], entry[39]) = (0x7f, 0x40, 5, 1);
    entry[32..36].copy_from_slice(&72u32.to_le_bytes());
    entry[41..44].copy_from_slice(&[1, 1, 0xe9]);
    entry[44..48].copy_from_slice(&72u32.to_le_bytes());
    host.command(&entry, &message).unwrap();
}

#[test]
fn hosts_read_while_another_one_authenticates() {
    let secret = Some(SECRET);
    let (server, address, nqn) = serve_with_secret("ram:16MiB", None, Poll::Adaptive, secret);
    let mut host = TcpHost::connect(address, &nqn, 1).unwrap();
    let (mut handshakes, mut reads) = (Vec::new(), Vec::new());
    let mut before = 0;
    for _ in 0..10 {
        let mut other = Connection::open(address).unwrap();
        assert_eq!(other.connect(0, 0xffff, &nqn, 2, 0).unwrap().1, 0);
        let begin = Instant::now();
        negotiate(&mut other);
        for block in 0..3 {
            let begin = Instant::now();
            host.read(block).unwrap();
            reads.push(begin.elapsed());
        }
        before += usize::from(other.is_quiet());
        assert_eq!(other.next().unwrap(), Event::Done(0, 0, 0));
        handshakes.push(begin.elapsed());
    }
    handshakes.sort();
    reads.sort();
    println!(
        "a challenge took {:?} in the median; a read meanwhile {:?}, and {:?} at most",
        handshakes[5], reads[15], reads[29]
    );
    // Another program may have had the processor in one of them.
    assert!(before >= 5, "{before} of 10 times the reads were done before the challenge");
    server.stop().unwrap();
}

#[test]
fn a_silent_host_is_disconnected_in_its_time() {
    let (server, address, nqn) = serve("ram:16MiB", None, Poll::Adaptive);
    let mut admin = Connection::open(address).unwrap();
    assert_eq!(admin.connect(0, 0xffff, &nqn, 1, 100).unwrap().1, 0);
    let closed = admin.next().unwrap_err();
    assert_eq!(closed.kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(counts(&server).faults, 1);
    server.stop().unwrap();
}

#[test]
fn connections_beyond_the_last_are_turned_away() {
    let (server, address, nqn) = serve("ram:16MiB", None, Poll::Adaptive);
    let most = stasis_nvme_tcp::MAX_CONNECTIONS;
    let held: Vec<_> = (0..most).map(|_| Connection::open(address).unwrap()).collect();
    assert!(Connection::open(address).is_err(), "one more");
    assert_eq!(counts(&server).refused, 1);
    drop(held);
    until("there is room again", || TcpHost::connect(address, &nqn, 1).is_ok());
    server.stop().unwrap();
}

/// A Property Set of 4 bytes.
fn set_property(offset: u8, value: u32) -> [u8; 64] {
    let mut entry = [0; 64];
    (entry[0], entry[44]) = (0x7f, offset);
    entry[48..52].copy_from_slice(&value.to_le_bytes());
    entry
}

/// A Property Get of 4 bytes.
fn get_property(offset: u8) -> [u8; 64] {
    let mut entry = [0; 64];
    (entry[0], entry[4], entry[44]) = (0x7f, 4, offset);
    entry
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// Shuts a controller down as Linux does: until it says that all is durable, then disables it.
fn shut_down(admin: &mut Connection) {
    const ENABLED: u32 = 4 << 20 | 6 << 16 | 1;
    assert_eq!(admin.run(&set_property(0x14, ENABLED | 1 << 14), &[]).unwrap().1, 0);
    let limit = Instant::now() + Duration::from_secs(20);
    while admin.run(&get_property(0x1c), &[]).unwrap().0 >> 2 & 3 != 2 {
        assert!(Instant::now() < limit, "the shutdown does not end");
        std::thread::yield_now();
    }
    assert_eq!(admin.run(&set_property(0x14, ENABLED & !1), &[]).unwrap().1, 0);
    assert_eq!(admin.run(&get_property(0x1c), &[]).unwrap().0 & 1, 0, "not ready");
}

/// A host that discovers, and one that reads and writes; each goes with a word, or in the midst of
/// one. Every command is answered, or the connection's end is seen: [`Connection`] waits for 30 s.
fn come_and_go(address: SocketAddr, nqn: &str, seed: u8, rounds: u64) {
    let mut random = Random(seed.into());
    for round in 0..rounds {
        let choice = random.below(4);
        if choice == 0 {
            let mut admin = Connection::open(address).unwrap();
            let discovery = stasis_nvme::fabrics::DISCOVERY_NQN;
            assert_eq!(admin.connect(0, 0xffff, discovery, seed, 0).unwrap().1, 0);
            let enable = set_property(0x14, 4 << 20 | 6 << 16 | 1);
            assert_eq!(admin.run(&enable, &[]).unwrap().1, 0);
            if random.below(3) > 0 {
                shut_down(&mut admin);
            }
            continue;
        }
        let mut host = TcpHost::connect(address, nqn, seed).unwrap();
        let depth = 1 + random.below(8) as u16;
        let block = |cid: u16| u64::from(seed) * 64 + u64::from(cid);
        for cid in 0..depth {
            host.io.write(cid, block(cid), &[round as u8; 4096]).unwrap();
        }
        if choice == 1 {
            // In the midst of its writes, or of a command.
            if random.below(2) == 0 {
                let length = random.below(71) as usize + 1;
                host.io
                    .send(&[[4, 0, 72, 0, 72, 0, 0, 0].as_slice(), &[1; 64]].concat()[..length])
                    .unwrap();
            }
            continue;
        }
        for _ in 0..depth {
            let event = host.io.next().unwrap();
            assert!(matches!(event, Event::Done(_, _, 0)), "{event:?}");
        }
        for cid in 0..depth {
            assert_eq!(host.read(block(cid)).unwrap(), [round as u8; 4096]);
        }
        match random.below(3) {
            0 => drop(host),
            1 => {
                // Linux ends the I/O queues first.
                drop(host.io);
                shut_down(&mut host.admin);
            }
            _ => {
                shut_down(&mut host.admin);
                assert!(host.io.next().is_err(), "a reset ends the I/O queues");
            }
        }
    }
}

#[test]
fn hosts_that_come_and_go_are_always_answered() {
    let rounds = std::env::var("STASIS_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    std::fs::File::create(&disk).unwrap().set_len(16 << 20).unwrap();
    let file = format!("file:{}", disk.display());
    for (medium, model) in [("ram:16MiB", None), (file.as_str(), Some("fixed:100us"))] {
        let (server, address, nqn) = serve(medium, model, Poll::Adaptive);
        std::thread::scope(|scope| {
            for seed in 1..=4 {
                let nqn = &nqn;
                scope.spawn(move || come_and_go(address, nqn, seed, rounds.unwrap_or(40)));
            }
        });
        until("every connection has ended", || !server.report()[0].in_use);
        assert_eq!(server.report()[0].in_flight, 0);
        server.stop().unwrap();
    }
}

/// IOPS and latencies of 4 KiB reads at `depth`, for a second: the median in us.
fn reads(host: &mut TcpHost, depth: u16) -> (f64, f64) {
    let mut begun = vec![Instant::now(); depth.into()];
    let start = Instant::now();
    let mut times = vec![];
    let mut block = 1u64;
    for cid in 0..depth {
        begun[usize::from(cid)] = Instant::now();
        host.io.read(cid, block % 4096).unwrap();
        block = block.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407) >> 1;
    }
    while start.elapsed() < Duration::from_secs(1) {
        let Event::Done(cid, _, 0) = host.io.next().unwrap() else { continue };
        times.push(begun[usize::from(cid)].elapsed());
        begun[usize::from(cid)] = Instant::now();
        host.io.read(cid, block % 4096).unwrap();
        block = block.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407) >> 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    for _ in 0..depth {
        while !matches!(host.io.next().unwrap(), Event::Done(..)) {}
    }
    times.sort();
    (times.len() as f64 / seconds, times[times.len() / 2].as_secs_f64() * 1e6)
}

#[test]
#[ignore = "measures on an idle machine: make slow-test"]
fn figures() {
    for (label, poll) in [("always", Poll::Always), ("adaptive", Poll::Adaptive)] {
        let (server, address, nqn) = serve("ram:16MiB", None, poll);
        let mut host = TcpHost::connect(address, &nqn, 1).unwrap();
        for depth in [1, 32] {
            let mut runs: Vec<_> = (0..5).map(|_| reads(&mut host, depth)).collect();
            runs.sort_by(|one, other| one.0.total_cmp(&other.0));
            let (iops, median) = runs[2];
            println!("poll {label}, QD{depth}: {iops:.0} IOPS, median {median:.1} us");
        }
        server.stop().unwrap();
    }
    let (server, address, nqn) = serve("ram:16MiB", Some("fixed:100us"), Poll::Always);
    let mut host = TcpHost::connect(address, &nqn, 1).unwrap();
    let (iops, median) = reads(&mut host, 1);
    let report = server.report().remove(0);
    let (error, bias) = (report.timing_error.unwrap(), report.timing_bias_ns.unwrap());
    println!(
        "fixed:100us, QD1: {iops:.0} IOPS, median {median:.1} us at the host; at the socket bias \
         {bias:.0} ns, error p50 {} ns, p99 {} ns",
        error.p50_ns, error.p99_ns
    );
    server.stop().unwrap();
}
