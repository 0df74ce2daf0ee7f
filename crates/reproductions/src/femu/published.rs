//! What the publication says: Li, Hao, Tong, Sundararaman, Bjorling, Gunawi: "The
//! CASE of FEMU: Cheap, Accurate, Scalable and Extensible Flash Emulator", FAST 2018.
//! Figures that its text does not give are left out.

/// Section 3.1, Fig. 2a: mean latency of random 4 KiB reads without a delay, as the
/// application sees it: (threads, who, us).
pub const THREADS: [(u32, &str, f64); 6] = [
    (1, "QEMU IDE (VSSIM)", 152.0),
    (4, "QEMU IDE (VSSIM)", 583.0),
    (8, "QEMU NVMe", 106.0),
    (32, "virtio", 185.0),
    (32, "FEMU, at most", 52.0),
    (64, "FEMU, at most", 90.0),
];

/// Section 3.2.1, Fig. 2b: 99 % of the I/Os with 50 us added are stable at (us).
pub const RAW_50US: f64 = 70.0;

/// Section 3.2.3, Fig. 4: mean latency of 16 threads on 1 channel of 1 plane is above
/// (us).
pub const GRID_SLOWEST: f64 = 1550.0;
/// And on 16 channels of 1 plane below (us).
pub const GRID_FASTEST: f64 = 130.0;

/// Section 3.2.3, Fig. 5a: how far the basic model is from the drive (%).
pub const BASIC_ERROR: [f64; 2] = [12.0, 57.0];
