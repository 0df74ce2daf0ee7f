//! What the publication says (its slides' titles in quotes), times in us. Its
//! network and file server figures are plots without numbers.

/// "Block Latency: 4KB Sync Writes", initial and optimized: all of it, and what
/// was added to the bare drive's.
pub const WRITE_TOTAL: [f64; 2] = [50.0, 15.9];
pub const WRITE_ADDED: [f64; 2] = [49.0, 6.6];

/// "Block Throughput: 4KB Sync I/Os": times of the initial throughput, read and
/// write.
pub const IMPROVEMENT: [f64; 2] = [7.3, 6.5];
/// And I/Os a second.
pub const IOPS: [f64; 2] = [350e3, 284e3];

/// "Network Latency: Ping Flood": bare metal and the guest, each without polling
/// and with it.
pub const PING_BARE: [f64; 2] = [24.0, 21.0];
pub const PING_GUEST: [f64; 2] = [89.0, 21.0];
