//! How a host reaches its controller.

/// How a host reaches a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// By registers, and queues and data in the host's memory.
    Pcie,
    /// The same, where the drive has several controllers, each of another host's.
    SharedPcie,
    /// By capsules (NVMe over Fabrics 1.1): queues are made by Connect, and their entries come and
    /// go with messages.
    Fabrics,
    /// The same, of a discovery controller.
    Discovery,
}

impl Transport {
    /// Whether queue entries come and go with messages.
    pub fn has_capsules(self) -> bool {
        matches!(self, Self::Fabrics | Self::Discovery)
    }

    /// Whether other hosts may have controllers of the subsystem.
    pub fn is_shared(self) -> bool {
        self != Self::Pcie
    }
}
