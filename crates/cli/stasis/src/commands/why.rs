//! `stasis why`: where the time of an I/O went.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{json, Map, Value};
use stasis_experiment::drive_and_number;
use stasis_report::why::{Which, Why};
use stasis_run_events::{Column, IoRecord, Kind};
use stasis_terminal::answer;

/// Arguments of `stasis why`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stasis why results
  stasis why results drive0:100

An I/O is named by its drive and its `order`, as in the page's list of the slowest I/Os and in
ios.parquet. Of the 20 slowest of each operation the parts of their time in the model are known.
Of a run with --timeline it is told what the drive did while the I/O was under way.")]
pub struct Arguments {
    /// A folder of results
    #[arg(value_name = "RESULTS")]
    results: PathBuf,
    /// The I/O; by default the slowest that the command made
    #[arg(value_name = "DRIVE:ORDER", value_parser = which)]
    io: Option<(String, u64)>,
}

/// An I/O's drive and number.
pub fn which(word: &str) -> Result<(String, u64), String> {
    drive_and_number(word)
        .ok_or_else(|| "must be a drive's name and a number, such as drive0:100".to_owned())
}

/// `stasis why`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let which = match &arguments.io {
        Some((drive, order)) => Which::Of(drive.clone(), *order),
        None => Which::Slowest,
    };
    let why = Why::of(&arguments.results, &which)?;
    tell(&why)?;
    answer::text(&why.to_text())?;
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
