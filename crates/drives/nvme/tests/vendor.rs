//! Vendor specific admin commands: on their way to the drive and back.

use crate::support::*;
use stasis_block::VendorError;
use stasis_nvme::{Config, VendorRequest};

/// An opcode without data, to the drive, to the host, and both.
const NONE: u8 = 0xc0;
const TO_DRIVE: u8 = 0xc5;
const TO_HOST: u8 = 0xca;
const BOTH: u8 = 0xff;

fn vendor(opcode: u8, dwords: u32) -> Sqe {
    Sqe {
        opcode,
        prp1: DATA + 512,
        prp2: DATA + 2 * PAGE,
        cdw10: dwords,
        cdw11: 11,
        cdw12: 12,
        cdw13: 13,
        cdw14: 14,
        cdw15: 15,
        ..Default::default()
    }
}

fn pop(driver: &mut Driver) -> VendorRequest {
    driver.controller.pop_vendor().expect("a command for the drive")
}

#[test]
fn the_opcode_says_in_which_direction_data_moves() {
    let mut driver = Driver::new(config());
    assert_eq!(driver.identify(1, 0).1[264], 1, "AVSCC");
    for (opcode, sent, got) in
        [(NONE, false, false), (TO_DRIVE, true, false), (TO_HOST, false, true), (BOTH, true, true)]
    {
        driver.ram.set(DATA, &[7; 3 * PAGE as usize]);
        driver.submit(0, vendor(opcode, 1024));
        assert!(driver.reap(0).is_empty());
        let VendorRequest { tag, mut command } = pop(&mut driver);
        assert_eq!((command.opcode, command.dwords), (opcode, [1024, 11, 12, 13, 14, 15]));
        assert_eq!(
            command.data,
            vec![if sent { 7 } else { 0 }; if sent || got { 4096 } else { 0 }]
        );
        command.data.fill(9);
        driver.controller.complete_vendor(&driver.ram, tag, Ok(0x1234), &command.data);
        let cqe = driver.reap(0)[0];
        assert_eq!((cqe.status, cqe.result), (0, 0x1234));
        let after = if got { 9 } else { 7 };
        assert_eq!(driver.ram.get(DATA + 512, 3584), vec![after; 3584]);
        assert_eq!(driver.ram.get(DATA + 2 * PAGE, 512), vec![after; 512]);
        assert_eq!(driver.ram.get(DATA + 2 * PAGE + 512, 1), [7], "no further");
    }
    // No data at all, whatever the direction.
    driver.submit(0, Sqe { prp1: 3, ..vendor(TO_HOST, 0) });
    let VendorRequest { tag, command } = pop(&mut driver);
    assert!(command.data.is_empty());
    // More than was asked for goes nowhere.
    driver.controller.complete_vendor(&driver.ram, tag, Ok(0), &[1; 512]);
    assert_eq!(driver.reap(0)[0].status, 0);
}

#[test]
fn refusals_have_their_status() {
    let mut driver = Driver::new(config());
    for (error, status) in [(VendorError::Opcode, 0x001), (VendorError::Field, 0x002)] {
        driver.ram.set(DATA, &[7; 4096]);
        driver.submit(0, vendor(TO_HOST, 4));
        let VendorRequest { tag, .. } = pop(&mut driver);
        driver.controller.complete_vendor(&driver.ram, tag, Err(error), &[9; 16]);
        assert_eq!(driver.reap(0)[0].status, status);
        assert_eq!(driver.ram.get(DATA, 4096), [7; 4096]);
    }
    let most = config().max_transfer / 4;
    for (sqe, status) in [
        (vendor(TO_HOST, most + 1), 0x002),
        (vendor(TO_HOST, u32::MAX), 0x002),
        (Sqe { prp1: DATA + 1, ..vendor(TO_DRIVE, 1) }, 0x013),
        (Sqe { prp1: RAM as u64, ..vendor(TO_DRIVE, 1) }, 0x004),
        (Sqe { opcode: 0xbf, ..vendor(NONE, 0) }, 0x001),
        (Sqe { flags: 0x40, ..vendor(TO_DRIVE, 1) }, 0x002),
    ] {
        assert_eq!(driver.admin(sqe).status, status, "{sqe:x?}");
        assert!(driver.controller.pop_vendor().is_none());
    }
    driver.submit(0, Sqe { prp1: RAM as u64, ..vendor(TO_HOST, 1) });
    let VendorRequest { tag, command } = pop(&mut driver);
    driver.controller.complete_vendor(&driver.ram, tag, Ok(0), &command.data);
    assert_eq!(driver.reap(0)[0].status, 0x004);
}

#[test]
fn late_answers_are_dropped() {
    let mut driver = Driver::new(Config { max_transfer: 8192, ..config() });
    driver.ram.set(DATA, &[7; 4096]);
    let cids: Vec<_> = (0..2).map(|_| driver.submit(0, vendor(TO_HOST, 16))).collect();
    let first = pop(&mut driver);
    for cid in cids {
        let abort = Sqe { opcode: 8, cdw10: u32::from(cid) << 16, ..Default::default() };
        driver.submit(0, abort);
        let completions = driver.reap(0);
        assert_eq!(
            (completions[0].cid, completions[0].status, completions[1].result),
            (cid, 0x007, 0)
        );
    }
    assert!(driver.controller.pop_vendor().is_none(), "the second never gets there");
    driver.submit(0, vendor(TO_HOST, 16));
    let third = pop(&mut driver);
    driver.disable();
    driver.enable();
    for request in [first, third] {
        driver.controller.complete_vendor(&driver.ram, request.tag, Ok(0), &[9; 64]);
    }
    assert!(driver.reap(0).is_empty());
    assert_eq!(driver.ram.get(DATA, 4096), [7; 4096]);
    // The number of those that wait is bounded.
    for _ in 0..16 {
        driver.submit(0, vendor(NONE, 0));
    }
    assert!(driver.reap(0).is_empty());
    assert_eq!(driver.admin(vendor(NONE, 0)).status, 0x006);
}
