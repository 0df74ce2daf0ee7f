//! Why an I/O took as long as it did: its own times, and what its drive did meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use stasis_block::clock::Nanos;
use stasis_block::timeline::{Cause, TrackKind, What};
use stasis_block::Operation;
use stasis_run_events::{IoRecord, BLOCK};

use crate::awaited;
use crate::table::{printable, Column, Table};
use crate::waited::whose;
pub use crate::waited::{Before, ForWhom, OperationStep, Waited};
use stasis_results::commands::{Collector, ToldCommand, ToldCommands};
use stasis_results::guest_ios::{self, GuestTimes};
use stasis_results::slowest::SlowIo;
use stasis_results::waits::KeptWait;
use stasis_results::{folder_of, machine_of, units, KeptIos, KeptSpans, ResultsError, Summary};

/// Rows of what a drive did that are listed.
const LISTED: usize = 12;

/// The I/O in question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The one that took the longest of all that the command made.
    Slowest,
    /// The one of this number among the submissions to the drive of this name.
    Of(String, u64),
}

/// I/Os of one operation that were in the drive when the I/O in question came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// Their operation.
    pub operation: Operation,
    /// Number of those in flight.
    pub count: u64,
    /// For how long the oldest of them had been (ns).
    pub oldest: Nanos,
    /// Number of those that were delivered before the I/O in question.
    pub delivered: u64,
}

/// The work of a part of the drive while the I/O was under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// The part.
    pub track: String,
    /// Its work.
    pub work: What,
    /// On whose behalf.
    pub cause: Cause,
    /// For how long, within the I/O's time (ns).
    pub time: Nanos,
    /// Number of times.
    pub count: u64,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// The drive's name.
    pub drive: String,
    /// The I/O.
    pub io: IoRecord,
    /// Parts of its time, with names; together they are its whole time.
    pub parts: Vec<(&'static str, Nanos)>,
    /// From its system call until its thread ran again, where that is kept; else its latency (ns).
    pub whole: Nanos,
    /// Its time in the guest, where that is kept.
    pub guest: Option<GuestTimes>,
    /// The calls of programs that waited for it, where a thread of the kernel has submitted it; none where the
    /// run kept no waits.
    pub awaited: Option<Vec<KeptWait>>,
    /// The I/O of the same drive whose flush the block layer has issued by it, if it is such a flush.
    pub flush_of: Option<u64>,
    /// True if the run has kept that of any I/O.
    pub has_guest: bool,
    /// True if the results have the parts of its time in the model.
    pub has_parts: bool,
    /// True if the model tells parts at all.
    pub tells: bool,
    /// I/Os that were in the drive before it.
    pub ahead: Vec<Ahead>,
    /// I/Os that came after it and were delivered before it.
    pub overtaken: u64,
    /// The NAND operation whose end completed it, where it waited for one that the timeline has.
    pub operation: Option<Waited>,
    /// The drive's work meanwhile, the longest first; none where the run kept no timeline.
    pub activity: Option<Vec<Activity>>,
}

