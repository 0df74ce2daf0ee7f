//! Hosts that break the protocol: the fault has a name, and others are unharmed.

use crate::support::*;

/// Sends `raw` on the connection and returns the fault and the status of the termination request,
/// while another host goes on.
fn ends_with(bench: &mut Bench, host: &mut Host, raw: &[u8]) -> (String, Option<u16>) {
    bench.target.receive(host.id, raw);
    bench.work();
    assert!(bench.target.has_ended(host.id));
    let fault = bench.target.take_fault(host.id).expect("a fault").to_string();
    let termination = std::iter::from_fn(|| host.next(bench)).find(|pdu| pdu.kind == 3);
    let status = termination.map(|pdu| u16::from_le_bytes([pdu.header[8], pdu.header[9]]));
    let id = host.id;
    bench.target.close(id);
    (fault, status)
}

#[test]
fn a_host_that_wants_tls_is_told_what_is_missing() {
    let mut bench = Bench::new();
    let mut host = Host::unopened(&mut bench);
    // A ClientHello of 512 bytes: a record of type handshake, whose version is that of TLS 1.0.
    let (fault, termination) =
        ends_with(&mut bench, &mut host, &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]);
    assert!(fault.contains("`--tls`") && fault.contains("does not encrypt"), "{fault}");
    assert_eq!(termination, None, "it would not understand a termination request");
}

#[test]
fn every_fault_has_a_name_and_ends_its_connection_only() {
    type Break = fn(&mut Host, &mut Bench) -> Vec<u8>;
    let cases: [(&str, u16, Break); 12] = [
        ("type 0x55: byte 0", 1, |_, _| vec![0x55, 0, 24, 0, 24, 0, 0, 0]),
        ("type 0x00 out of sequence", 2, |host, _| host.pdu(0, 0, &[0; 120], &[])),
        ("type 0x04: byte 2", 1, |_, _| vec![4, 0, 71, 0, 72, 0, 0, 0]),
        ("type 0x04: byte 4", 1, |_, _| vec![4, 0, 72, 72, 0, 0, 0, 1]),
        ("type 0x04: byte 4", 1, |_, _| vec![4, 0, 72, 72, 10, 0, 0, 0]),
        ("type 0x04: byte 3", 1, |_, _| vec![4, 0, 72, 70, 80, 0, 0, 0]),
        ("type 0x04: byte 1", 1, |_, _| vec![4, 1, 72, 0, 72, 0, 0, 0]),
        ("type 0x06: byte 4", 1, |_, _| vec![6, 0, 24, 24, 0, 0, 3, 0]),
        ("type 0x06: byte 10", 1, |host, _| host.pdu(6, 4, &[9; 16], &[0; 8])),
        ("data of command 77 beyond", 4, |host, bench| {
            let ready = asked(host, bench, 77, 32 << 10);
            host.pdu(6, 0, &host_data(&ready, 0, (32 << 10) + 4), &vec![0; (32 << 10) + 4])
        }),
        ("data of command 78 beyond", 4, |host, bench| {
            let ready = asked(host, bench, 78, 32 << 10);
            host.pdu(6, 0, &host_data(&ready, 4, 8), &[0; 8])
        }),
        ("type 0x06: byte 1", 1, |host, bench| {
            let ready = asked(host, bench, 79, 32 << 10);
            host.pdu(6, 4, &host_data(&ready, 0, 8), &[0; 8])
        }),
    ];
    let mut bench = Bench::new();
    let (_kept, mut witness, _) = with_queue(&mut bench, 0);
    for (wanted, status, breaks) in cases {
        let (admin, mut host, _) = with_queue(&mut bench, 0);
        let raw = breaks(&mut host, &mut bench);
        let (fault, termination) = ends_with(&mut bench, &mut host, &raw);
        assert!(fault.contains(wanted), "{fault}, not {wanted}");
        assert_eq!(termination, Some(status), "{wanted}");
        bench.target.close(admin.id);
        assert_eq!(witness.write(&mut bench, 1, &[4; 512]).status, 0);
        assert_eq!(bench.target.in_flight(), 0);
    }
}

/// A write whose data is asked for.
fn asked(host: &mut Host, bench: &mut Bench, cid: u16, bytes: usize) -> Pdu {
    let mut raw = Host::io(WRITE, 0, bytes, false);
    raw[2..4].copy_from_slice(&cid.to_le_bytes());
    host.send(bench, 4, 0, &raw, &[]);
    host.next(bench).expect("a request for data")
}

