//! Texts in TOML.

use std::fmt;
use std::ops::Range;

use toml::de::{DeTable, DeValue};
use toml::Spanned;

use crate::tree::{Entry, Tree, Value};
use crate::{Problem, ReadError};

/// Error in a text, with line and column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// The error, and the keys of its place.
    pub error: Box<ReadError>,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1: characters.
    pub column: usize,
    // The line, and the number of characters at fault.
    excerpt: String,
    width: usize,
}

pub(crate) fn parse(text: &str) -> Result<Tree, ReadError> {
    let table = DeTable::parse(text).map_err(|error| {
        let problem = Problem::Value(error.message().to_owned());
        ReadError::new(problem).at(error.span().as_ref())
    })?;
    let span = Some(table.span());
    Ok(Tree { value: table_of(table.into_inner())?, span })
}

/// A table with its entries in the order of the text.
fn table_of(table: DeTable) -> Result<Value, ReadError> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        let span = Some(key.span());
        entries.push(Entry { key: key.into_inner().into_owned(), span, tree: tree_of(value)? });
    }
    entries.sort_by_key(|entry| entry.span.as_ref().map(|span| span.start));
    Ok(Value::Table(entries))
}

fn tree_of(value: Spanned<DeValue>) -> Result<Tree, ReadError> {
    let span = Some(value.span());
    let too_large = |found: &str| {
        let (found, expected) = (format!("`{found}`"), "a number of 64 bits".into());
        ReadError::new(Problem::Type { found, expected }).at(span.as_ref())
    };
    let value = match value.into_inner() {
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Integer(number) => {
            let (digits, radix) = (number.as_str(), number.radix());
            u64::from_str_radix(digits, radix)
                .map(Value::Unsigned)
                .or_else(|_| i64::from_str_radix(digits, radix).map(Value::Signed))
                .map_err(|_| too_large(digits))?
        }
        DeValue::Float(number) => {
            let digits = number.as_str();
            let value = digits.parse().ok();
            // A number that is written with digits is none.
            let finite = |value: &f64| !value.is_infinite() || digits.contains("inf");
            Value::Float(value.filter(finite).ok_or_else(|| too_large(digits))?)
        }
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(values) => {
            Value::List(values.into_iter().map(tree_of).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => table_of(table)?,
    };
    Ok(Tree { value, span })
}

impl TextError {
    pub(crate) fn new(text: &str, error: ReadError) -> Self {
        let span = error.span().cloned().unwrap_or_default();
        let start = floor(text, span.start);
        let before = &text[..start];
        let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[start..].find('\n').map_or(text.len(), |length| start + length);
        let Range { start: from, end: to } = start..floor(text, span.end).clamp(start, end);
        Self {
            error: Box::new(error),
            line: before.matches('\n').count() + 1,
            column: text[begin..start].chars().count() + 1,
            excerpt: text[begin..end].trim_end().to_owned(),
            width: text[from..to].trim_end().chars().count().max(1),
        }
    }
}

/// The last boundary of a character at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { error, line, column, excerpt, width } = self;
        write!(f, "line {line}, column {column}: {error}")?;
        if excerpt.is_empty() {
            return Ok(());
        }
        let margin = " ".repeat(line.to_string().len());
        // Tabs before the mark stay tabs: both lines are then as wide.
        let indent: String = excerpt
            .chars()
            .chain(std::iter::repeat(' '))
            .take(column - 1)
            .map(|c| if c == '\t' { c } else { ' ' })
            .collect();
        write!(f, "\n {line} | {excerpt}\n {margin} | {indent}{}", "^".repeat(*width))
    }
}

impl std::error::Error for TextError {}
