//! Values as they were written, with their places in the text.

use std::ops::Range;

/// A value of a text, or of a program.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tree {
    pub value: Value,
    /// Its bytes in the text; none for a value of a program.
    pub span: Option<Range<usize>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    String(String),
    /// A word of a command line: a string, or the number or truth value of that text.
    Word(String),
    /// A date or a time, which no key takes.
    Date(String),
    List(Vec<Tree>),
    Table(Vec<Entry>),
}

/// A key of a table, and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    pub span: Option<Range<usize>>,
    pub tree: Tree,
}

impl Tree {
    /// A value without a place.
    pub fn new(value: Value) -> Self {
        Self { value, span: None }
    }

    /// The entry of a table with this key.
    pub fn get(&self, key: &str) -> Option<&Tree> {
        let Value::Table(entries) = &self.value else { return None };
        entries.iter().find(|entry| entry.key == key).map(|entry| &entry.tree)
    }
}

impl From<serde_json::Value> for Tree {
    fn from(value: serde_json::Value) -> Self {
        use serde_json::Value as Json;
        Self::new(match value {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(value),
            Json::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(value), ..) => Value::Unsigned(value),
                (None, Some(value), _) => Value::Signed(value),
                (.., value) => Value::Float(value.unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::String(text),
            Json::Array(values) => Value::List(values.into_iter().map(Tree::from).collect()),
            Json::Object(table) => Value::Table(
                table
                    .into_iter()
                    .map(|(key, value)| Entry { key, span: None, tree: value.into() })
                    .collect(),
            ),
        })
    }
}

impl Value {
    /// The truth value or number that a word stands for.
    pub fn typed(&self) -> Option<Value> {
        let Value::Word(word) = self else { return None };
        match word.as_str() {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            word => word
                .parse()
                .map(Value::Unsigned)
                .or_else(|_| word.parse().map(Value::Signed))
                .or_else(|_| word.parse().map(Value::Float))
                .ok(),
        }
    }
}
