//! Interface between the kernel's ublk driver and a server: layouts and numbers of
//! include/uapi/linux/ublk_cmd.h (Linux 6.4), which only grow.

/// Commands to `/dev/ublk-control`: `_IOWR('u', N, struct ublksrv_ctrl_cmd)`,
/// and `_IOR` for those that only ask.
pub(super) mod control {
    use super::{both_ways, from_kernel};

    pub const GET_INFO: u32 = from_kernel(0x02, super::CONTROL_LENGTH);
    pub const ADD: u32 = both_ways(0x04, super::CONTROL_LENGTH);
    pub const DELETE: u32 = both_ways(0x05, super::CONTROL_LENGTH);
    pub const START: u32 = both_ways(0x06, super::CONTROL_LENGTH);
    pub const STOP: u32 = both_ways(0x07, super::CONTROL_LENGTH);
    pub const SET_PARAMETERS: u32 = both_ways(0x08, super::CONTROL_LENGTH);
    pub const START_RECOVERY: u32 = both_ways(0x10, super::CONTROL_LENGTH);
    pub const END_RECOVERY: u32 = both_ways(0x11, super::CONTROL_LENGTH);
}

/// Commands to `/dev/ublkcN`: `_IOWR('u', N, struct ublksrv_io_cmd)`.
pub(super) mod io {
    use super::both_ways;

    pub const FETCH: u32 = both_ways(0x20, 16);
    pub const COMMIT_AND_FETCH: u32 = both_ways(0x21, 16);
}

const CONTROL_LENGTH: u32 = 32;

/// `_IOWR('u', number, length bytes)` (include/uapi/asm-generic/ioctl.h).
const fn both_ways(number: u32, length: u32) -> u32 {
    3 << 30 | length << 16 | (b'u' as u32) << 8 | number
}

/// `_IOR('u', number, length bytes)`.
const fn from_kernel(number: u32, length: u32) -> u32 {
    2 << 30 | length << 16 | (b'u' as u32) << 8 | number
}

/// Result of a fetch: a request, or notice that there will be none any more.
pub(super) const GOT: i32 = 0;
pub(super) const ABORTED: i32 = -libc::ENODEV;

/// Limit on the entries of a queue: the room for it among the descriptors.
const MAX_DEPTH: usize = 4096;
/// Bytes of a request's descriptor.
const DESCRIPTOR: usize = 24;

/// Offset of the descriptors of `queue` in `/dev/ublkcN`, and their length in bytes.
pub(super) fn descriptors(queue: u16, depth: u16, page: usize) -> (u64, usize) {
    let most = (MAX_DEPTH * DESCRIPTOR).next_multiple_of(page);
    let length = (usize::from(depth) * DESCRIPTOR).next_multiple_of(page);
    (u64::from(queue) * most as u64, length)
}

/// The device survives its server, and requests under way are issued again.
const RECOVERY: u64 = 1 << 3 | 1 << 4;

/// States of a device.
pub(super) const DEAD: u16 = 0;
pub(super) const QUIESCED: u16 = 2;

/// Identity of a device (`struct ublksrv_ctrl_dev_info`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Info {
    pub queues: u16,
    pub depth: u16,
    pub state: u16,
    pub max_bytes: u32,
    pub id: u32,
    pub server: i32,
    /// The server's own, which the driver only keeps.
    pub mark: u64,
}

impl Info {
    pub const LENGTH: usize = 64;

    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[0..2].copy_from_slice(&self.queues.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.depth.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.max_bytes.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.id.to_ne_bytes());
        bytes[24..32].copy_from_slice(&RECOVERY.to_ne_bytes());
        bytes[32..40].copy_from_slice(&self.mark.to_ne_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Self {
        Self {
            queues: u16::from_ne_bytes(part(bytes, 0)),
            depth: u16::from_ne_bytes(part(bytes, 2)),
            state: u16::from_ne_bytes(part(bytes, 4)),
            max_bytes: u32::from_ne_bytes(part(bytes, 8)),
            id: u32::from_ne_bytes(part(bytes, 12)),
            server: i32::from_ne_bytes(part(bytes, 16)),
            mark: u64::from_ne_bytes(part(bytes, 32)),
        }
    }
}

/// The `N` bytes at `at`, which are there.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

/// Parameters of a device (`struct ublk_params`, basic and discard).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parameters {
    /// Logical block (bytes).
    pub block: u32,
    /// Capacity (bytes).
    pub capacity: u64,
    /// Limit on the bytes of a request.
    pub max_bytes: u32,
    pub read_only: bool,
}

