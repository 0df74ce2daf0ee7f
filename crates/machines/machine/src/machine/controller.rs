//! The interface through which a guest sees a drive.

use stasis_block::Link;

/// The interface through which the guest sees a drive.
#[derive(Debug, Clone)]
pub enum Controller {
    /// An NVMe controller, the state that it has kept while its power was off, and its link of PCI
    /// Express.
    Nvme(stasis_nvme::Config, Option<Box<stasis_nvme::KeptState>>, Link),
    /// A virtio block device.
    Virtio(stasis_virtio::Config),
}
