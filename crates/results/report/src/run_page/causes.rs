//! Causes of a run's latencies, of the mean and of the slowest one: in sentences, and as a table.

use stasis_block::inside::Inside;
use stasis_block::Operation;

use crate::page::{Block, Section};
use crate::table::{Column, Table};
use crate::Waits;
use stasis_results::summary::{DriveSummary, OperationSummary, Summary};
use stasis_results::{limit_of, own_figure, units, SlowIo};

/// Operations of which the page's top has sentences, and limit on the rows of the table.
const TOLD: usize = 4;
const MAX_ROWS: usize = 40;
/// Ratio of a mean at the model to that of the I/Os up to which they are of the same commands: not each is
/// in both, such as those under way at the end.
const LATER: f64 = 1.05;

/// The causes of an operation's latencies.
struct Cause<'a> {
    drive: &'a str,
    operation: Operation,
    /// The mean latency (ns), and its parts where the drive's model has some or something was before it.
    mean: Option<(f64, Waits)>,
    slowest: Option<(&'a SlowIo, Waits)>,
}

/// The causes of all operations, those with the most I/Os first.
fn causes<'a>(summary: &'a Summary) -> Vec<Cause<'a>> {
    let used = summary.drives.iter();
    let used =
        used.flat_map(|drive| drive.used().map(move |(name, figures)| (drive, name, figures)));
    let mut used: Vec<_> = used.collect();
    used.sort_by_key(|(.., figures)| std::cmp::Reverse(figures.count));
    let cause = |(drive, operation, figures): (&'a DriveSummary, Operation, &OperationSummary)| {
        let limit = limit_of(summary, &drive.described.name);
        let figure = own_figure(&drive.described, operation);
        let slowest = drive.slowest.iter().find(|io| io.operation == operation).and_then(|io| {
            let waits = Waits::of_all(std::iter::once(io))?;
            Some((io, waits.with_figure(figure.clone()).with_limit(limit.clone())))
        });
        let mean = mean(drive, operation, figures, limit)
            .map(|waits| (figures.delivered_ns.mean, waits.with_figure(figure)));
        Cause { drive: &drive.described.name, operation, mean, slowest }
    };
    // An I/O without a part of its time took none.
    let all = used.into_iter().map(cause);
    all.filter(|cause| cause.mean.is_some() || cause.slowest.is_some()).collect()
}

/// The mean parts of the time of an operation's I/Os; none where the model's whole time is all that is known.
fn mean(
    drive: &DriveSummary,
    operation: Operation,
    figures: &OperationSummary,
    limit: Option<String>,
) -> Option<Waits> {
    // Commands below an image are not the guest's.
    let inside = drive.inside.as_ref().filter(|inside| !matches!(inside, Inside::Image { .. }));
    let means = inside.and_then(Inside::latency).and_then(|means| means.get(operation.name()));
    // A fault can acknowledge a command before its end at the model.
    let means = means.filter(|means| means.latency <= LATER * figures.delivered_ns.mean);
    let at_drive = Waits::in_the_mean(means.into_iter());
    match (at_drive, figures.waited_ns / figures.delivered_ns.mean.max(1.0)) {
        (at_drive, 0.0) => at_drive,
        (at_drive, before) => {
            Some(at_drive.unwrap_or_else(Waits::in_the_model).with_limit(limit).after(before))
        }
    }
}

/// Sentences for the page's top.
pub(super) fn sentences(summary: &Summary) -> Option<String> {
    let several = summary.drives.len() > 1;
    let all = causes(summary).into_iter().take(TOLD).map(|cause| cause.sentence(several));
    let sentences: Vec<_> = all.collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

impl Cause<'_> {
    fn sentence(&self, several: bool) -> String {
        let of_drive = if several { format!(" of {}", self.drive) } else { String::new() };
        let name = self.operation.name();
        let time = |io: &SlowIo| units::duration(io.latency() as f64);
        match (&self.mean, &self.slowest) {
            (Some((mean, waits)), slowest) => {
                let slowest = slowest.as_ref().map_or(String::new(), |(io, waits)| {
                    // The figure stands beside the mean.
                    let waits = waits.clone().with_figure(None).with_limit(None);
                    format!("; the slowest took {}: {}", time(io), waits.words())
                });
                let mean = units::duration(*mean);
                format!("A {name}{of_drive} takes {mean} on average: {}{slowest}.", waits.words())
            }
            (None, Some((io, waits))) => {
                format!("The slowest {name}{of_drive} took {}: {}.", time(io), waits.words())
            }
            (None, None) => String::new(),
        }
    }
}

