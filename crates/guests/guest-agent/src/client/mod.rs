//! `stasis-client`: operations on servers over connections that stay, and their history. To start a
//! client's program for each operation costs more instructions than the servers' work on it.

mod history;
mod http;
mod lines;
mod mysql;
mod options;
mod outcomes;
mod postgresql;
mod protocol;
mod protocols;
mod redis;
mod session;
#[cfg(test)]
mod tests;
mod wire;
mod words;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::thread::sleep;
use std::time::Instant;

use stasis_channel::CLIENT_PROGRAM;

use history::History;
use options::Options;
use outcomes::Outcomes;
use protocol::Reply;
use session::Session;
use words::write;

/// Exit statuses; [`outcomes`] has others.
const NOT_DONE: i32 = 1;
const MISTAKE: i32 = 2;

/// Runs as `stasis-client`.
pub fn run_client() -> ! {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let words: Vec<_> = words.collect();
    if words.iter().any(|word| word == "--help") {
        print!("{}", options::HELP);
        std::process::exit(0);
    }
    let run = Options::read(words.into_iter()).and_then(|options| run(&options, io::stdout()));
    std::process::exit(run.unwrap_or_else(|why| {
        eprintln!("{CLIENT_PROGRAM}: {why}");
        MISTAKE
    }))
}

/// Does everything, writes to `out`, and gives the exit status.
fn run(options: &Options, mut out: impl Write) -> Result<i32, String> {
    let protocol = options.protocol.ok_or("no protocol")?;
    let mut session = Session::new(protocol, options);
    let mut outcomes = Outcomes::open(options.outcomes.as_deref())?;
    let history = History::new(options);
    let mut next = Instant::now();
    for numbered in operations(options)? {
        let (number, operation) = numbered?;
        if outcomes.has(number) {
            continue;
        }
        sleep(next.saturating_duration_since(Instant::now()));
        next = Instant::now() + options.every;
        let reply = match &options.until {
            Some(answer) => session.until(&operation, &words::number(answer, number))?,
            None => {
                history.invoke(&mut out, &operation)?;
                let reply = judge(session.perform(&operation)?, &options.ok);
                history.end(&mut out, &operation, &reply)?;
                reply
            }
        };
        let (kind, text) = reply.parts();
        if options.print {
            write(&mut out, &format!("{text}\n"))?;
        }
        outcomes.note(number, kind)?;
        if options.stop && kind != "ok" {
            return Ok(NOT_DONE);
        }
    }
    match &options.check {
        Some(check) => outcomes.check(&mut session, check, &options.expect, &mut out),
        None => Ok(0),
    }
}

/// An answer that is none of those that say so does not say that the operation was done.
fn judge(reply: Reply, ok: &[String]) -> Reply {
    match reply {
        Reply::Ok(text) if !ok.is_empty() && !ok.iter().any(|one| words::is_like(&text, one)) => {
            Reply::Info(text)
        }
        reply => reply,
    }
}

/// Operations with their numbers, or why they cannot be read.
type Numbered<'a> = Box<dyn Iterator<Item = Result<(u64, String), String>> + 'a>;

/// The operations with their numbers.
fn operations(options: &Options) -> Result<Numbered<'_>, String> {
    let numbered = |number, text: &str| Ok((number, words::number(text, number)));
    if let (Some((from, to)), Some(operation)) = (options.repeat, options.operations.first()) {
        return Ok(Box::new((from..=to).map(move |number| numbered(number, operation))));
    }
    if !options.operations.is_empty() || options.check.is_some() && options.file.is_none() {
        let given = (1..).zip(&options.operations);
        return Ok(Box::new(given.map(move |(number, text)| numbered(number, text))));
    }
    let input: Box<dyn BufRead> = match options.file.as_deref() {
        None | Some("-") => Box::new(io::stdin().lock()),
        Some(path) => {
            let file = File::open(path).map_err(|error| format!("cannot read {path}: {error}"))?;
            Box::new(BufReader::new(file))
        }
    };
    let lines = (1..).zip(input.lines()).filter_map(move |(number, line)| match line {
        Ok(line) => (!line.trim().is_empty()).then(|| numbered(number, &line)),
        Err(error) => Some(Err(format!("cannot read the operations: {error}"))),
    });
    Ok(Box::new(lines))
}
