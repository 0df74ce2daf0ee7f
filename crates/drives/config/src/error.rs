//! Errors in a table, with their place.

use std::fmt;

use serde::de::{Error, Expected, Unexpected};

/// Error in a table, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    // The innermost key first.
    path: Vec<String>,
    /// The problem at that place.
    pub problem: Problem,
}

/// Problem with a value or a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A key that the table does not have.
    #[error("unknown key `{key}`; {}it is one of {}", guess(key, .keys.iter().copied()), listed(.keys.iter().copied()))]
    Unknown {
        /// The key as written.
        key: String,
        /// The keys that there are.
        keys: &'static [&'static str],
    },
    /// A key that has to be there is not.
    #[error("`{key}` is missing")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A word that is not among the possible ones.
    #[error("`{word}` is unknown; {}it is one of {}", guess(word, .words.iter().copied()), listed(.words.iter().copied()))]
    Word {
        /// The word as written.
        word: String,
        /// The words that there are.
        words: &'static [&'static str],
    },
    /// Anything else, in a sentence.
    #[error("{0}")]
    Value(String),
}

impl ReadError {
    /// The place: keys from the outermost to the innermost.
    pub fn path(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.path.iter().rev().map(String::as_str)
    }

    /// The same error, seen from the table around.
    pub(crate) fn inside(mut self, key: &str) -> Self {
        self.path.push(key.to_owned());
        self
    }

    fn new(problem: Problem) -> Self {
        Self { path: Vec::new(), problem }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path().collect::<Vec<_>>().join("."))?;
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
        let (found, expected) = (shown(&found), expected.to_string());
        let expected = plain_type(&expected).unwrap_or(&expected);
        Self::custom(format_args!("{found} is not {expected}"))
    }

    fn invalid_value(found: Unexpected, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(word: &str, words: &'static [&'static str]) -> Self {
        Self::new(Problem::Word { word: word.to_owned(), words })
    }

    fn unknown_field(key: &str, keys: &'static [&'static str]) -> Self {
        Self::new(Problem::Unknown { key: key.to_owned(), keys })
    }

    fn missing_field(key: &'static str) -> Self {
        Self::new(Problem::Missing { key })
    }
}

/// A value as it was written.
fn shown(found: &Unexpected) -> String {
    match found {
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Unsigned(value) => format!("`{value}`"),
        Unexpected::Signed(value) => format!("`{value}`"),
        Unexpected::Float(value) => format!("`{value}`"),
        Unexpected::Str(value) => format!("`{value}`"),
        Unexpected::Seq => "a list".into(),
        Unexpected::Map => "a table".into(),
        other => other.to_string(),
    }
}

/// TOML's name for a Rust type in serde's words.
pub fn plain_type(expected: &str) -> Option<&'static str> {
    Some(match expected {
        "a sequence" => "a list, such as [\"one\", \"two\"]",
        "a map" => "a table",
        "u8" | "u16" | "u32" | "u64" | "usize" | "i64" => "a whole number",
        "f64" => "a number",
        "a boolean" | "boolean" => "true or false",
        "a string" => "a string",
        "unit" => "nothing",
        _ if expected.starts_with("struct ") => "a table",
        _ => return None,
    })
}

/// Above this, two words are alike by their beginnings and letters (Jaro-Winkler).
const ALIKE: f64 = 0.7;

/// The one of `choices` nearest to `word`, if any resembles it: by its beginning and
/// letters, or because no more than half of it was mistyped.
pub fn nearest<'a>(word: &str, choices: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let likeness = |choice: &str| {
        let choice = choice.to_lowercase();
        let beginning = strsim::jaro_winkler(&word, &choice);
        let typing = strsim::normalized_damerau_levenshtein(&word, &choice);
        (beginning > ALIKE || typing >= 0.5).then_some(beginning + typing)
    };
    choices
        .into_iter()
        .filter_map(|choice| Some((likeness(choice)?, choice)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, choice)| choice)
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
