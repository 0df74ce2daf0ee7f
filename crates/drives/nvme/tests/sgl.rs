//! Data by scatter gather lists: all shapes of them, and all ways to be wrong.

use crate::support::*;
use proptest::prelude::*;
use stasis_nvme::Config;

const WRITE: u8 = 1;
const READ: u8 = 2;
/// PSDT: the data pointer is an SGL.
const SGL: u8 = 0x40;
/// Address at which lists begin.
const LISTS: u64 = 0x80_0000;

const DATA_BLOCK: u8 = 0x00;
const BIT_BUCKET: u8 = 0x10;
const SEGMENT: u8 = 0x20;
const LAST: u8 = 0x30;

type Descriptor = (u64, u32, u8);

fn bytes((address, length, identifier): Descriptor) -> [u8; 16] {
    let mut raw = [0; 16];
    raw[..8].copy_from_slice(&address.to_le_bytes());
    raw[8..12].copy_from_slice(&length.to_le_bytes());
    raw[15] = identifier;
    raw
}

/// A transfer of `blocks` blocks whose data pointer is `first`.
fn io(opcode: u8, blocks: u32, first: Descriptor) -> Sqe {
    let raw = bytes(first);
    let qword = |at: usize| u64::from_le_bytes(raw[at..at + 8].try_into().unwrap());
    Sqe { flags: SGL, ..Sqe::io(opcode, 0, blocks, qword(0), qword(8)) }
}

fn put_list(ram: &Ram, at: u64, list: &[Descriptor]) {
    for (index, &descriptor) in list.iter().enumerate() {
        ram.set(at + 16 * index as u64, &bytes(descriptor));
    }
}

/// Puts the descriptors into segments of the given sizes, each but the last
/// with a descriptor more for the next; the descriptor of the first.
fn chain(ram: &Ram, list: &[Descriptor], sizes: &[usize]) -> Descriptor {
    if let [only] = list {
        return *only;
    }
    let mut parts = Vec::new();
    let (mut rest, mut sizes) = (list, sizes.iter());
    while !rest.is_empty() {
        let (part, after) = rest.split_at(sizes.next().copied().unwrap_or(300).min(rest.len()));
        parts.push(part.to_vec());
        rest = after;
    }
    let mut next: Option<Descriptor> = None;
    for (index, mut part) in parts.into_iter().enumerate().rev() {
        let kind = if next.is_none() { LAST } else { SEGMENT };
        part.extend(next);
        let at = LISTS + index as u64 * 0x4008;
        put_list(ram, at, &part);
        next = Some((at, part.len() as u32 * 16, kind));
    }
    next.unwrap()
}

fn pieces() -> impl Strategy<Value = Vec<(u64, u32, bool)>> {
    prop::collection::vec((0..0x8_0000u64, 0..3000u32, prop::bool::weighted(0.2)), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn data_goes_through_all_shapes_of_sgls(
        mut pieces in pieces(),
        sizes in prop::collection::vec(1..300usize, 0..8),
        write in any::<bool>(),
    ) {
        let mut driver = Driver::with_queues(Config { max_transfer: 1 << 20, ..config() }, 1, 8);
        // A write's buckets take nothing: the rest of the list is all of it.
        let counts = |bucket: bool| !(write && bucket);
        let total: u32 = pieces.iter().filter(|p| counts(p.2)).map(|p| p.1).sum();
        let blocks = total / 512 + 1;
        pieces.push((0x9_0000, blocks * 512 - total, false));
        // Each piece in separate memory, at any address.
        let list: Vec<Descriptor> = pieces
            .iter()
            .enumerate()
            .map(|(index, &(at, length, bucket))| match bucket {
                true => (u64::MAX, length, BIT_BUCKET),
                false => (DATA + index as u64 * 0x4000 + at % 0x3000, length, DATA_BLOCK),
            })
            .collect();
        let first = chain(&driver.ram, &list, &sizes);
        let bytes = blocks as usize * 512;
        let pattern: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8 + 1).collect();
        let mut at = 0;
        if !write {
            driver.disk[..bytes].copy_from_slice(&pattern);
        } else {
            for &(address, length, kind) in &list {
                if kind == DATA_BLOCK {
                    driver.ram.set(address, &pattern[at..at + length as usize]);
                    at += length as usize;
                }
            }
        }
        let cqe = driver.io(io(if write { WRITE } else { READ }, blocks, first));
        prop_assert_eq!(cqe.status, 0);
        if write {
            prop_assert_eq!(&driver.disk[..bytes], &pattern[..]);
            return Ok(());
        }
        for &(address, length, kind) in &list {
            let length = length as usize;
            if kind == DATA_BLOCK {
                prop_assert_eq!(&driver.ram.get(address, length)[..], &pattern[at..at + length]);
                prop_assert_eq!(driver.ram.get(address + length as u64, 1)[0], 0, "no further");
            }
            at += length;
        }
    }
}

