//! Errors in a table, with their place.

use std::fmt;
use std::ops::Range;

use serde::de::{Error, Expected, Unexpected};

use crate::tree::Value;

/// Error in a table, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    // The innermost step first.
    path: Vec<Step>,
    // The place of the value, or of the unknown key: bytes of the text.
    span: Option<Range<usize>>,
    /// The problem at that place.
    pub problem: Problem,
}

/// A step from a table or a list to a value in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The value of this key.
    Key(String),
    /// The element of a list, from 0.
    Index(usize),
}

/// Problem with a value or a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A key that the table does not have.
    #[error("unknown key `{key}`; {}it is one of {}", guess(key, .keys.iter().copied()), listed(.keys.iter().copied()))]
    Unknown {
        /// The key as written.
        key: String,
        /// The known keys.
        keys: Vec<&'static str>,
    },
    /// A required key is missing.
    #[error("`{key}` is missing")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A word that is not among the possible ones.
    #[error("{found} is unknown; {}it is one of {}", guess(found.trim_matches('`'), .words.iter().map(String::as_str)), listed(.words.iter().map(String::as_str)))]
    Word {
        /// The value as written, in backquotes if it is short.
        found: String,
        /// The known words.
        words: Vec<String>,
    },
    /// A value of another type or form.
    #[error("{found} is not {expected}")]
    Type {
        /// The value as written, in backquotes if it is short.
        found: String,
        /// The type or form.
        expected: String,
    },
    /// A number out of its range, or no number.
    #[error("{found} is not a whole number from {least} to {most}")]
    Range {
        /// The value as written, in backquotes if it is short.
        found: String,
        /// The least number.
        least: u64,
        /// The largest number.
        most: u64,
    },
    /// Anything else, in a sentence.
    #[error("{0}")]
    Value(String),
}

impl ReadError {
    /// The place: steps from the outermost to the innermost.
    pub fn path(&self) -> impl DoubleEndedIterator<Item = &Step> + Clone {
        self.path.iter().rev()
    }

    /// The place as keys with dots, such as `drive[0].queues`; empty for the whole.
    pub fn place(&self) -> String {
        joined(self.path())
    }

    /// The bytes of the text that are at fault, where the value is from a text.
    pub(crate) fn span(&self) -> Option<&Range<usize>> {
        self.span.as_ref()
    }

    /// Puts a table or list around the place of the error.
    pub(crate) fn inside(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }

    /// Adds these bytes to the error, if it has no place yet.
    pub(crate) fn at(mut self, span: Option<&Range<usize>>) -> Self {
        self.span = self.span.or_else(|| span.cloned());
        self
    }

    pub(crate) fn new(problem: Problem) -> Self {
        Self { path: Vec::new(), span: None, problem }
    }

    /// Returns the error where `found` is in place of a table.
    pub(crate) fn no_table(found: &Value, keys: &[&str]) -> Self {
        let expected = format!("a table with {}", listed(keys.iter().copied()));
        Self::new(Problem::Type { found: found.to_string(), expected })
    }

    /// Returns the error where `found` is in place of one of `words`.
    pub(crate) fn no_word(found: &Value, words: &[&str]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Self::new(Problem::Word { found: found.to_string(), words })
    }
}

/// Keys with dots and indices in brackets.
fn joined<'a>(path: impl Iterator<Item = &'a Step>) -> String {
    let mut text = String::new();
    for step in path {
        if matches!(step, Step::Key(_)) && !text.is_empty() {
            text.push('.');
        }
        text += &step.to_string();
    }
    text
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Key(key) => f.write_str(key),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.place())?;
        }
        self.problem.fmt(f)
    }
}

impl std::error::Error for ReadError {}

impl Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Problem::Value(message.to_string()))
    }

    fn invalid_type(found: Unexpected, expected: &dyn Expected) -> Self {
        let expected = expected.to_string();
        let expected = plain_type(&expected).map_or(expected, str::to_owned);
        Self::new(Problem::Type { found: shown(&found), expected })
    }

    fn invalid_value(found: Unexpected, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(word: &str, words: &'static [&'static str]) -> Self {
        Self::no_word(&Value::String(word.to_owned()), words)
    }

    fn unknown_field(key: &str, keys: &'static [&'static str]) -> Self {
        Self::new(Problem::Unknown { key: key.to_owned(), keys: keys.to_vec() })
    }

    fn missing_field(key: &'static str) -> Self {
        Self::new(Problem::Missing { key })
    }
}

