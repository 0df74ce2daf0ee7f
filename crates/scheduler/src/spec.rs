//! A scheduler as an experiment says it: a word, or a table with `kind`.

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use stasis_block::units::{format_duration, format_size, parse_duration, parse_size};
use stasis_clock::Nanos;

use crate::{Bfq, BfqSpec, Cfq, CfqSpec, Clook, Deadline, DeadlineSpec, Scheduler, Unordered};

/// Every kind's name, and what it does.
pub const KINDS: [(&str, &str); 5] = [
    ("bfq", "weighted shares of the sectors, low latency for what somebody waits for, and help"),
    ("cfq", "slices of time in turn"),
    ("deadline", "sweeps in batches, and nothing waits much longer than its deadline"),
    ("clook", "one sweep over all requests"),
    ("none", "in the order of arrival"),
];

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
    #[error("unknown scheduler `{word}`; {}one of {}", guess(.nearest), kinds())]
    Kind {
        /// What was written.
        word: String,
        /// The right name that is most like it.
        nearest: Option<&'static str>,
    },
    /// A table without `kind`.
    #[error("a scheduler's table needs the key `kind`: one of {}", kinds())]
    Missing,
    /// A key that this scheduler does not have.
    #[error("unknown key `{key}` of scheduler `{kind}`; {}it has {keys}", guess(.nearest))]
    Key {
        /// The scheduler.
        kind: &'static str,
        /// What was written.
        key: String,
        /// The right key that is most like it.
        nearest: Option<&'static str>,
        /// All keys.
        keys: String,
    },
    /// A value that is not of the right form, or out of range.
    #[error("`{key}` of scheduler `{kind}`: {problem}")]
    Value {
        /// The scheduler.
        kind: &'static str,
        /// The key.
        key: &'static str,
        /// What is wrong, and what is wanted.
        problem: String,
    },
}

