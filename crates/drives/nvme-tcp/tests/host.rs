//! Hosts that keep to the protocol, and what they find.

use crate::support::*;
use stasis_nvme::fabrics::DiscoveryEntry;
use stasis_nvme::Config;

const SECOND: u64 = 1_000_000_000;

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 511 + seed) as u8).collect()
}

#[test]
fn data_moves_in_capsules_and_on_request_with_any_digests() {
    for digests in 0..4 {
        let mut bench = Bench::new();
        let (_admin, mut io, _) = with_queue(&mut bench, digests);
        let short = pattern(4096, 1);
        assert_eq!(io.write(&mut bench, 8, &short).status, 0);
        let long = pattern(300 << 10, 2);
        assert_eq!(io.write_long(&mut bench, 100, &long, 128 << 10).status, 0);
        let (cqe, data) = io.read(&mut bench, 8, 4096);
        assert_eq!((cqe.status, data == short), (0, true));
        let (cqe, data) = io.read(&mut bench, 100, 300 << 10);
        assert_eq!((cqe.status, data == long), (0, true));
        assert_eq!(bench.disk[100 * 512..100 * 512 + long.len()], long);
        assert_eq!(bench.target.in_flight(), 0);
    }
}

#[test]
fn bytes_may_come_one_by_one() {
    let mut bench = Bench::new();
    let (_admin, mut io, _) = with_queue(&mut bench, 3);
    let data = pattern(1024, 5);
    let raw = Host::io(WRITE, 3, 1024, true);
    for byte in io.pdu(4, 0, &raw, &data) {
        bench.target.receive(io.id, &[byte]);
    }
    bench.work();
    assert_eq!(io.completion(&mut bench).0.status, 0);
    assert_eq!(bench.disk[3 * 512..5 * 512], data);
}

#[test]
fn the_head_of_the_queue_is_reported_with_each_completion() {
    let mut bench = Bench::new();
    let (_admin, mut io, _) = with_queue(&mut bench, 0);
    for count in 0..70u16 {
        let (cqe, _) = io.read(&mut bench, 0, 512);
        // Connect was the first entry of 32.
        assert_eq!(cqe.head, (count + 2) % 32);
    }
}

#[test]
fn identify_names_what_a_fabric_needs() {
    let mut bench = Bench::new();
    let (mut admin, controller) = ready(&mut bench, 0);
    let (cqe, page) = admin.admin_read(&mut bench, (IDENTIFY, 0), 1, 4096);
    assert_eq!(cqe.status, 0);
    let word = |at: usize| u16::from_le_bytes([page[at], page[at + 1]]);
    assert_eq!(word(78), controller, "CNTLID");
    assert_ne!(controller, 0, "0 is PCIe's");
    assert_eq!(word(514), 128, "MAXCMD");
    assert_ne!(word(320), 0, "KAS");
    assert_eq!(word(1792), (64 + (16 << 10)) / 16, "IOCCSZ");
    assert_eq!(page[1803], 1, "MSDBD");
    let name = bench.nqn();
    assert_eq!(page[768..768 + name.len()], *name.as_bytes());
    // Queues and shadow doorbells come by other ways: OACS has no bit for them.
    assert_eq!(word(256) >> 8 & 1, 0);
    for opcode in [0x00, 0x01, 0x04, 0x05, 0x7c] {
        let (cqe, _) = admin.command(&mut bench, entry(opcode, 0, 0), &[]);
        assert_eq!(cqe.status, 0x001, "opcode {opcode:#x}");
    }
}

#[test]
fn a_controller_has_commands_of_fabrics_only_until_it_is_enabled() {
    let mut bench = Bench::new();
    let mut admin = Host::open(&mut bench, 0);
    let nqn = bench.nqn();
    let controller = admin.connect(&mut bench, 0, 0xffff, &nqn).result as u16;
    let (cqe, _) = admin.admin_read(&mut bench, (IDENTIFY, 0), 1, 4096);
    assert_eq!(cqe.status, 0x00c, "Command Sequence Error");
    let mut early = Host::open(&mut bench, 0);
    assert_eq!(early.connect(&mut bench, 1, controller, &nqn).status, 0x00c);
    enable(&mut bench, &mut admin);
    assert_eq!(early.connect(&mut bench, 1, controller, &nqn).status, 0);
    // A second Connect on its queue, on the same connection and on another.
    assert_eq!(early.connect(&mut bench, 1, controller, &nqn).status, 0x00c);
    let mut other = Host::open(&mut bench, 0);
    assert_eq!(other.connect(&mut bench, 1, controller, &nqn).status, 0x00c);
    // Properties that are not there, or of another size.
    for (offset, wide) in [(0, false), (8, true), (0x24, false), (0x28, true), (0x1000, false)] {
        assert_eq!(admin.get_property(&mut bench, offset, wide).status, 0x002, "{offset:#x}");
    }
    assert_eq!(admin.set_property(&mut bench, 0x1c, 0).status, 0x002);
}

