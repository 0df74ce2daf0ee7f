//! Memory Read, Write and Fill (SLM section 3.2), and Execute Program (CP section 3.2.1).

use crate::command::{location, Dword, SubmissionEntry};
use crate::computing::config::Part;
use crate::computing::work::{Call, Done, Holds};
use crate::computing::{COMPUTE_CSI, MEMORY_CSI};
use crate::config::Config;
use crate::io::{Io, IoCommand, IoExecute};
use crate::narrow::{dwords, size};
use crate::registered::{CHANGES_CONTENTS, SUPPORTED};
use crate::status::{Failure, Outcome, StatusCode};
use crate::{slices, Memory};

use super::device::{Device, Task};

pub(super) const fn command(
    (part, opcode): (Part, u8),
    changes: u32,
    execute: IoExecute,
) -> IoCommand {
    IoCommand {
        opcode,
        effects: SUPPORTED | changes,
        announced: match part {
            Part::Memory => |config: &Config, set| set == MEMORY_CSI && config.programs.is_some(),
            Part::Compute => |config: &Config, set| set == COMPUTE_CSI && config.programs.is_some(),
        },
        identify: 0,
        // They are no I/O of the drive.
        counts_as: None,
        during_sanitize: false,
        execute,
    }
}

pub const MEMORY_READ: IoCommand = command((Part::Memory, 0x02), 0, read);
pub const MEMORY_FILL: IoCommand = command((Part::Memory, 0x04), CHANGES_CONTENTS, fill);
pub const MEMORY_WRITE: IoCommand = command((Part::Memory, 0x05), CHANGES_CONTENTS, write);
pub const EXECUTE_PROGRAM: IoCommand = command((Part::Compute, 0x01), CHANGES_CONTENTS, execute);

/// Bytes are accessed in units of a dword.
pub(super) const UNIT: u64 = 4;

impl Io {
    /// The device of computational programs.
    ///
    /// # Errors
    /// The drive has none.
    pub fn device(&mut self) -> Result<&mut Device, Failure> {
        self.computing.as_mut().ok_or(StatusCode::InvalidOpcode.at(location::OPCODE))
    }

    /// A command that moves `bytes` bytes of the memory ends when it has.
    pub(super) fn end_after_transfer(
        &mut self,
        command: &SubmissionEntry,
        bytes: u64,
    ) -> Result<Outcome, Failure> {
        if bytes == 0 {
            return Ok(Outcome::Done(0));
        }
        let config = self.device()?.config;
        let end = self.commands.slots.work.transfer(&config, self.now, bytes);
        let done = Done { command: command.id(), nsid: command.nsid, result: Ok(0) };
        self.commands.slots.work.end_at(end, done);
        Ok(Outcome::Pending)
    }
}

/// Starting Byte in Dwords 10 and 11, and the length in Dword 12, both in whole dwords: the bytes
/// that they name.
fn range<'a>(device: &'a mut Device, command: &SubmissionEntry) -> Result<&'a mut [u8], Failure> {
    let (start, length) = (command.starting_lba(), u64::from(command.cdw12));
    if !start.is_multiple_of(UNIT) {
        return Err(StatusCode::InvalidField.at(location::CDW10));
    }
    let bytes = device.bytes(start, length).filter(|_| length.is_multiple_of(UNIT));
    bytes.ok_or(StatusCode::InvalidField.at(location::CDW12))
}

fn read(io: &mut Io, memory: &dyn Memory, command: &SubmissionEntry) -> Result<Outcome, Failure> {
    let bytes = u64::from(command.cdw12);
    io.check_length(bytes)?;
    range(io.device()?, command)?;
    if bytes > 0 {
        io.lend(|io, lease| {
            lease.segments = io.commands.buffers.segments_of(memory, command, size(bytes))?;
            let bytes = range(io.device()?, command)?;
            stasis_block::memory::scatter(memory, &lease.segments, bytes).map_err(Failure::from)
        })?;
    }
    io.end_after_transfer(command, bytes)
}

fn write(io: &mut Io, memory: &dyn Memory, command: &SubmissionEntry) -> Result<Outcome, Failure> {
    let bytes = u64::from(command.cdw12);
    io.check_length(bytes)?;
    range(io.device()?, command)?;
    if bytes > 0 {
        io.lend(|io, lease| {
            lease.segments = io.commands.buffers.segments_of(memory, command, size(bytes))?;
            // All of it arrives, or none.
            lease.data = io.commands.buffers.take(size(bytes));
            stasis_block::memory::gather(memory, &lease.segments, &mut lease.data)?;
            range(io.device()?, command)?.copy_from_slice(&lease.data);
            Ok::<_, Failure>(())
        })?;
    }
    io.end_after_transfer(command, bytes)
}

/// Zeroes.
fn fill(io: &mut Io, _memory: &dyn Memory, command: &SubmissionEntry) -> Result<Outcome, Failure> {
    let length = range(io.device()?, command)?.len();
    if !io.slices.divides() || length <= slices::CLEARED {
        range(io.device()?, command)?.fill(0);
        return io.end_after_transfer(command, command.cdw12.into());
    }
    let at = command.starting_lba();
    let task = Task::Clear { at, end: at + u64::from(command.cdw12) };
    io.begin_task(Some(command.id()), command.nsid, Holds::Nothing, task);
    Ok(Outcome::Pending)
}

/// Program and set of ranges in Dword 2, the number of ranges that come with the command in Dword 3,
/// the length of the data in Dword 4, and two parameters in Dwords 10 to 13 (CP figures 16 to 22).
fn execute(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let (program, set) = (command.cdw2.low(), command.cdw2.high());
    // Ranges come in sets only.
    if command.cdw3 != 0 {
        return Err(StatusCode::InvalidField.at(location::CDW2 + 4));
    }
    let [bytes, _] = dwords(command.mptr);
    if bytes > io.config.max_transfer {
        return Err(StatusCode::InvalidField.at(location::MPTR));
    }
    let checked = io.device()?.check(program, set);
    checked.map_err(|status| status.at(location::CDW2))?;
    io.lend(|io, lease| {
        lease.data = io.commands.buffers.take_for(bytes as usize);
        if bytes > 0 {
            io.receive(memory, command, &mut lease.data)?;
        }
        let parameter = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let parameters =
            [parameter(command.cdw10, command.cdw11), parameter(command.cdw12, command.cdw13)];
        let call = Call { program, set, parameters, data: lease.take_data() };
        io.execute_program(command.id(), command.nsid, call);
        Ok(Outcome::Pending)
    })
}
