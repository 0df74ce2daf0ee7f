//! A run in a few lines, for the terminal.

use crate::table::{Column, Table};
use stasis_results::latency::carried;
use stasis_results::summary::Summary;
use stasis_results::units;

use crate::thresholds_page;
use stasis_results::Latency;

/// A run's I/Os in a table: for each drive and operation the number of I/Os, their
/// lengths together, and the mean, p50, p99 and p99.9 of target and delivered latency. The two
/// share a line where they are the same. A percentile that so few I/Os do not carry is
/// left out. `error` is the largest deviation of
/// the percentiles p1 to p99.9. Thresholds that were met follow.
pub fn text_summary(summary: &Summary) -> String {
    ios(summary) + &thresholds_page::lines(summary)
}

fn ios(summary: &Summary) -> String {
    let mut table = Table::new(
        [Column::left("drive"), Column::left("operation")]
            .into_iter()
            .chain([Column::right("I/Os"), Column::right("amount"), Column::left("latency")])
            .chain(["mean", "p50", "p99", "p99.9", "error"].map(Column::right))
            .collect(),
    );
    for drive in &summary.drives {
        let mut name = drive.described.name.as_str();
        for (operation, used) in drive.used() {
            let names = |label: &str| {
                vec![String::new(), String::new(), String::new(), String::new(), label.into()]
            };
            let same = used.target_ns == used.delivered_ns;
            let mut first = names(if same { "target = delivered" } else { "target" });
            first[..4].clone_from_slice(&[
                std::mem::take(&mut name).to_owned(),
                operation.name().to_owned(),
                units::count(used.count),
                units::bytes(used.bytes),
            ]);
            first.extend(figures(&used.target_ns, used.count));
            if same {
                first.push(units::deviation(Some(0.0)));
                table.push(first);
            } else {
                let mut second = names("delivered");
                second.extend(figures(&used.delivered_ns, used.count));
                second.push(units::deviation(used.max_error_percent));
                table.push(first);
                table.push(second);
            }
        }
    }
    if summary.drives.is_empty() {
        return String::new();
    }
    if table.rows.is_empty() && summary.extra.contains_key("machines") {
        return String::new();
    }
    if table.rows.is_empty() {
        return "No I/O reached a modelled drive while the command ran.\n".to_owned();
    }
    let mut out = table.to_text();
    let refused: u64 = summary.drives.iter().map(|drive| drive.refused).sum();
    if refused > 0 {
        let count = units::count(refused);
        out.push_str(&format!(
            "Commands that drives refused: {count} (their I/Os have the status `refused`).\n"
        ));
    }
    for name in faster_than_the_guest(summary) {
        out.push_str(&format!(
            "drive {name}: half of its I/Os take 0 ns, as its model is what an application measured and the \
             guest's own software takes that long already (--rewind takes off the rest).\n"
        ));
    }
    let failed = summary.drives.iter().filter_map(crate::failed::failed);
    for text in failed.chain(summary.drives.iter().flat_map(crate::flash_page::remarks)) {
        out.push_str(&text);
        out.push('\n');
    }
    out
}

/// Drives whose model is what an application measured, and that complete half of their reads or
/// writes at once: the guest's path, which is taken off, is as long.
fn faster_than_the_guest(summary: &Summary) -> impl Iterator<Item = &str> {
    let measured = summary.drives.iter().filter(|drive| {
        let parameters = &drive.described.parameters;
        parameters["kind"] == "profile" && parameters["profile"]["observed"] != "device"
    });
    let at_once = measured.filter(|drive| {
        [&drive.read, &drive.write].iter().any(|used| used.count > 0 && used.target_ns.p50 == 0)
    });
    at_once.map(|drive| drive.described.name.as_str())
}

/// Mean, p50, p99 and p99.9 of so many I/Os' latencies, as texts. A percentile that so few
/// do not carry is a dash.
pub fn figures(latency: &Latency, count: u64) -> [String; 4] {
    let percentile = |ns: u64, rank| match carried(count, rank) {
        true => units::duration(ns as f64),
        false => "–".to_owned(),
    };
    [
        units::duration(latency.mean),
        percentile(latency.p50, 5_000),
        percentile(latency.p99, 9_900),
        percentile(latency.p99_9, 9_990),
    ]
}
