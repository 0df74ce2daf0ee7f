//! The device that a drive was to the guest, which a check must find again.

use serde::{Deserialize, Serialize};
use stasis_block::{ZoneLayout, ZonedPart};
use stasis_nvme::Zones;

/// The kind of device that a drive is to the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// An NVMe controller.
    Nvme,
    /// A virtio block device: the default of a trace without a kind.
    #[default]
    VirtioBlk,
}

/// A drive as the guest saw it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TracedDevice {
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Names of the device's disks below `/dev`, one for each namespace.
    pub names: Vec<String>,
    /// Serial number.
    pub serial: String,
    /// Logical block size in bytes; 0 stands for 512.
    pub block_size: u32,
    /// Size of each namespace in bytes; they lie one behind the other. 0: all of the drive.
    pub namespace: u64,
    /// The zones of each namespace, if they are of the Zoned Namespace command set.
    #[serde(deserialize_with = "stasis_nvme::older::layout")]
    pub zones: Option<Zones>,
    /// Zones that were not empty before the run: the first byte of each on the drive, and how many
    /// bytes of it were written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<(u64, u64)>,
    /// Reason why a check cannot have an equal drive, if it cannot.
    pub unlike: Option<String>,
}

impl TracedDevice {
    /// Logical block size in bytes.
    pub fn block(&self) -> u32 {
        self.block_size.max(512)
    }

    /// The zones by their places on the drive.
    pub fn layout(&self) -> ZoneLayout {
        let Some(zones) = &self.zones else { return ZoneLayout::default() };
        let namespaces = self.namespaces(u64::MAX).into_iter();
        let part = |(start, length)| ZonedPart {
            start,
            end: start.saturating_add(length),
            size: zones.size,
        };
        ZoneLayout::new(namespaces.map(part).collect())
    }

    /// The namespaces of a drive of `capacity` bytes: first byte and length of each.
    pub fn namespaces(&self, capacity: u64) -> Vec<(u64, u64)> {
        let count = self.names.len().max(1) as u64;
        match self.namespace {
            0 => vec![(0, capacity)],
            bytes => (0..count).map(|index| (index * bytes, bytes)).collect(),
        }
    }
}