#[test]
fn a_wrong_connect_names_the_parameter() {
    const INVALID: u16 = 0x182;
    const IN_DATA: u64 = 1 << 16;
    let mut bench = Bench::with(config(), &[HOST]);
    let nqn = bench.nqn();
    let data = |controller, subsystem: &str, host: &str| {
        connect_data(controller, subsystem, host, [7; 16])
    };
    let mut host = Host::open(&mut bench, 0);
    let mut refused = |queue, last, data: Vec<u8>| {
        let cqe = host.connect_with(&mut bench, queue, last, 0, &data);
        (cqe.status, cqe.result)
    };
    let right = data(0xffff, &nqn, HOST);
    assert_eq!(refused(0, 0, right.clone()), (INVALID, 44), "a queue of one entry");
    assert_eq!(refused(0, 128, right.clone()), (INVALID, 44), "longer than MQES");
    assert_eq!(refused(0, 31, data(1, &nqn, HOST)), (INVALID, IN_DATA | 16));
    assert_eq!(refused(0, 31, data(0xffff, "nqn.other", HOST)), (INVALID, IN_DATA | 256));
    assert_eq!(refused(0, 31, data(0xffff, "", HOST)), (INVALID, IN_DATA | 256));
    let long = "n".repeat(224);
    assert_eq!(refused(0, 31, data(0xffff, &nqn, &long)), (INVALID, IN_DATA | 512));
    assert_eq!(refused(0, 31, data(0xffff, &nqn, "nqn.stranger")), (0x184, 0));
    assert_eq!(refused(1, 31, data(9, &nqn, HOST)), (INVALID, IN_DATA | 16), "no controller");
    assert_eq!(refused(0, 31, right), (0, 1));
    let mut io = Host::open(&mut bench, 0);
    let cqe = {
        enable(&mut bench, &mut host);
        let other = connect_data(1, &nqn, HOST, [8; 16]);
        io.connect_with(&mut bench, 1, 31, 0, &other)
    };
    assert_eq!((cqe.status, cqe.result), (INVALID, IN_DATA), "another host's identifier");
    let mine = connect_data(1, &nqn, HOST, [7; 16]);
    let cqe = io.connect_with(&mut bench, 5, 31, 0, &mine);
    assert_eq!((cqe.status, cqe.result), (INVALID, 42), "a queue beyond the last");
}

#[test]
fn discovery_lists_the_subsystems_and_nothing_else() {
    let mut bench = Bench::with(config(), &["nqn.nobody"]);
    let entries = ["127.0.0.1:4420", "[::1]:4421"].map(|address| DiscoveryEntry {
        nqn: format!("nqn.2014-08.org.example:{}", &address[..1]),
        path: 1,
        address: address.parse().unwrap(),
    });
    bench.target.set_discovery(entries.to_vec());
    let mut host = Host::open(&mut bench, 0);
    assert_eq!(host.connect(&mut bench, 0, 0xffff, discovery()).status, 0);
    enable(&mut bench, &mut host);
    let (cqe, page) = host.admin_read(&mut bench, (IDENTIFY, 0), 1, 4096);
    assert_eq!((cqe.status, page[111]), (0, 2), "a discovery controller");
    let (cqe, log) = host.admin_read(&mut bench, (2, 0), 0x70 | 767 << 16, 3072);
    assert_eq!(cqe.status, 0);
    assert_eq!(log[8], 2, "entries");
    let text = |range: std::ops::Range<usize>| {
        String::from_utf8_lossy(&log[range]).trim_end_matches([' ', '\0']).to_owned()
    };
    assert_eq!((log[1024], log[1025], log[1026]), (3, 1, 2), "TCP, IPv4, an NVM subsystem");
    assert_eq!((text(1056..1088), text(1536..1792)), ("4420".into(), "127.0.0.1".into()));
    assert_eq!(text(1280..1536), entries[0].nqn);
    assert_eq!((log[2049], text(2560..2816)), (2, "::1".into()));
    // It has no I/O queues, namespaces or other logs.
    let (cqe, _) = host.admin_read(&mut bench, (2, 0), 2 | 127 << 16, 512);
    assert_eq!(cqe.status, 0x109);
    let (cqe, _) = host.admin_read(&mut bench, (IDENTIFY, 1), 0, 4096);
    assert_eq!(cqe.status, 0x002);
    let mut io = Host::open(&mut bench, 0);
    assert_ne!(io.connect(&mut bench, 1, 1, discovery()).status, 0);
}

