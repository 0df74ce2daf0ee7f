//! After a power cut: operations under way are undone, and erases begin again.

use stasis_clock::Nanos;
use stasis_nand::OpKind;

use super::{Context, Dropped, Hybrid, PowerCut};
use crate::buffer::NONE;

impl Hybrid {
    pub(super) fn recover(&mut self, now: Nanos, cut: &mut PowerCut<'_>, context: &mut Context) {
        self.waiting.clear();
        self.writing = 0;
        self.reads.fill(0);
        for plane in &mut self.planes {
            plane.queue.clear();
            (plane.current, plane.wrong, plane.version) = (None, None, 0);
            (plane.forgotten, plane.busy) = (false, false);
            plane.dirty.extend(plane.erasing.take());
            let Some(merge) = plane.merge.take() else { continue };
            if merge.full && merge.target != NONE {
                plane.dirty.push_back(merge.target);
            } else if let Some(log) = plane.log(merge.logical).filter(|_| !merge.full) {
                // Copies that nothing is mapped to may lie in it.
                plane.logs[log].in_order &= !merge.began();
            }
        }
        for Dropped { op, started } in cut.dropped {
            if !matches!(op.kind, OpKind::Program | OpKind::Copyback) {
                continue;
            }
            let block = self.shape.block(op.at.plane.0, op.at.block);
            let logs = &mut self.planes[op.at.plane.0 as usize].logs;
            let Some(log) = logs.iter_mut().find(|log| log.block == block) else { continue };
            if *started {
                // The page holds nothing.
                log.in_order = false;
            } else {
                log.next = log.next.min(op.at.page);
            }
        }
        for plane in 0..self.shape.planes {
            self.erase(now, plane, context);
        }
    }
}
