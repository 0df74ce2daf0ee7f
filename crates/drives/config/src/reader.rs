//! Reads tables, and words that stand for them, into types.

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{map, Value};

use crate::ReadError;

/// Reads a table, or any value, into `T`.
///
/// # Errors
/// [`ReadError`], which names the place, the fault, and the right value.
pub fn read<T: DeserializeOwned>(value: Value) -> Result<T, ReadError> {
    T::deserialize(Reader { value, words: false })
}

/// The same for values that are all words of a command line, of any type.
pub(crate) fn read_words<T: DeserializeOwned>(value: Value) -> Result<T, ReadError> {
    T::deserialize(Reader { value, words: true })
}

struct Reader {
    value: Value,
    // Whether a string may stand for a number or a truth value.
    words: bool,
}

impl Reader {
    /// The truth value or number that a word stands for, where words stand for such.
    fn typed(self) -> Result<Value, Self> {
        let Value::String(word) = &self.value else { return Err(self) };
        let typed = match word.as_str() {
            _ if !self.words => None,
            "true" => Some(true.into()),
            "false" => Some(false.into()),
            word => word
                .parse::<u64>()
                .map(Value::from)
                .or_else(|_| word.parse::<i64>().map(Value::from))
                .or_else(|_| word.parse::<f64>().map(Value::from))
                .ok(),
        };
        typed.ok_or(self)
    }

    fn visit_typed<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.typed() {
            Ok(value) => Reader { value, words: false }.deserialize_any(visitor),
            Err(reader) => reader.deserialize_any(visitor),
        }
    }
}

macro_rules! of_words {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            self.visit_typed(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let words = self.words;
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(value), ..) => visitor.visit_u64(value),
                (None, Some(value), _) => visitor.visit_i64(value),
                (.., value) => visitor.visit_f64(value.unwrap_or(f64::NAN)),
            },
            Value::String(word) => visitor.visit_string(word),
            Value::Array(values) => visitor.visit_seq(List { values: values.into_iter(), words }),
            Value::Object(table) => {
                visitor.visit_map(Table { entries: table.into_iter(), entry: None, words })
            }
        }
    }

    of_words! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match &self.value {
            Value::Object(_) => self.deserialize_any(visitor),
            other => {
                let keys: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
                let other = match other {
                    Value::String(word) => word.clone(),
                    other => other.to_string(),
                };
                Err(ReadError::custom(format_args!(
                    "`{other}` is not a table: it must be a table with {}",
                    keys.join(", ")
                )))
            }
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.value {
            Value::String(word) => visitor.visit_enum(word.into_deserializer()),
            other => Err(ReadError::unknown_variant(&other.to_string(), words)),
        }
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        identifier ignored_any
    }
}

struct Table {
    entries: map::IntoIter,
    entry: Option<(String, Value)>,
    words: bool,
}

impl<'de> MapAccess<'de> for Table {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        let from: StringDeserializer<ReadError> = key.clone().into_deserializer();
        self.entry = Some((key, value));
        seed.deserialize(from).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ReadError> {
        let Some((key, value)) = self.entry.take() else {
            return Err(ReadError::custom("a value without its key was asked for"));
        };
        seed.deserialize(Reader { value, words: self.words }).map_err(|error| error.inside(&key))
    }
}

struct List {
    values: std::vec::IntoIter<Value>,
    words: bool,
}

impl<'de> SeqAccess<'de> for List {
    type Error = ReadError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, ReadError> {
        let value = self.values.next();
        value.map(|value| seed.deserialize(Reader { value, words: self.words })).transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::Problem;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Colour {
        Red,
        DarkBlue,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    struct Inner {
        count: u16,
        share: Option<f64>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    struct Outer {
        name: String,
        #[serde(default)]
        on: bool,
        colour: Option<Colour>,
        #[serde(default)]
        inner_parts: Vec<Inner>,
        inner: Option<Inner>,
        #[serde(default)]
        more: BTreeMap<char, i64>,
    }

    #[test]
    fn tables_are_read() {
        let all = json!({
            "name": "7", "on": true, "colour": "dark-blue", "inner": { "count": 2, "share": 1 },
            "inner-parts": [{ "count": 3 }], "more": { "a": -1 },
        });
        let outer: Outer = read(all.clone()).unwrap();
        assert_eq!(outer, serde_json::from_value(all).unwrap());
        let words = json!({ "name": "7", "on": "true", "inner": { "count": "2", "share": ".5" } });
        let outer: Outer = read_words(words).unwrap();
        let inner = Inner { count: 2, share: Some(0.5) };
        assert_eq!((outer.name.as_str(), outer.on, outer.inner), ("7", true, Some(inner)));
    }

    #[test]
    fn errors_have_their_place_and_what_is_right() {
        let of = |value| read::<Outer>(value).unwrap_err();
        let error = of(json!({ "name": "x", "colour": "rde" }));
        assert!(error.to_string().starts_with("`colour`: `rde` is unknown; did you mean `red`?"));
        let error = of(json!({ "name": "x", "inner": { "cuont": 1 } }));
        assert_eq!(error.path().collect::<Vec<_>>(), ["inner"]);
        assert!(
            matches!(&error.problem, Problem::Unknown { key, keys } if key == "cuont" && keys.len() == 2)
        );
        let error = of(json!({ "name": "x", "inner": {} }));
        assert_eq!(error.problem, Problem::Missing { key: "count" });
        for (value, expected) in [
            (json!({ "name": 7 }), "`name`: `7` is not a string"),
            (json!({ "name": "x", "inner": 7 }), "a table with `count`, `share`"),
            (
                json!({ "name": "x", "inner": { "count": "2" } }),
                "`inner.count`: `2` is not a whole number",
            ),
            (json!({ "name": "x", "inner": { "count": 70_000 } }), "`70000` is not a whole number"),
            (json!({ "name": "x", "on": [] }), "a list is not true or false"),
            (json!([]), "a table with `name`"),
        ] {
            let message = of(value).to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(text in ".{0,64}") {
            let table = json!({ "name": text.clone(), "on": text.clone(), "inner": { "count": text } });
            let _ = read_words::<Outer>(table);
        }
    }
}
