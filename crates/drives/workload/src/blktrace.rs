//! The format of Linux's binary block trace: `struct blk_io_trace` and its constants
//! (include/uapi/linux/blktrace_api.h).

/// `BLK_IO_TRACE_MAGIC`, of which the last byte is the version.
pub const MAGIC: u32 = 0x6561_7400;
/// `BLK_IO_TRACE_VERSION`.
pub const VERSION: u32 = 7;
/// Bytes of a `struct blk_io_trace`.
pub const EVENT: usize = 48;
/// Bytes of a sector.
pub const SECTOR: u64 = 512;

/// The part of an action that is `enum blktrace_act`; a bit above it flags that a cgroup is included.
pub const ACTION: u32 = 0xff;
/// `__BLK_TA_QUEUE`: an I/O is queued.
pub const QUEUE: u32 = 1;
/// `__BLK_TA_ISSUE`: it is given to the device.
pub const ISSUE: u32 = 7;
/// `__BLK_TA_COMPLETE`: it has completed.
pub const COMPLETE: u32 = 8;

/// `BLK_TC_SHIFT`: an action has its categories (`enum blktrace_cat`) from this bit on.
pub const CATEGORY: u32 = 16;
/// `BLK_TC_READ`.
pub const READ: u32 = 1 << 0;
/// `BLK_TC_WRITE`.
pub const WRITE: u32 = 1 << 1;
/// `BLK_TC_FLUSH`.
pub const FLUSH: u32 = 1 << 2;
/// `BLK_TC_SYNC`.
pub const SYNC: u32 = 1 << 3;
/// `BLK_TC_QUEUE`.
pub const QUEUED: u32 = 1 << 4;
/// `BLK_TC_ISSUE`.
pub const ISSUED: u32 = 1 << 6;
/// `BLK_TC_COMPLETE`.
pub const COMPLETED: u32 = 1 << 7;
/// `BLK_TC_FS`: a file system's or a program's, not a driver's own.
pub const FS: u32 = 1 << 8;
/// `BLK_TC_PC`: a command that passes the block layer.
pub const PASSTHROUGH: u32 = 1 << 9;
/// `BLK_TC_NOTIFY`: a message and no I/O.
pub const NOTIFY: u32 = 1 << 10;
/// `BLK_TC_DISCARD`.
pub const DISCARD: u32 = 1 << 13;
/// `BLK_TC_FUA`.
pub const FUA: u32 = 1 << 15;
