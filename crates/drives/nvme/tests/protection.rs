//! Metadata and protection information, as a driver sees them.

use crate::support::*;
use stasis_block::Operation;
use stasis_nvme::{Config, Guard, Metadata, Namespace, Protection};

const WRITE: u8 = 1;
const READ: u8 = 2;
const COMPARE: u8 = 5;
const WRITE_ZEROES: u8 = 8;
const VERIFY: u8 = 0x0c;
const COPY: u8 = 0x19;
/// Address of metadata that is apart.
const APART: u64 = DATA + 0x10_0000;
/// PRINFO in Dword 12.
const ACTION: u32 = 1 << 29;
const GUARD: u32 = 1 << 28;
const APPLICATION: u32 = 1 << 27;
const REFERENCE: u32 = 1 << 26;
/// Blocks of 512 bytes with 8 of metadata, and so on.
const WITH_8: u32 = 3;
const OF_4096_WITH_8: u32 = 5;
const WITH_GUARD_64: u32 = 7;

fn offering() -> Config {
    Config { metadata: true, ..config() }
}

/// A driver that has formatted its namespace.
fn formatted(format: u32) -> Driver {
    let mut driver = Driver::with_queues(offering(), 1, 8);
    assert_eq!(format_nvm(&mut driver, format), 0);
    driver
}

fn format_nvm(driver: &mut Driver, format: u32) -> u16 {
    driver.submit(0, Sqe { opcode: 0x80, nsid: 1, cdw10: format, ..Default::default() });
    driver.serve();
    driver.reap(0)[0].status
}

/// The LBA format, type of protection information, and metadata behind the data.
fn choice(number: u32, protection: u32, extended: bool) -> u32 {
    number | protection << 5 | u32::from(extended) << 4
}

/// A command of blocks with its checks, and the reference tag of its first block.
fn io(opcode: u8, lba: u64, blocks: u32, prinfo: u32) -> Sqe {
    let base = Sqe::io(opcode, lba, blocks, DATA, DATA + PAGE);
    let cdw12 = base.cdw12 | prinfo;
    Sqe { cdw12, cdw14: lba as u32, cdw3: (lba >> 32) as u32, mptr: APART, ..base }
}

fn set_host_behaviour(driver: &mut Driver, data: [u8; 4]) -> u16 {
    driver.ram.set(SCRATCH, &[0; 512]);
    driver.ram.set(SCRATCH, &data);
    let sqe = Sqe { opcode: 9, cdw10: 0x16, prp1: SCRATCH, ..Default::default() };
    driver.admin(sqe).status
}