impl Why {
    /// The answer for an I/O of the results in `folder`.
    ///
    /// # Errors
    /// If the results cannot be read, or have no such drive or I/O.
    pub fn of(folder: &Path, which: &Which) -> Result<Self, ResultsError> {
        let (drive, io) = find(folder, which)?;
        let (mut ahead, mut overtaken) = (BTreeMap::<u8, Ahead>::new(), 0);
        let mut ios = KeptIos::open(folder)?;
        while let Some(other) = ios.next().transpose()? {
            if ios.drives()[usize::from(other.drive)] != drive || other.order == io.order {
                continue;
            }
            let sooner = other.delivered < io.delivered;
            let before = (other.submit, other.order) < (io.submit, io.order);
            if !before {
                overtaken += u64::from(sooner);
            } else if other.delivered > io.submit {
                let none = Ahead { operation: other.operation, count: 0, oldest: 0, delivered: 0 };
                let one = ahead.entry(other.operation as u8).or_insert(none);
                one.count += 1;
                one.oldest = one.oldest.max(io.submit - other.submit);
                one.delivered += u64::from(sooner);
            }
        }
        let slowest =
            Summary::beside(folder).map(|summary| slowest(summary, &drive)).unwrap_or_default();
        let command = command(folder, &drive, &io)?;
        let slow = slowest.iter().find(|slow| slow.order == io.order).cloned();
        let mut slow_io = match (&command, slow) {
            (None, Some(slow)) => slow,
            (command, _) => SlowIo::told(&io, command.as_ref().map(|(_, command)| command)),
        };
        let of_guest = guest_ios::read(folder_of(folder), |name, order| {
            (name, order) == (drive.as_str(), io.order)
        })?;
        let has_guest = of_guest.is_some();
        slow_io.guest = of_guest.and_then(|mut all| all.pop_first()).map(|(_, times)| times);
        let mut operation = match &command {
            Some((owner, ToldCommand { after: Some((number, _)), begin, .. })) => {
                Waited::of(folder_of(folder), owner, *number, *begin)?
            }
            _ => None,
        };
        if let (Some(operation), Some((owner, _))) = (&mut operation, &command) {
            link(folder, owner, operation)?;
        }
        let (awaited, flush_of) = match &slow_io.guest {
            Some(guest) if guest.is_of_kernel() => awaited(folder, (&drive, io.order), guest)?,
            _ => (None, None),
        };
        Ok(Self {
            awaited,
            flush_of,
            parts: slow_io.parts_in_order().into_iter().filter(|(_, time)| *time > 0).collect(),
            whole: slow_io.whole(),
            has_parts: slow_io.parts.is_some(),
            guest: slow_io.guest,
            has_guest,
            tells: slowest.iter().any(|slow| slow.parts.is_some()),
            operation,
            ahead: ahead.into_values().collect(),
            overtaken,
            activity: activity(folder, &drive, &io)?,
            drive,
            io,
        })
    }

    /// The answer for a terminal.
    pub fn to_text(&self) -> String {
        let Self { io, drive, .. } = self;
        let latency = io.delivered.saturating_sub(io.submit);
        let time = |ns: Nanos| units::duration(ns as f64);
        let range = match io.bytes {
            0 => String::new(),
            bytes => format!(" of {} at LBA {}", units::bytes(bytes), io.offset / BLOCK),
        };
        let boot = if io.boot { ", of the guest's boot" } else { "" };
        let mut text = format!(
            "{}{range}, drive {}, order {}{boot}\n{} from {} ns to {} ns\n",
            io.operation.name(),
            printable(drive),
            io.order,
            time(latency),
            io.submit,
            io.delivered
        );
        text.push_str(&self.in_guest());
        text.push('\n');
        let mut table = Table::new(vec![
            Column::left("where its time went"),
            Column::right("time"),
            Column::right("share"),
        ]);
        for (name, part) in &self.parts {
            let share = 100.0 * *part as f64 / self.whole.max(1) as f64;
            table.push(vec![
                (*name).to_owned(),
                time(*part),
                format!("{} %", units::significant(share, 3)),
            ]);
        }
        text.push_str(&table.to_text());
        if !self.has_parts {
            text.push_str(match self.tells {
                true => "The parts of its time in the model are not kept: they are of the 20 slowest\nI/Os of each operation, and with --timeline of all.\n",
                false => {
                    "No parts of its time in the model are kept: the model tells none, or the drive is\n\
                     shared, of which --timeline keeps them.\n"
                },
            });
        }
        text.push('\n');
        if let Some(operation) = &self.operation {
            text.push_str(&operation.to_text(drive, io.order));
            text.push('\n');
        }
        text.push_str(&self.others());
        text.push('\n');
        match &self.activity {
            None => text.push_str("With --timeline a run keeps what its drives did meanwhile.\n"),
            Some(all) if all.is_empty() => {
                text.push_str("The timeline has nothing that its drive did inside meanwhile.\n");
            }
            Some(all) => text.push_str(&activities(all)),
        }
        text
    }