impl Parameters {
    pub const LENGTH: usize = 60;

    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        const BASIC: u32 = 1 << 0;
        const DISCARD: u32 = 1 << 1;
        const READ_ONLY: u32 = 1 << 0;
        const VOLATILE_CACHE: u32 = 1 << 2;
        const FUA: u32 = 1 << 3;
        // Limit on the sectors that one request can discard: 1 GiB.
        const MAX_DISCARD: u32 = 1 << 21;
        let mut bytes = [0; Self::LENGTH];
        let mut put = |at: usize, word: u32| {
            bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        };
        put(0, Self::LENGTH as u32);
        put(4, BASIC | DISCARD);
        put(8, VOLATILE_CACHE | FUA | if self.read_only { READ_ONLY } else { 0 });
        let shift = self.block.trailing_zeros();
        // Logical and physical block, best and smallest I/O.
        put(12, u32::from_ne_bytes([shift as u8; 4]));
        put(16, self.max_bytes / 512);
        // Discards: alignment, granularity, limits on sectors discarded and zeroed, on pieces.
        put(44, self.block);
        put(48, MAX_DISCARD);
        put(52, MAX_DISCARD);
        put(56, 1);
        bytes[24..32].copy_from_slice(&(self.capacity / 512).to_ne_bytes());
        bytes
    }
}

/// Content of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// Operation in bits 7:0, flags above.
    pub word: u32,
    pub sectors: u32,
    pub sector: u64,
}

impl Descriptor {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const FLUSH: u32 = 2;
    pub const DISCARD: u32 = 3;
    pub const WRITE_ZEROES: u32 = 5;
    /// Durable before it is acknowledged.
    pub const FUA: u32 = 1 << 13;

    /// The descriptor of `tag` in memory that the kernel writes.
    ///
    /// # Safety
    /// `descriptors` has room for `tag`.
    pub unsafe fn read(descriptors: *const u8, tag: u16) -> Self {
        let at = descriptors.wrapping_add(usize::from(tag) * DESCRIPTOR);
        // SAFETY: the caller's promise; each value is aligned within a
        // descriptor of 24 bytes, and is read once.
        unsafe {
            Self {
                word: at.cast::<u32>().read_volatile(),
                sectors: at.add(4).cast::<u32>().read_volatile(),
                sector: at.add(8).cast::<u64>().read_volatile(),
            }
        }
    }
}

/// A command about a request (`struct ublksrv_io_cmd`).
pub(super) fn io_command(queue: u16, tag: u16, result: i32, address: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[0..2].copy_from_slice(&queue.to_ne_bytes());
    bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
    bytes[4..8].copy_from_slice(&result.to_ne_bytes());
    bytes[8..16].copy_from_slice(&address.to_ne_bytes());
    bytes
}

/// A command to the control device (`struct ublksrv_ctrl_cmd`), in the room
/// that a submission has.
pub(super) fn control_command(device: u32, buffer: &mut [u8], word: u64) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[0..4].copy_from_slice(&device.to_ne_bytes());
    // No queue.
    bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(buffer.len() as u16).to_ne_bytes());
    if !buffer.is_empty() {
        bytes[8..16].copy_from_slice(&(buffer.as_mut_ptr() as u64).to_ne_bytes());
    }
    bytes[16..24].copy_from_slice(&word.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_header() {
        // As a C program prints them from linux/ublk_cmd.h.
        assert_eq!(control::ADD, 0xc020_7504);
        assert_eq!(control::GET_INFO, 0x8020_7502);
        assert_eq!(io::FETCH, 0xc010_7520);
        assert_eq!(io::COMMIT_AND_FETCH, 0xc010_7521);
    }

    #[test]
    fn what_is_said_of_a_device_comes_back() {
        let info = Info {
            queues: 3,
            depth: 64,
            state: 0,
            max_bytes: 1 << 19,
            id: 7,
            server: 0,
            mark: 0x1234_5678_9abc_def0,
        };
        assert_eq!(Info::from_bytes(&info.to_bytes()), info);
    }

    #[test]
    fn parameters_are_where_the_driver_looks() {
        let parameters =
            Parameters { block: 4096, capacity: 1 << 30, max_bytes: 1 << 19, read_only: true };
        let bytes = parameters.to_bytes();
        let word = |at| u32::from_ne_bytes(part(&bytes, at));
        assert_eq!(word(0), 60);
        assert_eq!(word(8), 0b1101);
        assert_eq!(&bytes[12..16], &[12; 4]);
        assert_eq!(word(16), 1024);
        assert_eq!(u64::from_ne_bytes(part(&bytes, 24)), 1 << 21);
        assert_eq!((word(44), word(56)), (4096, 1));
    }

    #[test]
    fn descriptors_of_a_queue_have_their_pages() {
        assert_eq!(descriptors(0, 128, 4096), (0, 4096));
        assert_eq!(descriptors(2, 1024, 4096), (2 * 98_304, 24_576));
    }
}