#[test]
fn formats_are_told() {
    let mut driver = Driver::new(offering());
    let (_, id) = driver.identify(0, 1);
    let formats: Vec<_> = id[128..192]
        .chunks_exact(4)
        .map(|raw| (1u32 << raw[2], u16::from_le_bytes([raw[0], raw[1]])))
        .collect();
    assert_eq!(id[25], 15);
    assert_eq!(formats[..6], [(512, 0), (4096, 0), (16384, 0), (512, 8), (512, 64), (4096, 8)]);
    assert_eq!(formats[11..], [(16384, 8), (16384, 16), (16384, 16), (16384, 64), (16384, 64)]);
    assert_eq!((id[26], id[27], id[28], id[29]), (0, 3, 0x1f, 0), "FLBAS, MC, DPC, DPS");
    let (_, id) = driver.identify(1, 0);
    assert_eq!(id[97] & 0x80, 0x80, "CTRATT: extended formats");
    assert_eq!(u32::from_le_bytes(id[536..540].try_into().unwrap()) >> 16, 0b1111, "SGLS");
    // The NVM command set's own structures.
    let (status, id) = driver.identify(5, 1);
    assert_eq!((status, &id[..12]), (0, &[0; 12][..]));
    let guards: Vec<_> =
        id[12..76].chunks_exact(4).map(|raw| (raw[0] & 0x7f, raw[0] >> 7 | raw[1] << 1)).collect();
    assert_eq!(guards[..8], [(0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (16, 1), (0, 2)]);
    let (status, id) = driver.identify(6, 0);
    assert_eq!((status, id[0], id[1]), (0, 7, 7), "512 KiB");

    let mut plain = Driver::new(config());
    let (_, id) = plain.identify(0, 1);
    assert_eq!((id[25], id[27], id[28]), (2, 0, 0));
    assert_eq!(plain.identify(5, 1).0, 0x002);
    assert_eq!(format_nvm(&mut plain, WITH_8), 0x10a);
}

#[test]
fn a_namespace_is_formatted_and_keeps_it() {
    let mut driver = formatted(choice(OF_4096_WITH_8, 2, true) | 1 << 8);
    let (_, id) = driver.identify(0, 1);
    assert_eq!((id[26], id[29]), (0x15, 0x0a));
    let blocks = u64::from_le_bytes(id[..8].try_into().unwrap());
    assert_eq!(blocks, BLOCKS * 512 / 4608, "a sector for each block's metadata");
    let state = driver.controller.kept_state();
    let metadata =
        Metadata { extended: true, protection: Protection::Type2, first: true, ..Metadata::new(8) };
    assert_eq!(state.namespaces[0].metadata, Some(metadata));
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<stasis_nvme::KeptState>(&text).unwrap(), state);
    let again = Controller::with_state(offering(), &state).unwrap();
    assert_eq!(again.kept_state(), state);
    let layout = again.layout();
    assert_eq!(layout.largest(), 4096);
    assert!(!layout.is_plain());
    // A drive without such formats cannot go on with it.
    assert!(Controller::with_state(config(), &state).is_err());
    // Made so from the beginning.
    let made = Namespace { metadata: Some(metadata), ..Namespace::new(100, 4096) };
    let config = Config { namespaces: vec![made], ..offering() };
    let mut made = Driver::with_queues(config.clone(), 1, 8);
    let (_, id) = made.identify(0, 1);
    assert_eq!((id[0], id[26], id[29]), (100, 0x15, 0x0a));
    assert!(made.controller.kept_state().is_as_made());
    let message = Controller::with_state(config, &state).unwrap_err().to_string();
    assert!(message.contains("8 bytes of metadata behind their data"), "{message}");
}

#[test]
fn what_cannot_be_formatted_is_refused() {
    let mut driver = Driver::with_queues(offering(), 1, 8);
    for (wrong, why) in [
        (choice(0, 1, false), "protection information without metadata"),
        (choice(WITH_8, 4, false), "type 4"),
        (choice(WITH_GUARD_64, 0, false), "the host has not said that it knows it"),
        (WITH_8 | 1 << 12, "format 19"),
    ] {
        assert_eq!(format_nvm_refused(&mut driver, wrong), 0x10a, "{why}");
    }
    // A block and its metadata are one transfer at most.
    let mut small = Driver::new(Config { max_transfer: 16384, ..offering() });
    assert_eq!(format_nvm_refused(&mut small, choice(11, 0, true)), 0x10a);
    assert_eq!(format_nvm(&mut small, choice(11, 0, false)), 0);
    let mut small = Driver::new(Config { max_transfer: 8192, ..offering() });
    assert_eq!(format_nvm_refused(&mut small, 2), 0x10a);
    let wrong = |metadata, size| {
        let namespace = Namespace { metadata: Some(metadata), ..Namespace::new(64, size) };
        Controller::new(Config { namespaces: vec![namespace], ..offering() })
    };
    assert!(wrong(Metadata::new(8), 512).is_ok());
    assert!(wrong(Metadata::new(12), 512).is_err());
    assert!(wrong(Metadata::new(0), 512).is_err());
    assert!(wrong(Metadata::new(1 << 32 | 8), 512).is_err());
    assert!(wrong(Metadata { guard: Guard::Crc64, ..Metadata::new(16) }, 512).is_err());
}

