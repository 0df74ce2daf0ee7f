//! What the publication says: Bona, Elias, Ziviani, Nou, Cortes, Alves: "Freezing
//! time: emulating new and faster devices with virtual machines", CCF Transactions
//! on High Performance Computing, 2020.

/// A table of completion latencies, as fio gives them.
pub struct LatencyTable {
    /// Its number.
    pub id: &'static str,
    /// What it is of.
    pub what: &'static str,
    /// The unit of its figures.
    pub unit: &'static str,
    /// The unit's length (ns).
    pub scale: f64,
    /// Shortest.
    pub min: f64,
    /// Longest.
    pub max: f64,
    /// Arithmetic mean.
    pub average: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// In the order of [`PERCENTS`].
    pub percentiles: [f64; 17],
}

/// The percentiles of all three tables, which are fio's usual ones.
pub const PERCENTS: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

impl LatencyTable {
    /// The distribution function as (ns, share).
    pub fn points(&self) -> Vec<(f64, f64)> {
        let inner = PERCENTS.iter().zip(self.percentiles);
        let inner = inner.map(|(percent, value)| (value * self.scale, percent / 100.0));
        let ends = [(self.min * self.scale, 0.0), (self.max * self.scale, 1.0)];
        ends[..1].iter().copied().chain(inner).chain(ends[1..].iter().copied()).collect()
    }
}

/// Section 5.3: emulation of the DCPMM without setting the clock back.
pub const TABLE_1: LatencyTable = LatencyTable {
    id: "Table 1",
    what: "DCPMM emulated, naive",
    unit: "us",
    scale: 1e3,
    min: 132.0,
    max: 4365.0,
    average: 318.30,
    stddev: 47.08,
    percentiles: [
        171.0, 205.0, 274.0, 298.0, 310.0, 318.0, 326.0, 330.0, 338.0, 346.0, 366.0, 378.0, 418.0,
        430.0, 478.0, 506.0, 588.0,
    ],
};

/// Section 5.3: the DCPMM itself.
pub const TABLE_2: LatencyTable = LatencyTable {
    id: "Table 2",
    what: "DCPMM",
    unit: "ns",
    scale: 1.0,
    min: 1614.0,
    max: 170_885.0,
    average: 2192.31,
    stddev: 458.18,
    percentiles: [
        1768.0, 1800.0, 1848.0, 1912.0, 1944.0, 1992.0, 2096.0, 2256.0, 2352.0, 2448.0, 2544.0,
        2736.0, 3120.0, 3472.0, 7776.0, 8256.0, 10048.0,
    ],
};

/// Section 5.3: emulation of the DCPMM with the clock set back.
pub const TABLE_3: LatencyTable = LatencyTable {
    id: "Table 3",
    what: "DCPMM emulated",
    unit: "ns",
    scale: 1.0,
    min: 1642.0,
    max: 6709.0,
    average: 2577.73,
    stddev: 451.88,
    percentiles: [
        1784.0, 1880.0, 1960.0, 2128.0, 2256.0, 2416.0, 2576.0, 2736.0, 2896.0, 3056.0, 3184.0,
        3280.0, 3376.0, 3408.0, 3440.0, 3472.0, 3600.0,
    ],
};

/// Section 5.3, under Table 3: how alike Tables 2 and 3 are up to p99 (%).
pub const REWIND_AGREEMENT: f64 = 90.0;

/// Section 5.1, Fig. 5: all I/Os of the fastest possible drive are below this (us).
pub const FASTEST_BELOW: f64 = 100.0;

/// Section 5.2, Fig. 6: share of the disk's writes that its buffer takes before
/// 2 ms (%).
pub const BUFFERED_WRITES: f64 = 12.5;
/// Fig. 6: all writes are below (ms).
pub const DISK_WRITES_BELOW: f64 = 5.0;
/// Fig. 6: reads are between (ms).
pub const DISK_READS: [f64; 2] = [2.5, 10.0];
/// Fig. 7: all writes of the SSD are below (us).
pub const SSD_WRITES_BELOW: f64 = 200.0;
/// Fig. 7: its reads are between (us).
pub const SSD_READS: [f64; 2] = [200.0, 400.0];
/// Abstract: latency error against the real device (%).
pub const LATENCY_ERROR: f64 = 6.5;
/// Section 5.5, under Figs. 9 and 10: precision of the emulator (%).
pub const PRECISION: f64 = 80.0;
/// Fig. 11: the medians of the overhead with delay 0 are between (us).
pub const OVERHEAD: [f64; 2] = [20.6, 37.5];
/// Section 1: increase in emulation time stays below (%).
pub const EMULATION_TIME: f64 = 25.0;

/// A column of Table 4.
pub struct ProgramColumn {
    /// Its heading.
    pub what: &'static str,
    /// Average time (s).
    pub seconds: f64,
    /// Coefficient of variation.
    pub variation: f64,
    /// Frames per second.
    pub frames: f64,
    /// Wall-clock time (s).
    pub wall: f64,
}

/// Table 4: ffmpeg on the disk, on the RAM drive, and on the RAM drive emulated
/// over the disk.
pub const TABLE_4: [ProgramColumn; 3] = [
    ProgramColumn { what: "HDD", seconds: 65.46, variation: 0.01, frames: 3637.0, wall: 669.0 },
    ProgramColumn { what: "RAM", seconds: 3.52, variation: 0.02, frames: 73_311.0, wall: 48.0 },
    ProgramColumn {
        what: "Emulating RAM",
        seconds: 3.58,
        variation: 0.09,
        frames: 74_292.0,
        wall: 892.0,
    },
];
/// Section 5.4: accuracy of the run time (%).
pub const PROGRAM_ACCURACY: f64 = 98.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_rise() {
        for table in [TABLE_1, TABLE_2, TABLE_3] {
            let points = table.points();
            assert_eq!(points.len(), 19);
            assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1));
            assert!(table.average > table.min && table.average < table.max);
        }
    }
}
