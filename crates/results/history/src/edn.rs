//! The part of EDN that Jepsen's histories use.
//!
//! Source: the specification of EDN (github.com/edn-format/edn). Ratios and integers beyond 64 bits are not read. Tags
//! are left out, as those of records (`#jepsen.history.Op{...}`) are.

use serde_json::{Map, Number, Value};

use crate::error::HistoryError;

/// Limit on collections within each other.
const MAX_DEPTH: usize = 64;
/// Kind of the operations whose values are transactions.
const TRANSACTION: &str = "txn";

/// Reads operations one after another.
pub(crate) struct Reader<'a> {
    text: &'a str,
    /// Place of the next character (bytes).
    at: usize,
    /// The line at a place before, from 1 on.
    line: (usize, usize),
    /// True before the first operation.
    is_first: bool,
    /// The bracket that ends the vector or list of all operations.
    wrapper: Option<u8>,
}

impl<'a> Reader<'a> {
    /// # Errors
    /// The text is no UTF-8.
    pub(crate) fn new(text: &'a [u8]) -> Result<Self, HistoryError> {
        let reader = |text| Self { text, at: 0, line: (0, 1), is_first: true, wrapper: None };
        std::str::from_utf8(text).map(reader).map_err(|error| {
            let before = &text[..error.valid_up_to()];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            HistoryError { line, reason: "no UTF-8".to_owned() }
        })
    }

    /// Returns the next operation, with the line on which it begins, if it has at most `max` bytes.
    pub(crate) fn operation(&mut self, max: usize) -> Result<Option<(usize, Value)>, HistoryError> {
        let found = self.next_operation(max);
        let line = self.line();
        found
            .map(|value| value.map(|value| (line, value)))
            .map_err(|reason| HistoryError { line, reason })
    }

