//! A scheduler as an experiment describes it: a word, or a table with `kind`.

use std::borrow::Cow;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{json, Map, Value};
use stasis_config::{self as config, guess, listed, read, ReadError, Tag};

use crate::kinds::{counts, Registered, SchedulerKind, KINDS};
use crate::Scheduler;

/// The key of [`SchedulerSpec::depth`].
const DEPTH: &str = "depth";

/// A scheduler before a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulerSpec {
    /// Kind of the scheduler, with its parameters.
    pub kind: SchedulerKind,
    /// Limit on the number of requests at the drive at once. With 1, the scheduler alone
    /// decides the order, as with the memory cards and disks of the publication;
    /// drives that work in parallel need more.
    pub depth: u32,
}

/// Reason why a word or a table describes no scheduler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The word, or the value of `kind`, names no scheduler.
    #[error("unknown scheduler `{word}`; {guess}one of {}", kinds())]
    Kind {
        /// The word as written.
        word: String,
        /// The valid name nearest to the written one, as a question.
        guess: String,
    },
    /// A table without `kind`.
    #[error("a scheduler's table needs the key `kind`: one of {}", kinds())]
    Missing,
    /// A key that this scheduler does not have.
    #[error("unknown key `{key}` of scheduler `{kind}`; {guess}it has {keys}")]
    Key {
        /// The scheduler.
        kind: &'static str,
        /// The key as written.
        key: String,
        /// The valid key nearest to the written one, as a question.
        guess: String,
        /// All keys.
        keys: String,
    },
    /// A value that is not of the right form, or out of range.
    #[error("`{key}` of scheduler `{kind}`: {problem}")]
    Value {
        /// The scheduler.
        kind: &'static str,
        /// The key.
        key: String,
        /// The fault, and the values that are allowed.
        problem: String,
    },
}

/// Limit on the requests that a drive holds: the capacity of an NVMe queue.
const MAX_DEPTH: u32 = u16::MAX as u32;

/// Keys common to all schedulers.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Common {
    /// Limit on the number of requests at the drive at once.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = MAX_DEPTH))]
    depth: u32,
}

fn one() -> u32 {
    1
}

impl SchedulerSpec {
    /// Reads a scheduler's name; everything else has its default.
    ///
    /// # Errors
    /// [`SpecError::Kind`], which names the nearest.
    pub fn parse(word: &str) -> Result<Self, SpecError> {
        Ok(Self { kind: (registered(word)?.usual)(), depth: one() })
    }

    /// Reads a table: `kind`, `depth`, and the parameters of the kind.
    ///
    /// # Errors
    /// [`SpecError`], which names the key.
    pub fn of_table(mut table: Map<String, Value>) -> Result<Self, SpecError> {
        let registered = match table.remove("kind") {
            None => return Err(SpecError::Missing),
            Some(Value::String(word)) => registered(&word)?,
            Some(other) => {
                let (word, guess) = (other.to_string(), String::new());
                return Err(SpecError::Kind { word, guess });
            }
        };
        let wrong = |error| wrong(registered.name, &error);
        let mut depth = one();
        if let Some(given) = table.remove(DEPTH) {
            let common = Map::from_iter([(DEPTH.to_owned(), given)]);
            let common: Common = read(common.into()).map_err(wrong)?;
            depth = common.depth;
        }
        let spec = Self { kind: (registered.read)(table).map_err(wrong)?, depth };
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), SpecError> {
        counts(DEPTH, self.depth, MAX_DEPTH).and_then(|()| self.kind.check()).map_err(
            |(key, problem)| SpecError::Value { kind: self.kind.name(), key: key.into(), problem },
        )
    }

    /// The scheduler, with no queues.
    pub fn build(&self) -> Box<dyn Scheduler> {
        self.kind.build()
    }
}

/// An error of a table's reader, as an error of the scheduler's.
fn wrong(kind: &'static str, error: &ReadError) -> SpecError {
    match &error.problem {
        config::Problem::Unknown { key, keys } => SpecError::Key {
            kind,
            guess: guess(key, keys.iter().copied()),
            keys: listed(["kind", DEPTH].into_iter().chain(keys.iter().copied())),
            key: key.clone(),
        },
        problem => {
            let key = error.place();
            SpecError::Value { kind, key, problem: problem.to_string() }
        }
    }
}

impl Serialize for SchedulerSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = Map::new();
        table.insert("kind".into(), self.kind.name().into());
        table.insert(DEPTH.into(), self.depth.into());
        table.extend(self.kind.table().map_err(S::Error::custom)?);
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SchedulerSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = SchedulerSpec;

            fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                formatter.write_str("a scheduler's name such as \"bfq\", or a table with `kind`")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<SchedulerSpec, E> {
                SchedulerSpec::parse(word).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SchedulerSpec, A::Error> {
                let table = Map::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                SchedulerSpec::of_table(table).map_err(A::Error::custom)
            }
        }
        deserializer.deserialize_any(Reads)
    }
}

impl JsonSchema for SchedulerSpec {
    fn schema_name() -> Cow<'static, str> {
        "scheduler".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut names = Vec::new();
        let mut common = Common::json_schema(generator);
        let common = match common.remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Map::new(),
        };
        let mut tables = Vec::new();
        for Registered { name, about, schema, .. } in KINDS {
            let tag = Tag { key: "kind", words: &[name], partial: false };
            let mut table = schema(generator, &tag, &common);
            table.insert("description".into(), (*about).into());
            names.push(json!({ "const": name, "description": about }));
            tables.push(table);
        }
        json_schema!({
            "description": "A scheduler: its name, or a table with `kind` and its parameters.",
            "anyOf": [{ "type": "string", "oneOf": names }, { "type": "object", "oneOf": tables }]
        })
    }
}

/// The kind of that name.
fn registered(word: &str) -> Result<&'static Registered, SpecError> {
    KINDS.iter().find(|kind| kind.name == word).ok_or_else(|| {
        let guess = guess(word, KINDS.iter().map(|kind| kind.name));
        SpecError::Kind { word: word.into(), guess }
    })
}

fn kinds() -> String {
    listed(KINDS.iter().map(|kind| kind.name))
}