#[test]
fn wrong_sgls_are_told() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    let id = driver.identify(1, 0).1;
    assert_eq!(id[536..540], 0x5_0001u32.to_le_bytes(), "SGLS");
    let ram = RAM as u64;
    let block = |address, length| (address, length, DATA_BLOCK);
    let half = block(DATA, 256);
    let good = [half, block(DATA + 512, 256)];
    let list = LISTS;
    let other = LISTS + 0x1000;
    // The descriptors at `list` and at `other`, that of the command, and the status of a transfer
    // of one block.
    type Case<'a> = (&'a [Descriptor], &'a [Descriptor], Descriptor, u16);
    let cases: &[Case] = &[
        (&[], &[], block(DATA, 512), 0),
        (&[], &[], block(DATA + 3, 512), 0),
        (&good, &[], (list, 32, LAST), 0),
        (&[half, (other, 16, LAST)], &good[1..], (list, 32, SEGMENT), 0),
        (&[half, block(1, 0), half], &[], (list, 48, LAST), 0),
        // Longer than the data: what lies beyond is left alone.
        (&[], &[], block(DATA, 513), 0),
        (&[half, half, half], &[], (list, 48, LAST), 0),
        (&[half, half, block(u64::MAX, 8)], &[], (list, 48, LAST), 0),
        (&[], &[], block(DATA, u32::MAX), 0),
        // Shorter.
        (&[], &[], block(DATA, 511), 0x00f),
        (&[], &[], block(DATA, 0), 0x00f),
        (&good, &[], (list, 16, LAST), 0x00f),
        // Types: keyed, transport, vendor, reserved, and a subtype.
        (&[], &[], (DATA, 512, 0x40), 0x011),
        (&[], &[], (DATA, 512, 0x50), 0x011),
        (&[], &[], (DATA, 512, 0xf0), 0x011),
        (&[], &[], (DATA, 512, 0x60), 0x011),
        (&[], &[], (DATA, 512, 0x01), 0x011),
        (&[half, (DATA, 256, 0x40)], &[], (list, 32, LAST), 0x011),
        // Segments.
        (&good, &[], (list, 0, LAST), 0x00d),
        (&good, &[], (list, 0, SEGMENT), 0x00d),
        (&good, &[], (list, 31, LAST), 0x00d),
        (&good, &[], (list, 33, SEGMENT), 0x00d),
        (&good, &[], (list, 32, SEGMENT), 0x00d),
        (&[half, (other, 16, LAST)], &good, (list, 32, LAST), 0x00d),
        (&[half, (other, 16, SEGMENT)], &good, (list, 32, LAST), 0x00d),
        (&[(other, 16, LAST), half], &good, (list, 32, SEGMENT), 0x00e),
        (&[(other, 16, SEGMENT), (other, 16, LAST)], &good, (list, 32, SEGMENT), 0x00e),
        (&[(list, 16, SEGMENT)], &[], (list, 16, SEGMENT), 0x00e),
        (&good, &[], (list, 0xffff_fff0, LAST), 0x00e),
        // Memory.
        (&[], &[], block(ram, 512), 0x004),
        (&[], &[], block(ram - 511, 512), 0x004),
        (&[], &[], block(u64::MAX, 512), 0x004),
        (&[], &[], block(u64::MAX - 100, 512), 0x004),
        (&[], &[], (ram, 16, LAST), 0x004),
        (&[], &[], (u64::MAX - 7, 32, LAST), 0x004),
        (&[half, (u64::MAX, 16, LAST)], &[], (list, 32, SEGMENT), 0x004),
    ];
    for &(first, second, pointer, status) in cases {
        put_list(&driver.ram, list, first);
        put_list(&driver.ram, other, second);
        for opcode in [WRITE, READ] {
            driver.asked.clear();
            let cqe = driver.io(io(opcode, 1, pointer));
            assert_eq!(cqe.status, status, "{opcode} {first:x?} {second:x?} {pointer:x?}");
            if opcode == WRITE {
                assert_eq!(driver.asked.is_empty(), status != 0);
            }
        }
    }
    // A bit bucket alone: all of a read is thrown away, and a write has nothing.
    let bucket = (0, 512, BIT_BUCKET);
    assert_eq!(driver.io(io(READ, 1, bucket)).status, 0);
    assert_eq!(driver.io(io(WRITE, 1, bucket)).status, 0x00f);
    // By PSDT 2 the metadata has an SGL as well; 3 is none.
    let sqe = io(READ, 1, block(DATA, 512));
    assert_eq!(driver.io(Sqe { flags: 0x80, ..sqe }).status, 0);
    assert_eq!(driver.io(Sqe { flags: 0xc0, ..sqe }).status, 0x002);
    // Admin commands take PRPs only.
    let identify = Sqe { opcode: 6, cdw10: 1, ..sqe };
    assert_eq!(driver.admin(identify).status, 0x002);
    assert_eq!(driver.controller.in_flight(), 0);
}

#[test]
fn ranges_come_by_sgl_too() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    driver.ram.set32(DATA + 4, 8);
    driver.ram.set64(DATA + 8, 16);
    // Linux gives room for all the ranges that there can be.
    let sqe = io(9, 1, (DATA, 4096, DATA_BLOCK));
    let discard = Sqe { cdw10: 0, cdw11: 4, cdw12: 0, ..sqe };
    assert_eq!(driver.io(discard).status, 0);
    assert_eq!((driver.asked[0].offset, driver.asked[0].length), (16 * 512, 8 * 512));
}
