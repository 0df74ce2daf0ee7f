//! After a power cut: what was in no cell is gone, and what was half done is
//! undone.

use std::ops::Range;

use stasis_nand::OpKind;

use super::blocks::BlockState;
use super::cleaner::Cleaner;
use super::frontier::Frontier;
use super::placement::Placement;
use super::token::{GC_COPY, GC_PROGRAM, KIND};
use crate::ftl::{Dropped, Shape};

/// Pages whose program had not begun are free to be programmed again; those
/// whose had hold nothing. Blocks with pages left are open again where they were; if another has
/// that place, they count as full. Where word lines have two passes, one of which a part was programmed
/// takes no more: returns the blocks in which pages are passed over, and their next ones.
pub(super) fn give_back_pages(
    shape: &Shape,
    dropped: &[Dropped],
    frontier: &mut Frontier,
    cleaner: &mut Cleaner,
    placement: &mut Placement,
) -> Vec<(u32, u32)> {
    let mut skipped = Vec::new();
    let blocks = placement.blocks_mut();
    let programs =
        dropped.iter().filter(|d| matches!(d.op.kind, OpKind::Program | OpKind::Copyback));
    let block_of = |dropped: &Dropped| shape.block(dropped.op.at.plane.0, dropped.op.at.block);
    for dropped in programs.clone() {
        blocks.page_dropped(block_of(dropped), dropped.op.at.page, dropped.started);
    }
    for dropped in programs {
        let (plane, block) = (dropped.op.at.plane.0, block_of(dropped));
        if shape.line > 1 && blocks.state(block) == BlockState::Open && !blocks.is_slc(block) {
            skipped.push((block, blocks.skip_line(block, shape.line)));
        }
        let takes_pages = blocks.takes_pages(block);
        match blocks.state(block) {
            BlockState::Bad => cleaner.found_bad(plane, block),
            BlockState::Open => {
                let moved = matches!(dropped.op.token & KIND, GC_PROGRAM | GC_COPY);
                let open = takes_pages
                    && if moved {
                        cleaner.reopen(plane, block)
                    } else {
                        frontier.reopen(plane, block, blocks.is_slc(block))
                    };
                if !open {
                    // It may have had pages left until some were passed over.
                    frontier.forget(plane, block);
                    cleaner.forget(plane, block);
                    blocks.fill(block);
                }
            }
            _ => {}
        }
    }
    skipped
}

/// Joins ranges, from the `first` on, that touch or overlap.
pub(super) fn merge(ranges: &mut Vec<Range<u64>>, first: usize) {
    ranges[first..].sort_by_key(|range| range.start);
    let mut kept = first;
    for index in first..ranges.len() {
        let range = ranges[index].clone();
        if kept > first && range.start <= ranges[kept - 1].end {
            ranges[kept - 1].end = ranges[kept - 1].end.max(range.end);
        } else {
            ranges[kept] = range;
            kept += 1;
        }
    }
    ranges.truncate(kept);
}

#[cfg(test)]
mod tests {
    use stasis_nand::{Op, PageAddress, PlaneId, Priority};

    use super::super::blocks::Blocks;
    use super::super::testing::drive;
    use super::*;
    use crate::spec::{Spec, WearLevelling};

    #[test]
    fn ranges_that_touch_are_joined_behind_those_of_others() {
        let mut ranges = vec![0..9, 6..8, 2..4, 4..5, 7..9];
        merge(&mut ranges, 1);
        assert_eq!(ranges, [0..9, 2..5, 6..9]);
    }

    #[test]
    fn blocks_are_open_again_for_their_owner_and_full_where_it_has_another() {
        let (spec, shape) = drive(Spec::default(), 1, 4, 64);
        let mut blocks = Blocks::new(shape, WearLevelling::None, 8, 1);
        let numbers: Vec<u32> = (0..3).map(|_| blocks.open(0).unwrap()).collect();
        let mut dropped = Vec::new();
        for (&block, token) in numbers.iter().zip([0, GC_PROGRAM, 0]) {
            for page in [0, 1] {
                assert_eq!(blocks.next_page(block), page);
                let at = PageAddress { plane: PlaneId(0), block, page };
                let op = Op {
                    kind: OpKind::Program,
                    at,
                    source: at,
                    bytes: 4096,
                    priority: Priority::Write,
                    token,
                    group: 0,
                };
                dropped.push(Dropped { op, started: page == 0 });
            }
        }
        let mut placement = Placement::new(shape, shape.units, blocks, false);
        let mut frontier = Frontier::new(shape, 1, vec![0]);
        let mut cleaner = Cleaner::new(&spec, shape, 1);
        give_back_pages(&shape, &dropped, &mut frontier, &mut cleaner, &mut placement);
        let states = numbers.iter().map(|&block| placement.blocks().state(block));
        assert_eq!(
            states.collect::<Vec<_>>(),
            [BlockState::Open, BlockState::Open, BlockState::Full]
        );
        // The page whose program had started is not programmed again.
        assert_eq!(placement.blocks_mut().next_page(numbers[0]), 1);
        assert!(cleaner.reopen(0, numbers[1]) && !cleaner.reopen(0, numbers[0]));
        assert!(frontier.reopen(0, numbers[0], false));
        assert!(!frontier.reopen(0, numbers[1], false));
    }
}
