//! Reservations between two hosts of one namespace.

use crate::support::*;

const REGISTER: u8 = 0x0d;
const REPORT: u8 = 0x0e;
const ACQUIRE: u8 = 0x11;
const RELEASE: u8 = 0x15;
const CONFLICT: u16 = 0x083;

/// A host with an admin queue and an I/O queue, by its Host Identifier.
fn host(bench: &mut Bench, id: u8) -> (Host, Host) {
    let nqn = bench.nqn();
    let mut admin = Host::open(bench, 0);
    admin.host_id = [id; 16];
    admin.host = format!("nqn.2014-08.org.example:host{id}");
    let controller = admin.connect(bench, 0, 0xffff, &nqn).result as u16;
    enable(bench, &mut admin);
    let mut io = Host::open(bench, 0);
    io.host_id = admin.host_id;
    io.host.clone_from(&admin.host);
    assert_eq!(io.connect(bench, 1, controller, &nqn).status, 0);
    (admin, io)
}

/// A command of reservations with its keys.
fn reserve(bench: &mut Bench, host: &mut Host, opcode: u8, dword10: u32, keys: &[u64]) -> u16 {
    let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let mut raw = entry(opcode, 0, 1);
    block(&mut raw, data.len(), true);
    raw[40..44].copy_from_slice(&dword10.to_le_bytes());
    host.command(bench, raw, &data).0.status
}

fn report(bench: &mut Bench, host: &mut Host, extended: u8) -> (u16, Vec<u8>) {
    let mut raw = entry(REPORT, 0, 1);
    block(&mut raw, 256, false);
    raw[40] = 63;
    raw[44] = extended;
    let (cqe, data) = host.command(bench, raw, &[]);
    (cqe.status, data)
}

#[test]
fn a_write_of_another_host_is_refused_by_the_right_status() {
    let mut bench = Bench::new();
    let (mut admin, mut one) = host(&mut bench, 1);
    let (_other_admin, mut other) = host(&mut bench, 2);
    let (_, page) = admin.admin_read(&mut bench, (IDENTIFY, 0), 1, 4096);
    assert_eq!(page[520] >> 5 & 1, 1, "ONCS: reservations");
    let (_, page) = admin.admin_read(&mut bench, (IDENTIFY, 1), 0, 4096);
    assert_eq!((page[30], page[31]), (1, 0xfe), "NMIC and RESCAP");
    assert_eq!(other.write(&mut bench, 0, &[1; 512]).status, 0, "before");
    // A host that is not registered cannot acquire.
    assert_eq!(reserve(&mut bench, &mut one, ACQUIRE, 1 << 8, &[11, 0]), CONFLICT);
    assert_eq!(reserve(&mut bench, &mut one, REGISTER, 0, &[0, 11]), 0);
    assert_eq!(reserve(&mut bench, &mut one, REGISTER, 0, &[0, 12]), CONFLICT, "another key");
    // Write Exclusive.
    assert_eq!(reserve(&mut bench, &mut one, ACQUIRE, 1 << 8, &[11, 0]), 0);
    assert_eq!(other.write(&mut bench, 0, &[2; 512]).status, CONFLICT);
    assert_eq!(other.command(&mut bench, entry(0, 0, 1), &[]).0.status, CONFLICT, "Flush");
    let (cqe, data) = other.read(&mut bench, 0, 512);
    assert_eq!((cqe.status, data), (0, vec![1; 512]));
    assert_eq!(one.write(&mut bench, 0, &[3; 512]).status, 0);
    let (status, data) = report(&mut bench, &mut other, 1);
    assert_eq!((status, data[4], data[5]), (0, 1, 1), "Write Exclusive, one registrant");
    assert_eq!((data[66], data[72], data[80]), (1, 11, 1), "the holder, its key and identifier");
    assert_eq!(report(&mut bench, &mut other, 0).0, 0x018, "identifiers of 128 bits");
    // Released with another type, and with the right one.
    assert_eq!(reserve(&mut bench, &mut one, RELEASE, 2 << 8, &[11]), 0x002);
    assert_eq!(reserve(&mut bench, &mut one, RELEASE, 1 << 8, &[11]), 0);
    assert_eq!(other.write(&mut bench, 0, &[4; 512]).status, 0);
}

