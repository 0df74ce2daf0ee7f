//! In steady state an I/O allocates nothing.

mod support;

use stasis_block::Status;
use support::*;

#[test]
fn steady_state_allocates_nothing() {
    let mut driver = Driver::with_queues(config(), 2, 64);
    driver.configure_shadow();
    driver.ram.set(SCRATCH, &DATA.to_le_bytes().repeat(512));
    let mut held = Vec::with_capacity(128);
    let mut round = |driver: &mut Driver| {
        let mut blocks = [1, 8, 9, 24, 64, 200, 1024].into_iter().cycle();
        for queue in [1, 2] {
            for index in 0..60 {
                let blocks = blocks.next().unwrap();
                let prp2 = if blocks <= 16 { DATA } else { SCRATCH };
                let opcode = [1, 2, 0][index % 3];
                driver.submit(queue, Sqe::io(opcode, 0, blocks, DATA, prp2));
            }
        }
        held.extend(std::iter::from_fn(|| driver.controller.pop_request()));
        assert_eq!(held.len(), 120);
        // Out of order, as drives complete.
        for (index, request) in held.drain(..).rev().enumerate() {
            let status = if index % 50 == 7 { Status::ReadError } else { Status::Ok };
            driver.controller.complete(&driver.ram, request.tag, status, request.data);
        }
        let mut seen = 0;
        for queue in [1, 2] {
            // `get` in `next` allocates on the driver's side.
            allocation_counter::opt_out(|| {
                while driver.next(queue).is_some() {
                    seen += 1;
                }
                driver.ring_head(queue);
            });
        }
        assert_eq!(seen, 120);
        while driver.controller.pop_interrupt().is_some() {}
    };
    // Until the log has all the errors that it takes in one power cycle.
    for _ in 0..40 {
        round(&mut driver);
    }
    let measured = allocation_counter::measure(|| (0..10).for_each(|_| round(&mut driver)));
    assert_eq!(measured.count_total, 0);
}
