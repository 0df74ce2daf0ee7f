//! A drive on the PCI bus.
//!
//! A drive's device owns the controller, the drive, and what lies between them: commands' names,
//! completions that are not delivered, and refusals that are not recorded.

use std::collections::HashMap;

use stasis_block::clock::Nanos;
use stasis_block::{Refused, Tag};
use stasis_drive::{put_before, Control, Done, FaultChange, Faults, Layer, TenantHandle};
use stasis_run_events::IoRecord;

use super::controller::DriveController;
use super::nvme::NvmeController;
use super::urgent::Urgent;
use crate::memory::GuestMemory;

/// The controllers of NVMe, if it is these.
fn nvme_of(controller: &mut dyn DriveController) -> Option<&mut NvmeController> {
    controller.as_any().downcast_mut()
}

/// The first name of commands that the layer below has not had from a controller: these have few.
const FIRST_NAME: Tag = 1 << 31;

/// Names of the commands that a drive has, where its controller can be reset before they end: the
/// next controller's names are other ones. A command that was in flight before there were names has
/// the controller's own.
struct Names {
    /// For each command in flight, the number of resets before it, and the controller's name for
    /// it.
    in_flight: HashMap<Tag, (u32, Tag)>,
    next: Tag,
    resets: u32,
}

impl Default for Names {
    fn default() -> Self {
        Self { in_flight: HashMap::new(), next: FIRST_NAME, resets: 0 }
    }
}

impl Names {
    /// A name that no command in flight has.
    fn name(&mut self, tag: Tag) -> Tag {
        while self.in_flight.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1).max(FIRST_NAME);
        }
        self.in_flight.insert(self.next, (self.resets, tag));
        let name = self.next;
        self.next = self.next.wrapping_add(1).max(FIRST_NAME);
        name
    }

    /// The controller's name of a command that has ended, unless it was reset since.
    fn take(&mut self, name: Tag) -> Option<Tag> {
        if name < FIRST_NAME {
            return (self.resets == 0).then_some(name);
        }
        let (resets, tag) = self.in_flight.remove(&name)?;
        (resets == self.resets).then_some(tag)
    }

    /// Number of the present controller's commands that have not ended.
    fn under_way(&self) -> u64 {
        self.in_flight.values().filter(|(resets, _)| *resets == self.resets).count() as u64
    }
}

/// A controller, its drive, and the state between them.
pub struct DriveDevice {
    controller: Box<dyn DriveController>,
    /// Number of functions on the bus that lead to the drive.
    paths: usize,
    drive: Box<dyn Layer>,
    /// Its hold on the drive, if others share it.
    tenant: Option<TenantHandle>,
    /// Requests that the guest prefers: only a shared drive can do so as well.
    urgent: Urgent,
    /// Completed, and not delivered yet.
    done: Vec<Done>,
    /// Commands that the controller has refused, with when: not recorded yet.
    refused: Vec<(Nanos, Refused)>,
    /// Commands that the drive was given.
    submitted: u64,
    lazy: bool,
    /// There where the machine can fail.
    names: Option<Names>,
    /// Commands that were under way as their controller was replaced: their end is not reported.
    cut: u64,
}

impl DriveDevice {
    /// Attaches `drive` to `controller`. The driver of a `lazy` controller does not ring for
    /// a submission: it is to be polled.
    pub fn new(
        mut controller: Box<dyn DriveController>,
        drive: Box<dyn Layer>,
        tenant: Option<TenantHandle>,
        lazy: bool,
    ) -> Self {
        Self {
            paths: nvme_of(&mut *controller).map_or(1, |nvme| nvme.paths()),
            controller,
            drive,
            tenant,
            urgent: Urgent::default(),
            done: Vec::new(),
            refused: Vec::new(),
            submitted: 0,
            lazy,
            names: None,
            cut: 0,
        }
    }

    /// Makes the controller [replaceable](Self::replace).
    pub fn make_replaceable(&mut self) {
        self.names.get_or_insert_default();
    }

    /// Replaces the controller by one with as many paths. Commands of the old controller mean
    /// nothing to the new one.
    pub fn replace(&mut self, controller: Box<dyn DriveController>) {
        self.controller = controller;
        self.done.clear();
        if let Some(names) = &mut self.names {
            self.cut += names.under_way();
            names.resets += 1;
        }
    }

    /// Number of commands that a failure of the machine has cut off.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Replaces the faults of the drive.
    pub fn set_faults(&mut self, change: FaultChange) {
        if let Err(change) = self.drive.control().set_faults(change) {
            let (submitted, begun) = (self.submitted, change.begun);
            put_before(&mut self.drive, |lower| Box::new(Faults::joining(lower, submitted, begun)));
            let taken = self.drive.control().set_faults(change);
            debug_assert!(taken.is_ok(), "the layer is there now");
        }
    }

    /// Returns human-readable lines, one for each queue of the controller.
    pub fn queues(&mut self) -> Vec<String> {
        match nvme_of(&mut *self.controller) {
            Some(nvme) => nvme.queues(),
            None => vec!["one queue of virtio".to_owned()],
        }
    }

    /// The drive's index among those of the run.
    pub fn index(&self) -> u16 {
        self.drive.properties().index
    }

    /// The entry of MSI-X that tells the completions of the commands of a path's queue, if one does.
    pub fn entry_of(&self, path: usize, queue: u16) -> Option<u16> {
        self.controller.entry_of(path, queue)
    }

