//! The drives of a machine for checks: the same to the guest as those whose power was cut, by
//! QEMU's own devices.

use std::io;

use stasis_channel::CheckedDisk;
use stasis_nvme::Zones;

use crate::scratch::Scratch;
use crate::{Backend, Cache, Config, Drive};

/// A drive as the guest sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// An NVMe controller; otherwise a virtio block device, which has one disk.
    pub nvme: bool,
    /// Its serial number.
    pub serial: String,
    /// Logical block size in bytes.
    pub block_size: u32,
    /// The zones of each disk.
    pub zones: Option<Zones>,
    /// Its disks: the namespaces, in order.
    pub disks: Vec<Disk>,
}

/// A disk of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Its name below `/dev`.
    pub name: String,
    /// Another name that checks may use for it.
    pub alias: Option<String>,
    /// Its size in bytes, a multiple of the block size.
    pub size: u64,
}

impl Device {
    /// A virtio drive of this size with blocks of 512 bytes, the only one or the `index`th.
    pub fn virtio(index: usize, size: u64) -> Self {
        let letter = char::from(b'a' + (index % 26) as u8);
        let disk = Disk { name: format!("vd{letter}"), alias: None, size };
        let serial = format!("stasis-{index}");
        Self { nvme: false, serial, block_size: 512, zones: None, disks: vec![disk] }
    }
}

/// Adds the drives `devices` to `config`; returns the disks of all of them, in order.
pub(crate) fn attach(config: &mut Config, devices: &[Device]) -> io::Result<Vec<Scratch>> {
    let mut disks = Vec::new();
    config.drives.clear();
    config.controllers.clear();
    for (index, device) in devices.iter().enumerate() {
        let serial = device.serial.replace(',', ",,");
        if device.nvme {
            config.controllers.push(format!("nvme,id=controller{index},serial={serial}"));
        }
        let block = device.block_size;
        let blocks = format!("logical_block_size={block},physical_block_size={block}");
        for (number, disk) in device.disks.iter().enumerate() {
            let scratch = Scratch::new(disk.size)?;
            let backend = Backend::Raw {
                path: scratch.path(),
                cache: Cache::Unsafe,
                read_only: false,
                locking: false,
            };
            let mut drive = Drive::new(backend);
            drive.options.clone_from(&blocks);
            drive.serial = Some(device.serial.clone());
            if device.nvme {
                // A namespace that is not shared has the kernel's name for such a one.
                let nsid = number + 1;
                let place = format!(",bus=controller{index},nsid={nsid},shared=off");
                drive.device = Some("nvme-ns".into());
                drive.options += &place;
                drive.options += &device.zones.as_ref().map(zones).unwrap_or_default();
            }
            config.drives.push(drive);
            disks.push(scratch);
        }
    }
    Ok(disks)
}

/// Options of QEMU's `nvme-ns`; 0 is no limit. It has no random write areas.
fn zones(zones: &Zones) -> String {
    let Zones { size, max_active, extension_size, reads_cross_zones, .. } = *zones;
    let capacity = zones.capacity();
    format!(
        ",zoned=on,zoned.zone_size={size},zoned.zone_capacity={capacity},zoned.max_open={},\
         zoned.max_active={},zoned.descr_ext_size={extension_size},zoned.cross_read={}",
        zones.max_open().unwrap_or(0),
        max_active.unwrap_or(0),
        if reads_cross_zones { "on" } else { "off" },
    )
}

/// The tasks of the guest with the disks before and after a check. `written`: returns the zones of
/// a disk, given by its number, that are not empty.
pub(crate) fn checked(
    devices: &[Device],
    mut written: impl FnMut(usize) -> Vec<(u64, u64)>,
) -> Vec<CheckedDisk> {
    let disks = devices.iter().flat_map(|device| device.disks.iter().map(move |d| (device, d)));
    let disks = disks.enumerate().map(|(index, (device, disk))| CheckedDisk {
        name: disk.name.clone(),
        alias: disk.alias.clone(),
        serial: device.serial.clone(),
        zoned: device.zones.is_some(),
        written: if device.zones.is_some() { written(index) } else { Vec::new() },
    });
    disks.collect()
}
