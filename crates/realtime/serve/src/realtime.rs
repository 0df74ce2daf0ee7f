//! A drive in real time: a medium, with a model that holds completions back
//! until their time has come, or without one.

mod layer;
mod shared;

use std::collections::VecDeque;
use std::os::fd::RawFd;

use stasis_block::clock::Nanos;
use stasis_block::{BlockLayout, Completion, Fate, Model, PowerLoss, Tag};
use stasis_drive::{Done, Join, Properties};
use stasis_media::{HostMedium, OpenError};

pub use shared::{SharedLayer, SharedRealTime};

/// A model, or none, with a medium. Unlike [`stasis_drive::Drive`] it never waits for the medium: a
/// late I/O is completed late.
pub struct RealTime {
    properties: Properties,
    model: Option<Box<dyn Model>>,
    /// Layout of the host's blocks.
    layout: BlockLayout,
    /// Lower bound on the model's time: completions are taken from it a little early.
    reached: Nanos,
    join: Join<dyn HostMedium>,
    /// Completed, in the order in which that became known.
    ready: VecDeque<Done>,
    completions: Vec<Completion>,
    /// Slots that the medium has finished, on their way to `ready`.
    settled: Vec<Tag>,
    completed: u64,
}

impl RealTime {
    /// A drive with nothing in flight.
    pub fn new(
        index: u16,
        name: String,
        model: Option<Box<dyn Model>>,
        medium: Box<dyn HostMedium>,
    ) -> Self {
        let properties = Properties {
            index,
            name,
            capacity: medium.capacity(),
            discard_zeroes: medium.discard_zeroes(),
            // A medium of this host keeps no order by itself: `FlushBarriers` makes one of flushes.
            barrier: None,
            // The loss of the host's file is for the host to define.
            power_loss: PowerLoss::default(),
        };
        Self {
            properties,
            model,
            layout: BlockLayout::default(),
            reached: 0,
            join: Join::new(medium),
            ready: VecDeque::new(),
            completions: Vec::new(),
            settled: Vec::new(),
            completed: 0,
        }
    }

    /// Descriptors of which one is readable when the medium has finished
    /// something.
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.join.medium().descriptors()
    }

    /// Returns whether a model holds completions back.
    pub fn is_timed(&self) -> bool {
        self.model.is_some()
    }

    /// Commands under way are timed anew by `model` if they are submitted from
    /// now on; those that the old one holds are completed at once.
    pub fn set_model(&mut self, now: Nanos, model: Option<Box<dyn Model>>) {
        self.turn(now);
        self.model = model;
        for slot in self.join.without_target() {
            self.join.set_target(slot, now, Fate::Done);
            self.try_finish(now, slot);
        }
    }

    /// Gives the drive another capacity and `model`, for which nothing is in flight.
    ///
    /// # Errors
    /// As [`Medium::resize`].
    pub fn resize(
        &mut self,
        now: Nanos,
        capacity: u64,
        model: Option<Box<dyn Model>>,
    ) -> Result<(), OpenError> {
        self.join.medium_mut().resize(capacity)?;
        self.properties.capacity = self.join.medium().capacity();
        self.set_model(now, model);
        Ok(())
    }

    /// Commands that it was given so far.
    pub fn submitted(&self) -> u64 {
        self.join.submitted()
    }

    /// Submissions and completions so far: a number that grows whenever something happens.
    pub fn progress(&self) -> u64 {
        self.join.submitted() + self.completed
    }

    /// Handles the progress of the medium and the model by `now`.
    pub fn turn(&mut self, now: Nanos) {
        if self.join.in_flight() == 0 {
            return;
        }
        let mut settled = std::mem::take(&mut self.settled);
        self.join.poll(|slot| settled.push(slot));
        settled.drain(..).for_each(|slot| self.try_finish(now, slot));
        self.settled = settled;
        if let Some(model) = &mut self.model {
            // From event to event, and no further: `now` may be a little ahead of the clock, and
            // the next event must not come too late for the model.
            while let Some(at) = model.next_event().filter(|at| *at <= now) {
                model.advance(at, &mut self.completions);
                self.reached = at.max(self.reached);
            }
            let mut completions = std::mem::take(&mut self.completions);
            for Completion { tag: slot, at, fate } in completions.drain(..) {
                self.join.set_target(slot, at, fate);
                self.try_finish(now, slot);
            }
            self.completions = completions;
        }
    }

    /// Completes a command that both have done.
    fn try_finish(&mut self, now: Nanos, slot: Tag) {
        let untimed = self.model.is_none().then_some(now);
        if let Some(mut done) = self.join.take_complete(slot, untimed) {
            if done.failed_at > 0 {
                done.failed_at = self.layout.on_drive(&done.command, done.failed_at);
            }
            self.completed += 1;
            self.ready.push_back(done);
        }
    }
}