    /// The drive's name.
    pub fn name(&self) -> &str {
        &self.drive.properties().name
    }

    /// The drive's size in bytes.
    pub fn capacity(&self) -> u64 {
        self.drive.properties().capacity
    }

    /// The management of the drive.
    pub fn control(&mut self) -> &mut dyn Control {
        self.drive.control()
    }

    /// The drive's controllers of NVMe, if it has these.
    pub fn nvme(&mut self) -> Option<&mut NvmeController> {
        nvme_of(&mut *self.controller)
    }

    /// The state that the drive keeps beside its bytes if its power is off from now on; `None` for
    /// a controller that keeps none.
    pub fn kept_state(&mut self) -> Option<stasis_nvme::KeptState> {
        Some(nvme_of(&mut *self.controller)?.kept_state(&mut *self.drive))
    }

    /// Returns whether a write to `offset` announces commands.
    pub fn is_doorbell(&self, offset: u64) -> bool {
        self.controller.is_doorbell(offset)
    }

    /// Returns the number of functions on the bus that lead to it.
    pub fn paths(&self) -> usize {
        self.paths
    }

    /// The guest begins or ends to need help from those it shares the drive with.
    pub fn help(&mut self, now: Nanos, on: bool) {
        if let Some(tenant) = &self.tenant {
            // The layers above the shared drive act at the times of their own events.
            self.drive.advance(now, &mut self.done);
            tenant.help(now, on);
        }
    }

    /// The guest's scheduler prefers the requests that it sends next for these sectors of 512
    /// bytes.
    pub fn urge(&mut self, sectors: &mut dyn Iterator<Item = u64>) {
        if self.tenant.is_some() {
            self.urgent.expect(sectors);
        }
    }

    /// The guest reads a path's register.
    pub fn read(&mut self, path: usize, offset: u64, into: &mut [u8]) {
        self.controller.read(path, offset, into);
    }

    /// The guest writes the register of a path at `place` at virtual time `now`.
    pub fn write(&mut self, memory: &GuestMemory, now: Nanos, place: (usize, u64), data: &[u8]) {
        self.controller.write(memory, now, &mut *self.drive, place, data);
        self.submit(now);
    }

    /// Returns the number of commands that the drive has been given.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Returns whether submissions are found by polling only.
    pub fn is_lazy(&self) -> bool {
        self.lazy
    }

    /// Looks for submissions, if the controller is a lazy one.
    pub fn poll(&mut self, memory: &GuestMemory, now: Nanos) {
        if self.lazy && self.controller.poll(memory, now) {
            self.submit(now);
        }
    }

    fn submit(&mut self, now: Nanos) {
        while let Some(mut request) = self.controller.pop_request() {
            request.urgent = self.urgent.take(&request.command);
            self.submitted += 1;
            if let Some(names) = &mut self.names {
                request.tag = names.name(request.tag);
            }
            self.drive.submit(now, request);
        }
        while let Some(refused) = self.controller.pop_refused() {
            self.refused.push((now, refused));
        }
    }

    /// Returns the time at which [`DriveDevice::advance`] is to be called next: for the drive's
    /// model, for the controller, or for refused requests, which are recorded at once: the guest
    /// may repeat them for ever.
    pub fn next_event(&self) -> Option<Nanos> {
        let done = self.done.first().map(|done| done.at);
        let refused = self.refused.first().map(|(at, _)| *at);
        let events = [self.drive.next_event(), self.controller.next_event(), done, refused];
        events.into_iter().flatten().min()
    }

    /// The next MSI-X vector of a path to signal.
    pub fn pop_interrupt(&mut self, path: usize) -> Option<u16> {
        self.controller.pop_interrupt(path)
    }

    /// Delivers what is due at `now`; each I/O is passed to `record`.
    pub fn advance(
        &mut self,
        memory: &GuestMemory,
        now: Nanos,
        boot: bool,
        mut record: impl FnMut(IoRecord),
    ) {
        if let Some(nvme) = nvme_of(&mut *self.controller) {
            nvme.set_time(memory, now);
        }
        self.drive.advance(now, &mut self.done);
        let drive = self.drive.properties().index;
        let mut done = std::mem::take(&mut self.done);
        for mut done in done.drain(..) {
            if let Some(names) = &mut self.names {
                // A command of a controller that is no more.
                let Some(tag) = names.take(done.tag) else { continue };
                done.tag = tag;
            }
            let mut entry = IoRecord { drive, boot, delivered: now, ..done.record() };
            self.controller.complete(memory, &mut *self.drive, done, &mut entry);
            record(entry);
        }
        self.done = done;
        // A completion can make room for commands that waited.
        self.submit(now);
        for (at, refused) in self.refused.drain(..) {
            let order = self.submitted;
            record(IoRecord { drive, boot, order, ..IoRecord::of_refused(&refused, at) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_a_controller_are_under_way_until_they_end_or_it_is_no_more() {
        let mut names = Names::default();
        let [first, second, third] = [7, 8, 9].map(|tag| names.name(tag));
        assert_eq!((names.under_way(), names.take(second)), (3, Some(8)));
        assert_eq!(names.under_way(), 2);
        names.resets += 1;
        assert_eq!(names.under_way(), 0, "they were cut off once");
        let again = names.name(7);
        assert_eq!((names.under_way(), names.take(first)), (1, None));
        assert_eq!((names.take(third), names.take(again), names.under_way()), (None, Some(7), 0));
    }
}
