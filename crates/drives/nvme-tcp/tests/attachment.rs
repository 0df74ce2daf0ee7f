//! Attached namespaces: hosts that have some of a subsystem's namespaces, which come and go.

use crate::support::*;
use stasis_nvme::{Config, Namespace};

const MANAGEMENT: u8 = 0x0d;
const ATTACHMENT: u8 = 0x15;
const FORMAT: u8 = 0x80;
const OTHER: &str = "nqn.2014-08.org.example:other";
/// Namespace Attribute Changed: a notice, its number, and its log (NVMe 2.0 section 5.2.1).
const EVENT: u64 = 0x04_00_02;

fn three() -> Bench {
    let namespace = |index: u64| Namespace { start: index << 20, ..Namespace::new(2048, 512) };
    Bench::with(Config { namespaces: (0..3).map(namespace).collect(), ..config() }, &[])
}

fn ready_as(bench: &mut Bench, nqn: &str) -> (Host, u16) {
    let mut admin = Host::open(bench, 0);
    admin.host = nqn.into();
    admin.host_id = [nqn.len() as u8; 16];
    let subsystem = bench.nqn();
    let connected = admin.connect(bench, 0, 0xffff, &subsystem);
    assert_eq!(connected.status, 0);
    enable(bench, &mut admin);
    (admin, connected.result as u16)
}

fn identify(bench: &mut Bench, host: &mut Host, nsid: u32, dword10: u32) -> (u16, Vec<u8>) {
    let (cqe, page) = host.admin_read(bench, (IDENTIFY, nsid), dword10, 4096);
    (cqe.status, page)
}

/// The entries of a list of namespaces.
fn listed(bench: &mut Bench, host: &mut Host, structure: u32) -> Vec<u32> {
    let (status, page) = identify(bench, host, 0, structure);
    assert_eq!(status, 0);
    let entries = page.chunks_exact(4).map(|raw| u32::from_le_bytes(raw.try_into().unwrap()));
    entries.take_while(|&nsid| nsid != 0).collect()
}

/// The entries of a list of controllers.
fn controllers(bench: &mut Bench, host: &mut Host, nsid: u32, dword10: u32) -> Vec<u16> {
    let (status, page) = identify(bench, host, nsid, dword10);
    assert_eq!(status, 0);
    let mut words = page.chunks_exact(2).map(|raw| u16::from_le_bytes([raw[0], raw[1]]));
    let count = words.next().unwrap();
    words.take(count.into()).collect()
}

/// Namespace Attachment: its status.
fn attach(bench: &mut Bench, host: &mut Host, nsid: u32, select: u32, ids: &[u16]) -> u16 {
    let mut list = vec![0; 4096];
    list[..2].copy_from_slice(&(ids.len() as u16).to_le_bytes());
    for (entry, id) in list[2..].chunks_exact_mut(2).zip(ids) {
        entry.copy_from_slice(&id.to_le_bytes());
    }
    let mut raw = entry(ATTACHMENT, 0, nsid);
    block(&mut raw, list.len(), true);
    raw[40..44].copy_from_slice(&select.to_le_bytes());
    host.command(bench, raw, &list).0.status
}

fn request_event(bench: &mut Bench, host: &mut Host) -> u16 {
    const NAMESPACE_NOTICES: u32 = 1 << 8;
    let mut set = entry(0x09, 0, 0);
    set[40] = 0x0b;
    set[44..48].copy_from_slice(&NAMESPACE_NOTICES.to_le_bytes());
    assert_eq!(host.command(bench, set, &[]).0.status, 0);
    let cid = host.next_cid();
    let capsule = host.pdu(4, 0, &entry(0x0c, cid, 0), &[]);
    bench.target.receive(host.id, &capsule);
    cid
}

/// The Changed Namespace List, whose first entries are not 0.
fn changed(bench: &mut Bench, host: &mut Host) -> Vec<u32> {
    let (cqe, log) = host.admin_read(bench, (2, 0), 4 | 1023 << 16, 4096);
    assert_eq!(cqe.status, 0);
    let entries = log.chunks_exact(4).map(|raw| u32::from_le_bytes(raw.try_into().unwrap()));
    entries.take_while(|&nsid| nsid != 0).collect()
}

