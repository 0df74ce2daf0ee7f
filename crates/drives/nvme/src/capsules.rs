//! Capsules of NVMe over Fabrics: their sizes, the commands that are theirs alone, and names
//! ("NVM Express over Fabrics, revision 1.1" of 2019-10-22, cited as "NVMe-oF 1.1").

use crate::command::{location, Dword, SubmissionEntry, CQE_SIZE, SQE_SIZE};
use crate::narrow::constant16;
use crate::status::{Failure, Outcome, StatusCode};

pub use crate::capsule_fault::CapsuleFault;

/// The name of the discovery subsystem (NVMe-oF 1.1 section 1.5.2).
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Opcode of all commands of fabrics (NVMe-oF 1.1 section 3).
pub const OPCODE: u8 = 0x7f;

/// Fabrics Command Type of Connect.
pub const CONNECT: u8 = 0x01;

/// Fabrics Command Types (NVMe-oF 1.1 figure 16).
pub(crate) mod kind {
    pub use super::CONNECT;
    pub const PROPERTY_SET: u8 = 0x00;
    pub const PROPERTY_GET: u8 = 0x04;
}

/// Limit on the data in a command capsule, in bytes.
pub const IN_CAPSULE: u32 = 16 << 10;
/// I/O Queue Command Capsule Supported Size, in units of 16 bytes.
pub(crate) const IOCCSZ: u32 = (constant16(SQE_SIZE as u64) as u32 + IN_CAPSULE) / 16;
/// I/O Queue Response Capsule Supported Size, in units of 16 bytes.
pub(crate) const IORCSZ: u32 = constant16(CQE_SIZE as u64) as u32 / 16;

/// The controller of a Connect that leaves the choice to the subsystem (NVMe-oF 1.1 section 3.3).
pub(crate) const ANY_CONTROLLER: u16 = 0xffff;

/// A host, as it names itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectedHost {
    /// Its NVMe Qualified Name.
    pub nqn: String,
    /// Its Host Identifier, of 128 bits.
    pub id: [u8; 16],
}

/// An entry of the discovery log: a subsystem on a TCP port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveryEntry {
    /// The subsystem's NVMe Qualified Name.
    pub nqn: String,
    /// The path that this address is: the subsystem's port (PORTID).
    pub path: u16,
    /// The address by which it is reached.
    pub address: std::net::SocketAddr,
}

/// Refuses a command of fabrics: one that is there, but not on this queue or not now; or one that
/// is not offered, as Disconnect and authentication.
pub(crate) fn refuse(command: &SubmissionEntry) -> Result<Outcome, Failure> {
    Err(match command.nsid.byte(0) {
        kind::CONNECT | kind::PROPERTY_GET | kind::PROPERTY_SET => {
            StatusCode::CommandSequenceError.at(location::NSID)
        }
        _ => StatusCode::InvalidOpcode.at(location::NSID),
    })
}