fn format_nvm_refused(driver: &mut Driver, format: u32) -> u16 {
    let sqe = Sqe { opcode: 0x80, nsid: 1, cdw10: format, ..Default::default() };
    driver.admin(sqe).status
}

#[test]
fn metadata_goes_with_its_block() {
    // Apart, by a pointer and by an SGL, and behind the data.
    for extended in [false, true] {
        let mut driver = formatted(choice(WITH_8, 0, extended));
        let step = if extended { 520 } else { 512 };
        for block in 0..3u64 {
            driver.ram.set(DATA + block * step, &[block as u8 + 1; 512]);
            let at = if extended { DATA + block * step + 512 } else { APART + block * 8 };
            driver.ram.set(at, &[0xa0 + block as u8; 8]);
        }
        assert_eq!(driver.io(io(WRITE, 5, 3, 0)).status, 0);
        assert_eq!(
            driver.asked.last().map(|asked| (asked.offset, asked.length)),
            Some((5120, 3072))
        );
        for address in [DATA, APART] {
            driver.ram.set(address, &[0xee; 2048]);
        }
        assert_eq!(driver.io(io(READ, 6, 2, 0)).status, 0);
        let blocks = driver.ram.get(DATA, 2 * step as usize);
        assert_eq!((blocks[0], blocks[511], blocks[step as usize]), (2, 2, 3));
        let metadata = if extended { blocks[512..520].to_vec() } else { driver.ram.get(APART, 8) };
        assert_eq!(metadata, [0xa1; 8]);
        let behind = driver.ram.get(if extended { DATA + 2 * step } else { APART + 16 }, 8);
        assert_eq!(behind, [0xee; 8], "nothing behind the last block");
        // Blocks that were never written, and deallocated ones.
        assert_eq!(driver.io(io(READ, 20, 1, 0)).status, 0);
        let metadata =
            if extended { driver.ram.get(DATA + 512, 8) } else { driver.ram.get(APART, 8) };
        assert_eq!(metadata, [0; 8]);
    }
    let mut driver = formatted(choice(WITH_8, 0, false));
    let mut descriptor = [0; 16];
    descriptor[..8].copy_from_slice(&(APART + 0x1001).to_le_bytes());
    descriptor[8] = 16;
    driver.ram.set(APART, &descriptor);
    driver.ram.set(APART + 0x1001, &[7; 16]);
    // Data by SGL: one block of 1024 bytes.
    let data = |sqe: Sqe, flags| Sqe { prp2: 1024, flags, ..sqe };
    assert_eq!(driver.io(data(io(WRITE, 0, 2, 0), 0x80)).status, 0);
    assert_eq!(driver.io(data(io(READ, 0, 2, 0), 0x40)).status, 0);
    assert_eq!(driver.ram.get(APART, 16), [7; 16]);
    // Pointers that point nowhere, or not to a dword.
    for (mptr, flags, status) in [
        (1 << 40, 0, 0x004),
        (APART + 2, 0, 0x002),
        (APART + 4, 0x80, 0x002),
        (u64::MAX, 0x40, 0x004),
    ] {
        let sqe = Sqe { mptr, ..data(io(WRITE, 0, 2, 0), flags) };
        let sqe = if flags == 0 { Sqe { prp2: 0, ..sqe } } else { sqe };
        let asked = driver.asked.len();
        assert_eq!(driver.io(sqe).status, status, "{mptr:x}");
        assert_eq!(driver.asked.len(), asked, "nothing is written");
    }
}