#[test]
fn a_namespace_of_one_host_is_inactive_for_another() {
    let mut bench = three();
    bench.target.set_attached(2, Some(OTHER), false).unwrap();
    let (mut one, first) = ready_as(&mut bench, HOST);
    let (mut other, second) = ready_as(&mut bench, OTHER);
    assert_eq!(listed(&mut bench, &mut one, 2), [1, 2, 3]);
    assert_eq!(listed(&mut bench, &mut other, 2), [1, 3]);
    assert_eq!(listed(&mut bench, &mut other, 0x10), [1, 2, 3], "those that there are");
    assert_eq!(controllers(&mut bench, &mut other, 2, 0x12), [first]);
    assert_eq!(controllers(&mut bench, &mut other, 0, 0x13), [first, second]);
    let from = u32::from(second) << 16 | 0x13;
    assert_eq!(controllers(&mut bench, &mut other, 0, from), [second]);
    assert_eq!(identify(&mut bench, &mut other, 4, 0x12).0, 0x00b);

    let (status, page) = identify(&mut bench, &mut other, 2, 0);
    assert_eq!((status, page), (0, vec![0; 4096]), "of an inactive one, zeroes");
    let (status, page) = identify(&mut bench, &mut other, 2, 0x11);
    assert_eq!((status, page[1]), (0, 8), "of one that is there: 2048 blocks");
    assert_eq!(identify(&mut bench, &mut other, 2, 3).0, 0x00b);
    assert_eq!(identify(&mut bench, &mut other, 129, 0).0, 0x00b);
    assert_eq!(other.command(&mut bench, entry(FORMAT, 0, 2), &[]).0.status, 0x002);

    let mut io = Host::open(&mut bench, 0);
    (io.host, io.host_id) = (other.host.clone(), other.host_id);
    let nqn = bench.nqn();
    assert_eq!(io.connect(&mut bench, 1, second, &nqn).status, 0);
    for (nsid, expected) in [(1, 0), (2, 0x002), (3, 0), (4, 0x002), (129, 0x00b)] {
        let mut raw = Host::io(WRITE, 0, 512, true);
        raw[4] = nsid;
        assert_eq!(io.command(&mut bench, raw, &[nsid; 512]).0.status, expected, "{nsid}");
    }
    assert_eq!([bench.disk[0], bench.disk[1 << 20], bench.disk[2 << 20]], [1, 0, 3]);
    assert_eq!(io.command(&mut bench, entry(0, 0, u32::MAX), &[]).0.status, 0, "a flush of all");
}

#[test]
fn a_format_of_all_leaves_what_is_not_attached() {
    let mut bench = three();
    let (mut admin, _) = ready(&mut bench, 0);
    bench.target.set_attached(2, None, false).unwrap();
    bench.work();
    let mut all = entry(FORMAT, 0, u32::MAX);
    all[40] = 1;
    assert_eq!(admin.command(&mut bench, all, &[]).0.status, 0);
    bench.target.set_attached(2, None, true).unwrap();
    let sizes: Vec<u8> =
        (1..=3).map(|nsid| identify(&mut bench, &mut admin, nsid, 0).1[26]).collect();
    assert_eq!(sizes, [1, 0, 1], "formats of blocks");
}

#[test]
fn a_namespace_comes_and_goes_with_an_event() {
    let mut bench = three();
    let (mut one, _) = ready_as(&mut bench, HOST);
    let (mut other, _) = ready_as(&mut bench, OTHER);
    let cid = request_event(&mut bench, &mut one);
    request_event(&mut bench, &mut other);
    bench.target.set_attached(3, Some(HOST), false).unwrap();
    bench.target.set_attached(3, Some(HOST), false).unwrap();
    bench.work();
    let (cqe, _) = one.completion(&mut bench);
    assert_eq!((cqe.cid, cqe.result), (cid, EVENT));
    assert!(other.next(&mut bench).is_none(), "it has it still");
    assert_eq!(changed(&mut bench, &mut one), [3]);
    assert_eq!(listed(&mut bench, &mut one, 2), [1, 2]);
    let cid = request_event(&mut bench, &mut one);
    bench.target.set_attached(3, None, true).unwrap();
    bench.work();
    assert_eq!(one.completion(&mut bench).0.cid, cid);
    assert_eq!(listed(&mut bench, &mut one, 2), [1, 2, 3]);
    assert!(other.next(&mut bench).is_none());
    assert_eq!(bench.target.set_attached(4, None, true), Err(3));
    assert_eq!(bench.target.set_attached(0, None, true), Err(3));
}

