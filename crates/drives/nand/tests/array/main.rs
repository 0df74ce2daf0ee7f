//! The NAND array against closed forms and against a slow reference.

mod activities;
mod against_reference;
mod closed_forms;
mod faults;
mod reference;

use stasis_nand::{Array, ArrayConfig, ArrayOptions, Op, OpDone, OpKind, Priority};
use stasis_nand::{CellPattern, Geometry, PageAddress, PlaneId, Timing};

/// An array of `channels` x `luns` x `planes`.
fn geometry(channels: u32, luns: u32, planes: u32) -> Geometry {
    let (blocks, pages, page_size, oob_size) = (16, 32, 4096, 0);
    Geometry { channels, luns, planes, blocks, pages, page_size, oob_size }
}

fn cells(pattern: &str) -> CellPattern {
    CellPattern::parse(pattern, 32).unwrap()
}

/// An array whose cells are all alike.
fn array(geometry: Geometry, timing: Timing, options: ArrayOptions) -> Array {
    Array::new(ArrayConfig::new(geometry, cells("slc"), timing), options)
}

/// A 4 KiB operation on behalf of the host on block 0 of a plane.
fn op(kind: OpKind, plane: u32, token: u64) -> Op {
    let at = PageAddress { plane: PlaneId(plane), block: 0, page: 0 };
    let source = PageAddress { page: 1, ..at };
    let priority = if kind == OpKind::Read { Priority::Read } else { Priority::Write };
    Op { kind, at, source, bytes: 4096, priority, token, group: 0 }
}

/// Everything that ends.
fn run(array: &mut Array) -> Vec<OpDone> {
    std::iter::from_fn(|| array.pop(u64::MAX)).collect()
}

/// Keeps `ops` going, each again as soon as it ends, until `count` ended; what
/// ended in the second half.
fn closed_loop(array: &mut Array, ops: &[Op], count: usize) -> Vec<OpDone> {
    ops.iter().for_each(|&op| array.submit(0, op));
    let mut ended = Vec::new();
    for index in 0..count {
        let done = array.pop(u64::MAX).expect("something is under way");
        array.submit(done.at, done.op);
        if index >= count / 2 {
            ended.push(done);
        }
    }
    ended
}
