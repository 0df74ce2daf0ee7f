//! Reads values into types.

use serde::de::value::{StrDeserializer, StringDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::tree::{Entry, Tree, Value};
use crate::{ReadError, Step};

/// Reads a table, or any value, into `T`.
///
/// # Errors
/// [`ReadError`], which names the place, the fault, and the right value.
pub fn read<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, ReadError> {
    read_tree(&value.into())
}

/// Like [`read`], but for a value with its place.
pub(crate) fn read_tree<T: DeserializeOwned>(tree: &Tree) -> Result<T, ReadError> {
    T::deserialize(Reader(tree)).map_err(|error| error.at(tree.span.as_ref()))
}

struct Reader<'a>(&'a Tree);

impl Reader<'_> {
    /// Visits the number or truth value that a word stands for.
    fn visit_typed<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0.value.typed() {
            Some(value) => Reader(&Tree::new(value)).deserialize_any(visitor),
            None => self.deserialize_any(visitor),
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

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.0.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Unsigned(value) => visitor.visit_u64(*value),
            Value::Signed(value) => visitor.visit_i64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::String(word) | Value::Word(word) => visitor.visit_str(word),
            date @ Value::Date(_) => {
                Err(ReadError::invalid_type(Unexpected::Other(&date.to_string()), &visitor))
            }
            Value::List(values) => visitor.visit_seq(List { values: values.iter().enumerate() }),
            Value::Table(entries) => {
                visitor.visit_map(Table { entries: entries.iter(), entry: None })
            }
        }
    }

    of_words! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0.value {
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
        match &self.0.value {
            Value::Table(_) => self.deserialize_any(visitor),
            other => Err(ReadError::no_table(other, keys)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match &self.0.value {
            Value::String(word) | Value::Word(word) => {
                let word: StrDeserializer<ReadError> = word.as_str().into_deserializer();
                visitor.visit_enum(word)
            }
            other => Err(ReadError::no_word(other, words)),
        }
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        identifier ignored_any
    }
}

struct Table<'a> {
    entries: std::slice::Iter<'a, Entry>,
    entry: Option<&'a Entry>,
}

impl<'de> MapAccess<'de> for Table<'_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        self.entry = Some(entry);
        let from: StringDeserializer<ReadError> = entry.key.clone().into_deserializer();
        seed.deserialize(from).map(Some).map_err(|error| error.at(entry.span.as_ref()))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ReadError> {
        let Some(Entry { key, tree, .. }) = self.entry.take() else {
            return Err(ReadError::custom("a value without its key was asked for"));
        };
        let inside = |error: ReadError| error.at(tree.span.as_ref()).inside(Step::Key(key.clone()));
        seed.deserialize(Reader(tree)).map_err(inside)
    }
}

struct List<'a> {
    values: std::iter::Enumerate<std::slice::Iter<'a, Tree>>,
}

impl<'de> SeqAccess<'de> for List<'_> {
    type Error = ReadError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, ReadError> {
        let Some((index, tree)) = self.values.next() else { return Ok(None) };
        let inside = |error: ReadError| error.at(tree.span.as_ref()).inside(Step::Index(index));
        seed.deserialize(Reader(tree)).map(Some).map_err(inside)
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

    /// Strings as words of a command line.
    fn in_words(value: serde_json::Value) -> Tree {
        fn change(tree: &mut Tree) {
            match &mut tree.value {
                Value::String(text) => tree.value = Value::Word(std::mem::take(text)),
                Value::Table(entries) => entries.iter_mut().for_each(|e| change(&mut e.tree)),
                _ => {}
            }
        }
        let mut tree = value.into();
        change(&mut tree);
        tree
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
        let outer: Outer = read_tree(&in_words(words)).unwrap();
        let inner = Inner { count: 2, share: Some(0.5) };
        assert_eq!((outer.name.as_str(), outer.on, outer.inner), ("7", true, Some(inner)));
    }

    #[test]
    fn errors_have_their_place_and_what_is_right() {
        let error_of = |value| read::<Outer>(value).unwrap_err();
        let error = error_of(json!({ "name": "x", "colour": "rde" }));
        assert!(error.to_string().starts_with("colour: `rde` is unknown; did you mean `red`?"));
        let error = error_of(json!({ "name": "x", "inner": { "cuont": 1 } }));
        assert_eq!(error.place(), "inner");
        assert!(
            matches!(&error.problem, Problem::Unknown { key, keys } if key == "cuont" && keys.len() == 2)
        );
        let error = error_of(json!({ "name": "x", "inner": {} }));
        assert_eq!(error.problem, Problem::Missing { key: "count" });
        for (value, expected) in [
            (json!({ "name": 7 }), "name: `7` is not a string"),
            (json!({ "name": "x", "inner": 7 }), "a table with `count`, `share`"),
            (
                json!({ "name": "x", "inner": { "count": "2" } }),
                "inner.count: `2` is not a whole number",
            ),
            (json!({ "name": "x", "inner": { "count": 70_000 } }), "`70000` is not a whole number"),
            (json!({ "name": "x", "on": [] }), "a list is not true or false"),
            (json!([]), "a table with `name`"),
        ] {
            let message = error_of(value).to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(text in ".{0,64}") {
            let table = json!({ "name": text.clone(), "on": text.clone(), "inner": { "count": text } });
            let _ = read_tree::<Outer>(&in_words(table));
        }
    }
}
