//! Fields that several structures of Identify have.

use stasis_nvme_layout::identify::NamespaceList;

use crate::config::{Config, Namespace};
use crate::context::ControllerMut;
use crate::narrow::bits;
use crate::{ana, reservations, PAGE_SIZE};

/// The fields of a namespace that it has in each structure, in different places.
pub(super) struct Common {
    /// Other controllers may have it too.
    pub nmic: u8,
    pub rescap: u8,
    pub anagrpid: u32,
    /// Bit 0: it cannot be written now, for whatever reason.
    pub nsattr: u8,
    pub endgid: u16,
    pub nvmsetid: u16,
}

impl Common {
    pub fn of(controller: &ControllerMut, nsid: u32, namespace: &Namespace) -> Self {
        let ControllerMut { host, io, .. } = controller;
        let is_shared = host.transport.is_shared();
        let reserves = is_shared && namespace.ocssd.is_none();
        Self {
            nmic: io.namespaces.creation(nsid).map_or(is_shared, |creation| creation.shared).into(),
            rescap: if reserves { reservations::CAPABILITIES } else { 0 },
            anagrpid: if is_shared { ana::GROUP } else { 0 },
            nsattr: (namespace.read_only || io.condition.health().read_only).into(),
            endgid: io.namespaces.endurance_group(nsid),
            nvmsetid: namespace.nvm_set,
        }
    }
}

/// Limit on transfers, in pages as a power of two: MDTS, and limits in its unit.
pub(super) fn most_pages(config: &Config) -> u8 {
    bits(config.max_transfer.trailing_zeros() - PAGE_SIZE.trailing_zeros())
}

/// Fills a list of namespaces.
pub(super) fn fill_nsids(page: &mut NamespaceList, nsids: impl Iterator<Item = u32>) {
    page.nsids.iter_mut().zip(nsids).for_each(|(entry, nsid)| entry.set(nsid));
}
