//! The volatile cache of a drive at an instant: what can still be lost.
//!
//! The rules are those of [`stasis_drive::History`]: a durable write (FUA) is
//! durable when it ends; a flush that has ended made durable what was submitted
//! before it and has ended; nothing that was submitted after a barrier is
//! durable before what was submitted before it.

use std::collections::VecDeque;

use crate::sectors::Content;
use crate::story::{Position, Trace};
use stasis_block::Operation;

/// A change that is not known to be on the medium together with everything
/// before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// Its place.
    pub(crate) place: usize,
    /// Barriers before it.
    pub(crate) epoch: u32,
    /// Whether it cannot be lost.
    pub(crate) durable: bool,
    failed: bool,
}

/// A drive's cache, followed from moment to moment.
#[derive(Debug)]
pub(crate) struct Cache<'a> {
    trace: &'a Trace,
    held: VecDeque<Held>,
    epoch: u32,
    // The newest ended flush's place: what ends later and was submitted before
    // it is durable then.
    flushed: usize,
    durable_epoch: u32,
}

impl<'a> Cache<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        Self { trace, held: VecDeque::new(), epoch: 0, flushed: 0, durable_epoch: 0 }
    }

    /// What is held, in the order of submission.
    pub(crate) fn held(&self) -> impl Iterator<Item = &Held> {
        self.held.iter()
    }

    /// The newest epoch, and the newest of which something is durable.
    pub(crate) fn epochs(&self) -> (u32, u32) {
        (self.epoch, self.durable_epoch)
    }

    /// A command is submitted.
    pub(crate) fn submitted(&mut self, place: usize) {
        match self.trace.asked[place].command.operation {
            Operation::Barrier => self.epoch += 1,
            _ if self.trace.changes(place) => {
                let held = Held { place, epoch: self.epoch, durable: false, failed: false };
                self.held.push_back(held);
            }
            _ => {}
        }
    }

    /// It ends after `position` moments; `settle` gets each sector of what is
    /// now on the medium with everything before it.
    pub(crate) fn ended(
        &mut self,
        place: usize,
        position: Position,
        mut settle: impl FnMut(u64, Content),
    ) {
        let asked = &self.trace.asked[place];
        let well = asked.well_by(position + 1);
        if asked.command.operation == Operation::Flush {
            if !well {
                return;
            }
            self.flushed = self.flushed.max(place);
            for held in self.held.iter_mut().take_while(|held| held.place < place) {
                // What failed is as good as written: it is not waited for.
                held.durable |= held.failed || self.trace.asked[held.place].well_by(position + 1);
            }
        } else if let Ok(index) = self.held.binary_search_by_key(&place, |held| held.place) {
            let held = &mut self.held[index];
            held.failed = !well;
            held.durable |= well && (asked.command.fua || place < self.flushed);
        }
        let newest = self.held.iter().rev().find(|held| held.durable);
        self.durable_epoch = self.durable_epoch.max(newest.map_or(0, |held| held.epoch));
        for held in &mut self.held {
            held.durable |= held.epoch < self.durable_epoch;
        }
        while let Some(held) = self.held.front().filter(|held| held.durable) {
            for (sector, content) in self.trace.sectors(held.place) {
                settle(sector, content);
            }
            self.held.pop_front();
        }
    }
}
