//! How a host reaches its controller.

use crate::admin::Commands;
use crate::commands::{COMMANDS, DISCOVERY_COMMANDS, FABRICS_COMMANDS};

/// How a host reaches a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// By registers, and queues and data in the host's memory.
    Pcie,
    /// By capsules (NVMe over Fabrics 1.1): queues are made by Connect, and their entries come and
    /// go with messages.
    Fabrics,
    /// The same, of a discovery controller.
    Discovery,
}

impl Transport {
    /// Whether queue entries come and go with messages.
    pub fn has_capsules(self) -> bool {
        self != Self::Pcie
    }

    /// The commands that a controller of this transport has.
    pub(crate) fn commands(self) -> &'static Commands {
        match self {
            Self::Pcie => &COMMANDS,
            Self::Fabrics => &FABRICS_COMMANDS,
            Self::Discovery => &DISCOVERY_COMMANDS,
        }
    }
}
