//! Where the time of the slowest I/Os went: in words, as a table, and I/O by I/O.

use std::cmp::Reverse;

use stasis_block::clock::Nanos;
use stasis_block::inside::{LatencyMeans, Parts};
use stasis_block::Operation;

use crate::page::IoTimes;
use crate::table::{Column, Table};
use stasis_results::units;
use stasis_results::{own_figure, Drive, SlowIo};

/// Places where I/Os of an operation spent most of their time.
#[derive(Debug, Clone, PartialEq)]
pub struct Waits {
    /// Each part of their time with its share (0 to 1), the largest first.
    pub parts: Vec<(&'static str, f64)>,
    /// The latency that a model by figures has for the operation ([`stasis_results::own_figure`]).
    pub own_figure: Option<String>,
    /// The limits on the rate of the drive, or disk, in words ([`stasis_results::limit_of`]).
    pub limit: Option<String>,
}

impl Waits {
    /// Returns the waits of `ios`; None without any.
    pub fn of_all<'a>(ios: impl Iterator<Item = &'a SlowIo>) -> Option<Self> {
        let (mut all, mut sums) = (0, Vec::<(&str, Nanos)>::new());
        for io in ios {
            for (name, time) in io.named() {
                all += time;
                match sums.iter_mut().find(|(each, _)| *each == name) {
                    Some((_, sum)) => *sum += time,
                    None => sums.push((name, time)),
                }
            }
        }
        sums.retain(|(_, sum)| *sum > 0);
        sums.sort_by_key(|(_, sum)| Reverse(*sum));
        let share = |(name, sum): (&'static str, Nanos)| (name, sum as f64 / all as f64);
        let parts: Vec<_> = sums.into_iter().map(share).collect();
        (!parts.is_empty()).then_some(Self { parts, own_figure: None, limit: None })
    }

    /// Returns the mean waits at the drive of commands of one kind, over `runs`; None without any.
    pub fn in_the_mean<'a>(runs: impl Iterator<Item = &'a LatencyMeans>) -> Option<Self> {
        let mut sums = Parts::<f64>::default();
        for means in runs {
            let count = means.count as f64;
            sums.change_by(&means.parts, |sum, part| *sum += count * part);
        }
        let mut parts: Vec<_> = sums.named().into_iter().filter(|(_, time)| *time > 0.0).collect();
        let all: f64 = parts.iter().map(|(_, time)| time).sum();
        parts.iter_mut().for_each(|(_, time)| *time /= all);
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        (!parts.is_empty()).then_some(Self { parts, own_figure: None, limit: None })
    }

    /// All of the time in a model of which no parts are kept.
    pub(crate) fn in_the_model() -> Self {
        Self { parts: vec![("model", 1.0)], own_figure: None, limit: None }
    }

    /// Adds a wait before the drive, of this share of all of the time: for the scheduler, and for the limit
    /// where there is one.
    pub(crate) fn after(mut self, before: f64) -> Self {
        self.parts.iter_mut().for_each(|(_, share)| *share *= 1.0 - before);
        let name = if self.limit.is_some() { "scheduler or limit" } else { "scheduler" };
        self.parts.push((name, before));
        self.parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        self
    }

    /// Adds the model's own figure for the operation.
    #[must_use]
    pub fn with_figure(self, own_figure: Option<String>) -> Self {
        Self { own_figure, ..self }
    }

    /// Adds the limits on the rate of the drive or disk.
    #[must_use]
    pub fn with_limit(self, limit: Option<String>) -> Self {
        Self { limit, ..self }
    }

    /// The largest parts in words: `buffer full behind a collection, 76 %; behind writes, 12 %`. At most
    /// three, and no more once they are nine tenths of the time.
    pub fn words(&self) -> String {
        if let [("model", _)] = self.parts[..] {
            return "all of it in the model, of which no parts are kept".to_owned();
        }
        const PARTS: usize = 3;
        const ENOUGH: f64 = 0.9;
        let (mut covered, mut words) = (0.0, Vec::new());
        for (name, share) in self.parts.iter().take(PARTS) {
            if covered >= ENOUGH {
                break;
            }
            covered += share;
            let share = units::significant(100.0 * share, 3);
            words.push(match (*name, &self.own_figure, &self.limit) {
                ("queue", ..) => format!("queue behind other commands, {share} %"),
                ("model", ..) => format!("the model, of which no parts are kept, {share} %"),
                ("service time", Some(figure), _) => {
                    format!("service time, {share} % (the model's own figure, {figure})")
                }
                ("limit" | "scheduler or limit", _, Some(limit)) => {
                    format!("{name}, {share} % (of {limit})")
                }
                _ => format!("{name}, {share} %"),
            });
        }
        words.join("; ")
    }
}

