//! Asymmetric Namespace Access: two paths of one host to one namespace.

use crate::support::*;
use stasis_nvme::AnaState;

const LOG: u32 = 0x0c;
/// Asymmetric Namespace Access Change: a notice, its number, and its log (NVMe 1.4 figure 147).
const EVENT: u64 = 0x0c_03_02;

/// The log by a Get Log Page of 64 bytes.
fn log(bench: &mut Bench, admin: &mut Host, specific: u32) -> Vec<u8> {
    let (cqe, log) = admin.admin_read(bench, (2, 0), LOG | specific << 8 | 15 << 16, 64);
    assert_eq!(cqe.status, 0);
    log
}

/// Asks for events of changed access: whether they are offered, and the request's identifier.
fn request_event(bench: &mut Bench, admin: &mut Host) -> u16 {
    const ANA_NOTICES: u32 = 1 << 11;
    let (_, page) = admin.admin_read(bench, (IDENTIFY, 0), 1, 4096);
    assert_ne!(page[93] >> 3 & 1, 0, "OAES");
    let mut set = entry(0x09, 0, 0);
    set[40] = 0x0b;
    set[44..48].copy_from_slice(&ANA_NOTICES.to_le_bytes());
    assert_eq!(admin.command(bench, set, &[]).0.status, 0);
    let cid = admin.next_cid();
    let capsule = admin.pdu(4, 0, &entry(0x0c, cid, 0), &[]);
    bench.target.receive(admin.id, &capsule);
    cid
}

#[test]
fn a_path_that_does_not_reach_the_namespace_refuses_its_commands() {
    let mut bench = Bench::new();
    let (mut admin, mut io, _) = with_queue(&mut bench, 0);
    bench.path = 2;
    let (mut other_admin, mut other, _) = with_queue(&mut bench, 0);
    let (_, page) = admin.admin_read(&mut bench, (IDENTIFY, 0), 1, 4096);
    assert_eq!(page[76], 0b1010, "CMIC: several controllers, ANA");
    assert_eq!((page[343], page[344], page[348]), (0x5f, 1, 1), "ANACAP, one group");
    assert_eq!(page[540], 128, "MNAN, without which Linux refuses ANA");
    let (_, page) = admin.admin_read(&mut bench, (IDENTIFY, 1), 0, 4096);
    assert_eq!(page[92], 1, "ANAGRPID");
    let ana_log = log(&mut bench, &mut admin, 0);
    assert_eq!(
        (ana_log[0], ana_log[8], ana_log[16], ana_log[20], ana_log[32], ana_log[48]),
        (0, 1, 1, 1, 1, 1)
    );

    let refused = [
        (AnaState::Inaccessible, 0x302),
        (AnaState::PersistentLoss, 0x301),
        (AnaState::Change, 0x303),
    ];
    for (changes, (state, status)) in (1..).zip(refused) {
        bench.target.set_ana(2, state);
        assert_eq!(other.write(&mut bench, 0, &[1; 512]).status, status, "{state:?}");
        assert_eq!(other.read(&mut bench, 0, 512).0.status, status);
        assert_eq!(other_admin.command(&mut bench, entry(0x80, 0, 1), &[]).0.status, status);
        assert_eq!(io.write(&mut bench, 0, &[2; 512]).status, 0, "the other path");
        let ana_log = log(&mut bench, &mut other_admin, 0);
        assert_eq!((ana_log[0], ana_log[24], ana_log[32]), (changes, changes, state as u8));
    }
    let ana_log = log(&mut bench, &mut other_admin, 1);
    assert_eq!((ana_log[20], ana_log[48]), (0, 0), "groups only");
    assert_eq!(log(&mut bench, &mut admin, 0)[0], 0, "nothing has changed on the other path");
    bench.target.set_ana(2, AnaState::NonOptimized);
    assert_eq!(other.write(&mut bench, 0, &[3; 512]).status, 0);
    assert_eq!(io.read(&mut bench, 0, 512).1, [3; 512]);
}

#[test]
fn hosts_on_the_path_have_an_event() {
    let mut bench = Bench::new();
    let (mut admin, _) = ready(&mut bench, 0);
    bench.path = 2;
    let (mut other, _) = ready(&mut bench, 0);
    let cid = request_event(&mut bench, &mut other);
    request_event(&mut bench, &mut admin);
    bench.work();
    bench.target.set_ana(2, AnaState::Inaccessible);
    bench.work();
    let (cqe, _) = other.completion(&mut bench);
    assert_eq!((cqe.cid, cqe.result), (cid, EVENT));
    // Not again before its log is read, and not if it is as it was.
    let again = request_event(&mut bench, &mut other);
    bench.target.set_ana(2, AnaState::Optimized);
    bench.target.set_ana(2, AnaState::Optimized);
    bench.work();
    assert!(other.next(&mut bench).is_none());
    bench.target.set_ana(2, AnaState::Change);
    log(&mut bench, &mut other, 0);
    bench.target.set_ana(2, AnaState::Optimized);
    bench.work();
    assert_eq!(other.completion(&mut bench).0.cid, again);
    assert!(admin.next(&mut bench).is_none(), "the path of the other host has not changed");
}