/// The section with the table; none where the parts of no mean are known.
pub(super) fn section(summary: &Summary) -> Option<Section> {
    let causes: Vec<_> = causes(summary).into_iter().filter(|cause| cause.mean.is_some()).collect();
    let columns = ["drive", "operation"].map(Column::left).into_iter();
    let columns = columns.chain(["on average", "the slowest"].into_iter().flat_map(|group| {
        [Column::right("latency").under(group), Column::left("where it went").under(group)]
    }));
    let mut table = Table::new(columns.collect());
    let cells = |one: Option<(f64, &Waits)>| match one {
        Some((latency, waits)) => [units::duration(latency), waits.words()],
        None => ["–", "–"].map(str::to_owned),
    };
    for cause in causes.iter().take(MAX_ROWS) {
        let mean = cause.mean.as_ref().map(|(mean, waits)| (*mean, waits));
        let slowest = cause.slowest.as_ref();
        let slowest = slowest.map(|(io, waits)| (io.latency() as f64, waits));
        let named = [cause.drive, cause.operation.name()].map(str::to_owned);
        table.push([named, cells(mean), cells(slowest)].concat());
    }
    let more = match causes.len().saturating_sub(MAX_ROWS) {
        0 => String::new(),
        more => format!(" {more} more operations, with fewer I/Os, are in summary.json."),
    };
    let caption = format!(
        "The mean of all I/Os, and the slowest one: their causes can be others. The largest parts, up to nine tenths of \
         the time. Below, each drive has its slowest I/Os with all parts.{more}"
    );
    let section = Section::new("Why I/Os take their time");
    (!table.rows.is_empty()).then(|| section.with(Block::Table(caption, table)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Map;
    use stasis_block::inside::{LatencyMeans, Parts};
    use stasis_block::Command;
    use stasis_run_events::{Ending, IoRecord, Outcome};

    use super::*;
    use stasis_results::Drive;

    /// A drive whose reads wait in its queue as a rule, and whose slowest one was late; `waited`: their mean
    /// wait before it.
    fn drive(has_parts: bool, waited: f64) -> DriveSummary {
        let record = IoRecord { submit: 0, target: 100, delivered: 400, ..read() };
        let parts = Parts { queue: 60.0, service: 20.0, ..Parts::default() };
        let latency = [("read".to_owned(), LatencyMeans { count: 9, latency: 80.0, parts })];
        let mut drive = DriveSummary {
            described: Drive { name: "a".to_owned(), ..Drive::default() },
            slowest: vec![SlowIo::of(&record)],
            inside: has_parts.then(|| Inside::Commands {
                latency: latency.into_iter().collect(),
                slowest: Vec::new(),
            }),
            ..DriveSummary::default()
        };
        drive.read.count = 9;
        drive.read.waited_ns = waited;
        drive.read.delivered_ns.mean = 80.0 + waited;
        drive
    }

    fn read() -> IoRecord {
        IoRecord::of(&Command::new(Operation::Read, 0, 4096))
    }

    /// With and without parts, and a wait before the drive: what the top says of the mean and of the slowest
    /// stands in the table too.
    #[test]
    fn the_causes_on_top_are_those_of_the_table() {
        let late = "late, 75 %; the model, of which no parts are kept, 25 %";
        for (has_parts, waited, mean) in [
            (true, 0.0, "80 ns on average: queue behind other commands, 75 %; service time, 25 %"),
            (true, 320.0, "400 ns on average: scheduler, 80 %; queue behind other commands, 15 %"),
            (
                false,
                320.0,
                "400 ns on average: scheduler, 80 %; the model, of which no parts are kept, 20 %",
            ),
            (false, 0.0, ""),
        ] {
            for several in [false, true] {
                let other = DriveSummary::default();
                let drives = [drive(has_parts, waited)].into_iter().chain(several.then_some(other));
                let outcome = Outcome::of(Ending::Exited(0));
                let (drives, none) = (drives.collect(), Map::new());
                let summary = Summary::new(&outcome, "sim", Duration::ZERO, drives, none);
                let sentence = sentences(&summary).unwrap();
                let of_drive = if several { " of a" } else { "" };
                let expected = match mean {
                    "" => format!("The slowest read{of_drive} took 400 ns: {late}."),
                    mean => {
                        format!("A read{of_drive} takes {mean}; the slowest took 400 ns: {late}.")
                    }
                };
                assert_eq!(sentence, expected);
                let section = section(&summary);
                assert_eq!(section.is_some(), !mean.is_empty());
                let Some(Block::Table(_, table)) = section.map(|one| one.blocks[0].clone()) else {
                    continue;
                };
                let (latency, cause) = mean.split_once(" on average: ").unwrap();
                assert_eq!(table.rows, [["a", "read", latency, cause, "400 ns", late]]);
            }
        }
        // The model was at work for longer than the I/O took, which a fault acknowledged early.
        let mut early = drive(true, 0.0);
        early.read.delivered_ns.mean = 1.0;
        let early = Summary::new(
            &Outcome::of(Ending::Exited(0)),
            "sim",
            Duration::ZERO,
            vec![early],
            Map::new(),
        );
        assert!(
            sentences(&early).unwrap().starts_with("The slowest read took")
                && section(&early).is_none()
        );
        // The table keeps to its size.
        let many = vec![drive(true, 0.0); MAX_ROWS + 7];
        let many =
            Summary::new(&Outcome::of(Ending::Exited(0)), "sim", Duration::ZERO, many, Map::new());
        let Block::Table(caption, table) = &section(&many).unwrap().blocks[0] else { panic!() };
        assert!(
            caption.ends_with(" 7 more operations, with fewer I/Os, are in summary.json."),
            "{caption}"
        );
        assert_eq!(table.rows.len(), MAX_ROWS);
        // Nothing is known of an operation that was not used.
        let none = Summary::new(
            &Outcome::of(Ending::Exited(0)),
            "sim",
            Duration::ZERO,
            Vec::new(),
            Map::new(),
        );
        assert!(sentences(&none).is_none() && section(&none).is_none());
    }
}
