//! Payloads of replies.

use serde_json::{json, Map, Value};

use crate::connection::MAX_DESCRIPTORS;
use crate::layout::{self, BAR0_SIZE, DOORBELLS, DOORBELLS_SIZE};
use crate::request::MAX_TRANSFER;

/// Bytes that follow a reply's header.
pub type Payload = Vec<u8>;

/// Pieces of memory that a client may map, as it is told. The carrier's limit on those with
/// descriptors may be lower.
pub const MAX_PIECES: usize = 64;

fn words(numbers: &[u32]) -> Payload {
    numbers.iter().flat_map(|word| word.to_le_bytes()).collect()
}

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
    let mut payload = vec![0; 4];
    payload.extend(json!({ "capabilities": both }).to_string().as_bytes());
    payload.push(0);
    payload
}

/// `struct vfio_device_info`, its first 16 bytes: a PCI device that can be reset.
pub fn device_info() -> Payload {
    const RESET: u32 = 1;
    const PCI: u32 = 1 << 1;
    words(&[16, RESET | PCI, layout::REGIONS, layout::INTERRUPTS])
}

/// `struct vfio_region_info`, with the capability of doorbells that can be mapped where there is
/// room for it. `mapped`: whether they can be.
pub fn region_info(index: u32, room: u32, mapped: bool) -> Payload {
    const READ: u32 = 1;
    const WRITE: u32 = 1 << 1;
    const MMAP: u32 = 1 << 2;
    const CAPABILITIES: u32 = 1 << 3;
    const INFO: u32 = 32;
    // Sparse mmap: number 1, version 1, the last one; one area.
    const SPARSE: [u32; 4] = [1 | 1 << 16, 0, 1, 0];
    const SPARSE_SIZE: u32 = 32;
    let (size, mapped) = match index {
        layout::BAR0 => (BAR0_SIZE, mapped),
        layout::CONFIG => (crate::config_space::SIZE as u64, false),
        _ => (0, false),
    };
    let mut flags = if size > 0 { READ | WRITE } else { 0 };
    if mapped {
        flags |= MMAP | CAPABILITIES;
    }
    let whole = INFO + if mapped { SPARSE_SIZE } else { 0 };
    // Without room for it, the client learns how much it needs. QEMU insists on the offset of a
    // capability also where it has no room for it.
    let fits = mapped && room >= whole;
    let mut payload = words(&[whole, flags, index, if mapped { INFO } else { 0 }]);
    payload.extend(size.to_le_bytes());
    payload.extend(0u64.to_le_bytes());
    if fits {
        payload.extend(words(&SPARSE));
        payload.extend(DOORBELLS.to_le_bytes());
        payload.extend(DOORBELLS_SIZE.to_le_bytes());
    }
    payload
}

/// `struct vfio_irq_info` of a kind with `count` interrupts, which signal eventfds.
pub fn irq_info(index: u32, count: u16) -> Payload {
    const EVENTFD: u32 = 1;
    words(&[16, if count > 0 { EVENTFD } else { 0 }, index, count.into()])
}

/// The answer to an access: its range, and the data of a read.
pub fn access(region: u32, offset: u64, count: u32, data: &[u8]) -> Payload {
    let mut payload = Vec::with_capacity(16 + data.len());
    payload.extend(offset.to_le_bytes());
    payload.extend(words(&[region, count]));
    payload.extend(data);
    payload
}
