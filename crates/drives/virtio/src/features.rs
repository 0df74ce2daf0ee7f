//! Feature bits of every device (virtio 1.2 section 6).

/// Descriptors that point to tables of descriptors.
pub const INDIRECT_DESC: u32 = 28;
/// `used_event` and `avail_event` are used.
pub const EVENT_IDX: u32 = 29;
/// The device is no legacy one.
pub const VERSION_1: u32 = 32;

/// The bits in `some` whose condition holds, as features.
pub fn set(some: impl IntoIterator<Item = (u32, bool)>) -> u64 {
    some.into_iter().filter(|(_, is)| *is).fold(0, |bits, (bit, _)| bits | 1 << bit)
}
