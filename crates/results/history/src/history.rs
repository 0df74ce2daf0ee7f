//! Histories from their lines.

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::{json, Value};

use crate::edn;
use crate::error::HistoryError;
use crate::line::{Kind, Line};
use crate::operation::{Moment, Operation, Outcome};

/// Length of a line, or of an operation in EDN (bytes).
pub const MAX_LINE: usize = 1 << 20;
/// Limit on the operations of a history.
pub const MAX_OPERATIONS: usize = 1 << 20;
/// The process whose lines are faults, as Jepsen has them, and no operations of clients.
const NEMESIS: &str = "nemesis";

/// Operations of clients, in the order of their beginning.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    operations: Vec<Operation>,
}

impl History {
    /// Reads lines of JSON, such as those of `history.jsonl`. Empty ones are left out, and those of the process
    /// `nemesis`. If each line has a `time`, times order them, else their places do: machines may report late.
    ///
    /// # Errors
    /// A line is no JSON, has an unknown type or no process, is longer than [`MAX_LINE`], begins a second operation of
    /// a process that has one, or ends one that has not begun.
    pub fn from_lines<L: AsRef<[u8]>>(
        lines: impl IntoIterator<Item = L>,
    ) -> Result<Self, HistoryError> {
        let mut builder = Builder::default();
        for (number, line) in (1..).zip(lines) {
            let line = line.as_ref().trim_ascii();
            let add = || {
                check_length(line.len())?;
                Line::parse(line).map_err(|error| error.to_string())
            };
            if !line.is_empty() {
                let added = add().and_then(|line| builder.add(line));
                added.map_err(|reason| HistoryError { line: number, reason })?;
            }
        }
        Ok(builder.finish())
    }

    /// Reads Jepsen's EDN: maps of operations, one after another or in a vector. Keywords and symbols become strings,
    /// sets and lists arrays, keys of maps strings.
    ///
    /// # Errors
    /// As of [`Self::from_lines`]; or the text is no EDN, or none of a history.
    pub fn from_edn(text: &[u8]) -> Result<Self, HistoryError> {
        let mut builder = Builder::default();
        let mut reader = edn::Reader::new(text)?;
        while let Some((line, value)) = reader.operation(MAX_LINE)? {
            let read = serde_json::from_value(value).map_err(|error| error.to_string());
            let added = read.and_then(|read| builder.add(read));
            added.map_err(|reason| HistoryError { line, reason })?;
        }
        Ok(builder.finish())
    }

    /// The operations, in the order of their beginning.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Returns the operations of some kinds, each with its place.
    pub(crate) fn of_kinds<'a>(
        &'a self,
        kinds: &'a [&str],
    ) -> impl Iterator<Item = (usize, &'a Operation)> + 'a {
        let all = self.operations.iter().enumerate();
        all.filter(|(_, one)| kinds.contains(&one.f.as_str()))
    }

    /// Returns the history as lines of JSON.
    pub fn to_lines(&self) -> String {
        self.text(|fields| Value::Object(fields).to_string())
    }

    /// Returns the history as Jepsen's EDN, a map a line. Names in transactions (operations `txn`) become keywords,
    /// other strings stay, keys of objects become numbers where they are some.
    pub fn to_edn(&self) -> String {
        self.text(|fields| edn::operation(&fields))
    }

    fn text(&self, line: impl Fn(serde_json::Map<String, Value>) -> String) -> String {
        let begin = |one| (one, true);
        let end = |one: &'_ Operation| one.end.is_some();
        let ends = self.operations.iter().filter(|one| end(one)).map(|one| (one, false));
        let mut lines: Vec<_> = self.operations.iter().map(begin).chain(ends).collect();
        let moment = |(one, is_begin): &(&Operation, bool)| match is_begin {
            true => one.begin,
            false => one.end.unwrap_or(one.begin),
        };
        lines.sort_by_key(|one| moment(one).rank);
        let mut text = String::new();
        for entry in lines {
            let (one, is_begin) = entry;
            let (kind, value) = match (is_begin, one.outcome) {
                (true, _) => (Kind::Invoke, &one.argument),
                (false, Outcome::Ok) => (Kind::Ok, &one.result),
                (false, Outcome::Fail) => (Kind::Fail, &one.result),
                (false, Outcome::Unknown) => (Kind::Info, &one.result),
            };
            let at = moment(&entry);
            let optional = [
                ("time", at.time.map(Value::from)),
                ("machine", one.machine.as_deref().map(Value::from)),
                ("answer", one.answer.as_deref().filter(|_| !is_begin).map(Value::from)),
            ];
            let mut fields = serde_json::Map::new();
            fields.insert("type".into(), kind.name().into());
            fields.insert("process".into(), one.process.clone());
            fields.insert("f".into(), one.f.as_str().into());
            fields.insert("value".into(), value.clone());
            fields.insert("index".into(), json!(at.index));
            for (name, value) in optional {
                fields.extend(value.map(|value| (name.to_owned(), value)));
            }
            // Writing to a string does not fail.
            _ = writeln!(text, "{}", line(fields));
        }
        text
    }
}

