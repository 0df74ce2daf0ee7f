//! A profile as pprof reads it (github.com/google/pprof, proto/profile.proto), compressed by gzip.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::{Compression, GzBuilder};

use crate::message::Message;

// Fields of `Profile`.
const SAMPLE_TYPE: u32 = 1;
const SAMPLE: u32 = 2;
const LOCATION: u32 = 4;
const FUNCTION: u32 = 5;
const STRINGS: u32 = 6;
const PERIOD_TYPE: u32 = 11;
const PERIOD: u32 = 12;

/// The words of a profile; the first is empty.
struct Strings {
    numbers: BTreeMap<String, u64>,
    all: Vec<String>,
}

impl Strings {
    fn new() -> Self {
        Self { numbers: BTreeMap::from([(String::new(), 0)]), all: vec![String::new()] }
    }

    fn number(&mut self, word: &str) -> u64 {
        if let Some(&known) = self.numbers.get(word) {
            return known;
        }
        let number = self.all.len() as u64;
        self.numbers.insert(word.to_owned(), number);
        self.all.push(word.to_owned());
        number
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> Message {
        let (kind, unit) = (self.number(kind), self.number(unit));
        Message::default().number(1, kind).number(2, unit)
    }
}

/// Writes folded stacks, of which each sample stands for `interval` (ns of virtual time). A stack's
/// first name is its processor, which becomes the sample's label `processor`. Returns the number of
/// samples.
///
/// # Errors
/// If a line is no folded stack, or the profile cannot be written.
pub fn pprof(folded: &str, interval: u64, out: &mut dyn Write) -> io::Result<u64> {
    let mut strings = Strings::new();
    let mut profile = Message::default()
        .message(SAMPLE_TYPE, strings.value_type("samples", "count"))
        .message(SAMPLE_TYPE, strings.value_type("cpu", "nanoseconds"));
    let processor_key = strings.number("processor");
    // Functions and their one location each have the same numbers, from 1 on.
    let mut functions: BTreeMap<String, u64> = BTreeMap::new();
    let mut total = 0u64;
    for (number, line) in folded.lines().enumerate() {
        let stack = line.rsplit_once(' ').and_then(|(stack, count)| {
            let count: u64 = count.parse().ok()?;
            Some((stack.split(';').collect::<Vec<_>>(), count))
        });
        let Some((stack, count)) = stack else {
            let text = format!("line {} is no stack with its number of samples", number + 1);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        };
        let (processor, frames) = stack.split_first().unwrap_or((&"", &[]));
        let mut sample = Message::default();
        for frame in frames.iter().rev() {
            let next = functions.len() as u64 + 1;
            let function = *functions.entry((*frame).to_owned()).or_insert(next);
            sample = sample.number(1, function);
        }
        let label =
            Message::default().number(1, processor_key).number(2, strings.number(processor));
        sample =
            sample.number(2, count).number(2, count.saturating_mul(interval)).message(3, label);
        profile = profile.message(SAMPLE, sample);
        total = total.saturating_add(count);
    }
    for (name, &number) in &functions {
        let line = Message::default().number(1, number);
        profile = profile.message(LOCATION, Message::default().number(1, number).message(4, line));
        let name = strings.number(name);
        let function = Message::default().number(1, number).number(2, name).number(3, name);
        profile = profile.message(FUNCTION, function);
    }
    profile = profile
        .message(PERIOD_TYPE, strings.value_type("cpu", "nanoseconds"))
        .number(PERIOD, interval);
    for word in &strings.all {
        profile = profile.text(STRINGS, word);
    }
    // Without a name and a time: the same profile is the same bytes.
    let mut packed = GzBuilder::new().mtime(0).write(out, Compression::default());
    packed.write_all(&profile.into_bytes())?;
    packed.finish()?.flush()?;
    Ok(total)
}