    /// Describes the I/O's time in the guest.
    fn in_guest(&self) -> String {
        let time = |ns: Nanos| units::duration(ns as f64);
        let Some(guest) = &self.guest else {
            return match self.has_guest {
                true => {
                    "Its time in the guest is not known: no doorbell of the command's was for it.\n"
                        .to_owned()
                }
                false => String::new(),
            };
        };
        let begin = match guest.submitter.as_str() {
            "system-call" => "from the system call",
            "kernel-thread" => "from when that began to run",
            _ => "from the doorbell",
        };
        let end = match (guest.woken_ns, guest.ran_ns) {
            (None, None) => "to the interrupt",
            (Some(_), None) => "until its thread was woken",
            _ => "until its thread ran again",
        };
        let (from, to) = (guest.begun_ns, guest.ended());
        let took = time(self.whole);
        let mut text = format!(
            "Of {}: {took} {begin} {end}, from {from} ns to {to} ns\n",
            printable(&guest.who())
        );
        // The thread's name has been told.
        let thread = format!("[{}]", guest.thread);
        let is_told = |name: &&str| *name != "[program]" && *name != thread;
        let calls: Vec<&str> = guest.stack.split(';').filter(is_told).collect();
        text.push_str(&wrapped(&format!("Submitted by: {}", printable(&calls.join(" > ")))));
        if let Some(order) = self.flush_of {
            text.push_str(&format!(
                "It is the flush that the block layer does before order {order}.\n"
            ));
        }
        match self.awaited.as_deref() {
            None => {}
            Some([]) => text.push_str("No call of a program waited for it.\n"),
            Some(waits) => text.push_str(&awaited::text(waits, self.io.delivered)),
        }
        text
    }

    /// The I/Os before it and those that overtook it, in words.
    fn others(&self) -> String {
        let plural = |count: u64, operation: Operation| match count {
            1 => format!("1 {}", operation.name()),
            many => format!("{} {}", units::count(many), units::operations(operation)),
        };
        let mut text = match self.ahead.is_empty() {
            true => "No other I/O was in the drive when it came.\n".to_owned(),
            false => "In the drive when it came:\n".to_owned(),
        };
        for one in &self.ahead {
            text.push_str(&format!(
                "  {}, the oldest for {}; {} delivered before it\n",
                plural(one.count, one.operation),
                units::duration(one.oldest as f64),
                units::count(one.delivered)
            ));
        }
        match self.overtaken {
            0 => {}
            1 => text.push_str("1 I/O came later and was delivered before it.\n"),
            many => text.push_str(&format!(
                "{} I/Os came later and were delivered before it.\n",
                units::count(many)
            )),
        }
        text
    }
}

/// A text in lines of at most 100 characters, cut at spaces; those after the first are indented.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut length = 0;
    for word in text.split(' ') {
        match length {
            0 => {}
            _ if length + 1 + word.len() > 100 => {
                lines.push_str("\n  ");
                length = 2;
            }
            _ => {
                lines.push(' ');
                length += 1;
            }
        }
        lines.push_str(word);
        length += word.len();
    }
    lines + "\n"
}

/// The table of what a drive did.
fn activities(all: &[Activity]) -> String {
    let columns = ["the drive meanwhile", "did", "on behalf of"].map(Column::left);
    let figures = ["times", "for"].map(Column::right);
    let mut table = Table::new(columns.into_iter().chain(figures).collect());
    for one in all.iter().take(LISTED) {
        table.push(vec![
            one.track.clone(),
            one.work.name().to_owned(),
            whose(one.cause).to_owned(),
            units::count(one.count),
            units::duration(one.time as f64),
        ]);
    }
    let mut text = table.to_text();
    if all.len() > LISTED {
        text.push_str(&format!("and {} more, each for less\n", all.len() - LISTED));
    }
    text
}

