//! An operation on a key.

use std::collections::HashMap;

use serde_json::Value;

use crate::{Operation, Outcome};

/// An answer of Redis for a key without a value, as `stasis-client` writes it.
const NIL: &str = "(nil)";

/// Numbers of values, and their texts.
pub(super) struct Values {
    texts: Vec<String>,
    numbers: HashMap<String, u32>,
}

/// The value of a key that has none.
pub(super) const ABSENT: u32 = 0;

impl Default for Values {
    fn default() -> Self {
        let null = Value::Null.to_string();
        Self { texts: vec![null.clone()], numbers: HashMap::from([(null, ABSENT)]) }
    }
}

impl Values {
    fn number(&mut self, text: String) -> u32 {
        let next = self.texts.len() as u32;
        *self.numbers.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.clone());
            next
        })
    }

    pub(super) fn text(&self, value: u32) -> &str {
        self.texts.get(value as usize).map_or("", String::as_str)
    }
}

/// Effect of an operation on a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Read(u32),
    Write(u32),
    /// The value that it must find, and the one that it leaves.
    Cas(u32, u32),
}

impl Effect {
    /// The value that the operation found, if it has found one.
    pub(super) fn found(self) -> Option<u32> {
        match self {
            Self::Read(value) | Self::Cas(value, _) => Some(value),
            Self::Write(_) => None,
        }
    }

    /// The value that it leaves, if it writes.
    pub(super) fn written(self) -> Option<u32> {
        match self {
            Self::Write(value) | Self::Cas(_, value) => Some(value),
            Self::Read(_) => None,
        }
    }

    /// The value behind it, in a key with `state`; None if it cannot happen there.
    pub(super) fn after(self, state: u32) -> Option<u32> {
        match self {
            Self::Read(value) => (value == state).then_some(state),
            Self::Write(value) => Some(value),
            Self::Cas(old, new) => (old == state).then_some(new),
        }
    }
}

/// An operation on a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    /// Its place in the history.
    pub(super) place: usize,
    pub(super) effect: Effect,
    /// Rank of its beginning.
    pub(super) begin: usize,
    /// Rank at which it is certainly done; `usize::MAX` if its outcome is unknown.
    pub(super) end: usize,
    /// True if it was not done.
    pub(super) has_failed: bool,
}

impl Access {
    /// Reads an operation with its key; None if it is none of a register, or a read without a result.
    ///
    /// # Errors
    /// The value is none of such an operation.
    pub(super) fn read(
        place: usize,
        one: &Operation,
        values: &mut Values,
    ) -> Result<Option<(String, Self)>, &'static str> {
        let is_read = ["read", "get"].contains(&one.f.as_str());
        let is_delete = ["delete", "del"].contains(&one.f.as_str());
        let is_cas = one.f == "cas";
        let is_write = ["write", "set", "put"].contains(&one.f.as_str());
        if !(is_read || is_delete || is_cas || is_write) || (is_read && !one.is_ok()) {
            return Ok(None);
        }
        let (key, value) = match (one.value(), is_read.then_some(one.answer.as_deref()).flatten()) {
            (Value::Array(parts), Some(answer)) if parts.len() == 1 => {
                (text(&parts[0]), Some(Value::from(answer)))
            }
            (Value::String(key), Some(answer)) => (key.clone(), Some(Value::from(answer))),
            (_, Some(_)) => return Err("an answer, and not one key"),
            (Value::Array(parts), None) => match &parts[..] {
                [old, new] if is_cas && !new.is_array() => {
                    (String::new(), Some(Value::from(vec![old.clone(), new.clone()])))
                }
                [key] if is_delete => (text(key), None),
                [key, value] if !is_delete => (text(key), Some(value.clone())),
                _ => return Err("an array that is no key with its value"),
            },
            (Value::String(words), None) => match words.trim().split_once(char::is_whitespace) {
                Some((key, value)) if !is_read => {
                    (key.to_owned(), Some(Value::from(value.trim_start())))
                }
                None if is_delete => (words.clone(), None),
                _ => (String::new(), Some(one.value().clone())),
            },
            (_, None) if is_delete => (String::new(), None),
            (value, None) => (String::new(), Some(value.clone())),
        };
        let value = value.unwrap_or_default();
        let mut number = |value: &Value| values.number(text(value));
        let effect = match &value {
            value if is_read && value.as_str() == Some(NIL) => Effect::Read(ABSENT),
            value if is_read => Effect::Read(number(value)),
            Value::Array(both) if is_cas && both.len() == 2 => {
                Effect::Cas(number(&both[0]), number(&both[1]))
            }
            _ if is_cas => return Err("no value to find and value to write"),
            value => Effect::Write(number(value)),
        };
        let has_failed = one.outcome == Outcome::Fail;
        let (begin, end) = (one.begin.rank, one.done());
        Ok(Some((key, Self { place, effect, begin, end, has_failed })))
    }
}

/// A string as it is, anything else as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
