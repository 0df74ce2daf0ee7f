//! The measurements together, and their text.

use serde::Serialize;
use stasis_report::{Column, Table};
use stasis_results::units;

use crate::clock::Clocks;
use crate::delivered::Precision;
use crate::verdict::Verdict;

/// The measurements.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Engine that ran the machines.
    pub engine: &'static str,
    /// Wall-clock time of all checks (s).
    pub seconds: f64,
    /// Precision with no other load on the host by Stasis.
    pub quiet: Option<Precision>,
    /// Precision with a busy loop on every core of the host.
    pub loaded: Option<Precision>,
    /// The clocks of several processors.
    pub clocks: Option<Clocks>,
    /// Measurements that failed, each with its reason.
    pub not_measured: Vec<String>,
    /// The precision on which an experiment can rely.
    pub verdict: Verdict,
}

impl Measured {
    /// For a reader.
    pub fn text(&self) -> String {
        let mut text = format!("\nMeasured under {}, in {:.0} s:\n\n", self.engine, self.seconds);
        let columns = ["p50", "p99", "max", "error"].map(Column::right);
        let mut table = Table::new(
            [Column::left("host"), Column::left("target"), Column::right("I/Os")]
                .into_iter()
                .chain(columns)
                .collect(),
        );
        for (host, precision) in [("quiet", &self.quiet), ("busy", &self.loaded)] {
            let mut host = host.to_owned();
            for delivered in precision.iter().flat_map(|precision| &precision.delivered) {
                let mut row = vec![
                    std::mem::take(&mut host),
                    units::duration(delivered.target_ns as f64),
                    units::count(delivered.ios),
                ];
                row.extend(
                    [delivered.p50_ns, delivered.p99_ns, delivered.max_ns]
                        .map(|ns| units::duration(ns as f64)),
                );
                row.push(units::deviation(delivered.error_percent));
                table.push(row);
            }
        }
        text.push_str(&table.to_text());
        text.push('\n');
        for (host, precision) in [("quiet", &self.quiet), ("busy", &self.loaded)] {
            let Some(precision) = precision else { continue };
            text.push_str(&format!("{host:<6} host: {}\n", precision.costs()));
        }
        if let Some(Clocks { processors, reads, backwards, worst_ns }) = &self.clocks {
            let reads = units::count(*reads);
            text.push_str(&format!("clocks: {reads} reads on {processors} processors, "));
            text.push_str(&match backwards {
                0 => "none went back\n".to_owned(),
                n => format!("{n} went back, by {} at most\n", units::duration(*worst_ns as f64)),
            });
        }
        for failure in &self.not_measured {
            text.push_str(&format!("not measured: {failure}\n"));
        }
        text.push_str(&format!("\nVerdict: {}.\n", self.verdict.text()));
        text
    }
}