#[test]
fn a_wrong_digest_of_data_fails_the_command_and_of_a_header_the_connection() {
    let mut bench = Bench::new();
    let (admin, mut io, _) = with_queue(&mut bench, 3);
    let raw = Host::io(WRITE, 0, 512, true);
    let mut pdu = io.pdu(4, 0, &raw, &[5; 512]);
    let at = pdu.len() - 10;
    pdu[at] ^= 1;
    bench.target.receive(io.id, &pdu);
    bench.work();
    assert_eq!(io.completion(&mut bench).0.status, 0x022, "Transient Transport Error");
    assert_eq!(bench.disk[..512], [0; 512]);
    // The same of data that was asked for.
    let ready = asked(&mut io, &mut bench, 5, 32 << 10);
    let mut pdu = io.pdu(6, 4, &host_data(&ready, 0, 32 << 10), &vec![1; 32 << 10]);
    pdu[1000] ^= 1;
    bench.target.receive(io.id, &pdu);
    bench.work();
    assert_eq!(io.completion(&mut bench).0.status, 0x022);
    assert_eq!(io.read(&mut bench, 0, 512).1, [0; 512], "the connection goes on");
    let mut pdu = io.pdu(4, 0, &Host::io(READ, 0, 512, false), &[]);
    pdu[20] ^= 1;
    let (fault, status) = ends_with(&mut bench, &mut io, &pdu);
    assert!(fault.contains("header digest"), "{fault}");
    assert_eq!(status, Some(3));
    assert!(!bench.target.has_ended(admin.id));
}

#[test]
fn a_data_block_that_cannot_be_fails_its_command() {
    let mut bench = Bench::new();
    let (_admin, mut io, _) = with_queue(&mut bench, 0);
    // Longer than the capsule's data, than a transfer, and of types that are memory's.
    assert_eq!(io.command(&mut bench, Host::io(WRITE, 0, 4096, true), &[1; 512]).0.status, 0x00f);
    let mut long = Host::io(WRITE, 0, 512, false);
    long[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(io.command(&mut bench, long, &[]).0.status, 0x00f);
    for kind in [0x00, 0x02, 0x10, 0x20, 0x30, 0x40, 0x4f, 0x50, 0xff] {
        let mut raw = Host::io(WRITE, 0, 512, true);
        raw[39] = kind;
        assert_eq!(io.command(&mut bench, raw, &[1; 512]).0.status, 0x011, "type {kind:#x}");
    }
    let mut offset = Host::io(WRITE, 0, 512, true);
    offset[24] = 8;
    assert_eq!(io.command(&mut bench, offset, &[1; 516]).0.status, 0x00f);
    // Data in the capsule of a Read.
    assert_eq!(io.command(&mut bench, Host::io(READ, 0, 512, true), &[1; 512]).0.status, 0x011);
    // Shorter than the command's data.
    let mut short = Host::io(WRITE, 0, 1024, true);
    short[32..36].copy_from_slice(&512u32.to_le_bytes());
    assert_eq!(io.command(&mut bench, short, &[1; 512]).0.status, 0x00f);
    assert_eq!(bench.disk[..4096], [0; 4096]);
    assert_eq!(bench.target.in_flight(), 0);
}

#[test]
fn more_commands_than_the_queue_has_entries_end_the_connection() {
    let mut bench = Bench::new();
    let (_admin, io, _) = with_queue(&mut bench, 0);
    let mut fault = None;
    for cid in 0..33u16 {
        let mut raw = Host::io(READ, 0, 512, false);
        raw[2..4].copy_from_slice(&cid.to_le_bytes());
        let pdu = io.pdu(4, 0, &raw, &[]);
        bench.target.receive(io.id, &pdu);
        fault = bench.target.take_fault(io.id).map(|fault| (cid, fault.to_string()));
    }
    let (cid, fault) = fault.expect("a fault");
    assert_eq!((cid, fault.contains("more commands")), (32, true), "{fault}");
}

#[test]
fn an_initialization_request_that_is_not_supported_is_refused_by_its_parameter() {
    for (at, value, named) in [(8, 1, "byte 8"), (10, 32, "byte 10")] {
        let mut bench = Bench::new();
        let id = bench.target.open(1).unwrap();
        let mut request = vec![0; 128];
        request[2] = 128;
        request[4] = 128;
        request[at] = value;
        bench.target.receive(id, &request);
        let fault = bench.target.take_fault(id).unwrap().to_string();
        assert!(fault.contains(named), "{fault}");
    }
}

#[test]
fn connections_are_bounded() {
    let mut bench = Bench::new();
    let opened: Vec<_> = std::iter::from_fn(|| bench.target.open(1)).collect();
    assert_eq!(opened.len(), stasis_nvme_tcp::MAX_CONNECTIONS);
    bench.target.close(opened[3]);
    assert!(bench.target.open(1).is_some());
    // And controllers, by a status.
    let mut bench = Bench::new();
    let nqn = bench.nqn();
    let connect = |bench: &mut Bench| Host::open(bench, 0).connect(bench, 0, 0xffff, &nqn).status;
    let statuses: Vec<_> = (0..64).map(|_| connect(&mut bench)).collect();
    assert_eq!(statuses.iter().filter(|&&status| status == 0).count(), 63);
    assert_eq!(statuses[63], 0x181, "Controller Busy");
}