#[test]
fn discovery_names_the_address_by_which_the_host_has_come() {
    let mut bench = Bench::with(config(), &[]);
    let entries = ["0.0.0.0:4420", "[::]:4421", "192.0.2.1:4422"].map(|address| DiscoveryEntry {
        nqn: "nqn.2014-08.org.example:a".into(),
        path: 1,
        address: address.parse().unwrap(),
    });
    bench.target.set_discovery(entries.to_vec());
    let mut host = Host::open(&mut bench, 0);
    bench.target.set_local_address(host.id, "192.0.2.7".parse().unwrap());
    assert_eq!(host.connect(&mut bench, 0, 0xffff, discovery()).status, 0);
    enable(&mut bench, &mut host);
    let (cqe, log) = host.admin_read(&mut bench, (2, 0), 0x70 | 1023 << 16, 4096);
    assert_eq!(cqe.status, 0);
    let address = |entry: &[u8]| {
        let text =
            |raw: &[u8]| String::from_utf8_lossy(raw).trim_end_matches([' ', '\0']).to_owned();
        (entry[1], text(&entry[512..768]), text(&entry[32..64]))
    };
    let addresses: Vec<_> = log.chunks(1024).skip(1).map(address).collect();
    let expected = [("192.0.2.7", "4420"), ("192.0.2.7", "4421"), ("192.0.2.1", "4422")];
    assert_eq!(addresses, expected.map(|(ip, port)| (1, ip.to_owned(), port.to_owned())));
}

#[test]
fn two_hosts_share_the_namespace_and_hear_of_its_changes() {
    let mut bench = Bench::new();
    let (mut one, mut io, first) = with_queue(&mut bench, 0);
    let (mut other, second) = ready(&mut bench, 1);
    assert_ne!(first, second);
    assert_eq!(io.write(&mut bench, 0, &[9; 512]).status, 0);
    // The other one asks for notices of namespaces, and waits for an event.
    let mut feature = entry(9, 0, 0);
    feature[40] = 0x0b;
    feature[45] = 1;
    assert_eq!(other.command(&mut bench, feature, &[]).0.status, 0);
    let mut request = entry(0x0c, 0, 0);
    let cid = other.next_cid();
    request[2..4].copy_from_slice(&cid.to_le_bytes());
    other.send(&mut bench, 4, 0, &request, &[]);
    assert_eq!(other.next(&mut bench), None);
    // The first one formats the namespace with blocks of 4096 bytes.
    let mut format = entry(0x80, 0, 1);
    format[40] = 1;
    assert_eq!(one.command(&mut bench, format, &[]).0.status, 0);
    let (event, _) = other.completion(&mut bench);
    assert_eq!((event.cid, event.result & 0xff_ffff), (cid, 4 << 16 | 2), "a notice");
    let (_, log) = other.admin_read(&mut bench, (2, 0xffff_ffff), 4 | 1023 << 16, 4096);
    assert_eq!(log[..8], [1, 0, 0, 0, 0, 0, 0, 0], "namespace 1 has changed");
}

