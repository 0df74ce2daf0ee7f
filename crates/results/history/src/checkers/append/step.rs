//! Steps of a transaction.

use serde_json::Value;

use crate::operation::{shown, Operation};

/// A step of a transaction.
pub(super) enum Step<'a> {
    Append(&'a Value, &'a Value),
    /// A read's key and values; null is the empty list.
    Read(&'a Value, &'a [Value]),
}

impl<'a> Step<'a> {
    pub(super) fn read(step: &'a Value) -> Option<Self> {
        let [name, key, value] = step.as_array()?.as_slice() else { return None };
        match (name.as_str()?, value) {
            ("append", value) => Some(Self::Append(key, value)),
            ("r", Value::Null) => Some(Self::Read(key, &[])),
            ("r", Value::Array(values)) => Some(Self::Read(key, values)),
            _ => None,
        }
    }
}

/// Returns the steps of a transaction, of one that was done with what it read.
pub(super) fn steps(one: &Operation) -> Result<Vec<Step<'_>>, String> {
    let wrong =
        || format!("{one}: no list of steps [\"append\", key, value] and [\"r\", key, [values]]");
    let parts = one.value().as_array().ok_or_else(wrong)?;
    parts
        .iter()
        .map(|part| Step::read(part).ok_or_else(|| format!("{one}: a step {}", shown(part))))
        .collect()
}
