//! The slowest I/Os of a drive, and where the time of each went.

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::inside::{Inside, Parts, SlowCommand};
use stasis_block::Operation;
use stasis_run_events::{IoRecord, BLOCK};

use crate::table::{Column, Table};
use crate::units;

/// One of the slowest I/Os of a drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowIo {
    /// Its number among the submissions to its drive.
    pub order: u64,
    /// Its operation.
    pub operation: Operation,
    /// First block of its range.
    pub lba: u64,
    /// Its length.
    pub bytes: u64,
    /// When it was submitted.
    pub submit_ns: Nanos,
    /// When the model let it complete.
    pub target_ns: Nanos,
    /// When it was delivered.
    pub delivered_ns: Nanos,
    /// How long it waited for the host's scheduler before the model got it; 0 where that is not
    /// known.
    #[serde(default)]
    pub scheduled_ns: Nanos,
    /// Where its time in the model went (ns), where the model tells.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parts: Option<Parts<Nanos>>,
}

impl SlowIo {
    pub(crate) fn of(record: &IoRecord) -> Self {
        let &IoRecord { order, operation, offset, bytes, submit, target, delivered, .. } = record;
        Self {
            order,
            operation,
            lba: offset / BLOCK,
            bytes,
            submit_ns: submit,
            target_ns: target,
            delivered_ns: delivered,
            scheduled_ns: 0,
            parts: None,
        }
    }

    /// From its submission to its delivery (ns).
    pub fn latency(&self) -> Nanos {
        self.delivered_ns.saturating_sub(self.submit_ns)
    }

    /// Whether it is the model's command.
    fn is(&self, command: &SlowCommand) -> bool {
        let SlowCommand { operation, offset, bytes, begin, end, .. } = *command;
        (self.operation, self.lba, self.bytes, self.target_ns)
            == (operation, offset / BLOCK, bytes, end)
            && self.submit_ns <= begin
    }

    /// Each part of its time with its name; together they are the latency.
    fn named(&self) -> Vec<(&'static str, Nanos)> {
        let model = self.target_ns.saturating_sub(self.submit_ns + self.scheduled_ns);
        let mut all = vec![("scheduler", self.scheduled_ns)];
        match &self.parts {
            Some(parts) => all.extend(parts.named()),
            None => all.push(("model", model)),
        }
        all.push(("late", self.delivered_ns.saturating_sub(self.target_ns)));
        all
    }
}

/// Gives the slowest I/Os of a drive what its model kept of them; the model's list goes into them.
pub(crate) fn join(ios: &mut [SlowIo], inside: &mut Option<Inside>) {
    let Some(flash) = inside.as_mut().and_then(Inside::flash_mut) else { return };
    let commands = std::mem::take(&mut flash.slowest);
    for io in ios {
        if let Some(command) = commands.iter().find(|command| io.is(command)) {
            io.scheduled_ns = command.begin - io.submit_ns;
            io.parts = Some(command.parts);
        }
    }
}

