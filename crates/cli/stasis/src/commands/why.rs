//! `stasis why`: where the time of an I/O went, and for whom a thread waited.

mod calls;
mod waits;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, Result};
use serde_json::{json, Map, Value};
use stasis_block::units;
use stasis_experiment::drive_and_number;
use stasis_report::why::{Which, Why};
use stasis_results::folder_of;
use stasis_results::waits::KeptWait;
use stasis_run_events::{Column, IoRecord, Kind};
use stasis_terminal::answer;
use waits::Asked;

/// Arguments of `stasis why`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stasis why results
  stasis why results drive0:100
  stasis why results --waits 20
  stasis why results --calls 20 --in fdatasync
  stasis why results pid:82@1.25ms

An I/O is named by its drive and its `order`, as in the page's list of the slowest I/Os and in
ios.parquet. Of the 20 slowest of each operation the parts of their time in the model are known.
Of a run with --timeline it is told what the drive did while the I/O was under way.

Of a run with --guest-times it is known when each thread of a program was off its processor: --waits
lists the longest times, and pid:N@TIME names that of a thread at a time since the machine was created,
or its next one. Each has who ended it, and where that one had waited itself until then. --calls has
the system calls that waited: a table by name, and the longest, each with its longest wait. An I/O that
a thread of the kernel has submitted, such as a journal's flush, has the calls that waited for it.")]
pub struct Arguments {
    /// A folder of results
    #[arg(value_name = "RESULTS")]
    results: PathBuf,
    /// The I/O, or a thread's wait; by default the slowest I/O that the command made
    #[arg(value_name = "DRIVE:ORDER|pid:N@TIME", value_parser = subject, conflicts_with = "waits")]
    subject: Option<Subject>,
    /// List so many waits of the programs' threads, the longest first
    #[arg(long, value_name = "N")]
    waits: Option<usize>,
    /// List so many system calls that waited, the longest first, below a table of all by name
    #[arg(long, value_name = "N", conflicts_with_all = ["waits", "subject"])]
    calls: Option<usize>,
    /// List only this system call, by the kernel's name, such as fdatasync
    #[arg(long = "in", value_name = "CALL", requires = "calls")]
    only: Option<String>,
}

/// The subject of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    Io(String, u64),
    Wait(Asked),
}

fn subject(word: &str) -> Result<Subject, String> {
    let Some(rest) = word.strip_prefix("pid:") else {
        return which(word).map(|(drive, order)| Subject::Io(drive, order));
    };
    let wrong = || "must be a thread's number and a time, such as pid:82@1.25ms".to_owned();
    let (pid, at) = rest.split_once('@').ok_or_else(wrong)?;
    let pid = pid.parse().map_err(|_| wrong())?;
    let at = units::parse_duration(at).map_err(|_| wrong())?;
    Ok(Subject::Wait(Asked::Of { pid, at }))
}

/// An I/O's drive and number.
pub fn which(word: &str) -> Result<(String, u64), String> {
    drive_and_number(word)
        .ok_or_else(|| "must be a drive's name and a number, such as drive0:100".to_owned())
}

/// `stasis why`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(count) = arguments.calls {
        return tell_calls(&arguments.results, (count, arguments.only.as_deref()));
    }
    let which = match (&arguments.subject, arguments.waits) {
        (Some(Subject::Wait(asked)), _) => return tell_waits(&arguments.results, asked),
        (_, Some(count)) => return tell_waits(&arguments.results, &Asked::Longest(count)),
        (Some(Subject::Io(drive, order)), _) => Which::Of(drive.clone(), *order),
        (None, None) => Which::Slowest,
    };
    let why = Why::of(&arguments.results, &which)?;
    tell(&why)?;
    answer::text(&why.to_text())?;
    Ok(ExitCode::SUCCESS)
}

fn tell_waits(results: &Path, asked: &Asked) -> Result<ExitCode> {
    let all = KeptWait::of(folder_of(results))?;
    let chains = waits::find(&all, asked)?;
    answer::list("waits");
    for chain in &chains {
        answer::push("waits", chain)?;
    }
    answer::text(&waits::text(&chains))?;
    Ok(ExitCode::SUCCESS)
}

fn tell_calls(results: &Path, (count, only): (usize, Option<&str>)) -> Result<ExitCode> {
    let all = KeptWait::of(folder_of(results))?;
    let calls = calls::of(&all);
    if let Some(only) = only.filter(|only| !calls.iter().any(|call| call.call == *only)) {
        let mut names: Vec<&str> = calls.iter().map(|call| call.call).collect();
        names.sort_unstable();
        names.dedup();
        bail!("--in: no call of {only} has waited; these have: {}", names.join(", "));
    }
    let listed = calls::longest(&all, &calls, (count, only));
    answer::list("calls");
    for call in &listed {
        answer::push("calls", call)?;
    }
    answer::text(&calls::text(&calls, &listed))?;
    Ok(ExitCode::SUCCESS)
}

/// A value of a column.
fn of_column(column: &Column, number: u64) -> Value {
    match column.kind {
        Kind::Word(words) => {
            usize::try_from(number).ok().and_then(|at| words.get(at)).copied().into()
        }
        Kind::Flag => (number != 0).into(),
        _ => number.into(),
    }
}

/// The answer's fields, with times in nanoseconds.
fn tell(why: &Why) -> Result<()> {
    let columns = IoRecord::COLUMNS.iter().zip(why.io.numbers());
    let columns = columns.filter(|(column, _)| column.kind != Kind::Drive);
    let io: Map<String, Value> = columns
        .map(|(column, number)| (column.name.to_owned(), of_column(column, number)))
        .collect();
    answer::put("drive", &why.drive)?;
    answer::put("io", &io)?;
    answer::put("whole_ns", &why.whole)?;
    answer::put("guest", &why.guest)?;
    answer::put("awaited", &why.awaited)?;
    answer::put("flush_of", &why.flush_of)?;
    answer::put("overtaken", &why.overtaken)?;
    ["parts", "ahead", "activity"].into_iter().for_each(answer::list);
    for (name, time) in &why.parts {
        answer::push("parts", &json!({ "name": name, "ns": time }))?;
    }
    for ahead in &why.ahead {
        let value = json!({
            "operation": ahead.operation.name(),
            "count": ahead.count,
            "oldest_ns": ahead.oldest,
            "delivered": ahead.delivered,
        });
        answer::push("ahead", &value)?;
    }
    for one in why.activity.iter().flatten() {
        let value = json!({
            "track": one.track,
            "what": one.work.name(),
            "cause": one.cause.name(),
            "ns": one.time,
            "count": one.count,
        });
        answer::push("activity", &value)?;
    }
    Ok(())
}