    fn next_operation(&mut self, max: usize) -> Result<Option<Value>, String> {
        self.skip(0)?;
        let is_first = std::mem::take(&mut self.is_first);
        if let (true, Some(open @ (b'[' | b'('))) = (is_first, self.peek()) {
            self.wrapper = Some(closing(open));
            self.at += 1;
            self.skip(0)?;
        }
        self.count_lines();
        match (self.peek(), self.wrapper) {
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err("the vector of operations has no end".to_owned()),
            (Some(byte), Some(end)) if byte == end => {
                self.at += 1;
                self.wrapper = None;
                self.skip(0)?;
                return self.peek().map_or(Ok(None), |_| Err("text behind the history".to_owned()));
            }
            _ => {}
        }
        let begin = self.at;
        // An operation beyond the limit is not read to its end.
        let whole = self.text;
        let mut end = whole.len().min(begin.saturating_add(max));
        while !whole.is_char_boundary(end) {
            end -= 1;
        }
        self.text = &whole[..end];
        let value = self.value(0);
        let is_cut = self.at >= end && end < whole.len();
        self.text = whole;
        match value {
            _ if is_cut => Err(format!("an operation of more than {max} bytes")),
            Ok(value @ Value::Object(_)) => Ok(Some(value)),
            Ok(_) => Err("no map of an operation".to_owned()),
            Err(reason) => Err(reason),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn count_lines(&mut self) {
        let (from, line) = self.line;
        let between = &self.text.as_bytes()[from..self.at];
        self.line = (self.at, line + between.iter().filter(|byte| **byte == b'\n').count());
    }

    fn line(&self) -> usize {
        self.line.1
    }

    /// Passes white space, commas, comments and discarded values.
    fn skip(&mut self, depth: usize) -> Result<(), String> {
        loop {
            let rest =
                self.text[self.at..].trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            self.at = self.text.len() - rest.len();
            if rest.starts_with(';') {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("#_") {
                self.at += 2;
                self.value(depth + 1)?;
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth == MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} collections within each other"));
        }
        self.skip(depth)?;
        let Some(first) = self.peek() else { return Err("a value has no end".to_owned()) };
        match first {
            b'[' | b'(' => self.items(closing(first), depth).map(Value::Array),
            b'{' => self.map(depth),
            b'"' => self.string().map(Value::String),
            b'\\' => self.character(),
            b'#' if self.text[self.at..].starts_with("#{") => {
                self.at += 1;
                self.items(b'}', depth).map(Value::Array)
            }
            b'#' => {
                self.at += 1;
                self.word();
                self.value(depth + 1)
            }
            b']' | b')' | b'}' => Err(format!("a {} without its beginning", first as char)),
            _ => {
                let word = self.word();
                scalar(word)
            }
        }
    }

    fn items(&mut self, end: u8, depth: usize) -> Result<Vec<Value>, String> {
        self.at += 1;
        let mut all = Vec::new();
        loop {
            self.skip(depth)?;
            if self.peek() == Some(end) {
                self.at += 1;
                return Ok(all);
            }
            all.push(self.value(depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, String> {
        let items = self.items(b'}', depth)?;
        if items.len() % 2 == 1 {
            return Err("a map has a key without a value".to_owned());
        }
        let mut map = Map::new();
        let mut items = items.into_iter();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            let key = match key {
                Value::String(key) => key,
                other => other.to_string(),
            };
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }

    fn string(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let mut characters = self.text[self.at + 1..].char_indices();
        while let Some((at, one)) = characters.next() {
            match one {
                '"' => {
                    self.at += at + 2;
                    return Ok(text);
                }
                '\\' => text.push(match characters.next().map(|(_, escaped)| escaped) {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('r') => '\r',
                    Some('b') => '\u{8}',
                    Some('f') => '\u{c}',
                    Some(same @ ('"' | '\\')) => same,
                    Some('u') => {
                        let digits: String = characters.by_ref().take(4).map(|one| one.1).collect();
                        unicode(&digits).ok_or_else(|| format!("no character \\u{digits}"))?
                    }
                    other => return Err(format!("an unknown escape, {other:?}")),
                }),
                other => text.push(other),
            }
        }
        self.at = self.text.len();
        Err("a string has no end".to_owned())
    }

    fn character(&mut self) -> Result<Value, String> {
        self.at += 1;
        // The character itself may be a bracket.
        let first = self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        let begin = self.at;
        self.at += first;
        self.word();
        let word = &self.text[begin..self.at];
        let one = match word {
            "newline" => Some('\n'),
            "return" => Some('\r'),
            "space" => Some(' '),
            "tab" => Some('\t'),
            _ if word.chars().count() == 1 => word.chars().next(),
            _ => word.strip_prefix('u').and_then(unicode),
        };
        one.map(|one| Value::String(one.into())).ok_or_else(|| format!("no character \\{word}"))
    }

    fn word(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let ends = |c: char| c.is_whitespace() || ",;\"()[]{}".contains(c);
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }
}

fn closing(open: u8) -> u8 {
    match open {
        b'[' => b']',
        b'(' => b')',
        _ => b'}',
    }
}

fn unicode(digits: &str) -> Option<char> {
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}

/// Reads a word that is no collection and no text.
fn scalar(word: &str) -> Result<Value, String> {
    let number = word.strip_prefix(['-', '+']).unwrap_or(word);
    if number.starts_with(|c: char| c.is_ascii_digit()) {
        let plain = word.strip_prefix('+').unwrap_or(word);
        let whole = plain.strip_suffix('N').unwrap_or(plain);
        let number: Option<Number> = match whole.parse::<i64>() {
            Ok(whole) => Some(whole.into()),
            Err(_) => whole.parse::<u64>().ok().map(Number::from).or_else(|| {
                let is_whole = whole.bytes().skip(1).all(|byte| byte.is_ascii_digit());
                let decimal = plain.strip_suffix('M').unwrap_or(plain).parse();
                decimal.ok().filter(|_| !is_whole).and_then(Number::from_f64)
            }),
        };
        return number.map(Value::Number).ok_or_else(|| format!("{word} is no number of 64 bits"));
    }
    Ok(match word {
        "nil" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "" | ":" => return Err("an empty word".to_owned()),
        _ => Value::String(word.strip_prefix(':').unwrap_or(word).to_owned()),
    })
}

/// Writes an operation as a map.
pub(crate) fn operation(fields: &Map<String, Value>) -> String {
    let is_transaction = fields.get("f").and_then(Value::as_str) == Some(TRANSACTION);
    let mut text = String::from("{");
    for (place, (name, value)) in fields.iter().enumerate() {
        if place > 0 {
            text.push_str(", ");
        }
        text.push(':');
        text.push_str(name);
        text.push(' ');
        match (name.as_str(), value) {
            ("type" | "f" | "process", Value::String(word)) => write_word(&mut text, word),
            ("value", Value::Array(steps)) if is_transaction => {
                text.push('[');
                for (place, step) in steps.iter().enumerate() {
                    text.push_str(if place > 0 { " " } else { "" });
                    write_step(&mut text, step);
                }
                text.push(']');
            }
            _ => write(&mut text, value),
        }
    }
    text.push('}');
    text
}

/// Writes a step of a transaction, `[:append 1 2]`.
fn write_step(text: &mut String, step: &Value) {
    let Value::Array(parts) = step else { return write(text, step) };
    let Some((Value::String(name), rest)) = parts.split_first() else { return write(text, step) };
    text.push('[');
    write_word(text, name);
    for part in rest {
        text.push(' ');
        write(text, part);
    }
    text.push(']');
}

/// Writes a keyword; a string if it would be none.
fn write_word(text: &mut String, word: &str) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.*+!?".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => {
            text.push(':');
            text.push_str(word);
        }
        false => write_string(text, word),
    }
}

fn write_string(text: &mut String, string: &str) {
    text.push('"');
    for one in string.chars() {
        if matches!(one, '"' | '\\') {
            text.push('\\');
        }
        text.push(one);
    }
    text.push('"');
}

fn write(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("nil"),
        Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
        Value::String(string) => write_string(text, string),
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                text.push_str(if place > 0 { " " } else { "" });
                write(text, item);
            }
            text.push(']');
        }
        Value::Object(map) => {
            text.push('{');
            for (place, (key, value)) in map.iter().enumerate() {
                text.push_str(if place > 0 { ", " } else { "" });
                match scalar(key) {
                    Ok(Value::Number(number)) => text.push_str(&number.to_string()),
                    _ => write_string(text, key),
                }
                text.push(' ');
                write(text, value);
            }
            text.push('}');
        }
    }
}
