//! A scheduler as an experiment says it: a word, or a table with `kind`.

use std::borrow::Cow;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{json, Map, Value};
use stasis_clock::Nanos;
use stasis_config::{self as config, guess, listed, read, tagged, ReadError, Tag};

use crate::{Bfq, BfqSpec, Cfq, CfqSpec, Clook, Deadline, DeadlineSpec, Scheduler, Unordered};

/// Every kind's name, and what it does.
pub const KINDS: [(&str, &str); 5] = [
    ("bfq", "weighted shares of the sectors, low latency for what somebody waits for, and help"),
    ("cfq", "slices of time in turn"),
    ("deadline", "sweeps in batches, and nothing waits much longer than its deadline"),
    ("clook", "one sweep over all requests"),
    ("none", "in the order of arrival"),
];

/// The key of [`SchedulerSpec::depth`].
const DEPTH: &str = "depth";

/// A scheduler's kind and its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Budget fair queueing.
    Bfq(BfqSpec),
    /// Slices of time.
    Cfq(CfqSpec),
    /// Batches and deadlines.
    Deadline(DeadlineSpec),
    /// One sweep.
    Clook,
    /// Order of arrival.
    None,
}

/// A scheduler before a drive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SchedulerSpec {
    /// Which one.
    pub kind: Kind,
    /// How many requests the drive holds at once. With 1, the scheduler alone
    /// decides the order, as with the memory cards and disks of the publication;
    /// drives that work in parallel need more.
    pub depth: u32,
}

/// Why a word or a table describes no scheduler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The word, or the value of `kind`, names no scheduler.
    #[error("unknown scheduler `{word}`; {guess}one of {}", kinds())]
    Kind {
        /// What was written.
        word: String,
        /// The right name that is most like it, as a question.
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
        /// What was written.
        key: String,
        /// The right key that is most like it, as a question.
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
        /// What is wrong, and what is wanted.
        problem: String,
    },
}

impl Kind {
    fn of_name(word: &str) -> Result<Self, SpecError> {
        Ok(match word {
            "bfq" => Self::Bfq(BfqSpec::default()),
            "cfq" => Self::Cfq(CfqSpec::default()),
            "deadline" => Self::Deadline(DeadlineSpec::default()),
            "clook" => Self::Clook,
            "none" => Self::None,
            _ => {
                let guess = guess(word, KINDS.iter().map(|(name, _)| *name));
                return Err(SpecError::Kind { word: word.into(), guess });
            }
        })
    }

    /// Its name in experiments.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bfq(_) => "bfq",
            Self::Cfq(_) => "cfq",
            Self::Deadline(_) => "deadline",
            Self::Clook => "clook",
            Self::None => "none",
        }
    }

    /// Reads the parameters of the kind.
    fn read(&mut self, table: Value) -> Result<(), ReadError> {
        match self {
            Self::Bfq(spec) => *spec = read(table)?,
            Self::Cfq(spec) => *spec = read(table)?,
            Self::Deadline(spec) => *spec = read(table)?,
            Self::Clook | Self::None => _ = read::<NoParameters>(table)?,
        }
        Ok(())
    }

    fn write(&self) -> Result<Value, serde_json::Error> {
        match self {
            Self::Bfq(spec) => serde_json::to_value(spec),
            Self::Cfq(spec) => serde_json::to_value(spec),
            Self::Deadline(spec) => serde_json::to_value(spec),
            Self::Clook | Self::None => serde_json::to_value(NoParameters {}),
        }
    }

    /// Whether the parameters are within their ranges.
    fn check(&self) -> Result<(), Problem> {
        match self {
            Self::Bfq(spec) => {
                lasts("budget_timeout", spec.budget_timeout)?;
                lasts("expire_sync", spec.expire_sync)?;
                lasts("expire_async", spec.expire_async)?;
                counts("raise", spec.raise, RAISE_MAX)?;
                counts("help_raise", spec.help_raise, RAISE_MAX)
            }
            Self::Cfq(spec) => {
                lasts("slice_sync", spec.slice_sync)?;
                lasts("slice_async", spec.slice_async)?;
                lasts("expire_sync", spec.expire_sync)?;
                lasts("expire_async", spec.expire_async)
            }
            Self::Deadline(spec) => {
                lasts("read_expire", spec.read_expire)?;
                lasts("write_expire", spec.write_expire)?;
                lasts("class_expire", spec.class_expire)?;
                counts("batch", spec.batch, u32::MAX)?;
                counts("writes_starved", spec.writes_starved, u32::MAX)
            }
            Self::Clook | Self::None => Ok(()),
        }
    }
}

