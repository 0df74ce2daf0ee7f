//! A controller: its registers, and the way of a command through it from a doorbell or a capsule
//! to a completion.

mod completions;
mod dispatch;
mod doorbells;
mod fusing;
mod lifecycle;
mod properties;

pub use completions::Ended;

use stasis_block::VendorError;

use crate::capsules::{CapsuleFault, DiscoveryEntry};
use crate::command::{CommandId, CQE_SIZE, SQE_SIZE};
use crate::context::ControllerMut;
use crate::memory_buffer::{self, Seen};
use crate::narrow::bits;
use crate::registers as reg;
use crate::Memory;

impl ControllerMut<'_> {
    /// Reads the register at `offset`: aligned, 4 or 8 bytes. Anything else
    /// reads zero.
    pub fn read_register(&mut self, offset: u64, into: &mut [u8]) {
        into.fill(0);
        if !matches!(into.len(), 4 | 8) || !offset.is_multiple_of(4) {
            return;
        }
        for (index, part) in into.chunks_exact_mut(4).enumerate() {
            let at = offset.saturating_add(4 * index as u64);
            part.copy_from_slice(&self.host.registers.read(at, &self.io.config).to_le_bytes());
        }
    }

    /// Writes the register at `offset`: aligned, 4 or 8 bytes (a doorbell only
    /// 4). Anything else is ignored. Admin commands are executed at once, I/O
    /// commands become requests.
    pub fn write_register(&mut self, memory: &dyn Memory, offset: u64, data: &[u8]) {
        if !matches!(data.len(), 4 | 8) || !offset.is_multiple_of(4) {
            return;
        }
        let view = self.seen(memory);
        let memory = view.memory();
        for (index, part) in data.chunks_exact(4).enumerate() {
            let value = u32::from_le_bytes([part[0], part[1], part[2], part[3]]);
            let at = offset.saturating_add(4 * index as u64);
            match doorbells::doorbell(at) {
                Some(_) if data.len() != 4 => {}
                Some(doorbell) => self.ring(memory, doorbell, value),
                None if at == reg::CC => self.configure(memory, value),
                None if self.io.config.memory_buffer.is_some() && memory_buffer::owns(at) => {
                    self.host.registers.memory_buffer.write(at, value);
                }
                None => self.host.registers.write_admin_queue(at, value),
            }
        }
    }

    /// Looks at the shadow doorbells of all I/O queues, and fetches the commands that they
    /// announce.
    pub fn poll_shadow(&mut self, memory: &dyn Memory) {
        if !self.host.is_running() || !self.host.queues.has_shadow() {
            return;
        }
        let view = self.seen(memory);
        let memory = view.memory();
        let moved = self.host.queues.moved(memory);
        let Some(mut moved) = self.host.or_fatal(moved) else { return };
        while moved != 0 {
            let queue = bits(moved.trailing_zeros()).into();
            moved &= moved - 1;
            self.fetch_by_shadow(memory, queue);
        }
        self.resume_if_waiting(memory);
    }

    /// Holds completions until [`ControllerMut::release`], so that the carrier can keep the state
    /// that they depend on before the host sees them.
    pub fn hold_completions(&mut self) {
        self.host.holds = true;
    }

    /// Returns whether completions wait for [`ControllerMut::release`]: also once more after it,
    /// where it went on with commands that it has ended.
    pub fn is_holding(&self) -> bool {
        self.host.is_holding()
    }

    /// The next MSI-X vector to signal.
    pub fn pop_interrupt(&mut self) -> Option<u16> {
        self.host.interrupts.pop()
    }

    /// The offset of the next doorbell that begins again at 0, as its queue has come or gone: for a
    /// carrier that keeps the doorbells in memory, where hosts write and it looks.
    pub fn pop_stale_doorbell(&mut self) -> Option<u64> {
        self.host.queues.pop_stale().map(|index| reg::DOORBELLS + 4 * index)
    }

    /// Returns whether the driver has configured shadow doorbells, so that
    /// [`ControllerMut::poll_shadow`] does something.
    pub fn has_shadow(&self) -> bool {
        self.host.queues.has_shadow()
    }

    /// Returns whether the controller has failed (`CSTS.CFS`): only a reset helps.
    pub fn has_failed(&self) -> bool {
        self.host.has_failed()
    }

    /// The drive has carried out the vendor specific command `tag`, or refused
    /// it: gives `data` to the guest if that is its direction, and posts the
    /// completion with Dword 0. A tag that does not wait is ignored.
    pub fn complete_vendor(
        &mut self,
        memory: &dyn Memory,
        tag: u32,
        result: Result<u32, VendorError>,
        data: &[u8],
    ) {
        let view = self.seen(memory);
        let memory = view.memory();
        match self.vendor.complete(memory, tag, result, data) {
            None => {}
            Some((id, Ok(result))) => self.host.post(memory, id, 0, result.into()),
            Some((id, Err(failure))) => self.host.post_failure(memory, id, failure, 0, 0),
        }
    }

    /// Takes a command that came in a capsule of queue `queue`, and carries it out when there is
    /// room. Returns whether the queue is there and not full. The command's data block gives the
    /// place of its data in `memory`; with a `fault` of the block it fails where it gets as far as its
    /// data.
    pub fn submit(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        raw: [u8; SQE_SIZE],
        fault: Option<CapsuleFault>,
    ) -> bool {
        let taken = self.host.queues.submission_mut(queue).is_some_and(|sq| sq.push(raw, fault));
        if taken {
            self.fetch(memory, queue);
            self.report_changes(memory);
        }
        taken
    }

    /// Ends a command of queue `queue` that its transport could not hand over, or carried out
    /// itself.
    pub fn pass(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        cid: u16,
        outcome: Result<(), CapsuleFault>,
    ) {
        let Some(sq) = self.host.queues.submission_mut(queue) else { return };
        sq.pass();
        let id = CommandId { controller: self.host.id, sq: queue, cid };
        self.host.post(memory, id, outcome.map_or_else(CapsuleFault::field, |()| 0), 0);
    }

    /// The next completion of queue `queue` that goes in a capsule.
    pub fn pop_completion(&mut self, queue: u16) -> Option<[u8; CQE_SIZE]> {
        self.host.queues.completion_mut(queue)?.pop()
    }

    /// Returns whether the queue `queue` is there: a reset of the controller takes the I/O queues
    /// away.
    pub fn has_queue(&self, queue: u16) -> bool {
        self.host.queues.submission(queue).is_some()
    }

    /// Removes an I/O queue whose connection has ended: its commands are dropped.
    pub fn disconnect(&mut self, queue: u16) {
        let id = self.host.id;
        self.io
            .commands
            .slots
            .abandon(|command| command.controller == id && command.sq == queue, |_| ());
        self.host.queues.delete_submission(queue);
        let _ = self.host.queues.delete_completion(queue);
    }

    /// The carrier has put the controller's [memory buffer](crate::Config::memory_buffer) at
    /// `address` of the host's memory.
    pub fn place_memory_buffer(&mut self, address: u64) {
        self.host.registers.memory_buffer.place(address);
    }

    /// The host's memory as the controller sees it.
    fn seen<'m>(&self, memory: &'m dyn Memory) -> Seen<'m> {
        self.host.registers.memory_buffer.seen(self.io.config.memory_buffer, memory)
    }

    /// Names the subsystems that a discovery controller reports.
    pub fn set_discovery(&mut self, entries: Vec<DiscoveryEntry>) {
        self.host.discovery = entries;
    }

    /// Posts the completions that were held back, and goes on with the commands that waited for
    /// them: their completions are held in turn.
    pub fn release(&mut self, memory: &dyn Memory) {
        let view = self.seen(memory);
        let memory = view.memory();
        self.host.release(memory);
        self.resume_if_waiting(memory);
    }

    /// Goes on with what waits for another controller's commands, or was changed by them: to be
    /// called where [`crate::Subsystem::waiting`] names the controller.
    pub fn attend(&mut self, memory: &dyn Memory) {
        let view = self.seen(memory);
        let memory = view.memory();
        self.host.has_news = false;
        self.check_warnings(memory);
        self.go_on_formatting(memory);
        self.go_on_fused(memory);
        self.go_on_scans(memory);
        if !self.io.commands.slots.lists.is_empty() {
            self.go_on_lists(memory);
        }
        self.end_ended(memory);
        self.report_changes(memory);
        self.resume_if_waiting(memory);
    }
}
