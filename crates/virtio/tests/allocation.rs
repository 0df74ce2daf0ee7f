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
        let before = ALLOCATIONS.load(Ordering::Relaxed);
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
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert_eq!(driver.reap(0).len() + driver.reap(1).len(), 40);
        allocations
    };
    for _ in 0..4 {
        round(&mut driver);
    }
    let allocations: u64 = (0..10).map(|_| round(&mut driver)).sum();
    assert_eq!(allocations, 0);
}
