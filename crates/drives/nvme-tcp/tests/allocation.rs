//! An I/O allocates nothing once the pools have grown to the load.

mod support;

use allocation_counter::measure;
use support::*;

#[test]
fn ios_do_not_allocate() {
    let mut bench = Bench::new();
    let (_admin, io, _) = with_queue(&mut bench, 3);
    let write = io.pdu(4, 0, &Host::io(WRITE, 8, 4096, true), &[7; 4096]);
    let read = io.pdu(4, 0, &Host::io(READ, 8, 4096, false), &[]);
    let mut round = || {
        for pdu in [&write, &read] {
            bench.target.receive(io.id, pdu);
            bench.work();
            let sent = bench.target.output(io.id).len();
            assert!(sent > 0);
            bench.target.sent(io.id, sent);
        }
    };
    (0..4).for_each(|_| round());
    let allocated = measure(|| (0..16).for_each(|_| round()));
    assert_eq!(allocated.count_total, 0);
}