/// The slowest I/Os as a table with its caption: `most` of each operation, with times as `since` tells
/// them; `limit` is that of the drive's rate. I/Os of the same length and time, which went to the same
/// parts, are one row.
pub(crate) fn table(
    ios: &[SlowIo],
    (drive, limit): (&Drive, Option<&String>),
    since: impl Fn(Nanos) -> f64,
    most: usize,
) -> (String, Table) {
    let used = Operation::ALL.into_iter().map(|operation| {
        let slowest = ios.iter().filter(move |io| io.operation == operation);
        slowest.take(most).collect::<Vec<_>>()
    });
    let used: Vec<_> = used.filter(|slowest| !slowest.is_empty()).collect();
    let rows: Vec<_> = used.iter().flatten().map(|io| io.named()).collect();
    // Parts in their order; those of which no I/O has anything are left out.
    let order = Parts::<Nanos>::default().named();
    let names =
        ["image", "limit", "scheduler", "model"].into_iter().chain(order.map(|(name, _)| name));
    let has = |name: &&str| rows.iter().flatten().any(|(each, time)| each == name && *time > 0);
    let parts: Vec<&str> = names.chain(["fault", "late"]).filter(has).collect();
    let mut columns = vec![Column::left("operation")];
    let facts = ["I/Os", "latency", "length", "order", "ended at", "LBA"];
    columns.extend(facts.map(Column::right));
    columns.extend(parts.iter().map(|name| Column::right(*name).under("where it went")));
    let mut table = Table::new(columns);
    for slowest in &used {
        let alike = |a: &&SlowIo, b: &&SlowIo| {
            (a.latency(), a.bytes, a.named()) == (b.latency(), b.bytes, b.named())
        };
        for same in slowest.chunk_by(|a, b| alike(a, b)) {
            let io = same[0];
            let more = if same.len() > 1 { ", …" } else { "" };
            let mut row = vec![
                io.operation.name().to_owned(),
                format!("×{}", same.len()),
                units::duration(io.latency() as f64),
                units::bytes(io.bytes),
                format!("{}{more}", io.order),
                format!("{}{more}", units::duration(since(io.delivered_ns).max(0.0))),
                format!("{}{more}", io.lba),
            ];
            let named = io.named();
            row.extend(parts.iter().map(|name| {
                let of_name = named.iter().find(|(each, _)| each == name);
                of_name.map_or("–".to_owned(), |(_, time)| units::duration(*time as f64))
            }));
            table.push(row);
        }
    }
    let slowest = |slowest: &Vec<&SlowIo>| {
        let name = slowest[0].operation.name();
        let figure = own_figure(drive, slowest[0].operation);
        let waits = Waits::of_all(slowest.iter().copied())
            .map(|waits| waits.with_figure(figure).with_limit(limit.cloned()));
        let waits = waits.map_or("no time".to_owned(), |waits| waits.words());
        match slowest.len() {
            1 => format!(" Of the slowest {name}: {waits}."),
            many => {
                let all = units::operations(slowest[0].operation);
                format!(" Of the {many} slowest {all}: {waits}.")
            }
        }
    };
    let slowest: String = used.iter().map(slowest).collect();
    // Such as one that waited for others before it came to the drive.
    let lacks = used.iter().flatten().any(|io| io.parts.is_none());
    let tells = |io: &&&SlowIo| io.parts.is_some() || io.limited_ns + io.scheduled_ns > 0;
    let kept = match lacks && used.iter().flatten().any(|io| tells(&io)) {
        true => {
            " A model that has parts keeps those of the 20 slowest commands of each operation at the drive itself, for \
             whoever they were; with --timeline, stasis why shows those of all."
        }
        false => "",
    };
    let begin = "The slowest I/Os of each operation, and where their time went. Order is an I/O's number on its \
                 drive, by which stasis why finds it.";
    (format!("{begin}{slowest}{kept}"), table)
}

