//! The order of checks on PCIe: each command with each malformed descriptor.

#[path = "support/orders.rs"]
mod table;

use crate::support::*;
use table::{Case, Words, CASES};

/// Descriptors of data that cannot be, and the status of an I/O command that asks for `bytes` bytes.
fn malformed(bytes: u32) -> Vec<(&'static str, u8, [u64; 2], u16)> {
    let sgl = |length: u32, kind: u8| [DATA, u64::from(length) | u64::from(kind) << 56];
    vec![
        ("an offset into a capsule", 0x40, sgl(bytes, 0x01), 0x011),
        ("a type that is reserved", 0x40, sgl(bytes, 0x70), 0x011),
        ("a block of a transport", 0x40, sgl(bytes, 0x5a), 0x011),
        ("a block that is too short", 0x40, sgl(bytes - 4, 0x00), 0x00f),
        ("a block without a byte", 0x40, sgl(0, 0x00), 0x00f),
        ("a segment of half a descriptor", 0x40, sgl(8, 0x30), 0x00d),
        ("a segment without one", 0x40, sgl(0, 0x20), 0x00d),
        ("a reserved PSDT", 0xc0, sgl(bytes, 0x00), 0x002),
        ("a PRP that is not at a dword", 0, [DATA + 1, 0], 0x013),
    ]
}

fn run(
    driver: &mut Driver,
    case: &Case,
    Words(nsid, words): Words,
    flags: u8,
    prps: [u64; 2],
) -> u16 {
    let [cdw10, cdw11, cdw12, cdw13] = words;
    let [prp1, prp2] = prps;
    let opcode = case.opcode;
    let sqe =
        Sqe { opcode, flags, nsid, prp1, prp2, cdw10, cdw11, cdw12, cdw13, ..Default::default() };
    let queue = u16::from(!case.admin);
    driver.submit(queue, sqe);
    driver.serve();
    driver.reap(queue).pop().unwrap().status
}

#[test]
fn a_command_is_judged_before_its_descriptor_on_pcie() {
    for case in CASES {
        let mut driver = Driver::with_queues(config(), 1, 8);
        for (name, flags, prps, status) in malformed(case.bytes) {
            // Admin commands take PRPs only, which comes before all else.
            let by_flags = flags == 0xc0 || case.admin && flags != 0;
            let status = if by_flags { 0x002 } else { status };
            let subject = format!("{} with {name}", case.name);
            assert_eq!(run(&mut driver, &case, case.words, flags, prps), status, "{subject}");
            for &(words, own) in case.refused {
                let status = if by_flags { 0x002 } else { own };
                let subject = format!("{subject} and {words:x?}");
                assert_eq!(run(&mut driver, &case, words, flags, prps), status, "{subject}");
            }
        }
    }
}
