//! The order of checks over NVMe/TCP: each command with each malformed descriptor.

#[path = "../../nvme/tests/support/orders.rs"]
mod table;

use crate::support::*;
use table::{Case, Words, CASES};

/// A descriptor: its type, the address, the length, and how much data is in the capsule.
struct Descriptor {
    name: &'static str,
    kind: u8,
    address: u64,
    length: u32,
    data: usize,
    /// Status of a command that asks for its data.
    status: u16,
}

fn malformed(case: &Case) -> Vec<Descriptor> {
    let bytes = case.bytes;
    let whole = bytes as usize;
    let block = |name, kind, address, length, data, status| Descriptor {
        name,
        kind,
        address,
        length,
        data,
        status,
    };
    let mut all = vec![
        block("a block in memory", 0x00, 0, bytes, 0, 0x011),
        block("a block in memory without a byte", 0x00, 0, 0, 0, 0x011),
        block("a bit bucket", 0x10, 0, bytes, 0, 0x011),
        block("a segment", 0x20, 0, 16, 0, 0x011),
        block("the last segment", 0x30, 0, 16, 0, 0x011),
        block("a keyed block", 0x4f, 0, bytes, 0, 0x011),
        block("another subtype of a transport's", 0x50, 0, bytes, 0, 0x011),
        block("a vendor's", 0xff, 0, bytes, 0, 0x011),
        block("a block longer than a transfer", 0x5a, 0, (512 << 10) + 4, 0, 0x00f),
    ];
    if case.to_host() {
        all.push(block("a place in its capsule", 0x01, 0, bytes, whole, 0x011));
        all.push(block("a block without a byte", 0x5a, 0, 0, 0, 0x00f));
        all.push(block("a block that is too short", 0x5a, 0, bytes - 4, 0, 0x00f));
    } else {
        all.push(block("less data than it says", 0x01, 0, bytes, whole - 4, 0x00f));
        all.push(block("data that begins too late", 0x01, 4, bytes, whole, 0x00f));
        all.push(block("data behind the capsule", 0x01, u64::from(bytes) + 4, 4, whole, 0x016));
        all.push(block("data nowhere", 0x01, u64::MAX, bytes, whole, 0x016));
        all.push(block("less data than it needs", 0x01, 0, bytes - 4, whole, 0x00f));
        all.push(block("no data", 0x01, 0, 0, 0, 0x00f));
    }
    all
}

fn capsule(case: &Case, Words(nsid, words): Words, flags: u8, sgl: (u8, u64, u32)) -> [u8; 64] {
    let mut raw = entry(case.opcode, 0, nsid);
    raw[1] = flags;
    let (kind, address, length) = sgl;
    raw[24..32].copy_from_slice(&address.to_le_bytes());
    raw[32..36].copy_from_slice(&length.to_le_bytes());
    raw[39] = kind;
    for (index, word) in words.iter().enumerate() {
        raw[40 + 4 * index..44 + 4 * index].copy_from_slice(&word.to_le_bytes());
    }
    raw
}

#[test]
fn a_command_is_judged_before_its_descriptor_over_tcp() {
    let mut bench = Bench::new();
    let (mut admin, mut io, _) = with_queue(&mut bench, 0);
    for case in CASES {
        let host = if case.admin { &mut admin } else { &mut io };
        for Descriptor { name, kind, address, length, data, status } in malformed(&case) {
            let data = vec![0; data];
            let mut run = |words, flags| {
                let raw = capsule(&case, words, flags, (kind, address, length));
                host.command(&mut bench, raw, &data).0.status
            };
            let subject = format!("{} with {name}", case.name);
            assert_eq!(run(case.words, 0x40), status, "{subject}");
            for flags in [0, 0x80, 0xc0, 0x41] {
                // Fused commands are of I/O queues, and wait for each other.
                if flags & 3 == 0 || case.admin {
                    assert_eq!(run(case.words, flags), 0x002, "{subject}, flags {flags:#x}");
                }
            }
            for &(words, own) in case.refused {
                assert_eq!(run(words, 0x40), own, "{subject} and {words:x?}");
                assert_eq!(run(words, 0), 0x002, "{subject} and {words:x?}");
            }
        }
    }
    assert_eq!(bench.target.in_flight(), 0);
}