#[test]
fn a_wrong_bit_is_found() {
    let mut driver = formatted(choice(OF_4096_WITH_8, 1, false));
    driver.ram.set(DATA, &[5; 8192]);
    // The controller makes the information, and the host gets it.
    assert_eq!(driver.io(io(WRITE, 8, 2, ACTION)).status, 0);
    assert_eq!(driver.io(io(READ, 8, 2, GUARD | REFERENCE)).status, 0);
    let metadata = driver.ram.get(APART, 16);
    assert_eq!(metadata[4..8], [0, 0, 0, 8], "reference tags: the blocks' addresses");
    assert_eq!(metadata[12..16], [0, 0, 0, 9]);
    driver.ram.set(APART, &[0xee; 16]);
    assert_eq!(driver.io(io(READ, 8, 2, ACTION | GUARD | REFERENCE)).status, 0);
    assert_eq!(driver.ram.get(APART, 16), [0xee; 16], "it stays in the drive");
    driver.disk[9 * 4608 + 100] ^= 4;
    driver.ram.set(DATA, &[0xee; 8192]);
    let end = driver.io(io(READ, 8, 2, GUARD | REFERENCE));
    assert_eq!((end.status, end.dnr), (0x282, false));
    assert_eq!(driver.ram.get(DATA, 8192), [0xee; 8192], "no data of a read that fails");
    let errors = driver.log(1, 64);
    assert_eq!(errors[16], 9, "the block");
    assert_eq!(driver.log(2, 512)[160], 1, "an error of data integrity");
    assert_eq!(driver.io(io(VERIFY, 8, 2, GUARD)).status, 0x282);
    assert_eq!(driver.asked.last().unwrap().operation, Operation::Verify);
    assert_eq!(driver.io(io(VERIFY, 8, 2, 0)).status, 0, "nothing is checked");
    assert_eq!(driver.io(io(READ, 9, 1, 0)).status, 0, "the host can have it");
    // Anywhere in the metadata's sector.
    driver.disk[9 * 4608 + 100] ^= 4;
    driver.disk[8 * 4608 + 4096 + 500] ^= 1;
    assert_eq!(driver.io(io(READ, 8, 1, GUARD | REFERENCE)).status, 0x284);
}

#[test]
fn a_host_is_checked_before_anything_is_written() {
    let mut driver = formatted(choice(WITH_8, 1, false));
    let tags = |sqe: Sqe, tag: u16, mask: u16| Sqe {
        cdw15: u32::from(mask) << 16 | u32::from(tag),
        ..sqe
    };
    // CRC-16 of zeroes is zero.
    let metadata = [[0, 0, 0x12, 0x34, 0, 0, 0, 3], [0, 0, 0x12, 0x34, 0, 0, 0, 4]];
    driver.ram.set(APART, metadata.as_flattened());
    let all = GUARD | APPLICATION | REFERENCE;
    let write = tags(io(WRITE, 3, 2, all), 0x1234, 0xffff);
    assert_eq!(driver.io(write).status, 0);
    let asked = driver.asked.len();
    assert_eq!(driver.io(tags(write, 0x1235, 0xffff)).status, 0x283);
    assert_eq!(driver.io(Sqe { cdw14: 4, ..write }).status, 0x181, "another block's tag");
    driver.ram.set(DATA + 600, &[1]);
    assert_eq!(driver.io(write).status, 0x282);
    driver.ram.set(DATA + 600, &[0]);
    driver.ram.set(APART + 15, &[5]);
    assert_eq!(driver.io(write).status, 0x284);
    assert_eq!(driver.log(1, 64)[16], 4, "the second block");
    assert_eq!(driver.asked.len(), asked);
    assert_eq!(driver.io(tags(io(READ, 3, 2, all), 0x1235, 0xfffe)).status, 0, "masked");
    assert_eq!(driver.io(tags(io(READ, 3, 2, all), 0x1235, 1)).status, 0x283);
}