/// The calls that waited for I/O `order` of `drive`, which a thread of the kernel has submitted, and the number of
/// the I/O whose flush it was, if it was one.
fn awaited(
    folder: &Path,
    (drive, order): (&str, u64),
    guest: &GuestTimes,
) -> Result<(Option<Vec<KeptWait>>, Option<u64>), ResultsError> {
    let folder = folder_of(folder);
    let own = guest_ios::read(folder, |name, other| name == drive && other != order)?;
    let own = own.unwrap_or_default();
    let numbered = own.iter().map(|((_, order), io)| (*order, io));
    let flush_of = awaited::flush_of(numbered, guest);
    let submitted = flush_of.and_then(|order| own.get(&(drive.to_owned(), order))).unwrap_or(guest);
    let Some(waits) = KeptWait::read(folder)? else { return Ok((None, flush_of)) };
    let summary = Summary::beside(folder);
    let Some(machine) = summary.and_then(|summary| machine_of(&summary, drive)) else {
        return Ok((None, flush_of));
    };
    let its = waits.iter().filter(|wait| wait.machine == machine);
    Ok((Some(awaited::find(its, submitted).into_iter().cloned().collect()), flush_of))
}

/// The command that an I/O of `drive` was, by the timeline, and the drive that served it.
fn command(
    folder: &Path,
    drive: &str,
    io: &IoRecord,
) -> Result<Option<(String, ToldCommand)>, ResultsError> {
    let folder = folder_of(folder);
    // Those alike are told apart by their place among all.
    let alike = |command: &ToldCommand| (command.end, command.bytes) == (io.model_end(), io.bytes);
    let Some(mut commands) = ToldCommands::read_those(folder, alike)? else { return Ok(None) };
    let mut ios = KeptIos::open(folder)?;
    while let Some(other) = ios.next().transpose()? {
        let is_alike = (other.model_end(), other.bytes) == (io.model_end(), io.bytes);
        if ios.drives()[usize::from(other.drive)] != drive || !is_alike {
            continue;
        }
        let command = commands.take(drive, &other);
        if other.order == io.order {
            return Ok(command);
        }
    }
    Ok(None)
}

/// Finds the I/Os that the commands of the drive `owner` were, for which an operation and those before
/// it have worked.
fn link(folder: &Path, owner: &str, operation: &mut Waited) -> Result<(), ResultsError> {
    let numbers: BTreeSet<u64> =
        operation.whoms().filter_map(|for_whom| for_whom.whom.first_command()).collect();
    let is_one =
        |command: &ToldCommand| command.number.is_some_and(|number| numbers.contains(&number));
    // Those alike are told apart by their place among all.
    let mut keys = BTreeSet::new();
    let kept = folder_of(folder);
    let Some(mut spans) = KeptSpans::open(kept)? else { return Ok(()) };
    let mut collector = Collector::default();
    let mut note = |command: ToldCommand| {
        if is_one(&command) {
            keys.insert((command.end, command.bytes));
        }
    };
    while let Some((track, span)) = spans.next_span()? {
        if track.kind == TrackKind::Command && track.owner == owner {
            collector.take(&span).into_iter().for_each(&mut note);
        }
    }
    collector.rest().for_each(note);
    let alike = |command: &ToldCommand| keys.contains(&(command.end, command.bytes));
    let Some(mut commands) = ToldCommands::read_those(kept, alike)? else { return Ok(()) };
    let mut found = BTreeMap::new();
    let mut ios = KeptIos::open(folder)?;
    while let Some(io) = ios.next().transpose()? {
        if !keys.contains(&(io.model_end(), io.bytes)) {
            continue;
        }
        let drive = ios.drives()[usize::from(io.drive)].clone();
        let Some((at, command)) = commands.take(&drive, &io) else { continue };
        if let Some(number) = command.number.filter(|_| at == owner) {
            found.insert(number, (drive, io.order));
        }
    }
    for for_whom in operation.whoms() {
        for_whom.io = for_whom.whom.first_command().and_then(|number| found.get(&number).cloned());
    }
    Ok(())
}

