//! Scenarios as a table.

use stasis_report::units::significant;
use stasis_report::{Column, Table};

use super::measured::Measurement;

/// What stands where a start was given up, as in the publication's figures.
pub const FAILED: &str = "X";

/// Every scenario in a row: the publication's five statistics over its
/// repetitions, or over the samples of the one there is.
pub fn scenarios(measurements: &[Measurement]) -> Table {
    let headings = ["unit", "mean", "± 95 %", "deviation", "least", "greatest", "of", "together"];
    let columns = std::iter::once(Column::left("scenario"));
    let mut table = Table::new(columns.chain(headings.map(Column::right)).collect());
    for measurement in measurements {
        let overall = measurement.overall.filter(|overall| overall.count > 1);
        let shown = overall.or_else(|| measurement.repetitions.first().copied());
        let bytes = measurement.unit == "bytes/s";
        let unit = if bytes { "MB/s" } else { "s" };
        let value = |value: Option<f64>| {
            let value = value.map(|value| if bytes { value / 1e6 } else { value });
            value.map_or_else(String::new, |value| significant(value, 4))
        };
        let mut row = vec![measurement.name.clone(), unit.to_owned()];
        let mean = value(shown.map(|s| s.mean));
        row.push(if measurement.failed { FAILED.to_owned() } else { mean });
        row.push(value(shown.and_then(|s| s.confidence)));
        row.push(value(shown.and_then(|s| s.deviation)));
        row.push(value(shown.map(|s| s.min)));
        row.push(value(shown.map(|s| s.max)));
        row.push(shown.map_or_else(String::new, |s| s.count.to_string()));
        let together = measurement.together.map(|together| significant(together / 1e6, 4));
        row.push(together.map_or_else(String::new, |together| format!("{together} MB/s")));
        table.push(row);
    }
    table
}
