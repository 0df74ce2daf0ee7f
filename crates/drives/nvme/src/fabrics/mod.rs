//! NVMe over Fabrics: how a host makes its controller and queues, and reads and writes registers,
//! by capsules ("NVM Express over Fabrics, revision 1.1" of 2019-10-22, cited as "NVMe-oF 1.1").

mod connect;
mod discovery;

pub use connect::{Connect, ConnectError, Connected, ConnectedHost, CONNECT_DATA};
pub use discovery::{DiscoveryEntry, DISCOVERY_NQN};
pub(crate) use discovery::{DISCOVERY_LOG, IDENTIFY_DISCOVERY};

use crate::admin::AdminCommand;
use crate::command::{location, SubmissionEntry, CQE_SIZE, SQE_SIZE};
use crate::controller::ControllerMut;
use crate::registers as reg;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

/// Opcode of all commands of fabrics (NVMe-oF 1.1 section 3).
pub const OPCODE: u8 = 0x7f;

/// Fabrics Command Types (NVMe-oF 1.1 figure 16).
pub(crate) mod kind {
    pub const PROPERTY_SET: u8 = 0x00;
    pub const CONNECT: u8 = 0x01;
    pub const PROPERTY_GET: u8 = 0x04;
}

/// Limit on the data in a command capsule, in bytes.
pub const IN_CAPSULE: u32 = 16 << 10;
/// I/O Queue Command Capsule Supported Size, in units of 16 bytes.
pub const IOCCSZ: u32 = (SQE_SIZE as u32 + IN_CAPSULE) / 16;
/// I/O Queue Response Capsule Supported Size, in units of 16 bytes.
pub const IORCSZ: u32 = CQE_SIZE as u32 / 16;

/// The commands of fabrics of a connected admin queue.
pub(crate) const COMMAND: AdminCommand = AdminCommand::plain(OPCODE, execute);

fn execute(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    // The type lies where other commands have their namespace.
    match command.nsid as u8 {
        kind::PROPERTY_GET => get_property(controller, command),
        kind::PROPERTY_SET => set_property(controller, memory, command),
        _ => refuse(command),
    }
}

/// Refuses a command of fabrics: one that is there, but not on this queue or not now; or one that
/// is not offered, as Disconnect and authentication.
pub(crate) fn refuse(command: &SubmissionEntry) -> Result<Outcome, Failure> {
    Err(match command.nsid as u8 {
        kind::CONNECT | kind::PROPERTY_GET | kind::PROPERTY_SET => {
            StatusCode::CommandSequenceError.at(location::NSID)
        }
        _ => StatusCode::InvalidOpcode.at(location::NSID),
    })
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