fn check_length(length: usize) -> Result<(), String> {
    match length > MAX_LINE {
        true => Err(format!("{length} bytes, more than {MAX_LINE}")),
        false => Ok(()),
    }
}

/// Joins lines to operations.
#[derive(Default)]
struct Builder {
    operations: Vec<Operation>,
    /// Operations under way, by machine and process.
    open: HashMap<(Option<String>, String), usize>,
    /// Number of lines.
    lines: u64,
    has_untimed: bool,
}

impl Builder {
    fn add(&mut self, line: Line) -> Result<(), String> {
        let own = self.lines;
        self.lines += 1;
        let process = match &line.process {
            Value::Number(number) => number.to_string(),
            Value::String(word) if word == NEMESIS => return Ok(()),
            Value::String(word) => word.clone(),
            other => return Err(format!("the process {other} is no number and no word")),
        };
        let (index, time) = (line.index.as_u64().unwrap_or(own), line.time.as_u64());
        self.has_untimed |= time.is_none();
        // The rank is the line's place at first.
        let at = Moment { rank: own as usize, index, time };
        let machine = line.machine.as_str().map(str::to_owned);
        let client = (machine, process);
        let open = self.open.get(&client).copied();
        if line.kind == Kind::Invoke {
            if let Some(open) = open.and_then(|open| self.operations.get(open)) {
                let process = &client.1;
                return Err(format!("process {process} begins an operation during {open}"));
            }
            if self.operations.len() == MAX_OPERATIONS {
                return Err(format!("more than {MAX_OPERATIONS} operations"));
            }
            self.open.insert(client.clone(), self.operations.len());
            self.operations.push(Operation {
                machine: client.0,
                process: line.process,
                f: line.f,
                argument: line.value,
                result: Value::Null,
                answer: None,
                outcome: Outcome::Unknown,
                begin: at,
                end: None,
            });
            return Ok(());
        }
        let Some(open) = open.and_then(|open| self.operations.get_mut(open)) else {
            let (kind, process) = (line.kind.name(), &client.1);
            return Err(format!("{kind} of process {process}, which has begun no operation"));
        };
        if open.f != line.f {
            return Err(format!("{} {} ends {open}", line.kind.name(), line.f));
        }
        open.outcome = Outcome::of_end(line.kind);
        open.end = Some(at);
        open.result = line.value;
        open.answer = line.answer.as_str().map(str::to_owned);
        self.open.remove(&client);
        Ok(())
    }

    fn finish(mut self) -> History {
        let by_time = !self.has_untimed;
        let mut moments = Vec::new();
        for one in &mut self.operations {
            moments.push((false, &mut one.begin));
            moments.extend(one.end.as_mut().map(|end| (true, end)));
        }
        moments.sort_by_key(|(is_end, at)| match by_time {
            true => (at.time, *is_end, at.rank),
            false => (None, false, at.rank),
        });
        for (rank, (_, moment)) in moments.into_iter().enumerate() {
            moment.rank = rank;
        }
        self.operations.sort_by_key(|one| one.begin.rank);
        History { operations: self.operations }
    }
}
