//! Registers by capsules (NVMe-oF 1.1 sections 3.4 and 3.5).

use crate::capsules::{kind, refuse};
use crate::command::{location, Dword, SubmissionEntry};
use crate::context::ControllerMut;
use crate::registers as reg;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

impl ControllerMut<'_> {
    /// Carries out a command of fabrics of a connected admin queue.
    pub(super) fn execute_fabrics(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        // The type lies where other commands have their namespace.
        match command.nsid.byte(0) {
            kind::PROPERTY_GET => get_property(self, command),
            kind::PROPERTY_SET => set_property(self, memory, command),
            _ => refuse(command),
        }
    }
}

/// Attributes of a property: its size.
fn size(command: &SubmissionEntry) -> Result<usize, Failure> {
    match command.cdw10 & 7 {
        0 => Ok(4),
        1 => Ok(8),
        _ => Err(StatusCode::InvalidField.at(location::CDW10)),
    }
}

/// Property Get (NVMe-oF 1.1 section 3.4): CAP, VS, CC and CSTS.
fn get_property(
    controller: &mut ControllerMut,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let size = size(command)?;
    let offset = u64::from(command.cdw11);
    let right = match offset {
        reg::CAP => size == 8,
        reg::VS | reg::CC | reg::CSTS => size == 4,
        _ => false,
    };
    if !right {
        return Err(StatusCode::InvalidField.at(location::CDW11));
    }
    let mut value = [0; 8];
    controller.read_register(offset, &mut value[..size]);
    Ok(Outcome::Done(u64::from_le_bytes(value)))
}

/// Property Set (NVMe-oF 1.1 section 3.5): CC.
fn set_property(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    if size(command)? != 4 || u64::from(command.cdw11) != reg::CC {
        return Err(StatusCode::InvalidField.at(location::CDW11));
    }
    controller.configure(memory, command.cdw12);
    Ok(Outcome::Done(0))
}