#[test]
fn a_host_that_has_gone_leaves_others_alone() {
    let mut bench = Bench::new();
    let (gone, mut late, _) = with_queue(&mut bench, 0);
    let (_kept, mut io, _) = with_queue(&mut bench, 0);
    // A write of the first host is under way, and the data of another has not come.
    let raw = Host::io(WRITE, 0, 4096, true);
    let pdu = late.pdu(4, 0, &raw, &[1; 4096]);
    bench.target.receive(late.id, &pdu);
    let mut long = Host::io(WRITE, 64, 64 << 10, false);
    long[2] = 9;
    let pdu = late.pdu(4, 0, &long, &[]);
    bench.target.receive(late.id, &pdu);
    bench.target.close(gone.id);
    bench.work();
    assert!(bench.target.has_ended(late.id), "its queues end with its controller");
    bench.target.close(late.id);
    assert_eq!(bench.target.in_flight(), 0);
    assert_eq!(io.write(&mut bench, 9, &[3; 512]).status, 0);
    assert_eq!(io.read(&mut bench, 9, 512).1, [3; 512]);
    let _ = late.next(&mut bench);
}

#[test]
fn a_host_that_is_silent_for_its_keep_alive_time_has_gone() {
    let mut bench = Bench::new();
    let nqn = bench.nqn();
    let mut host = Host::open(&mut bench, 0);
    let data = connect_data(0xffff, &nqn, HOST, [7; 16]);
    assert_eq!(host.connect_with(&mut bench, 0, 31, 5_000, &data).status, 0);
    enable(&mut bench, &mut host);
    bench.pass(4 * SECOND);
    assert_eq!(host.command(&mut bench, entry(KEEP_ALIVE, 0, 0), &[]).0.status, 0);
    bench.pass(4 * SECOND);
    assert!(!bench.target.has_ended(host.id));
    assert_eq!(bench.target.next_deadline(), Some(9 * SECOND));
    bench.pass(SECOND);
    assert!(bench.target.has_ended(host.id));
    let fault = bench.target.take_fault(host.id).unwrap().to_string();
    assert!(fault.contains("Keep Alive"), "{fault}");
    // And one that never becomes a queue.
    let idle = Host::open(&mut bench, 0);
    bench.pass(10 * SECOND);
    assert!(bench.target.has_ended(idle.id));
}

#[test]
fn a_reset_ends_the_queues_and_keeps_the_admin_queue() {
    let mut bench = Bench::new();
    let (mut admin, io, controller) = with_queue(&mut bench, 0);
    assert_eq!(admin.set_property(&mut bench, 0x14, 0).status, 0);
    assert!(bench.target.has_ended(io.id));
    bench.target.close(io.id);
    enable(&mut bench, &mut admin);
    let mut io = Host::open(&mut bench, 0);
    let nqn = bench.nqn();
    assert_eq!(io.connect(&mut bench, 1, controller, &nqn).status, 0);
    assert_eq!(io.read(&mut bench, 0, 512).0.status, 0);
}

#[test]
fn zones_are_what_they_are_on_pcie() {
    let mut bench = Bench::with(zoned(), &[]);
    let (_admin, mut io, _) = with_queue(&mut bench, 0);
    assert_eq!(io.write(&mut bench, 0, &[1; 4096]).status, 0);
    assert_eq!(io.write(&mut bench, 16, &[1; 512]).status, 0x1bc, "not at the pointer");
    assert_eq!(io.write(&mut bench, 8, &[1; 512]).status, 0);
    // A report of the first zone: its write pointer is at block 9.
    let mut report = entry(0x7a, 0, 1);
    block(&mut report, 128, false);
    report[48..52].copy_from_slice(&31u32.to_le_bytes());
    report[53] = 0;
    let (cqe, data) = io.command(&mut bench, report, &[]);
    assert_eq!(cqe.status, 0);
    assert_eq!(u64::from_le_bytes(data[88..96].try_into().unwrap()), 9);
    // More room than there are zones: what lies beyond is left alone.
    block(&mut report, 4096, false);
    report[48..52].copy_from_slice(&1023u32.to_le_bytes());
    let (cqe, data) = io.command(&mut bench, report, &[]);
    assert_eq!((cqe.status, data[0], data.len()), (0, 8, 4096));
    assert_eq!(data[64 + 8 * 64..], [0; 4096 - 64 - 8 * 64]);
}