#[test]
fn exclusive_access_refuses_reads_and_formats() {
    let mut bench = Bench::new();
    let (_admin, mut one) = host(&mut bench, 1);
    let (mut other_admin, mut other) = host(&mut bench, 2);
    assert_eq!(reserve(&mut bench, &mut one, REGISTER, 0, &[0, 5]), 0);
    assert_eq!(reserve(&mut bench, &mut one, ACQUIRE, 4 << 8, &[5, 0]), 0);
    assert_eq!(other.read(&mut bench, 0, 512).0.status, CONFLICT);
    // Compare reads.
    let mut compare = Host::io(5, 0, 512, true);
    compare[0] = 5;
    assert_eq!(other.command(&mut bench, compare, &[0; 512]).0.status, CONFLICT);
    let format = entry(0x80, 0, 1);
    assert_eq!(other_admin.command(&mut bench, format, &[]).0.status, CONFLICT);
    // Registrants have access, of this type.
    assert_eq!(reserve(&mut bench, &mut other, REGISTER, 0, &[0, 6]), 0);
    assert_eq!(other.read(&mut bench, 0, 512).0.status, 0);
    assert_eq!(other.write(&mut bench, 0, &[1; 512]).status, 0);
}

#[test]
fn a_preempted_host_hears_of_it_and_its_commands_are_aborted() {
    let mut bench = Bench::new();
    let (mut admin, mut one) = host(&mut bench, 1);
    let (_other_admin, mut other) = host(&mut bench, 2);
    assert_eq!(reserve(&mut bench, &mut one, REGISTER, 0, &[0, 1]), 0);
    assert_eq!(reserve(&mut bench, &mut other, REGISTER, 0, &[0, 2]), 0);
    assert_eq!(reserve(&mut bench, &mut one, ACQUIRE, 1 << 8, &[1, 0]), 0);
    let mut events = entry(0x0c, 0, 0);
    let cid = admin.next_cid();
    events[2..4].copy_from_slice(&cid.to_le_bytes());
    admin.send(&mut bench, 4, 0, &events, &[]);
    // A write of the first host is with the drive.
    let raw = Host::io(WRITE, 0, 512, true);
    let pdu = one.pdu(4, 0, &raw, &[9; 512]);
    bench.target.receive(one.id, &pdu);
    // The other one preempts it and aborts its commands.
    assert_eq!(reserve(&mut bench, &mut other, ACQUIRE, 1 << 8 | 2, &[2, 1]), 0);
    let (aborted, _) = one.completion(&mut bench);
    assert_eq!((aborted.cid, aborted.status), (0, 0x01b), "aborted due to preempt and abort");
    let (event, _) = admin.completion(&mut bench);
    assert_eq!((event.cid, event.result), (cid, 6 | 0x80 << 16), "its log is to be read");
    let (_, log) = admin.admin_read(&mut bench, (2, 0), 0x80 | 15 << 16, 64);
    assert_eq!((log[0], log[8], log[9], log[12]), (1, 1, 0, 1), "registration preempted");
    let (_, log) = admin.admin_read(&mut bench, (2, 0), 0x80 | 15 << 16, 64);
    assert_eq!(log[8], 0, "nothing more");
    assert_eq!(one.write(&mut bench, 0, &[1; 512]).status, CONFLICT);
    assert_eq!(bench.target.in_flight(), 0);
    // The registration and the reservation of a host that has gone stay.
    bench.target.close(other.id);
    assert_eq!(one.write(&mut bench, 0, &[1; 512]).status, CONFLICT);
}

#[test]
fn what_cannot_be_is_an_invalid_field() {
    let mut bench = Bench::new();
    let (_admin, mut one) = host(&mut bench, 1);
    for (opcode, dword10) in [
        (REGISTER, 3),
        (REGISTER, 1 << 30),
        (REGISTER, 3 << 30),
        (ACQUIRE, 0),
        (ACQUIRE, 7 << 8),
        (ACQUIRE, 1 << 8 | 3),
        (ACQUIRE, 1 << 8 | 8),
        (RELEASE, 2),
        (RELEASE, 8),
    ] {
        let keys: &[u64] = if opcode == RELEASE { &[0] } else { &[0, 1] };
        assert_eq!(reserve(&mut bench, &mut one, opcode, dword10, keys), 0x002, "{opcode:#x}");
    }
}
