//! The way from a host to its controller.

/// The way from a host to a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// By registers, and queues and data in the host's memory.
    Pcie,
    /// As `Pcie`, for a drive with several controllers, each of another host.
    SharedPcie,
    /// By capsules (NVMe over Fabrics 1.1): queues are made by Connect, and their entries come and
    /// go with messages.
    Fabrics,
    /// As `Fabrics`, for a discovery controller.
    Discovery,
}

impl Transport {
    /// Returns whether queue entries come and go with messages.
    pub fn has_capsules(self) -> bool {
        matches!(self, Self::Fabrics | Self::Discovery)
    }

    /// Returns whether other hosts may have controllers of the subsystem.
    pub fn is_shared(self) -> bool {
        self != Self::Pcie
    }
}
