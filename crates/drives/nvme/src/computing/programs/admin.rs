//! Load Program, Program Activation Management, and Memory Range Set Management (CP section 4.1).

use stasis_nvme_layout::command_sets::MemoryRange;
use stasis_nvme_layout::IntoBytes;

use crate::command::{location, Dword, SubmissionEntry};
use crate::computing::config::Part;
use crate::computing::work::Holds;
use crate::config::Config;
use crate::context::{AdminCommand, AdminExecute, ControllerMut};
use crate::registered::{OF_NAMESPACE, SUPPORTED};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::device::{Finished, Range, MAX_RANGES};

const fn command(opcode: u8, execute: AdminExecute) -> AdminCommand {
    AdminCommand {
        opcode,
        effects: SUPPORTED | OF_NAMESPACE,
        announced: |config: &Config, _| config.programs.is_some(),
        identify: 0,
        counts_as: None,
        during_sanitize: false,
        execute,
    }
}

pub const LOAD_PROGRAM: AdminCommand = command(0x85, load_program);
pub const PROGRAM_ACTIVATION_MANAGEMENT: AdminCommand = command(0x88, manage_activation);
pub const MEMORY_RANGE_SET_MANAGEMENT: AdminCommand = command(0x89, manage_sets);

/// The program type of eBPF that finds its memory as this device gives it: one of a vendor.
const EBPF: u8 = 0xc0;

/// Checks that a command is for the compute namespace.
fn check_namespace(controller: &mut ControllerMut, nsid: u32) -> Result<(), Failure> {
    controller.io.device()?;
    match controller.io.namespace(nsid)?.computing {
        Some(Part::Compute) => controller.check_access(),
        _ => Err(StatusCode::InvalidNamespace.at(location::NSID)),
    }
}

/// Loads a piece of a program, or unloads one: index, type and what to do in Dword 10, the size of the
/// program in Dword 11, the bytes of the piece in Dword 14, and where they belong in Dword 15 (CP
/// figures 39 to 44). Pieces come in their order. The identifier in Dwords 12 and 13 is the host's
/// own, and is told nowhere.
fn load_program(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    check_namespace(controller, command.nsid)?;
    let io = &mut *controller.io;
    let index = command.cdw10.low();
    let at = |status: StatusCode| status.at(location::CDW10);
    if command.cdw10 >> 24 & 1 == 1 {
        let busy = io.commands.slots.work.uses(|program, _| program == index);
        io.device()?.unload(index, busy).map_err(at)?;
        return Ok(Outcome::Done(0));
    }
    if command.cdw10.byte(2) != EBPF {
        return Err(StatusCode::InvalidProgramType.at(location::CDW10 + 2));
    }
    let (size, bytes, offset) = (command.cdw11, command.cdw14, command.cdw15);
    if bytes == 0 || bytes > io.config.max_transfer {
        return Err(StatusCode::InvalidField.at(location::CDW14));
    }
    // A program that is being checked stays as it is.
    if io.commands.slots.work.is_checking(index) {
        return Err(StatusCode::ProgramInUse.at(location::CDW10));
    }
    io.lend(|io, lease| {
        lease.data = io.commands.buffers.take(bytes as usize);
        io.receive(memory, command, &mut lease.data)?;
        let loaded = io.device()?.load(index, size, offset, &lease.data).map_err(at)?;
        let Some(mut task) = loaded else { return Ok(Outcome::Done(0)) };
        if io.slices.divides() {
            let holds = Holds::Program(index);
            io.begin_task(Some(command.id()), command.nsid, holds, task);
            return Ok(Outcome::Pending);
        }
        loop {
            let finished = io.device()?.go_on(&mut task, u64::MAX, u64::MAX);
            if let Some(Finished::Check(result)) = finished {
                return result.map_err(at).map(|()| Outcome::Done(0));
            }
        }
    })
}

/// Index and what to do in Dword 10 (CP figure 52).
fn manage_activation(
    controller: &mut ControllerMut,
    _memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    check_namespace(controller, command.nsid)?;
    let io = &mut *controller.io;
    let index = command.cdw10.low();
    let active = match command.cdw10 >> 16 & 0xf {
        0 => false,
        1 => true,
        _ => return Err(StatusCode::InvalidField.at(location::CDW10 + 2)),
    };
    let busy = io.commands.slots.work.uses(|program, _| program == index);
    let managed = io.device()?.activate(index, active, busy);
    managed.map_err(|status| status.at(location::CDW10))?;
    Ok(Outcome::Done(0))
}

/// Creates a set of the ranges that the data has, or deletes one: what to do and which in Dword 10,
/// the number of ranges in Dword 11; Dword 0 of the completion is the set (CP figures 46 to 48).
fn manage_sets(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    check_namespace(controller, command.nsid)?;
    let memory_nsid = controller.io.namespaces.memory_nsid();
    let io = &mut *controller.io;
    let at = |status: StatusCode| status.at(location::CDW10);
    let id = command.cdw10.high();
    match command.cdw10 & 0xf {
        0 => {}
        1 => {
            let busy = io.commands.slots.work.uses(|_, set| set == id);
            io.device()?.delete_set(id, busy).map_err(at)?;
            return Ok(Outcome::Done(0));
        }
        _ => return Err(StatusCode::InvalidField.at(location::CDW10)),
    }
    let count = command.cdw11.byte(0);
    if count == 0 {
        return Err(StatusCode::InvalidField.at(location::CDW11));
    }
    if count > MAX_RANGES {
        return Err(StatusCode::MEMORY_RANGES_EXCEEDED.at(location::CDW11));
    }
    let mut entries = [MemoryRange::default(); MAX_RANGES as usize];
    let entries = &mut entries[..usize::from(count)];
    io.receive(memory, command, entries.as_mut_bytes())?;
    let mut ranges = Vec::new();
    for entry in entries {
        if Some(entry.nsid.get()) != memory_nsid {
            return Err(StatusCode::InvalidMemoryNamespace.at(location::PRP1));
        }
        ranges.push(Range { start: entry.start.get(), length: entry.length.get() });
    }
    let id = io.device()?.create_set(ranges);
    let id = id.map_err(|status| status.at(location::PRP1))?;
    Ok(Outcome::Done(id.into()))
}
