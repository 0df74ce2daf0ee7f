//! Scenarios as a table, and as plots.

use stasis_report::page::Head;
use stasis_report::plot::{Axis, Bar, Bars, Markup, Quantity, Scale, Segment, COLOURS};
use stasis_report::verdict::{Range, Scenarios};
use stasis_report::{Column, Table};
use stasis_results::units::significant;

use super::measured::Measurement;
use super::scenario::{Benchmark, Scenario};
use stasis_program::pattern::Pattern;

/// Mark of a start that was given up, as in the publication's figures.
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

/// The head of a page of scenarios: the slowest beside the fastest of each benchmark, and all of
/// them.
pub fn head(measurements: &[Measurement], failed: &[(String, String)]) -> Head {
    let given_up = measurements.iter().filter(|one| one.failed).count();
    let ranges = ["s", "bytes/s"].into_iter().filter_map(|unit| {
        let of_unit = measurements.iter().filter(|one| one.unit == unit);
        let means = of_unit.filter_map(|one| Some((one, one.mean()?)));
        let least = means.clone().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let most = means.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let shown = |(one, value): (&Measurement, f64)| match unit {
            "s" => format!("{} s ({})", significant(value, 3), one.name),
            _ => format!("{} MB/s ({})", significant(value / 1e6, 3), one.name),
        };
        let kind = if unit == "s" { "starts take" } else { "throughput is" };
        Some(Range { kind, ends: [shown(least), shown(most)] })
    });
    let verdict = Scenarios {
        count: measurements.len(),
        failed: failed.len(),
        given_up,
        ranges: ranges.collect(),
    };
    let tiles = [
        ("Scenarios", measurements.len().to_string()),
        ("Boots that failed", failed.len().to_string()),
    ];
    Head::answering(verdict.verdict(), tiles).with("", scenarios(measurements))
}

/// A plot for each device and benchmark: bars by the workloads of guest and host, one for each pair
/// of schedulers.
pub fn plots(measurements: &[Measurement]) -> Vec<Markup> {
    let mut plots: Vec<(String, Bars)> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for measurement in measurements {
        let Scenario { setup, guest_workload, benchmark } = &measurement.scenario;
        let (measure, label, unit, by) = match benchmark {
            Benchmark::Throughput => ("throughput of the guest".to_owned(), "MB/s", "MB/s", 1e6),
            Benchmark::Startup(name) => (format!("start-up of {name}"), "seconds", "s", 1.0),
        };
        let title = format!("{}: {measure}", setup.device.name);
        let name = match setup.coordinated {
            true => format!("{} on {}, coordinated", setup.guest_scheduler, setup.host_scheduler),
            false => format!("{} on {}", setup.guest_scheduler, setup.host_scheduler),
        };
        let colour = place(&mut names, |known| *known == name, || name.clone()) % COLOURS;
        let value = measurement.mean().map_or(f64::NAN, |mean| mean / by);
        let axis = || Axis::new(label, Scale::Linear, Quantity::Number(unit));
        let plot = place(
            &mut plots,
            |known| known.0 == title,
            || {
                let bars = Vec::new();
                (title.clone(), Bars { title: title.clone(), axis: axis(), stacked: false, bars })
            },
        );
        let label = match setup.host_workload {
            Pattern::NONE => guest_workload.to_string(),
            host => format!("{guest_workload}, {host} on host"),
        };
        let bars = &mut plots[plot].1.bars;
        let bar = place(
            bars,
            |bar| bar.label == label,
            || Bar { label: label.clone(), segments: Vec::new() },
        );
        bars[bar].segments.push(Segment { name, colour, value });
    }
    plots.iter().map(|(_, plot)| plot.draw()).collect()
}

/// Returns the index of an element in the list, after adding it at the end if it is missing.
fn place<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> usize {
    list.iter().position(is_it).unwrap_or_else(|| {
        list.push(make());
        list.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::super::scenario::{Device, Setup};
    use super::super::statistics::Statistics;
    use super::*;

    fn measurement(host: Pattern, coordinated: bool, seconds: Option<f64>) -> Measurement {
        let setup = Setup {
            device: Device::named("sem16g"),
            host_scheduler: "bfq".into(),
            host_workload: host,
            guest_scheduler: "bfq".into(),
            coordinated,
        };
        let benchmark = Benchmark::Startup("xterm".into());
        let scenario = Scenario { setup, guest_workload: Pattern::readers(1, false), benchmark };
        let overall = Statistics::of(&[seconds.unwrap_or(59.0)]);
        Measurement {
            name: scenario.name(),
            scenario,
            unit: "s".into(),
            failed: seconds.is_none(),
            repetitions: overall.into_iter().collect(),
            overall,
            together: None,
        }
    }

    #[test]
    fn what_was_given_up_is_an_x() {
        let one = Pattern::readers(1, false);
        let all = [
            measurement(Pattern::NONE, false, Some(2.125)),
            measurement(one, false, None),
            measurement(one, true, Some(2.25)),
        ];
        let text = scenarios(&all).to_text();
        let rows: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows.iter().map(|row| row[2]).collect::<Vec<_>>(), ["2.125", FAILED, "2.25"]);
        let plots = plots(&all);
        assert_eq!(plots.len(), 1);
        let plot = plots[0].as_str();
        for words in ["start-up of xterm", "1r-seq, 1r-seq on host", ">X<", "bfq on bfq, coord"] {
            assert!(plot.contains(words), "{words}: {plot}");
        }
    }
}
