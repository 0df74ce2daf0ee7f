//! In steady state an I/O allocates nothing.

mod support;

use stasis_block::Status;
use stasis_nvme::{Config, Metadata, Namespace, Protection};
use support::*;

#[test]
fn steady_state_allocates_nothing() {
    measure(config(), [1, 8, 9, 24, 64, 200, 1024]);
}

#[test]
fn nor_do_blocks_with_protection_information() {
    let metadata = Metadata { protection: Protection::Type1, ..Metadata::new(8) };
    let namespaces = vec![Namespace { metadata: Some(metadata), ..Namespace::new(BLOCKS, 512) }];
    let config = Config { namespaces, metadata: true, ..config() };
    measure(config, [1, 8, 9, 24, 64, 200, 1024]);
}

fn measure(config: Config, blocks: [u32; 7]) {
    let mut driver = Driver::with_queues(config, 2, 64);
    driver.configure_shadow();
    driver.ram.set(SCRATCH, &DATA.to_le_bytes().repeat(512));
    let mut held = Vec::with_capacity(128);
    let mut round = |driver: &mut Driver| {
        let mut blocks = blocks.into_iter().cycle();
        for queue in [1, 2] {
            for index in 0..60 {
                let blocks = blocks.next().unwrap();
                let prp2 = if blocks <= 16 { DATA } else { SCRATCH };
                let opcode = [1, 2, 0][index % 3];
                // Half of the blocks have protection information that the controller makes.
                let made = if index % 2 == 0 { 1 << 29 } else { 0 };
                let sqe = Sqe::io(opcode, 0, blocks, DATA, prp2);
                let cdw12 = sqe.cdw12 | made;
                driver.submit(queue, Sqe { cdw12, mptr: DATA + 0x10_0000, ..sqe });
            }
        }
        held.extend(std::iter::from_fn(|| driver.controller.pop_request()));
        assert_eq!(held.len(), 120);
        // Out of order, as drives complete.
        for (index, request) in held.drain(..).rev().enumerate() {
            let status = if index % 50 == 7 { Status::ReadError } else { Status::Ok };
            driver.controller.complete(&driver.ram, request.tag, status, request.data);
        }
        let mut completions = 0;
        for queue in [1, 2] {
            // `get` in `next` allocates on the driver's side.
            allocation_counter::opt_out(|| {
                while driver.next(queue).is_some() {
                    completions += 1;
                }
                driver.ring_head(queue);
            });
        }
        assert_eq!(completions, 120);
        while driver.controller.pop_interrupt().is_some() {}
    };
    // Until the log has all the errors that it takes in one power cycle.
    for _ in 0..40 {
        round(&mut driver);
    }
    let measured = allocation_counter::measure(|| (0..10).for_each(|_| round(&mut driver)));
    assert_eq!(measured.count_total, 0);
}
