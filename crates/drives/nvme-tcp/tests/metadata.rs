//! Metadata over a fabric: behind the data, and not apart.

use crate::support::*;
use stasis_nvme::{Config, Metadata, Namespace, Protection};

const FORMAT: u8 = 0x80;
const ACTION: u32 = 1 << 29;
const CHECKS: u32 = 1 << 28 | 1 << 26;

fn bench(extended: bool) -> Bench {
    let metadata = Metadata { extended, protection: Protection::Type1, ..Metadata::new(8) };
    let namespace = Namespace { metadata: Some(metadata), ..Namespace::new(1024, 512) };
    Bench::with(Config { namespaces: vec![namespace], metadata: true, ..config() }, &[])
}

/// A command of two blocks from block 4 on, whose data has so many bytes.
fn io(opcode: u8, bytes: usize, prinfo: u32) -> [u8; 64] {
    let mut raw = Host::io(opcode, 4, 1024, opcode == WRITE);
    block(&mut raw, bytes, opcode == WRITE);
    let dword12 = u32::from_le_bytes(raw[48..52].try_into().unwrap()) | prinfo;
    raw[48..52].copy_from_slice(&dword12.to_le_bytes());
    raw[56] = 4;
    raw
}

#[test]
fn metadata_goes_behind_the_data() {
    let mut bench = bench(true);
    let (mut admin, mut host, _) = with_queue(&mut bench, 3);
    let page = admin.admin_read(&mut bench, (IDENTIFY, 1), 0, 4096).1;
    assert_eq!((page[26], page[27], page[29]), (0x13, 1, 1), "FLBAS, MC and DPS");
    // The drive makes protection information, checks it, and strips it.
    let data: Vec<u8> = (0..1024).map(|at| (at % 251) as u8).collect();
    assert_eq!(host.command(&mut bench, io(WRITE, 1024, ACTION), &data).0.status, 0);
    let (cqe, read) = host.command(&mut bench, io(READ, 1024, ACTION | CHECKS), &[]);
    assert_eq!((cqe.status, &read), (0, &data));
    // The host's own: with both blocks' tags.
    let (cqe, read) = host.command(&mut bench, io(READ, 1040, CHECKS), &[]);
    assert_eq!((cqe.status, read.len()), (0, 1040));
    assert_eq!((&read[..512], &read[520..1032]), (&data[..512], &data[512..]));
    assert_eq!((read[519], read[1039]), (4, 5));
    assert_eq!(host.command(&mut bench, io(WRITE, 1040, CHECKS), &read).0.status, 0);
    let mut wrong = read.clone();
    wrong[600] ^= 1;
    assert_eq!(host.command(&mut bench, io(WRITE, 1040, CHECKS), &wrong).0.status, 0x282);
    // Less than the blocks and their metadata.
    assert_ne!(host.command(&mut bench, io(WRITE, 1024, 0), &data).0.status, 0);
    bench.disk[5 * 1024 + 3] ^= 1;
    let (cqe, read) = host.command(&mut bench, io(READ, 1040, CHECKS), &[]);
    assert_eq!((cqe.status, read.len()), (0x282, 0));
}

#[test]
fn metadata_apart_is_refused_by_name() {
    let mut bench = bench(false);
    let (mut admin, mut host, _) = with_queue(&mut bench, 0);
    let data = [0; 1024];
    assert_eq!(host.command(&mut bench, io(WRITE, 1024, ACTION), &data).0.status, 0x00b);
    let mut format = |dword10: u32| {
        let mut raw = entry(FORMAT, 0, 1);
        raw[40..44].copy_from_slice(&dword10.to_le_bytes());
        admin.command(&mut bench, raw, &[]).0.status
    };
    assert_eq!(format(3 | 1 << 5), 0x10a, "apart");
    assert_eq!(format(3 | 1 << 5 | 1 << 4), 0);
    assert_eq!(host.command(&mut bench, io(WRITE, 1024, ACTION), &data).0.status, 0);
}
