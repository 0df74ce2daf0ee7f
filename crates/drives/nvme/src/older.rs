//! Descriptions in files that earlier versions wrote: state files and traces.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::Deserialize;

use crate::placement::Placement;

/// For `#[serde(deserialize_with = "...")]`: reads optional zones or an optional geometry. Its keys
/// have hyphens, as users write them, or underscores, as earlier versions wrote them.
///
/// # Errors
/// The deserializer's.
pub fn layout<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_option(Layout(PhantomData))
}

struct Layout<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Layout<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a table, or none")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(Hyphens(map))).map(Some)
    }
}

/// A table in whose keys each underscore is a hyphen.
struct Hyphens<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Hyphens<A> {
    type Error = A::Error;

    fn next_key_seed<K>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error>
    where
        K: DeserializeSeed<'de>,
    {
        let Some(key) = self.0.next_key::<String>()? else { return Ok(None) };
        seed.deserialize(key.replace('_', "-").into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}

/// For `#[serde(deserialize_with = "...")]`: reads a placement as a word, or as a table, which
/// earlier versions wrote.
///
/// # Errors
/// The deserializer's.
pub fn placement<'de, D: Deserializer<'de>>(from: D) -> Result<Placement, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Word(Placement),
        Table(Table),
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case", deny_unknown_fields)]
    enum Table {
        Streams { max: u16 },
        Fdp { reclaim_groups: u16, handles: u16, reclaim_unit: u64 },
    }

    Ok(match Either::deserialize(from)? {
        Either::Word(placement) => placement,
        Either::Table(Table::Streams { max }) => Placement::Streams { max },
        Either::Table(Table::Fdp { reclaim_groups, handles, reclaim_unit }) => {
            Placement::Fdp { reclaim_groups, handles, reclaim_unit }
        }
    })
}