#[test]
fn before_connect_no_descriptor_matters() {
    let mut bench = Bench::new();
    for case in CASES {
        let mut host = Host::open(&mut bench, 0);
        for Descriptor { name, kind, address, length, data, .. } in malformed(&case) {
            let raw = capsule(&case, case.words, 0x40, (kind, address, length));
            let status = host.command(&mut bench, raw, &vec![0; data]).0.status;
            assert_eq!(status, 0x00c, "{} with {name}", case.name);
        }
        // Connect itself, malformed, and then well.
        let nqn = bench.nqn();
        let connect = connect_data(0xffff, &nqn, HOST, [7; 16]);
        for (kind, address, length, status) in [
            (0x01, 0, 512, 0x00f),
            (0x01, 0, 1028, 0x00f),
            (0x01, 1, 1024, 0x00f),
            (0x01, 1025, 1024, 0x016),
            (0x00, 0, 1024, 0x011),
            (0x5a, 0, 512, 0x00f),
        ] {
            let mut raw = entry(FABRICS, 0, 1);
            // The byte of the flags is reserved in commands of fabrics.
            raw[1] = 0;
            raw[24..32].copy_from_slice(&u64::to_le_bytes(address));
            raw[32..36].copy_from_slice(&u32::to_le_bytes(length));
            raw[39] = kind;
            assert_eq!(
                host.command(&mut bench, raw, &connect).0.status,
                status,
                "{kind:#x} {address}"
            );
        }
        assert_eq!(host.connect(&mut bench, 0, 0xffff, &nqn).status, 0);
        let id = host.id;
        bench.target.close(id);
    }
}

#[test]
fn data_in_a_capsule_may_begin_behind_other_data() {
    let mut bench = Bench::new();
    let (_admin, mut io, _) = with_queue(&mut bench, 3);
    let data: Vec<u8> = (0..1024).map(|at| (at % 251) as u8).collect();
    let mut raw = Host::io(WRITE, 0, 512, true);
    raw[24] = 100;
    assert_eq!(io.command(&mut bench, raw, &data).0.status, 0);
    assert_eq!(bench.disk[..512], data[100..612]);
}

#[test]
fn a_connect_may_have_its_data_asked_for() {
    for digests in [0, 3] {
        let mut bench = Bench::new();
        let nqn = bench.nqn();
        let mut host = Host::open(&mut bench, digests);
        let mut raw = entry(FABRICS, 5, 1);
        block(&mut raw, 1024, false);
        raw[44] = 31;
        let data = connect_data(0xffff, &nqn, HOST, [7; 16]);
        host.send(&mut bench, 4, 0, &raw, &[]);
        let ready = host.next(&mut bench).expect("a request for data");
        assert_eq!(ready.kind, 9);
        // Another command meanwhile is out of order.
        let early = host.command(&mut bench, entry(IDENTIFY, 0, 1), &[]).0;
        assert_eq!(early.status, 0x00c);
        host.send(&mut bench, 6, 0, &host_data(&ready, 0, 512), &data[..512]);
        host.send(&mut bench, 6, 4, &host_data(&ready, 512, 512), &data[512..]);
        let (cqe, _) = host.completion(&mut bench);
        assert_eq!((cqe.status, cqe.cid, cqe.result), (0, 5, 1));
        enable(&mut bench, &mut host);
        assert_eq!(host.admin_read(&mut bench, (IDENTIFY, 0), 1, 4096).0.status, 0);
        assert_eq!(bench.target.in_flight(), 0);
    }
}

#[test]
fn a_block_may_be_longer_than_the_data() {
    let mut bench = Bench::new();
    let (_admin, mut io, _) = with_queue(&mut bench, 0);
    // As long as the longest transfer.
    let most: u32 = 512 << 10;
    let mut raw = Host::io(WRITE, 8, 4096, false);
    raw[32..36].copy_from_slice(&most.to_le_bytes());
    raw[2] = 77;
    io.send(&mut bench, 4, 0, &raw, &[]);
    let ready = io.next(&mut bench).expect("a request for data");
    assert_eq!(ready.header[16..20], most.to_le_bytes());
    for at in (0..most).step_by(128 << 10) {
        let last = if at + (128 << 10) == most { 4 } else { 0 };
        let part = host_data(&ready, at, 128 << 10);
        io.send(&mut bench, 6, last, &part, &vec![6; 128 << 10]);
    }
    assert_eq!(io.completion(&mut bench).0.status, 0);
    assert_eq!(bench.disk[8 * 512..16 * 512], [6; 4096]);
    assert_eq!(bench.disk[16 * 512], 0, "no further");
}
