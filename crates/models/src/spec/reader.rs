//! Reads the keys of a table one by one, so that every error has its place.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use stasis_block::units::{parse_duration, parse_size};
use stasis_clock::Nanos;

use super::error::{nearest, SpecError};
use crate::random::Span;
use crate::rate::Rate;

/// A table of which only known keys are left to read.
#[derive(Debug)]
pub(crate) struct Reader {
    place: String,
    table: Map<String, Value>,
}

impl Reader {
    /// `place` is the kind of model, and the table in it.
    pub(crate) fn new(
        place: &str,
        table: Map<String, Value>,
        keys: &[&str],
    ) -> Result<Self, SpecError> {
        if let Some(key) = table.keys().find(|key| !keys.contains(&key.as_str())) {
            return Err(SpecError::Key {
                place: place.into(),
                key: key.clone(),
                nearest: nearest(key, keys.iter().copied()).map(String::from),
                keys: listed(keys.iter().copied()),
            });
        }
        Ok(Self { place: place.into(), table })
    }

    pub(crate) fn bad(&self, key: &str, problem: &dyn Display) -> SpecError {
        let problem = problem.to_string();
        SpecError::Value { place: self.place.clone(), key: key.into(), problem }
    }

    /// The value of a key, by one of the readers below, if it is there.
    pub(crate) fn optional<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&mut Self, &str) -> Result<T, SpecError>,
    ) -> Result<Option<T>, SpecError> {
        match self.table.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => read(self, key).map(Some),
        }
    }

    pub(crate) fn or<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&mut Self, &str) -> Result<T, SpecError>,
        otherwise: T,
    ) -> Result<T, SpecError> {
        Ok(self.optional(key, read)?.unwrap_or(otherwise))
    }

    pub(crate) fn required<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&mut Self, &str) -> Result<T, SpecError>,
    ) -> Result<T, SpecError> {
        let missing = || SpecError::Missing { place: self.place.clone(), key: key.into() };
        let missing = missing();
        self.optional(key, read)?.ok_or(missing)
    }

    fn word(&mut self, key: &str, example: &str) -> Result<String, SpecError> {
        match self.table.get(key) {
            Some(Value::String(word)) => Ok(word.clone()),
            Some(other) => {
                let problem = format!("`{other}` is no string; write one such as \"{example}\"");
                Err(self.bad(key, &problem))
            }
            None => Err(SpecError::Missing { place: self.place.clone(), key: key.into() }),
        }
    }

    pub(crate) fn string(&mut self, key: &str) -> Result<String, SpecError> {
        self.word(key, "name")
    }

    pub(crate) fn span(&mut self, key: &str) -> Result<Span, SpecError> {
        let word = self.word(key, "100us\" or \"200us-400us")?;
        Span::parse(&word).map_err(|e| self.bad(key, &e))
    }

    pub(crate) fn duration(&mut self, key: &str) -> Result<Nanos, SpecError> {
        let word = self.word(key, "100us")?;
        parse_duration(&word).map_err(|e| self.bad(key, &e))
    }

    pub(crate) fn size(&mut self, key: &str) -> Result<u64, SpecError> {
        if let Some(bytes) = self.table.get(key).and_then(Value::as_u64) {
            return Ok(bytes);
        }
        let word = self.word(key, "64MiB")?;
        parse_size(&word).map_err(|e| self.bad(key, &e))
    }

    pub(crate) fn rate(&mut self, key: &str) -> Result<Rate, SpecError> {
        let word = self.word(key, "3400MB/s")?;
        Rate::parse(&word).map_err(|e| self.bad(key, &e))
    }

    /// One of the words in `choices`.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        key: &str,
        choices: &[(&str, T)],
    ) -> Result<T, SpecError> {
        let words = || choices.iter().map(|(word, _)| *word);
        let word = self.word(key, choices.first().map_or("", |(word, _)| word))?;
        choices.iter().find(|(right, _)| *right == word).map(|(_, value)| *value).ok_or_else(|| {
            let guess = nearest(&word, words()).map(|n| format!("did you mean `{n}`? "));
            let guess = guess.unwrap_or_default();
            self.bad(key, &format!("`{word}` is unknown; {guess}one of {}", listed(words())))
        })
    }

    /// Anything that needs no unit.
    pub(crate) fn number<T: DeserializeOwned>(&mut self, key: &str) -> Result<T, SpecError> {
        let value = self.table.get(key).cloned().unwrap_or_default();
        serde_json::from_value(value).map_err(|e| self.bad(key, &e))
    }

    /// At least 1.
    pub(crate) fn count(&mut self, key: &str) -> Result<u32, SpecError> {
        match self.number(key)? {
            0 => Err(self.bad(key, &"must be at least 1")),
            count => Ok(count),
        }
    }

    /// The value as it is.
    pub(crate) fn value(&mut self, key: &str) -> Result<Value, SpecError> {
        Ok(self.table.get(key).cloned().unwrap_or_default())
    }

    /// A table in the table.
    pub(crate) fn table(&mut self, key: &str, keys: &[&str]) -> Result<Reader, SpecError> {
        match self.table.get(key).cloned() {
            Some(Value::Object(table)) => {
                Reader::new(&format!("{}.{key}", self.place), table, keys)
            }
            _ => {
                Err(self
                    .bad(key, &format!("must be a table with {}", listed(keys.iter().copied()))))
            }
        }
    }
}

pub(crate) fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
