//! After a power cut: what was in no cell is gone, and what was half done is
//! undone.

use std::ops::Range;

use stasis_clock::Nanos;
use stasis_nand::OpKind;

use super::blocks::State;
use super::{Context, Dropped, PageFtl, PowerCut, GC_COPY, GC_PROGRAM, KIND};
use crate::buffer::NONE;

impl PageFtl {
    pub(super) fn recover(&mut self, now: Nanos, cut: &mut PowerCut<'_>, context: &mut Context) {
        let (dropped, lost) = (cut.dropped, &mut cut.lost);
        self.waiting.clear();
        self.flushes.clear();
        self.partial.clear();
        self.partial_free.clear();
        self.reads.fill(0);
        self.programs.clear();
        (self.programming, self.collecting, self.stalled) = (0, 0, false);
        self.lockstep = None;
        self.give_back_pages(dropped);
        for plane in 0..self.shape.planes {
            let collector = &mut self.collectors[plane as usize];
            collector.gathered.clear();
            collector.starved = false;
            if let Some(job) = collector.job.take() {
                // Moved units stay moved; an erase begins again.
                if self.blocks.blocks[job.victim as usize].state == State::Bad {
                    collector.bad.push_front(job.victim);
                } else {
                    self.blocks.put_back(job.victim);
                }
            }
        }
        let shape = self.shape;
        let capacity = self.capacity;
        let first = lost.len();
        let kept = self.buffer.power_cut(self.protected, |unit| {
            let start = shape.offset(unit);
            lost.push(start..(start + u64::from(shape.unit)).min(capacity));
        });
        let _ = &kept;
        #[cfg(test)]
        if let Some(shadow) = &mut context.shadow {
            kept.into_iter().for_each(|(unit, version)| shadow.admit(unit, version));
        }
        merge(lost, first);
        self.host_went_silent(now);
        for plane in 0..self.shape.planes {
            self.start_if_needed(now, plane, context);
        }
        self.pump(now, context);
    }

    /// Pages whose program had not begun are free to be programmed again; those
    /// whose had hold nothing.
    fn give_back_pages(&mut self, dropped: &[Dropped]) {
        let programs =
            dropped.iter().filter(|d| matches!(d.op.kind, OpKind::Program | OpKind::Copyback));
        for Dropped { op, started } in programs.clone() {
            let block = self.shape.block(op.at.plane.0, op.at.block);
            let entry = &mut self.blocks.blocks[block as usize];
            if *started {
                entry.ended += 1;
            } else {
                entry.next = entry.next.min(op.at.page);
            }
        }
        for Dropped { op, .. } in programs {
            let plane = op.at.plane.0;
            let block = self.shape.block(plane, op.at.block);
            let entry = self.blocks.blocks[block as usize];
            debug_assert_eq!(entry.ended, entry.next, "nothing is under way");
            match entry.state {
                State::Bad => {
                    let bad = &mut self.collectors[plane as usize].bad;
                    if !bad.contains(&block) {
                        bad.push_back(block);
                    }
                }
                State::Open if entry.next < self.shape.geometry.pages => {
                    let moved = matches!(op.token & KIND, GC_PROGRAM | GC_COPY);
                    self.reopen(plane, block, moved);
                }
                State::Open => self.blocks.fill(block),
                _ => {}
            }
        }
    }

    /// A block that has pages left is open again; if another has its place, it
    /// counts as full.
    fn reopen(&mut self, plane: u32, block: u32, moved: bool) {
        let first = (plane * self.streams) as usize;
        let open = &mut self.open[first..first + self.streams as usize];
        let collector = &mut self.collectors[plane as usize].open;
        if *collector == block || open.contains(&block) {
            return;
        }
        let place = if moved {
            (*collector == NONE).then_some(collector)
        } else {
            open.iter_mut().find(|place| **place == NONE)
        };
        match place {
            Some(place) => *place = block,
            None => self.blocks.fill(block),
        }
    }
}

/// Joins ranges, from the `first` on, that touch or overlap.
fn merge(ranges: &mut Vec<Range<u64>>, first: usize) {
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
