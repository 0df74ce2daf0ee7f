//! In steady state an I/O allocates nothing.

mod support;

use stasis_block::Status;
use support::*;

#[test]
fn steady_state_allocates_nothing() {
    let mut driver = Driver::new(config());
    let mut held = Vec::with_capacity(128);
    let mut round = |driver: &mut Driver| {
        let pieces = [(DATA, 4096), (DATA + 0x1_0000, 512), (DATA + 0x2_0000, 8192)];
        let ranges = driver.ranges(&[(0, 8, 0), (16, 8, 0), (32, 8, 0)]);
        for queue in [0, 1] {
            for index in 0..20 {
                let pieces = &pieces[..1 + index % 3];
                match index % 4 {
                    0 => driver.put(queue, OUT, 0, pieces, &[]),
                    1 => driver.put(queue, FLUSH, 0, &[], &[]),
                    2 => driver.put(queue, DISCARD, 0, &[ranges], &[]),
                    _ => driver.put(queue, IN, 0, &[], pieces),
                }
                .unwrap();
            }
        }
        // The driver's side allocates; the device's, between these, does not.
        let allocations = allocation_counter::measure(|| {
            driver.kick(0);
            driver.kick(1);
            held.extend(std::iter::from_fn(|| driver.device.pop_request()));
            assert_eq!(held.len(), 60);
            // Out of order, as drives complete.
            for (index, request) in held.drain(..).rev().enumerate() {
                let status = if index % 50 == 7 { Status::ReadError } else { Status::Ok };
                driver.device.complete(&driver.ram, request.tag, status, request.data);
            }
            while driver.device.pop_interrupt().is_some() {}
        })
        .count_total;
        assert_eq!(driver.reap(0).len() + driver.reap(1).len(), 40);
        allocations
    };
    for _ in 0..4 {
        round(&mut driver);
    }
    let allocations: u64 = (0..10).map(|_| round(&mut driver)).sum();
    assert_eq!(allocations, 0);
}