/// The slowest I/Os as a table with its caption: `most` of them, with times as `since` tells them.
pub(crate) fn table(ios: &[SlowIo], since: impl Fn(Nanos) -> f64, most: usize) -> (String, Table) {
    let ios = &ios[..ios.len().min(most)];
    let rows: Vec<_> = ios.iter().map(SlowIo::named).collect();
    // Parts in their order; those of which no I/O has anything are left out.
    let mut parts: Vec<(&str, Nanos)> = Vec::new();
    let order = Parts::<Nanos>::default().named();
    let names = ["scheduler", "model"].into_iter().chain(order.map(|(name, _)| name));
    for name in names.chain(["late"]) {
        let of_name = rows.iter().flatten().filter(|(each, _)| *each == name);
        let sum: Nanos = of_name.map(|(_, time)| time).sum();
        if sum > 0 {
            parts.push((name, sum));
        }
    }
    let mut columns = vec![Column::left("operation")];
    let facts = ["latency", "order", "ended at", "LBA", "length"];
    columns.extend(facts.map(Column::right));
    columns.extend(parts.iter().map(|(name, _)| Column::right(*name).under("where it went")));
    let mut table = Table::new(columns);
    for (io, named) in ios.iter().zip(&rows) {
        let mut row = vec![
            io.operation.name().to_owned(),
            units::duration(io.latency() as f64),
            io.order.to_string(),
            units::duration(since(io.delivered_ns).max(0.0)),
            io.lba.to_string(),
            units::bytes(io.bytes),
        ];
        row.extend(parts.iter().map(|(name, _)| {
            let of_name = named.iter().find(|(each, _)| each == name);
            of_name.map_or("–".to_owned(), |(_, time)| units::duration(*time as f64))
        }));
        table.push(row);
    }
    let all: Nanos = ios.iter().map(SlowIo::latency).sum();
    let largest = parts.iter().max_by_key(|(_, sum)| *sum);
    let largest = largest.map_or(String::new(), |(name, sum)| {
        let share = units::significant(100.0 * *sum as f64 / all.max(1) as f64, 3);
        format!(" Most of it: {name}, {share} %.")
    });
    let which = match ios.len() {
        1 => "The slowest I/O, and where its time went.".to_owned(),
        many => format!("The {many} slowest I/Os, and where the time of each went."),
    };
    (format!("{which}{largest}"), table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(order: u64, late: Nanos) -> SlowIo {
        let record = IoRecord {
            order,
            offset: 4096 * order,
            bytes: 4096,
            submit: 1_000 * order,
            target: 1_000 * order + 500,
            delivered: 1_000 * order + 500 + late,
            ..IoRecord::of(&stasis_block::Command::new(Operation::Write, 0, 0))
        };
        SlowIo::of(&record)
    }

    fn command(of: &SlowIo, scheduled: Nanos) -> SlowCommand {
        let parts = Parts { buffer_gc: 300, controller: 200 - scheduled, ..Parts::default() };
        let (begin, end) = (of.submit_ns + scheduled, of.target_ns);
        let (operation, offset, bytes) = (of.operation, of.lba * BLOCK, of.bytes);
        SlowCommand { operation, offset, bytes, begin, end, parts }
    }

    #[test]
    fn an_io_gets_the_parts_of_its_command_and_no_others() {
        let mut ios = vec![io(1, 0), io(2, 7), io(3, 0)];
        let text = include_str!("../tests/inside.json");
        let mut inside: Inside = serde_json::from_str(text).unwrap();
        let other = SlowCommand { end: 1, ..command(&ios[2], 0) };
        let commands = vec![command(&ios[1], 50), other, command(&ios[0], 0)];
        inside.flash_mut().unwrap().slowest = commands;
        let mut inside = Some(inside);
        join(&mut ios, &mut inside);
        assert!(inside.unwrap().flash().unwrap().slowest.is_empty());
        let known: Vec<_> = ios.iter().map(|io| (io.scheduled_ns, io.parts.is_some())).collect();
        assert_eq!(known, [(0, true), (50, true), (0, false)]);
        for io in &ios {
            let sum: Nanos = io.named().iter().map(|(_, time)| time).sum();
            assert_eq!(sum, io.latency());
        }
        let (caption, table) = table(&ios, |at| at as f64 - 500.0, 20);
        let headings: Vec<_> = table.columns.iter().map(|c| c.heading.as_str()).collect();
        let parts = ["scheduler", "model", "controller", "buffer full behind a collection", "late"];
        assert_eq!(headings[6..], parts);
        assert_eq!(table.rows[1][6..], ["50 ns", "–", "150 ns", "300 ns", "7 ns"]);
        assert_eq!(table.rows[2][6..], ["0 ns", "500 ns", "–", "–", "0 ns"]);
        let expected =
            "The 3 slowest I/Os, and where the time of each went. Most of it: buffer full \
                        behind a collection, 39.8 %.";
        assert_eq!(caption, expected);
        let json = serde_json::to_string(&ios).unwrap();
        assert_eq!(serde_json::from_str::<Vec<SlowIo>>(&json).unwrap(), ios);
    }
}
