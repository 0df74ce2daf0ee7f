//! The section of the page about faults.

use stasis_block::clock::Nanos;

use crate::page::{Block, Section};
use crate::table::{Column, Table};
use stasis_results::summary::Summary;
use stasis_results::units;

/// Limit on the rows of the table.
const MAX_ROWS: usize = 64;

/// The section of the page about faults, if the run had any; its times begin at `begin` (ns).
pub(crate) fn section(summary: &Summary, begin: u64) -> Option<Section> {
    let faults = summary.faults();
    if faults.is_empty() {
        return None;
    }
    let has_operations =
        faults.iter().flat_map(|fault| &fault.intervals).any(|one| one.operations.is_some());
    let comes_back =
        faults.iter().flat_map(|fault| &fault.intervals).any(|one| one.back_ns.is_some());
    let columns = [Column::left("fault"), Column::left("of")];
    let back = comes_back.then_some("back at");
    let figures = ["from", "to", "for"].into_iter().chain(back).chain(["happened"]);
    let figures = figures.map(Column::right);
    let mut table = Table::new(columns.into_iter().chain(figures).collect());
    if has_operations {
        let columns = ["operations", "failed", "unknown", "longest", "longest without success"];
        let group = "operations of clients that met it first";
        table.columns.extend(columns.map(|name| Column::right(name).under(group)));
    }
    let time = |at: Nanos| units::duration(at.saturating_sub(begin) as f64);
    let mut rows = Vec::new();
    for fault in faults {
        let named = [fault.kind.clone(), fault.target.clone()];
        let count = units::count(fault.happened);
        if fault.intervals.is_empty() {
            let none = || "–".to_owned();
            let back = comes_back.then(none);
            let cells = [none(), none(), none()].into_iter().chain(back).chain([count]);
            rows.push((Nanos::MAX, named.into_iter().chain(cells).collect()));
            continue;
        }
        for one in &fault.intervals {
            let length = units::duration((one.end_ns - one.begin_ns) as f64);
            let back = comes_back.then(|| one.back_ns.map_or("–".to_owned(), time));
            let times = [time(one.begin_ns), time(one.end_ns), length].into_iter().chain(back);
            let mut row: Vec<String> =
                named.iter().cloned().chain(times).chain([count.clone()]).collect();
            row.extend(one.operations.as_ref().map(|one| one.cells(time)).into_iter().flatten());
            rows.push((one.begin_ns, row));
        }
    }
    rows.sort_by_key(|(at, _)| *at);
    let more = match rows.len().saturating_sub(MAX_ROWS) {
        0 => String::new(),
        more => format!(" {} more are in summary.json.", units::count(more as u64)),
    };
    rows.truncate(MAX_ROWS);
    rows.into_iter().for_each(|(_, row)| table.push(row));
    let gaps = match has_operations {
        true => " An operation belongs to the first fault that it met, and so does a time without success.",
        false => "",
    };
    // The results have them where a machine came back.
    let boot = || units::duration(summary.boot_virtual_seconds * 1e9);
    let until = if has_operations { ", and operations until then are its fault's" } else { "" };
    let restarts = match (comes_back, summary.extra.contains_key("restarts")) {
        (true, _) => format!(
            " A machine that is switched on again boots before its command runs again: it is back when that \
             begins{until}. The first boot took {}.",
            boot()
        ),
        (false, true) => format!(
            " A machine that is switched on again boots, for {}, before its command runs again.",
            boot()
        ),
        (false, false) => String::new(),
    };
    let caption = format!(
        "Times are those since the commands' start.{gaps}{restarts} Each happening, such as a command that failed \
         or a frame that was lost, is a row of faults.parquet.{more}"
    );
    Some(Section::new("Faults").with(Block::Table(caption, table)))
}