/// Returns the I/Os of [`table`], each with the parts of its time; I/Os that are alike are one.
pub(crate) fn times(
    ios: &[SlowIo],
    since: impl Fn(Nanos) -> f64,
    most: usize,
    drive: &str,
) -> Vec<IoTimes> {
    let mut all = Vec::new();
    for operation in Operation::ALL {
        let slowest = ios.iter().filter(|io| io.operation == operation).take(most);
        let slowest: Vec<&SlowIo> = slowest.collect();
        let alike = |a: &&SlowIo, b: &&SlowIo| {
            (a.latency(), a.bytes, a.parts_in_order()) == (b.latency(), b.bytes, b.parts_in_order())
        };
        for same in slowest.chunk_by(|a, b| alike(a, b)) {
            let (io, order) = (same[0], same[0].order);
            let who = io.guest.as_ref().map(|guest| {
                let whole = units::duration(io.whole() as f64);
                format!("With its time in the guest, {whole}: {}. ", guest.who())
            });
            all.push(IoTimes {
                orders: same.iter().map(|io| io.order).collect(),
                title: format!(
                    "{} {order}: {}, ended at {}",
                    io.operation.name(),
                    units::duration(io.latency() as f64),
                    units::duration(since(io.delivered_ns).max(0.0))
                ),
                parts: io.parts_in_order(),
                note: format!(
                    "{}In this page's folder, stasis why . {drive}:{order} shows what was before it.",
                    who.unwrap_or_default()
                ),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stasis_block::inside::{ImageCounters, Inside, SlowCommand};
    use stasis_results::slowest::join;
    use stasis_results::GuestTimes;
    use stasis_run_events::{IoRecord, BLOCK};

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

    fn command(io: &SlowIo, scheduled: Nanos) -> SlowCommand {
        let parts = Parts { buffer_gc: 300, controller: 200 - scheduled, ..Parts::default() };
        let (begin, end) = (io.submit_ns + scheduled, io.target_ns);
        let (operation, offset, bytes) = (io.operation, io.lba * BLOCK, io.bytes);
        SlowCommand { operation, offset, bytes, begin, end, parts }
    }

    #[test]
    fn an_io_gets_the_parts_of_its_command_and_no_others() {
        let mut ios = vec![io(1, 0), io(2, 7), io(3, 0)];
        ios[1].scheduled_ns = 50;
        let text = include_str!("../tests/inside.json");
        let mut inside: Inside = serde_json::from_str(text).unwrap();
        let other = SlowCommand { end: 1, ..command(&ios[2], 0) };
        let commands = vec![command(&ios[1], 50), other, command(&ios[0], 0)];
        let Inside::Flash(flash) = &mut inside else { panic!("{inside:?}") };
        flash.slowest = commands.clone();
        let mut inside = Some(inside);
        join(&mut ios, &mut inside);
        assert!(inside.unwrap().flash().unwrap().slowest.is_empty());
        // The means stay of a model that tells nothing else, and of one below an image.
        let commanded = |slowest| Inside::Commands { latency: BTreeMap::new(), slowest };
        let image = ImageCounters::default();
        let above = |below| Inside::Image { image, below: Some(Box::new(below)) };
        let (all, rest) = (commanded(commands), commanded(Vec::new()));
        for (mut inside, rest) in
            [(Some(all.clone()), Some(rest.clone())), (Some(above(all)), Some(above(rest)))]
        {
            let mut again: Vec<_> =
                ios.iter().map(|io| SlowIo { parts: None, ..io.clone() }).collect();
            join(&mut again, &mut inside);
            assert_eq!((again, inside), (ios.clone(), rest));
        }
        let known: Vec<_> = ios.iter().map(|io| (io.scheduled_ns, io.parts.is_some())).collect();
        assert_eq!(known, [(0, true), (50, true), (0, false)]);
        for io in &ios {
            let sum: Nanos = io.named().iter().map(|(_, time)| time).sum();
            assert_eq!(sum, io.latency());
        }
        let (caption, table) = table(&ios, (&Drive::default(), None), |at| at as f64 - 500.0, 20);
        let headings: Vec<_> = table.columns.iter().map(|c| c.heading.as_str()).collect();
        let parts = ["scheduler", "model", "controller", "buffer full behind a collection", "late"];
        assert_eq!(headings[7..], parts);
        assert_eq!(table.rows[1][7..], ["50 ns", "–", "150 ns", "300 ns", "7 ns"]);
        assert_eq!(table.rows[2][7..], ["0 ns", "500 ns", "–", "–", "0 ns"]);
        let expected = "The slowest I/Os of each operation, and where their time went. Order is an I/O's number on \
                        its drive, by which stasis why finds it. Of the 3 slowest writes: buffer full behind a \
                        collection, 39.8 %; the model, of which no parts are kept, 33.2 %; controller, 23.2 %. A model that has parts keeps those of the 20 slowest commands of \
                        each operation at the drive itself, for whoever they were; with --timeline, stasis why shows \
                        those of all.";
        assert_eq!(caption, expected);
        let json = serde_json::to_string(&ios).unwrap();
        assert_eq!(serde_json::from_str::<Vec<SlowIo>>(&json).unwrap(), ios);
    }
    #[test]
    fn the_same_rows_are_one_and_each_operation_has_its_own() {
        let mut ios: Vec<_> = (0..5).map(|order| io(order, 0)).collect();
        ios[4].delivered_ns += 1;
        ios.sort_by_key(|io| Reverse(io.latency()));
        let read = SlowIo { operation: Operation::Read, ..io(9, 0) };
        ios.push(SlowIo {
            delivered_ns: read.submit_ns + 10,
            target_ns: read.submit_ns + 10,
            ..read
        });
        let (caption, table) = table(&ios, (&Drive::default(), None), |at| at as f64, 20);
        let cells: Vec<_> = table.rows.iter().map(|row| row[..5].join(" ")).collect();
        assert_eq!(
            cells,
            ["read ×1 10 ns 4 KiB 9", "write ×1 501 ns 4 KiB 4", "write ×4 500 ns 4 KiB 0, …"]
        );
        assert!(
            caption.contains("Of the slowest read: all of it in the model, of which no parts are kept. Of the 5 slowest writes"),
            "{caption}"
        );
        assert!(!caption.contains("keeps those of"), "nothing was before the model: {caption}");
        let (_, few) = super::table(&ios, (&Drive::default(), None), |at| at as f64, 1);
        assert_eq!(few.rows.len(), 2);
        // A wait for a limit has the limit beside it.
        for one in &mut ios {
            one.limited_ns = one.latency();
        }
        let limit = "500 I/Os a second".to_owned();
        let (caption, _) = super::table(&ios, (&Drive::default(), Some(&limit)), |at| at as f64, 1);
        assert!(caption.contains("limit, 100 % (of 500 I/Os a second)"), "{caption}");
        // One that waited before the drive need not be among those whose parts the model kept.
        assert!(caption.contains("keeps those of the 20 slowest commands"), "{caption}");
        assert_eq!(Waits::of_all([].iter()), None);
    }

    /// A wait before the drive is the scheduler's, or with a limit one of both, of which the value is there.
    #[test]
    fn a_mean_wait_before_the_drive_has_its_cause() {
        let model = "the model, of which no parts are kept, 75 %";
        let words = |limit: Option<&str>| {
            Waits::in_the_model().with_limit(limit.map(str::to_owned)).after(0.25).words()
        };
        assert_eq!(words(None), format!("{model}; scheduler, 25 %"));
        let limited = "scheduler or limit, 25 % (of 500 I/Os a second)";
        assert_eq!(words(Some("500 I/Os a second")), format!("{model}; {limited}"));
    }

    /// The time in the guest lies around the I/O's, and all parts together are the whole.
    #[test]
    fn parts_with_the_guests_are_the_whole() {
        let own = io(3, 7);
        let guest = GuestTimes {
            submitter: "system-call".into(),
            thread: "fio".into(),
            begun_ns: own.submit_ns - 40,
            queued_ns: own.submit_ns - 15,
            rung_ns: own.submit_ns,
            delivered_ns: own.delivered_ns,
            interrupted_ns: own.delivered_ns + 3,
            woken_ns: Some(own.delivered_ns + 10),
            ran_ns: None,
            stack: "[program];__x64_sys_pwrite64".into(),
        };
        let whole = SlowIo { guest: Some(guest), ..own.clone() };
        assert_eq!(whole.whole(), 40 + own.latency() + 10);
        let parts = whole.parts_in_order();
        assert_eq!(parts.iter().map(|(_, time)| time).sum::<Nanos>(), whole.whole());
        assert_eq!(parts[0], ("submission in the guest", 25));
        assert_eq!(parts[1], ("block layer", 15));
        assert_eq!(own.parts_in_order(), own.named());
        let times = times(&[whole, own], |at| at as f64, 9, "disk");
        assert_eq!(times.len(), 2);
        assert_eq!(times[0].orders, [3]);
        assert!(times[0].note.contains("fio (pwrite64)"), "{}", times[0].note);
        assert!(times[1].note.contains("stasis why . disk:3"), "{}", times[1].note);
    }
}