#[test]
fn a_host_attaches_and_detaches_what_is_granted_to_it() {
    let mut bench = three();
    let (mut one, first) = ready_as(&mut bench, HOST);
    let (mut twin, second) = ready_as(&mut bench, HOST);
    let (_, stranger) = ready_as(&mut bench, OTHER);
    let (_, page) = identify(&mut bench, &mut one, 0, 1);
    assert_ne!(page[256] & 1 << 3, 0, "OACS");
    assert_eq!(attach(&mut bench, &mut one, 2, 1, &[first, second]), 0);
    assert_eq!(listed(&mut bench, &mut one, 2), [1, 3]);
    assert_eq!(listed(&mut bench, &mut twin, 2), [1, 3]);
    assert_eq!(controllers(&mut bench, &mut one, 2, 0x12), [stranger]);
    assert_eq!(attach(&mut bench, &mut one, 2, 1, &[first]), 0x11a, "not attached");
    assert_eq!(attach(&mut bench, &mut one, 1, 0, &[first]), 0x118, "attached already");
    // All of a list, or nothing.
    assert_eq!(attach(&mut bench, &mut one, 2, 0, &[first, stranger]), 0x015, "denied");
    assert_eq!(attach(&mut bench, &mut one, 2, 1, &[stranger]), 0x015, "another's stays");
    for ids in [&[][..], &[second, first], &[first, first], &[first, 60]] {
        assert_eq!(attach(&mut bench, &mut one, 2, 0, ids), 0x11c, "{ids:?}");
    }
    assert_eq!(listed(&mut bench, &mut one, 2), [1, 3]);
    assert_eq!(attach(&mut bench, &mut one, 2, 0, &[first]), 0);
    assert_eq!(listed(&mut bench, &mut one, 2), [1, 2, 3]);
    assert_eq!(attach(&mut bench, &mut one, 2, 2, &[first]), 0x002, "select");
    assert_eq!(attach(&mut bench, &mut one, u32::MAX, 0, &[first]), 0x002);
    assert_eq!(attach(&mut bench, &mut one, 4, 0, &[first]), 0x002, "it is not there");
    // A withdrawn namespace cannot be taken back.
    bench.target.set_attached(3, Some(HOST), false).unwrap();
    assert_eq!(attach(&mut bench, &mut one, 3, 0, &[first]), 0x015);
    assert_eq!(listed(&mut bench, &mut one, 2), [1, 2]);
}

/// Namespace Management, create: its status and the NSID.
fn create(bench: &mut Bench, host: &mut Host, blocks: u64, shared: bool) -> (u16, u32) {
    let mut page = vec![0; 4096];
    page[..8].copy_from_slice(&blocks.to_le_bytes());
    page[8..16].copy_from_slice(&blocks.to_le_bytes());
    page[30] = shared.into();
    let mut raw = entry(MANAGEMENT, 0, 0);
    block(&mut raw, page.len(), true);
    let cqe = host.command(bench, raw, &page).0;
    (cqe.status, cqe.result as u32)
}

fn delete(bench: &mut Bench, host: &mut Host, nsid: u32) -> u16 {
    let mut raw = entry(MANAGEMENT, 0, nsid);
    raw[40] = 1;
    host.command(bench, raw, &[]).0.status
}