/// A key, and what is wrong with its value.
type Problem = (&'static str, String);

/// The most that a weight is multiplied by.
const RAISE_MAX: u32 = 1000;
/// The most requests that a drive holds: what a queue of NVMe has.
const DEPTH_MAX: u32 = u16::MAX as u32;

fn lasts(key: &'static str, duration: Nanos) -> Result<(), Problem> {
    match duration {
        0 => Err((key, "`0s` is too short: write such as \"100ms\"".into())),
        _ => Ok(()),
    }
}

fn counts(key: &'static str, count: u32, most: u32) -> Result<(), Problem> {
    if (1..=most).contains(&count) {
        Ok(())
    } else {
        Err((key, format!("`{count}`: write a number from 1 to {most}")))
    }
}

/// What `clook` and `none` have.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoParameters {}

/// What every scheduler has.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Common {
    /// How many requests the drive holds at once.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = DEPTH_MAX))]
    depth: u32,
}

fn one() -> u32 {
    1
}

impl SchedulerSpec {
    /// Reads a scheduler's name; everything else as it is if not said.
    ///
    /// # Errors
    /// [`SpecError::Kind`], which names the nearest.
    pub fn parse(word: &str) -> Result<Self, SpecError> {
        Ok(Self { kind: Kind::of_name(word)?, depth: one() })
    }

    /// Reads a table: `kind`, `depth`, and the parameters of the kind.
    ///
    /// # Errors
    /// [`SpecError`], which names the key.
    pub fn of_table(mut table: Map<String, Value>) -> Result<Self, SpecError> {
        let mut spec = match table.remove("kind") {
            None => return Err(SpecError::Missing),
            Some(Value::String(word)) => Self::parse(&word)?,
            Some(other) => {
                let (word, guess) = (other.to_string(), String::new());
                return Err(SpecError::Kind { word, guess });
            }
        };
        let kind = spec.kind.name();
        if let Some(depth) = table.remove(DEPTH) {
            let common = Map::from_iter([(DEPTH.to_owned(), depth)]);
            let common: Common = read(common.into()).map_err(|error| wrong(kind, &error))?;
            spec.depth = common.depth;
        }
        spec.kind.read(table.into()).map_err(|error| wrong(kind, &error))?;
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), SpecError> {
        counts(DEPTH, self.depth, DEPTH_MAX).and_then(|()| self.kind.check()).map_err(
            |(key, problem)| SpecError::Value { kind: self.kind.name(), key: key.into(), problem },
        )
    }

    /// The scheduler, with no queues.
    pub fn build(&self) -> Box<dyn Scheduler> {
        match self.kind {
            Kind::Bfq(spec) => Box::new(Bfq::new(spec)),
            Kind::Cfq(spec) => Box::new(Cfq::new(spec)),
            Kind::Deadline(spec) => Box::new(Deadline::new(spec)),
            Kind::Clook => Box::new(Clook::new()),
            Kind::None => Box::new(Unordered::new()),
        }
    }
}

/// What a table's reader says, as an error of the scheduler's.
fn wrong(kind: &'static str, error: &ReadError) -> SpecError {
    match &error.problem {
        config::Problem::Unknown { key, keys } => SpecError::Key {
            kind,
            guess: guess(key, keys.iter().copied()),
            keys: listed(["kind", DEPTH].into_iter().chain(keys.iter().copied())),
            key: key.clone(),
        },
        problem => {
            let key = error.path().next().unwrap_or_default().to_owned();
            SpecError::Value { kind, key, problem: problem.to_string() }
        }
    }
}

impl Serialize for SchedulerSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = Map::new();
        table.insert("kind".into(), self.kind.name().into());
        table.insert(DEPTH.into(), self.depth.into());
        if let Value::Object(own) = self.kind.write().map_err(S::Error::custom)? {
            table.extend(own);
        }
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
        let mut of_kind = |kind: Kind, about: &str| {
            let name = kind.name();
            let tag = Tag { key: "kind", words: &[name], partial: false };
            let mut schema = match kind {
                Kind::Bfq(_) => tagged::<BfqSpec>(generator, &tag, &common),
                Kind::Cfq(_) => tagged::<CfqSpec>(generator, &tag, &common),
                Kind::Deadline(_) => tagged::<DeadlineSpec>(generator, &tag, &common),
                Kind::Clook | Kind::None => tagged::<NoParameters>(generator, &tag, &common),
            };
            schema.insert("description".into(), about.into());
            names.push(json!({ "const": name, "description": about }));
            schema
        };
        let tables: Vec<_> = KINDS
            .iter()
            .filter_map(|(name, about)| Some(of_kind(Kind::of_name(name).ok()?, about)))
            .collect();
        json_schema!({
            "description": "A scheduler: its name, or a table with `kind` and its parameters.",
            "anyOf": [{ "type": "string", "oneOf": names }, { "type": "object", "oneOf": tables }]
        })
    }
}

fn kinds() -> String {
    listed(KINDS.iter().map(|(name, _)| *name))
}