/// A value as it was written.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Null => f.write_str("nothing"),
            Self::Bool(value) => write!(f, "`{value}`"),
            Self::Unsigned(value) => write!(f, "`{value}`"),
            Self::Signed(value) => write!(f, "`{value}`"),
            Self::Float(value) => write!(f, "`{value:?}`"),
            Self::String(text) | Self::Word(text) | Self::Date(text) => write!(f, "`{text}`"),
            Self::List(_) => f.write_str("a list"),
            Self::Table(_) => f.write_str("a table"),
        }
    }
}

/// A value as it was written.
fn shown(found: &Unexpected) -> String {
    match found {
        Unexpected::Bool(value) => Value::Bool(*value).to_string(),
        Unexpected::Unsigned(value) => Value::Unsigned(*value).to_string(),
        Unexpected::Signed(value) => Value::Signed(*value).to_string(),
        Unexpected::Float(value) => Value::Float(*value).to_string(),
        Unexpected::Str(value) => format!("`{value}`"),
        Unexpected::Seq => "a list".into(),
        Unexpected::Map => "a table".into(),
        other => other.to_string(),
    }
}

/// TOML's name for a Rust type in serde's words.
fn plain_type(expected: &str) -> Option<&'static str> {
    Some(match expected {
        "a sequence" => "a list, such as [\"one\", \"two\"]",
        "a map" => "a table",
        "u8" | "u16" | "u32" | "u64" | "usize" | "i64" => "a whole number",
        "f64" => "a number",
        "a boolean" | "boolean" => "true or false",
        "a string" => "a string",
        "path string" => "a path",
        "unit" => "nothing",
        _ if expected.starts_with("struct ") => "a table",
        _ => return None,
    })
}

/// Above this, two words are alike by their beginnings and letters (Jaro-Winkler).
const ALIKE: f64 = 0.7;
/// From this on, a word is alike to a choice's end, such as a model's name without its maker.
const ALIKE_END: f64 = 0.75;

/// The one of `choices` nearest to `word`, if any resembles it: by its beginning and
/// letters, because no more than half of it was mistyped, or because it is nearly the choice behind
/// one of its hyphens.
pub fn nearest<'a>(word: &str, choices: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    choices
        .into_iter()
        .filter_map(|choice| Some((likeness(&word, &choice.to_lowercase())?, choice)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, choice)| choice)
}

fn likeness(word: &str, choice: &str) -> Option<f64> {
    let alike = |choice: &str| {
        let beginning = strsim::jaro_winkler(word, choice);
        (beginning, strsim::normalized_damerau_levenshtein(word, choice))
    };
    let (beginning, typing) = alike(choice);
    let begins_so = word.chars().next() == choice.chars().next();
    let is_typed = typing > 0.5 || typing == 0.5 && begins_so;
    let whole = (beginning > ALIKE || is_typed).then_some(beginning + typing);
    let ends = choice.match_indices('-').map(|(at, _)| alike(&choice[at + 1..]));
    let ends = ends.filter(|(_, typing)| *typing >= ALIKE_END);
    // The whole word goes before a part that is as near.
    let ends = ends.map(|(beginning, typing)| beginning + typing - 0.01);
    whole.into_iter().chain(ends).max_by(f64::total_cmp)
}

/// "did you mean `...`? " with the one of `choices` nearest to `word`; empty if none resembles it.
pub fn guess<'a>(word: &str, choices: impl IntoIterator<Item = &'a str>) -> String {
    let nearest = nearest(word, choices);
    nearest.map(|nearest| format!("did you mean `{nearest}`? ")).unwrap_or_default()
}

/// Words in backquotes, with commas.
pub fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_word_is_one_that_can_be_meant() {
        let models = ["850-pro", "samsung-980-pro", "optane-p4800x", "intel-750", "dcpmm", "null"];
        let operations = ["read", "write", "copy", "errors"];
        let keys = ["block-size", "queues", "serial", "medium"];
        for (word, choices, wanted) in [
            ("980-pro", &models[..], Some("samsung-980-pro")),
            ("970-pro", &models, Some("samsung-980-pro")),
            ("p4800x", &models, Some("optane-p4800x")),
            ("P4800X", &models, Some("optane-p4800x")),
            ("850-por", &models, Some("850-pro")),
            ("dcpm", &models, Some("dcpmm")),
            ("samsung", &models, Some("samsung-980-pro")),
            ("nope", &operations, None),
            ("red", &operations, Some("read")),
            ("size", &keys, Some("block-size")),
            ("blocksize", &keys, Some("block-size")),
            ("zzz", &keys, None),
            ("a3", &["a1", "b"], Some("a1")),
        ] {
            assert_eq!(nearest(word, choices.iter().copied()), wanted, "{word}");
        }
    }
}
