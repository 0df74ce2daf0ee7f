//! Payloads of replies.

use serde_json::{json, Map, Value};
use stasis_layout::IntoBytes;

use crate::layout::{self, BAR0_SIZE, DOORBELLS, DOORBELLS_SIZE};
use crate::limits::{MAX_DESCRIPTORS, MAX_TRANSFER};
use crate::payloads;

/// Bytes that follow a reply's header.
pub type Payload = Vec<u8>;

/// Pieces of memory that a client may map, as it is told. The carrier's limit on those with
/// descriptors may be lower.
pub const MAX_PIECES: usize = 64;

/// The version of the protocol, 0.0, and of the capabilities that the client proposed those that
/// this side has (vfio-user, "VFIO_USER_VERSION").
pub fn version(proposed: &[u8]) -> Payload {
    let proposed: Value = serde_json::from_slice(proposed).unwrap_or(Value::Null);
    let ours = [
        ("max_msg_fds", json!(MAX_DESCRIPTORS)),
        ("max_data_xfer_size", json!(MAX_TRANSFER)),
        ("max_dma_maps", json!(MAX_PIECES)),
        ("pgsizes", json!(4096)),
    ];
    let asked = |name: &str| proposed["capabilities"].get(name).is_some();
    let both: Map<String, Value> = ours
        .into_iter()
        .filter(|(name, _)| asked(name))
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let mut payload = payloads::Version::default().as_bytes().to_vec();
    payload.extend(json!({ "capabilities": both }).to_string().as_bytes());
    payload.push(0);
    payload
}

/// `struct vfio_device_info`, its first 16 bytes: a PCI device that can be reset.
pub fn device_info() -> Payload {
    const RESET: u32 = 1;
    const PCI: u32 = 1 << 1;
    let info = payloads::DeviceInfo {
        room: (size_of::<payloads::DeviceInfo>() as u32).into(),
        flags: (RESET | PCI).into(),
        regions: layout::REGIONS.into(),
        interrupts: layout::INTERRUPTS.into(),
    };
    info.as_bytes().to_vec()
}

/// `struct vfio_region_info`, with the capability of doorbells that can be mapped where there is
/// room for it. `mapped`: whether they can be.
pub fn region_info(index: u32, room: u32, mapped: bool) -> Payload {
    const READ: u32 = 1;
    const WRITE: u32 = 1 << 1;
    const MMAP: u32 = 1 << 2;
    const CAPABILITIES: u32 = 1 << 3;
    const INFO: u32 = size_of::<payloads::RegionInfo>() as u32;
    const SPARSE: u32 = size_of::<payloads::SparseMmap>() as u32;
    let (size, mapped) = match index {
        layout::BAR0 => (BAR0_SIZE, mapped),
        layout::CONFIG => (crate::config_space::SIZE as u64, false),
        _ => (0, false),
    };
    let mut flags = if size > 0 { READ | WRITE } else { 0 };
    if mapped {
        flags |= MMAP | CAPABILITIES;
    }
    let whole = INFO + if mapped { SPARSE } else { 0 };
    // Without room for it, the client learns how much it needs. QEMU insists on the offset of a
    // capability also where it has no room for it.
    let fits = mapped && room >= whole;
    let info = payloads::RegionInfo {
        room: whole.into(),
        flags: flags.into(),
        index: index.into(),
        capabilities: if mapped { INFO } else { 0 }.into(),
        size: size.into(),
        ..Default::default()
    };
    let mut payload = info.as_bytes().to_vec();
    if fits {
        // The last capability.
        let sparse = payloads::SparseMmap {
            id: 1.into(),
            version: 1.into(),
            areas: 1.into(),
            offset: DOORBELLS.into(),
            size: DOORBELLS_SIZE.into(),
            ..Default::default()
        };
        payload.extend(sparse.as_bytes());
    }
    payload
}

/// `struct vfio_irq_info` of a kind with `count` interrupts, which signal eventfds.
pub fn irq_info(index: u32, count: u16) -> Payload {
    const EVENTFD: u32 = 1;
    let info = payloads::IrqInfo {
        room: (size_of::<payloads::IrqInfo>() as u32).into(),
        flags: if count > 0 { EVENTFD } else { 0 }.into(),
        index: index.into(),
        count: u32::from(count).into(),
    };
    info.as_bytes().to_vec()
}

/// The answer to an access: its range, and the data of a read.
pub fn access(region: u32, offset: u64, count: u32, data: &[u8]) -> Payload {
    let (offset, region, count) = (offset.into(), region.into(), count.into());
    [payloads::Access { offset, region, count }.as_bytes(), data].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients are of other builds: the bytes stay.
    #[test]
    fn the_bytes_are_as_ever() {
        let payloads = [
            version(
                b"{\"capabilities\":{\"pgsizes\":4096,\"other\":1}}\0".strip_suffix(&[0]).unwrap(),
            ),
            device_info(),
            region_info(layout::BAR0, 64, true),
            region_info(layout::BAR0, 32, true),
            region_info(layout::BAR0, 64, false),
            region_info(layout::CONFIG, 64, true),
            region_info(3, 64, true),
            irq_info(layout::MSIX, 17),
            irq_info(1, 0),
            access(7, 0x1122_3344_5566_7788, 3, b"abc"),
        ];
        let payloads = payloads.iter().map(|payload| payload.escape_ascii().to_string());
        let expected: [&str; 10] = [
            r#"\x00\x00\x00\x00{\"capabilities\":{\"pgsizes\":4096}}\x00"#,
            r"\x10\x00\x00\x00\x03\x00\x00\x00\t\x00\x00\x00\x03\x00\x00\x00",
            r"@\x00\x00\x00\x0f\x00\x00\x00\x00\x00\x00\x00 \x00\x00\x00\x00@\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00",
            r"@\x00\x00\x00\x0f\x00\x00\x00\x00\x00\x00\x00 \x00\x00\x00\x00@\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
            r" \x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00@\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
            r" \x00\x00\x00\x03\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
            r" \x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
            r"\x10\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x11\x00\x00\x00",
            r"\x10\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00",
            r#"\x88wfUD3\"\x11\x07\x00\x00\x00\x03\x00\x00\x00abc"#,
        ];
        assert_eq!(payloads.collect::<Vec<_>>(), expected);
    }
}
