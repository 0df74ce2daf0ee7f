//! The publication's figures: `published.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::published_data::published;

pub static PUBLISHED: LazyLock<Published> =
    LazyLock::new(|| published(include_str!("published.toml")));

/// Ranges are from and to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub rewind_agreement: f64,
    pub fastest_below: f64,
    pub buffered_writes: f64,
    pub disk_writes_below: f64,
    pub disk_reads: [f64; 2],
    pub ssd_writes_below: f64,
    pub ssd_reads: [f64; 2],
    pub latency_error: f64,
    pub precision: f64,
    pub overhead: [f64; 2],
    pub emulation_time: f64,
    pub program_accuracy: f64,
    pub table_1: LatencyTable,
    pub table_2: LatencyTable,
    pub table_3: LatencyTable,
    pub table_4: [ProgramColumn; 3],
}

/// A table of completion latencies, as fio gives them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyTable {
    /// Number of the table.
    pub id: String,
    /// Title of the table.
    pub what: String,
    /// The unit of its figures.
    pub unit: String,
    /// The unit's length (ns).
    pub scale: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Arithmetic mean.
    pub average: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// Percentiles in the order of [`PERCENTS`].
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

/// A column of Table 4.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramColumn {
    /// Heading of the column.
    pub what: String,
    /// Average time (s).
    pub seconds: f64,
    /// Coefficient of variation.
    pub variation: f64,
    /// Frames per second.
    pub frames: f64,
    /// Wall-clock time (s).
    pub wall: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_rise() {
        let Published { table_1, table_2, table_3, .. } = &*PUBLISHED;
        for table in [table_1, table_2, table_3] {
            let points = table.points();
            assert_eq!(points.len(), 19);
            assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1));
            assert!(table.average > table.min && table.average < table.max);
        }
    }
}
