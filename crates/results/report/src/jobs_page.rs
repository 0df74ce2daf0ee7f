//! The part of `report.html` about a job file's jobs.

use stasis_block::Operation;

use crate::page::{Block, Section};
use crate::table::{Column, Table};
use crate::text;
use stasis_results::summary::Summary;
use stasis_results::units;

/// The section of the jobs; none where there are no several.
pub(crate) fn section(summary: &Summary) -> Option<Section> {
    if summary.jobs.len() < 2 {
        return None;
    }
    let named = ["job", "operation"].map(Column::left);
    let columns = ["I/Os", "amount", "IOPS", "bandwidth", "ran for", "mean", "p50", "p99", "p99.9"];
    let mut table = Table::new(named.into_iter().chain(columns.map(Column::right)).collect());
    let of_name =
        |name: &str| Operation::ALL.into_iter().find(|operation| operation.name() == name);
    for job in &summary.jobs {
        for (operation, figures) in &job.operations {
            let mut row = vec![
                job.name.clone(),
                operation.clone(),
                units::count(figures.count),
                units::bytes(figures.bytes),
                units::significant(figures.iops, 4),
                of_name(operation).map_or("–".to_owned(), |operation| {
                    units::bandwidth_of(operation, figures.bytes_per_second)
                }),
                units::duration(job.virtual_seconds * 1e9),
            ];
            row.extend(text::figures(&figures.delivered_ns, figures.count));
            table.push(row);
        }
    }
    let caption =
        "Rates are over the job's time, from its first submission to its last completion.";
    Some(Section::new("Jobs").with(Block::Table(caption.to_owned(), table)))
}
