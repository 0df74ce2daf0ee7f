//! In steady state an I/O allocates nothing.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use stasis_block::Status;
use support::*;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above, hence from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

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
            // `get` in `next` allocates on the driver's side; count around it.
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            while driver.next(queue).is_some() {
                seen += 1;
            }
            driver.ring_head(queue);
            ALLOCATIONS.store(before, Ordering::Relaxed);
        }
        assert_eq!(seen, 120);
        while driver.controller.pop_interrupt().is_some() {}
    };
    for _ in 0..4 {
        round(&mut driver);
    }
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..10 {
        round(&mut driver);
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
}