#[test]
fn a_host_deletes_only_what_no_other_host_has() {
    let mut bench = three();
    let (mut one, first) = ready_as(&mut bench, HOST);
    let (mut other, second) = ready_as(&mut bench, OTHER);
    assert_eq!(delete(&mut bench, &mut one, 2), 0x015, "the other has it");
    assert_eq!(delete(&mut bench, &mut one, u32::MAX), 0x015);
    assert_eq!(listed(&mut bench, &mut one, 0x10), [1, 2, 3], "all, or none");
    assert_eq!(attach(&mut bench, &mut other, 2, 1, &[second]), 0);
    let cid = request_event(&mut bench, &mut one);
    let mut raw = entry(MANAGEMENT, one.next_cid(), 2);
    raw[40] = 1;
    let capsule = one.pdu(4, 0, &raw, &[]);
    bench.target.receive(one.id, &capsule);
    bench.work();
    let mut ends: Vec<(u16, u16)> = Vec::new();
    for _ in 0..2 {
        let cqe = one.completion(&mut bench).0;
        ends.push((cqe.cid, cqe.status));
    }
    assert!(ends.contains(&(cid, 0)) && ends.iter().all(|end| end.1 == 0), "{ends:?}");
    assert_eq!(changed(&mut bench, &mut one), [2]);
    assert_eq!(listed(&mut bench, &mut other, 0x10), [1, 3]);

    // A private one is its host's, on one controller; a shared one is for all.
    assert_eq!(create(&mut bench, &mut one, 512, false), (0, 2));
    assert_eq!(create(&mut bench, &mut one, 512, true), (0, 4));
    assert_eq!(create(&mut bench, &mut one, 1025, true).0, 0x115);
    let shared = |bench: &mut Bench, host: &mut Host, nsid| identify(bench, host, nsid, 0x11).1[30];
    assert_eq!(shared(&mut bench, &mut one, 2), 0);
    assert_eq!(shared(&mut bench, &mut one, 4), 1);
    let (mut twin, third) = ready_as(&mut bench, HOST);
    assert_eq!(listed(&mut bench, &mut twin, 2), [1, 2, 3, 4], "what its host has");
    assert_eq!(attach(&mut bench, &mut one, 2, 0, &[first]), 0x119, "another controller has it");
    assert_eq!(attach(&mut bench, &mut twin, 2, 1, &[third]), 0);
    assert_eq!(attach(&mut bench, &mut one, 2, 0, &[first, third]), 0x119, "two at once");
    assert_eq!(attach(&mut bench, &mut one, 2, 0, &[first]), 0);
    assert_eq!(attach(&mut bench, &mut other, 2, 0, &[second]), 0x015);
    assert_eq!(delete(&mut bench, &mut other, 2), 0x015, "nor can it delete it");
    assert_eq!(attach(&mut bench, &mut other, 4, 0, &[second]), 0);
    let (mut late, _) = ready_as(&mut bench, HOST);
    assert_eq!(listed(&mut bench, &mut late, 2), [1, 3, 4]);
    assert_eq!(delete(&mut bench, &mut one, 2), 0);
    assert_eq!(listed(&mut bench, &mut one, 0x10), [1, 3, 4]);
}

#[test]
fn identifiers_of_controllers_are_not_used_again_soon() {
    let mut bench = Bench::new();
    let nqn = bench.nqn();
    let mut last = 0;
    for round in 0..200u64 {
        let mut host = Host::open(&mut bench, 0);
        let cqe = host.connect(&mut bench, 0, 0xffff, &nqn);
        assert_eq!(cqe.status, 0);
        assert!(
            cqe.result > last && !cqe.result.is_multiple_of(64),
            "{} in round {round}",
            cqe.result
        );
        last = cqe.result;
        // A queue of a controller that is gone is no other one's.
        let id = host.id;
        bench.target.close(id);
        let mut late = Host::open(&mut bench, 0);
        assert_eq!(late.connect(&mut bench, 1, last as u16, &nqn).status, 0x182);
        let id = late.id;
        bench.target.close(id);
    }
}

#[test]
fn controllers_with_late_identifiers_are_as_all_others() {
    let mut bench = Bench::new();
    let nqn = bench.nqn();
    for _ in 0..100 {
        let mut host = Host::open(&mut bench, 0);
        host.connect(&mut bench, 0, 0xffff, &nqn);
        bench.target.close(host.id);
    }
    let (mut one, _io, first) = with_queue(&mut bench, 0);
    let (mut other, _other_io, second) = with_queue(&mut bench, 0);
    assert!(first > 100 && second > first);
    // Both hear of a change, whatever the order of their places.
    let waiting = [&mut one, &mut other].map(|admin| request_event(&mut bench, admin));
    bench.target.set_attached(1, None, false).unwrap();
    bench.work();
    for (admin, cid) in [&mut one, &mut other].into_iter().zip(waiting) {
        assert_eq!(admin.completion(&mut bench).0.cid, cid);
    }
    // The list of controllers ascends.
    let (cqe, list) = one.admin_read(&mut bench, (IDENTIFY, 0), 0x13, 4096);
    let ids: Vec<u16> =
        list[..6].chunks(2).map(|raw| u16::from_le_bytes([raw[0], raw[1]])).collect();
    assert_eq!((cqe.status, ids), (0, vec![2, first, second]));
}