#[test]
fn every_command_has_its_way_with_protection_information() {
    let mut driver = formatted(choice(WITH_8, 1, false));
    driver.ram.set(DATA, &[9; 1024]);
    assert_eq!(driver.io(io(WRITE, 0, 2, ACTION)).status, 0);
    assert_eq!(driver.io(io(READ, 0, 2, GUARD | REFERENCE)).status, 0);
    // Compare: the same, whatever the application tag says; and not the same.
    driver.ram.set(APART + 2, &[7]);
    assert_eq!(driver.io(io(COMPARE, 0, 2, GUARD | REFERENCE)).status, 0);
    driver.ram.set(DATA + 700, &[8]);
    assert_eq!(driver.io(io(COMPARE, 0, 2, 0)).status, 0x085 | 0x200);
    assert_eq!(driver.io(io(COMPARE, 0, 2, GUARD)).status, 0x282, "the host's own");
    assert_eq!(driver.io(io(COMPARE, 0, 2, ACTION)).status, 0x181);
    assert_eq!(driver.io(io(VERIFY, 0, 2, ACTION)).status, 0x181);
    // Write Zeroes: with protection information, without, and deallocated.
    assert_eq!(driver.io(io(WRITE_ZEROES, 0, 2, GUARD)).status, 0x181);
    assert_eq!(driver.io(io(WRITE_ZEROES, 0, 2, ACTION)).status, 0);
    assert_eq!(driver.asked.last().unwrap().operation, Operation::Write);
    assert_eq!(driver.io(io(READ, 0, 2, GUARD | REFERENCE)).status, 0);
    assert_eq!(driver.ram.get(APART, 16), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(driver.io(io(WRITE_ZEROES, 0, 2, ACTION | 1 << 25)).status, 0);
    assert_eq!(driver.asked.last().unwrap().operation, Operation::WriteZeroes);
    assert_eq!(driver.io(io(READ, 0, 2, GUARD | REFERENCE)).status, 0);
    assert_eq!(driver.ram.get(APART, 16), [0xff; 16], "no check");
    // As much as of a transfer, where data is made or moved.
    assert_eq!(driver.io(io(WRITE_ZEROES, 0, 1025, ACTION)).status, 0x002);
    assert_eq!(driver.io(io(VERIFY, 0, 1025, GUARD)).status, 0x002);
    assert_eq!(driver.io(io(WRITE_ZEROES, 0, 1025, 0)).status, 0);
    assert_eq!(driver.io(io(VERIFY, 0, 1025, 0)).status, 0);
    // Copy: blocks go as they are.
    assert_eq!(driver.io(io(WRITE, 0, 1, ACTION)).status, 0);
    let copy = Sqe { cdw12: 0, cdw10: 50, ..io(COPY, 0, 1, 0) };
    driver.ram.set(DATA, &[0; 32]);
    assert_eq!(driver.io(copy).status, 0);
    assert_eq!(driver.io(io(READ, 50, 1, GUARD)).status, 0);
    assert_eq!(driver.io(io(READ, 50, 1, REFERENCE)).status, 0x284, "that of the source");
    for checks in [1 << 12, 1 << 29] {
        assert_eq!(driver.io(Sqe { cdw12: checks, ..copy }).status, 0x181);
    }
    // Marks of Write Uncorrectable, and discards.
    assert_eq!(driver.io(io(4, 3, 1, 0)).status, 0);
    assert_eq!(driver.io(io(READ, 2, 3, 0)).status, 0x281);
    assert_eq!(driver.log(1, 64)[16], 3);
    assert_eq!(driver.io(io(WRITE, 3, 1, ACTION)).status, 0);
    assert_eq!(driver.io(io(READ, 2, 3, 0)).status, 0);
    let mut range = [0; 16];
    (range[4], range[8]) = (2, 6);
    driver.ram.set(DATA, &range);
    assert_eq!(driver.io(Sqe { cdw10: 0, cdw11: 4, cdw12: 0, ..io(9, 0, 1, 0) }).status, 0);
    let asked = driver.asked.last().unwrap();
    assert_eq!((asked.operation, asked.offset, asked.length), (Operation::Discard, 6144, 2048));
}

#[test]
fn guards_of_64_bits_are_of_hosts_that_know_them() {
    let mut driver = Driver::with_queues(offering(), 1, 8);
    assert_eq!(set_host_behaviour(&mut driver, [0, 0, 2, 0]), 0x002);
    assert_eq!(set_host_behaviour(&mut driver, [0, 0, 1, 0]), 0);
    assert_eq!(format_nvm(&mut driver, choice(WITH_GUARD_64, 1, false)), 0);
    let (_, id) = driver.identify(0, 1);
    assert_eq!((id[26], id[29]), (7, 1));
    let read = io(READ, 1, 2, GUARD | REFERENCE);
    assert_eq!(driver.io(io(WRITE, 1, 2, ACTION)).status, 0);
    assert_eq!(driver.io(read).status, 0);
    let guard = 0x6482_d367_eb22_b64e_u64.to_be_bytes();
    let metadata = driver.ram.get(APART, 32);
    assert_eq!((&metadata[..8], &metadata[8..16]), (&guard[..], &[0, 0, 0, 0, 0, 0, 0, 1][..]));
    assert_eq!(metadata[24..], [0, 0, 0, 0, 0, 0, 0, 2]);
    assert_eq!(driver.io(Sqe { cdw3: 1, ..read }).status, 0x181, "48 bits");
    assert_eq!(set_host_behaviour(&mut driver, [0; 4]), 0);
    assert_eq!(driver.io(read).status, 0x00b);
    // A drive without such formats knows nothing of it.
    assert_eq!(set_host_behaviour(&mut Driver::new(config()), [0, 0, 1, 0]), 0x002);
}

#[test]
fn compare_and_write_are_of_one_block_with_its_metadata() {
    let metadata = Some(Metadata { protection: Protection::Type1, ..Metadata::new(8) });
    let namespaces = vec![Namespace { metadata, ..Namespace::new(64, 512) }];
    let mut driver =
        Driver::with_queues(Config { namespaces, atomic_unit: 4096, ..offering() }, 1, 8);
    let (_, id) = driver.identify(0, 1);
    assert_eq!(
        (id[36], id[40], id[42]),
        (7, 7, 0),
        "NAWUPF and boundaries: 8 blocks from the first on"
    );
    driver.ram.set(DATA, &[3; 512]);
    assert_eq!(driver.io(io(WRITE, 2, 1, ACTION)).status, 0);
    let fused = |driver: &mut Driver| {
        driver.put(1, Sqe { flags: 1, ..io(COMPARE, 2, 1, 0) });
        driver.submit(1, Sqe { flags: 2, ..io(WRITE, 2, 1, ACTION) });
        (0..2).for_each(|_| driver.serve());
        driver.reap(1).iter().map(|end| end.status).collect::<Vec<_>>()
    };
    assert_eq!(fused(&mut driver), [0, 0]);
    driver.ram.set(DATA, &[4; 512]);
    assert_eq!(fused(&mut driver)[0], 0x285);
}

#[test]
fn what_the_drive_holds_is_bounded() {
    let config = Config { max_transfer: 8192, max_in_flight_bytes: 3 * 8192, ..offering() };
    let mut driver = Driver::with_queues(config, 1, 16);
    assert_eq!(format_nvm(&mut driver, choice(WITH_8, 1, false)), 0);
    // Each has twice as many bytes on the drive as in the host's memory.
    for _ in 0..6 {
        driver.submit(1, io(WRITE, 0, 16, ACTION));
    }
    let mut requests = Vec::new();
    let mut ended = 0;
    while ended < 6 {
        requests.extend(std::iter::from_fn(|| driver.controller.pop_request()));
        let bytes: usize = requests.iter().map(|request| request.data.len()).sum();
        assert!((1..=3 * 8192).contains(&bytes), "{bytes}");
        let request = requests.remove(0);
        driver.controller.complete(
            &driver.ram,
            request.tag,
            stasis_block::Status::Ok,
            request.data,
        );
        ended += driver.reap(1).len();
    }
    let too_few = Config { max_transfer: 8192, max_in_flight_bytes: 8192, ..offering() };
    assert!(Controller::new(too_few).is_err());
}