#[test]
fn many_long_writes_wait_for_room_and_all_arrive() {
    let mut bench = Bench::new();
    let (_admin, mut io, _) = with_queue(&mut bench, 0);
    // 31 writes of 512 KiB at once are more than a connection may hold.
    let length = 512 << 10;
    let mut waiting = vec![];
    for index in 0..31u64 {
        let mut raw = Host::io(WRITE, index % 16 * 1024, length, false);
        let cid = io.next_cid();
        raw[2..4].copy_from_slice(&cid.to_le_bytes());
        io.send(&mut bench, 4, 0, &raw, &[]);
        waiting.push(cid);
    }
    let mut done = 0;
    let mut asked = vec![];
    while done < 31 {
        match io.next(&mut bench) {
            Some(pdu) if pdu.kind == 9 => asked.push(pdu),
            Some(pdu) => {
                assert_eq!(pdu.kind, 5);
                done += 1;
            }
            None => {
                let ready = asked.remove(0);
                assert!(asked.len() < 16, "8 MiB at most");
                for (index, part) in pattern(length, 3).chunks(64 << 10).enumerate() {
                    let last = if index == 7 { 4 } else { 0 };
                    let header = host_data(&ready, (index * (64 << 10)) as u32, 64 << 10);
                    io.send(&mut bench, 6, last, &header, part);
                }
            }
        }
    }
    assert_eq!(bench.disk[..length], pattern(length, 3));
}

#[test]
fn success_without_a_result_needs_no_response_where_the_head_is_not_looked_at() {
    let mut bench = Bench::new();
    let (_admin, controller) = ready(&mut bench, 0);
    let mut io = Host::open(&mut bench, 0);
    let data = connect_data(controller, &bench.nqn(), HOST, [7; 16]);
    let mut raw = entry(FABRICS, 0, 1);
    block(&mut raw, 1024, true);
    raw[42] = 1;
    raw[44] = 31;
    raw[46] = 4;
    assert_eq!(io.command(&mut bench, raw, &data).0.head, 0xffff);
    io.send(&mut bench, 4, 0, &Host::io(READ, 0, 512, false), &[]);
    let pdu = io.next(&mut bench).unwrap();
    assert_eq!((pdu.kind, pdu.flags, pdu.data.len()), (7, 4 | 8, 512));
    assert_eq!(io.next(&mut bench), None);
    assert_eq!(bench.target.in_flight(), 0);
}

#[test]
fn the_same_subsystem_keeps_its_name() {
    let other = Config { serial: "TCP1".into(), ..config() };
    assert_ne!(other.nqn(), config().nqn());
    assert!(config().nqn().starts_with("nqn.2014-08.org.nvmexpress:uuid:"));
}

#[test]
fn the_ranges_of_a_discard_may_come_in_room_for_all() {
    let mut bench = Bench::new();
    let (_admin, mut io, _) = with_queue(&mut bench, 0);
    // As Linux does: one range, and 4096 bytes.
    let mut discard = entry(9, 0, 1);
    block(&mut discard, 4096, true);
    discard[44] = 4;
    let mut ranges = vec![0; 4096];
    ranges[4..8].copy_from_slice(&64u32.to_le_bytes());
    assert_eq!(io.command(&mut bench, discard, &ranges).0.status, 0);
}

#[test]
fn compare_and_write_are_fused_over_two_capsules() {
    const COMPARE: u8 = 5;
    let mut bench = Bench::new();
    let (_admin, mut io, _) = with_queue(&mut bench, 0);
    let (old, new) = (pattern(512, 1), pattern(512, 2));
    assert_eq!(io.write(&mut bench, 3, &old).status, 0);
    for (expected, holds) in [([0, 0], &new), ([0x285, 0x009], &new)] {
        let mut ends = Vec::new();
        for (opcode, fuse, data) in [(COMPARE, 1, &old), (WRITE, 2, &new)] {
            let mut raw = Host::io(opcode, 3, 512, true);
            raw[1] |= fuse;
            raw[2..4].copy_from_slice(&io.next_cid().to_le_bytes());
            io.send(&mut bench, 4, 0, &raw, data);
        }
        for _ in 0..2 {
            ends.push(io.completion(&mut bench).0);
        }
        ends.sort_by_key(|end| end.cid);
        assert_eq!([ends[0].status, ends[1].status], expected);
        assert_eq!(bench.disk[3 * 512..4 * 512], holds[..]);
    }
}
