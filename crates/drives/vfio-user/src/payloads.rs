//! Payloads of messages: vfio-user's own, and structures of `<linux/vfio.h>`, which begin with the
//! bytes that their sender has room for.

use stasis_layout::{layout, U16, U32, U64};

layout! {
    /// `VFIO_USER_VERSION`; the capabilities follow.
    pub(crate) struct Version: 4 {
        [0] major: U16,
        [2] minor: U16,
    }
}
layout! {
    /// `VFIO_USER_DMA_MAP`.
    pub(crate) struct Map: 32 {
        [0] room: U32,
        [4] flags: U32,
        /// Place of the beginning in its file (bytes).
        [8] offset: U64,
        [16] address: U64,
        [24] size: U64,
    }
}
layout! {
    /// `VFIO_USER_DMA_UNMAP`.
    pub(crate) struct Unmap: 24 {
        [0] room: U32,
        [4] flags: U32,
        [8] address: U64,
        [16] size: U64,
    }
}
layout! {
    /// `struct vfio_device_info`, its first bytes: the structure has grown.
    pub(crate) struct DeviceInfo: 16 {
        [0] room: U32,
        [4] flags: U32,
        [8] regions: U32,
        [12] interrupts: U32,
    }
}
layout! {
    /// `struct vfio_region_info`.
    pub(crate) struct RegionInfo: 32 {
        [0] room: U32,
        [4] flags: U32,
        [8] index: U32,
        /// Place of the first capability (bytes from here).
        [12] capabilities: U32,
        [16] size: U64,
        [24] offset: U64,
    }
}
layout! {
    /// `struct vfio_region_info_cap_sparse_mmap` of one area, with its header.
    pub(crate) struct SparseMmap: 32 {
        [0] id: U16,
        [2] version: U16,
        /// Place of the next capability, 0 for none.
        [4] next: U32,
        [8] areas: U32,
        [12] reserved12: [u8; 4],
        [16] offset: U64,
        [24] size: U64,
    }
}
layout! {
    /// `struct vfio_irq_info`.
    pub(crate) struct IrqInfo: 16 {
        [0] room: U32,
        [4] flags: U32,
        [8] index: U32,
        [12] count: U32,
    }
}
layout! {
    /// `struct vfio_irq_set`; its data follow.
    pub(crate) struct IrqSet: 20 {
        [0] room: U32,
        [4] flags: U32,
        [8] index: U32,
        [12] start: U32,
        [16] count: U32,
    }
}
layout! {
    /// `VFIO_USER_REGION_READ` and `VFIO_USER_REGION_WRITE`; the data follow.
    pub(crate) struct Access: 16 {
        [0] offset: U64,
        [8] region: U32,
        [12] count: U32,
    }
}