/// A parameter, to read into and write from.
enum Field<'a> {
    /// A duration; with `true`, 0 is possible.
    Duration(&'a mut Nanos, bool),
    Size(&'a mut u64),
    /// At least 1, at most the second.
    Count(&'a mut u32, u32),
    Flag(&'a mut bool),
    /// From 0 to 1, in millionths.
    Share(&'a mut u32),
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
                let nearest = nearest(word, KINDS.iter().map(|(name, _)| *name));
                return Err(SpecError::Kind { word: word.into(), nearest });
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

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        use Field::{Count, Duration, Flag, Share, Size};
        match self {
            Self::Bfq(spec) => vec![
                ("max_budget", Size(&mut spec.max_budget)),
                ("budget_timeout", Duration(&mut spec.budget_timeout, false)),
                ("idle", Duration(&mut spec.idle, true)),
                ("charge_time", Flag(&mut spec.charge_time)),
                ("expire_sync", Duration(&mut spec.expire_sync, false)),
                ("expire_async", Duration(&mut spec.expire_async, false)),
                ("low_latency", Flag(&mut spec.low_latency)),
                ("raise", Count(&mut spec.raise, 1000)),
                ("help_raise", Count(&mut spec.help_raise, 1000)),
                ("help_share", Share(&mut spec.help_share)),
                ("help_burst", Duration(&mut spec.help_burst, true)),
            ],
            Self::Cfq(spec) => vec![
                ("slice_sync", Duration(&mut spec.slice_sync, false)),
                ("slice_async", Duration(&mut spec.slice_async, false)),
                ("idle", Duration(&mut spec.idle, true)),
                ("expire_sync", Duration(&mut spec.expire_sync, false)),
                ("expire_async", Duration(&mut spec.expire_async, false)),
            ],
            Self::Deadline(spec) => vec![
                ("read_expire", Duration(&mut spec.read_expire, false)),
                ("write_expire", Duration(&mut spec.write_expire, false)),
                ("batch", Count(&mut spec.batch, u32::MAX)),
                ("writes_starved", Count(&mut spec.writes_starved, u32::MAX)),
                ("class_expire", Duration(&mut spec.class_expire, false)),
            ],
            Self::Clook | Self::None => Vec::new(),
        }
    }
}

impl SchedulerSpec {
    /// Reads a scheduler's name; everything else as it is if not said.
    ///
    /// # Errors
    /// [`SpecError::Kind`], which names the nearest.
    pub fn parse(word: &str) -> Result<Self, SpecError> {
        Ok(Self { kind: Kind::of_name(word)?, depth: 1 })
    }

    /// Reads a table: `kind`, `depth`, and the parameters of the kind.
    ///
    /// # Errors
    /// [`SpecError`], which names the key.
    pub fn of_table(mut table: Map<String, Value>) -> Result<Self, SpecError> {
        let mut spec = match table.remove("kind") {
            None => return Err(SpecError::Missing),
            Some(Value::String(word)) => Self::parse(&word)?,
            Some(other) => return Err(SpecError::Kind { word: other.to_string(), nearest: None }),
        };
        let kind = spec.kind.name();
        let mut fields = spec.fields();
        for (key, value) in &table {
            match fields.iter_mut().find(|(name, _)| name == key) {
                Some((name, field)) => field.read(value).map_err(|problem| SpecError::Value {
                    kind,
                    key: name,
                    problem,
                })?,
                None => {
                    let names = || fields.iter().map(|(name, _)| *name);
                    let (key, nearest) = (key.clone(), nearest(key, names()));
                    let keys = listed(std::iter::once("kind").chain(names()));
                    return Err(SpecError::Key { kind, key, nearest, keys });
                }
            }
        }
        drop(fields);
        Ok(spec)
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

    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
        let mut fields = vec![("depth", Field::Count(&mut self.depth, u32::from(u16::MAX)))];
        fields.extend(self.kind.fields());
        fields
    }
}

impl Field<'_> {
    fn read(&mut self, value: &Value) -> Result<(), String> {
        match self {
            Self::Duration(duration, zero) => {
                let word = value.as_str();
                let word = word.ok_or_else(|| format!("`{value}`: write such as \"100ms\""))?;
                **duration = parse_duration(word).map_err(|e| e.to_string())?;
                if **duration == 0 && !*zero {
                    return Err(format!("`{word}` is too short: write such as \"100ms\""));
                }
            }
            Self::Size(size) => {
                let read = value.as_u64().map(Ok).or_else(|| value.as_str().map(parse_size));
                let read = read.ok_or_else(|| format!("`{value}`: write such as \"8MiB\""))?;
                **size = read.map_err(|e| e.to_string())?;
            }
            Self::Count(count, largest) => {
                let read = value.as_u64().and_then(|read| u32::try_from(read).ok());
                let read = read.filter(|read| (1..=*largest).contains(read));
                **count =
                    read.ok_or_else(|| format!("`{value}`: write a number from 1 to {largest}"))?;
            }
            Self::Flag(flag) => {
                **flag =
                    value.as_bool().ok_or_else(|| format!("`{value}`: write true or false"))?;
            }
            Self::Share(share) => {
                let read = value.as_f64().filter(|read| (0.0..=1.0).contains(read));
                let read = read.ok_or_else(|| format!("`{value}`: write a part from 0 to 1"))?;
                **share = (read * 1e6).round() as u32;
            }
        }
        Ok(())
    }

    fn write(&self) -> Value {
        match self {
            Self::Duration(duration, _) => format_duration(**duration).into(),
            Self::Size(size) => format_size(**size).into(),
            Self::Count(count, _) => (**count).into(),
            Self::Flag(flag) => (**flag).into(),
            Self::Share(share) => (f64::from(**share) / 1e6).into(),
        }
    }
}

impl Serialize for SchedulerSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut spec = *self;
        let mut table = Map::new();
        table.insert("kind".into(), spec.kind.name().into());
        table.extend(spec.fields().iter().map(|(key, field)| ((*key).into(), field.write())));
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

/// The most similar name, if one is similar at all.
fn nearest(word: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let lower = word.to_lowercase();
    let distance = |name: &'static str| (strsim::damerau_levenshtein(&lower, name), name);
    let (distance, name) = names.map(distance).min()?;
    (distance <= name.len().max(3) / 2).then_some(name)
}

fn guess(nearest: &Option<&'static str>) -> String {
    nearest.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default()
}

fn listed<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn kinds() -> String {
    listed(KINDS.iter().map(|(name, _)| *name))
}
