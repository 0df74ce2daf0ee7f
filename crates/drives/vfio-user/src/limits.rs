//! Limits of messages, as they are negotiated.

/// Bytes of a message's header (vfio-user, "Header").
pub const HEADER: usize = 16;
/// Limit on the bytes of a message: a header, the fields of a write, and its data. Capabilities are
/// shorter, too.
pub const MAX_MESSAGE: usize = HEADER + 16 + MAX_TRANSFER as usize;
/// Limit on the descriptors of a message: as many as QEMU sends.
pub const MAX_DESCRIPTORS: usize = 16;
/// Limit on the bytes of one access to a region, as negotiated (vfio-user, "Message sizes"): a page
/// is more than any register or the configuration space has.
pub const MAX_TRANSFER: u32 = 4096;
