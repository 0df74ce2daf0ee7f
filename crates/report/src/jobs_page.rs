//! What `report.html` says of a job file's jobs.

use crate::latency::carried;
use crate::page::{Block, Section};
use crate::summary::Summary;
use crate::table::{Column, Table};
use crate::units;

/// The section of the jobs; none where there are no several.
pub(crate) fn section(summary: &Summary) -> Option<Section> {
    if summary.jobs.len() < 2 {
        return None;
    }
    let named = ["job", "operation"].map(Column::left);
    let columns = ["I/Os", "amount", "I/Os a second", "bandwidth", "mean", "p50", "p99", "p99.9"];
    let mut table = Table::new(named.into_iter().chain(columns.map(Column::right)).collect());
    let seconds = summary.virtual_seconds.max(1e-9);
    for job in &summary.jobs {
        for (operation, figures) in &job.operations {
            let latency = &figures.delivered_ns;
            let percentile = |ns: u64, rank| match carried(figures.count, rank) {
                true => units::duration(ns as f64),
                false => "–".to_owned(),
            };
            table.push(vec![
                job.name.clone(),
                operation.clone(),
                units::count(figures.count),
                units::bytes(figures.bytes),
                units::significant(figures.count as f64 / seconds, 4),
                units::bandwidth(figures.bytes as f64 / seconds),
                units::duration(latency.mean),
                percentile(latency.p50, 5_000),
                percentile(latency.p99, 9_900),
                percentile(latency.p99_9, 9_990),
            ]);
        }
    }
    let caption =
        "Rates are over the whole time that is measured, in which a job need not have run.";
    Some(Section::new("Jobs").with(Block::Table(caption.to_owned(), table)))
}
