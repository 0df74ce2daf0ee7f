//! Why a processor left guest mode, as a value: the request of an exit can then wait for its turn
//! in virtual time.

use crate::freeze::ExitPath;
use crate::layout::{TSC_DEADLINE, X2APIC};
use crate::{apic, layout, pvclock};

/// Why a processor left guest mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// Its slice was ended from outside.
    Interrupted,
    /// HLT.
    Halt,
    /// An interrupt can be injected now.
    Window,
    /// WRMSR of a register that is this program's.
    MsrWrite {
        /// The register.
        number: u32,
        /// The value.
        value: u64,
    },
    /// RDMSR, to be answered.
    MsrRead {
        /// The register.
        number: u32,
    },
    /// A store to a device's memory.
    MmioWrite {
        /// Guest-physical address.
        address: u64,
        /// The bytes stored, and how many of them are valid.
        data: ([u8; 8], usize),
    },
    /// A load from a device's memory, to be answered.
    MmioRead {
        /// Guest-physical address.
        address: u64,
    },
    /// OUT; the data are in the exit's place for data.
    PortWrite {
        /// The port.
        port: u16,
    },
    /// IN, to be answered.
    PortRead {
        /// The port.
        port: u16,
    },
    /// A triple fault.
    Shutdown,
    /// An exit that no guest can cause here.
    Unknown(String),
}

impl Exit {
    /// How it left guest mode, as far as costs differ.
    pub fn path(&self) -> ExitPath {
        match self {
            Self::Interrupted => ExitPath::Kick,
            Self::Halt => ExitPath::Halt,
            Self::MsrWrite { .. } => ExitPath::MsrWrite,
            Self::MsrRead { .. } => ExitPath::MsrRead,
            Self::MmioWrite { .. } => ExitPath::MmioWrite,
            Self::MmioRead { .. } => ExitPath::MmioRead,
            Self::PortWrite { .. } | Self::PortRead { .. } => ExitPath::Port,
            Self::Window | Self::Shutdown | Self::Unknown(_) => ExitPath::Other,
        }
    }

    /// Whether it concerns its own processor only. Others have an effect that
    /// the rest of the machine can see, and take place in the order of virtual
    /// time.
    pub fn is_local(&self) -> bool {
        match *self {
            Self::Interrupted | Self::Halt | Self::Window | Self::MsrRead { .. } => true,
            Self::MsrWrite { number, .. } => {
                number == TSC_DEADLINE
                    || pvclock::MSRS.contains(&number)
                    || X2APIC.contains(&number) && apic::is_local(number & 0xff)
            }
            Self::MmioWrite { address, .. } | Self::MmioRead { address } => {
                let offset = address.wrapping_sub(layout::LOCAL_APIC);
                offset < 0x1000 && apic::is_local((offset >> 4) as u32)
            }
            Self::PortWrite { .. } | Self::PortRead { .. } | Self::Shutdown | Self::Unknown(_) => {
                false
            }
        }
    }
}
