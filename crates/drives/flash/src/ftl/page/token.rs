//! Kinds of operation, in the high byte of a token; the rest identifies the subject.

pub(super) const HOST_READ: u64 = 1 << 56;
pub(super) const PARTIAL_READ: u64 = 2 << 56;
pub(super) const PROGRAM: u64 = 3 << 56;
pub(super) const GC_READ: u64 = 4 << 56;
pub(super) const GC_PROGRAM: u64 = 5 << 56;
pub(super) const GC_COPY: u64 = 6 << 56;
pub(super) const ERASE: u64 = 7 << 56;
pub(super) const PATROL_READ: u64 = 8 << 56;
/// The bits of the kind.
pub(super) const KIND: u64 = 0xFF << 56;
