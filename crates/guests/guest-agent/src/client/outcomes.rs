//! Outcomes of operations, and whether those that were done are there afterwards.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};

use super::session::Session;
use super::words::{self, write};

/// Exit statuses.
pub(super) const LOST: i32 = 3;
pub(super) const NOTHING_DONE: i32 = 4;

/// Limit on the lost operations that are named.
const MAX_NAMED: usize = 10;

pub(super) struct Outcomes {
    /// True for one that was done, by its number.
    done: BTreeMap<u64, bool>,
    file: Option<File>,
    /// Numbers of the file at first.
    before: usize,
}

impl Outcomes {
    /// Reads the outcomes in a file, one a line: `12 ok`.
    pub(super) fn open(path: Option<&str>) -> Result<Self, String> {
        let Some(path) = path else {
            return Ok(Self { done: BTreeMap::new(), file: None, before: 0 });
        };
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read.map_err(|error| format!("cannot read {path}: {error}"))?,
        };
        let line = |line: &str| {
            let (number, kind) = line.split_once(' ')?;
            Some((number.parse().ok()?, kind == "ok"))
        };
        let read = text
            .lines()
            .map(|text| line(text).ok_or(format!("{path}: `{text}` is not `NUMBER OUTCOME`")));
        let done: BTreeMap<_, _> = read.collect::<Result<_, _>>()?;
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.map_err(|error| format!("cannot write {path}: {error}"))?;
        Ok(Self { before: done.len(), done, file: Some(file) })
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.before > 0 && self.done.contains_key(&number)
    }

    pub(super) fn note(&mut self, number: u64, kind: &str) -> Result<(), String> {
        self.done.insert(number, kind == "ok");
        let line = format!("{number} {kind}\n");
        let written = self.file.as_mut().map_or(Ok(()), |file| file.write_all(line.as_bytes()));
        written.map_err(|error| format!("cannot write the outcomes: {error}"))
    }

    /// Asks for each operation that was done, until a server answers; says what is lost, and gives
    /// the exit status.
    pub(super) fn check(
        &self,
        session: &mut Session,
        operation: &str,
        expect: &str,
        out: &mut impl Write,
    ) -> Result<i32, String> {
        let done: Vec<u64> =
            self.done.iter().filter_map(|(number, done)| done.then_some(*number)).collect();
        let mut asked = None::<(String, String)>;
        let mut lost = Vec::new();
        for number in &done {
            let question = words::number(operation, *number);
            // One question for all has one answer for all.
            if asked.as_ref().is_none_or(|(last, _)| *last != question) {
                let answer = session.until(&question, "*")?.parts().1.to_owned();
                asked = Some((question, answer));
            }
            let answer = asked.as_ref().map_or("", |(_, answer)| answer);
            if !words::is_like(answer, &words::number(expect, *number)) {
                lost.push(number.to_string());
            }
        }
        let losses = match lost.len() {
            0 => "none lost".into(),
            count => {
                let more = if count > MAX_NAMED { ", ..." } else { "" };
                format!("{count} lost: {}{more}", lost[..count.min(MAX_NAMED)].join(", "))
            }
        };
        write(out, &format!("{} of {} acknowledged, {losses}\n", done.len(), self.done.len()))?;
        Ok(match (done.len(), lost.len()) {
            (0, _) => NOTHING_DONE,
            (_, 0) => 0,
            _ => LOST,
        })
    }
}
