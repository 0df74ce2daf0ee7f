//! Creating and deleting I/O queues (NVMe 1.4 sections 5.3 to 5.6).

use crate::command::{location, Dword, SubmissionEntry, CQE_SIZE, SQE_SIZE};
use crate::context::ControllerMut;
use crate::queue::{CompletionQueue, SubmissionQueue};
use crate::status::{Failure, Outcome, StatusCode};
use crate::{Memory, PAGE_SIZE};

use crate::context::AdminCommand;

/// Physically Contiguous, in Dword 11.
const CONTIGUOUS: u32 = 1;
/// Interrupts Enabled, in Dword 11 of Create I/O Completion Queue.
const INTERRUPTS_ENABLED: u32 = 1 << 1;

pub const DELETE_SUBMISSION_QUEUE: AdminCommand =
    AdminCommand::plain(0x00, delete_submission_queue);

pub const CREATE_SUBMISSION_QUEUE: AdminCommand =
    AdminCommand::plain(0x01, create_submission_queue);

pub const DELETE_COMPLETION_QUEUE: AdminCommand =
    AdminCommand::plain(0x04, delete_completion_queue);

pub const CREATE_COMPLETION_QUEUE: AdminCommand =
    AdminCommand::plain(0x05, create_completion_queue);

/// The identifier and size that a Create command asks for, if they and its
/// memory can be used.
fn new_queue(
    controller: &ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
    entry_size: usize,
    in_use: impl Fn(u16) -> bool,
) -> Result<(u16, u16), Failure> {
    if !controller.host.registers.entry_sizes_are_set() {
        return Err(StatusCode::InvalidQueueSize.at(location::CDW10));
    }
    let id = command.cdw10.low();
    if id == 0 || id > controller.io.config.queue_pairs || in_use(id) {
        return Err(StatusCode::InvalidQueueIdentifier.at(location::CDW10));
    }
    let last = command.cdw10.high();
    if last == 0 || last >= controller.io.config.queue_entries {
        return Err(StatusCode::InvalidQueueSize.at(location::CDW10 + 2));
    }
    // CAP.CQR: only contiguous queues are offered.
    if command.cdw11 & CONTIGUOUS == 0 {
        return Err(StatusCode::InvalidField.at(location::CDW11));
    }
    if !command.prp1.is_multiple_of(PAGE_SIZE as u64) {
        return Err(StatusCode::InvalidPrpOffset.at(location::PRP1));
    }
    let size = last + 1;
    if !memory.contains(command.prp1, usize::from(size) * entry_size) {
        return Err(StatusCode::InvalidField.at(location::PRP1));
    }
    Ok((id, size))
}

/// Create I/O Completion Queue (section 5.3).
fn create_completion_queue(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let in_use = |id| controller.host.queues.completion(id).is_some();
    let (id, size) = new_queue(controller, memory, command, CQE_SIZE, in_use)?;
    let vector = command.cdw11.high();
    if vector >= controller.io.config.vectors() {
        return Err(StatusCode::InvalidInterruptVector.at(location::CDW11 + 2));
    }
    if let Some(shadow) = controller.host.queues.shadow_of(id) {
        shadow.clear_head(memory, id)?;
        shadow.set_head_event(memory, id, 0, size, false)?;
    }
    let vector = Some(vector).filter(|_| command.cdw11 & INTERRUPTS_ENABLED != 0);
    controller.host.queues.create_completion(id, CompletionQueue::new(command.prp1, size, vector));
    Ok(Outcome::Done(0))
}

/// Create I/O Submission Queue (section 5.4). Its priority matters only
/// under weighted round robin, which is not offered.
fn create_submission_queue(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let in_use = |id| controller.host.queues.submission(id).is_some();
    let (id, size) = new_queue(controller, memory, command, SQE_SIZE, in_use)?;
    let cq_id = command.cdw11.high();
    let policy = controller.io.config.shadow;
    // The admin completion queue serves no I/O queue.
    if cq_id == 0 || controller.host.queues.completion(cq_id).is_none() {
        return Err(StatusCode::InvalidCompletionQueue.at(location::CDW11 + 2));
    }
    if let Some(shadow) = controller.host.queues.shadow_of(id) {
        shadow.clear_tail(memory, id)?;
        shadow.set_tail_event(memory, id, 0, size, policy)?;
    }
    controller.host.queues.create_submission(id, SubmissionQueue::new(command.prp1, size, cq_id));
    Ok(Outcome::Done(0))
}

/// Delete I/O Submission Queue (section 5.6). Its commands are aborted.
fn delete_submission_queue(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let id = command.cdw10.low();
    if id == 0 || controller.host.queues.submission(id).is_none() {
        return Err(StatusCode::InvalidQueueIdentifier.at(location::CDW10));
    }
    let mut aborted = Vec::new();
    controller
        .io
        .commands
        .slots
        .abandon(|command| command.sq == id, |command| aborted.push(command));
    for command in aborted {
        let why = StatusCode::AbortedBySubmissionQueueDeletion;
        controller.host.post_failure(memory, command, why.into(), 0, 0);
    }
    controller.go_on_formatting(memory);
    controller.host.queues.delete_submission(id);
    Ok(Outcome::Done(0))
}

/// Delete I/O Completion Queue (section 5.5), after its submission queues.
fn delete_completion_queue(
    controller: &mut ControllerMut,
    _memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let deleted = controller.host.queues.delete_completion(command.cdw10.low());
    deleted.map(|()| Outcome::Done(0)).map_err(|status| status.at(location::CDW10))
}