fn slowest(summary: Summary, drive: &str) -> Vec<SlowIo> {
    let mut drives = summary.drives.into_iter();
    drives.find(|one| one.described.name == drive).map(|one| one.slowest).unwrap_or_default()
}

/// Delivery time of an I/O of the results in `folder` (ns since the commands began).
///
/// # Errors
/// If the results cannot be read, or have no such drive or I/O.
pub fn delivered(folder: &Path, drive: &str, order: u64) -> Result<Nanos, ResultsError> {
    let (_, io) = find(folder, &Which::Of(drive.to_owned(), order))?;
    let summary = Summary::beside(folder);
    let begun = summary.map_or(0.0, |summary| summary.boot_virtual_seconds * 1e9);
    Ok(io.delivered.saturating_sub(begun.round() as Nanos))
}

/// The I/O in question, with its drive's name.
fn find(folder: &Path, which: &Which) -> Result<(String, IoRecord), ResultsError> {
    let mut ios = KeptIos::open(folder)?;
    let mut found: Option<IoRecord> = None;
    let mut orders: Option<(u64, u64)> = None;
    while let Some(io) = ios.next().transpose()? {
        let latency = |io: &IoRecord| io.delivered.saturating_sub(io.submit);
        let is = match which {
            Which::Slowest => {
                !io.boot && found.as_ref().is_none_or(|found| latency(&io) > latency(found))
            }
            Which::Of(drive, order) => {
                let its = ios.drives()[usize::from(io.drive)] == *drive;
                if its {
                    let (least, most) = orders.unwrap_or((io.order, io.order));
                    orders = Some((least.min(io.order), most.max(io.order)));
                }
                its && io.order == *order
            }
        };
        if is {
            found = Some(io);
        }
    }
    if let Some(io) = found {
        return Ok((ios.drives()[usize::from(io.drive)].clone(), io));
    }
    let problem = match (which, orders) {
        (Which::Slowest, _) => "it has no I/O of a command".to_owned(),
        (Which::Of(drive, _), None) => format!(
            "it has no I/O of a drive `{drive}`: it has those of {}",
            ios.drives().join(", ")
        ),
        (Which::Of(drive, order), Some((least, most))) => {
            format!("drive {drive} has no I/O {order}: it has {least} to {most}")
        }
    };
    Err(ResultsError::damaged(ios.path(), problem))
}

/// The work of the parts of `drive` between the submission and the delivery of `io`.
fn activity(
    folder: &Path,
    drive: &str,
    io: &IoRecord,
) -> Result<Option<Vec<Activity>>, ResultsError> {
    let Some(mut spans) = KeptSpans::open(folder_of(folder))? else { return Ok(None) };
    let mut all: BTreeMap<(u32, u8, u8), Activity> = BTreeMap::new();
    while let Some((track, span)) = spans.next_span()? {
        let of_drive = track.owner == drive
            && matches!(
                track.kind,
                TrackKind::Channel | TrackKind::Nand | TrackKind::Collection | TrackKind::Turn
            );
        let (begin, end) = (span.begin.max(io.submit), span.end.min(io.delivered));
        if !of_drive || begin >= end {
            continue;
        }
        let one =
            all.entry((span.track, span.activity as u8, span.cause as u8)).or_insert_with(|| {
                Activity {
                    track: format!("{} {}", track.kind.name(), track.name),
                    work: span.activity,
                    cause: span.cause,
                    time: 0,
                    count: 0,
                }
            });
        one.time += end - begin;
        one.count += 1;
    }
    let mut all: Vec<_> = all.into_values().collect();
    all.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.track.cmp(&b.track)));
    Ok(Some(all))
}
