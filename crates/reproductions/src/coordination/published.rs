//! What the publication's text says of its figures; the plots have no values.

/// Section 8.3: `xterm` on the idle hard disk takes "a little less than 2 seconds".
pub const IDLE_XTERM: f64 = 2.0;
/// Section 8.3: BFQ, one reader on the host, against the idle disk.
pub const ONE_ON_HOST: [f64; 2] = [3.0, 5.5];
/// Section 8.3: BFQ without a host workload is "about the same" as idle, and so is
/// (section 10.1) what is coordinated.
pub const SAME: f64 = 1.0;
/// Section 8.3: CFQ without a host workload, against the idle disk: 1r-seq and
/// 1r-rand, and 5r-seq.
pub const CFQ: [(&str, f64); 3] = [("1r-seq", 3.0), ("1r-rand", 3.0), ("5r-seq", 17.0)];
/// Section 10: coordination "trivially achieved the same" throughput.
pub const THROUGHPUT: f64 = 1.0;
