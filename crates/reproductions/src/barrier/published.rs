//! What the publication says: Kim, Oh, Won: "Barrier enabled QEMU", ICISS 2019.

/// Section 5: by workload, (throughput of QEMU-HostB against QEMU in percent more,
/// that of QEMU-AllB in times).
pub const VARMAIL: (f64, f64) = (1.9, 3.9);
pub const MOBIBENCH_APPEND: (f64, f64) = (-1.2, 12.7);
pub const MOBIBENCH_OVERWRITE: (f64, f64) = (-0.8, 12.0);
pub const DD_APPEND: (f64, f64) = (76.0, 11.0);
pub const DD_OVERWRITE: (f64, f64) = (-0.5, 13.0);

/// Section 3.1.2: flushes of the guest for an append, and of the host for those of
/// the guest (four for each of two). With the barrier the last of each stays
/// (section 4.1), and in AllB none (section 4.2).
pub const GUEST_FLUSHES: f64 = 2.0;
pub const HOST_FLUSHES: [f64; 3] = [8.0, 2.0, 0.0];
