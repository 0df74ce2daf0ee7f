//! The interface through which a guest sees a drive: a choice, of which `drives` owns the device.

use stasis_block::Link;

/// The interface through which the guest sees a drive.
#[derive(Debug, Clone)]
pub enum Controller {
    /// NVMe controllers of one subsystem, each at a root port.
    Nvme {
        /// The subsystem.
        config: Box<stasis_nvme::Config>,
        /// The state that it has kept while its power was off.
        state: Option<Box<stasis_nvme::KeptState>>,
        /// The link of PCI Express of each controller.
        link: Link,
        /// Number of blocks.
        controllers: u16,
    },
    /// A virtio block device.
    Virtio(stasis_virtio::Config),
}
