//! The kinds of model that an experiment can describe, but for the disk.

use std::borrow::Cow;
use std::fmt;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use stasis_block::Operation;

use super::cache::CacheSpec;
use super::error::Problem;
use crate::distribution::{Distribution, Interpolation};
use crate::profile::Profile;
use crate::random::Span;
use crate::rate::Rate;
use crate::rated::{Direction, Draw};

/// The kinds `fixed` and `uniform`: a span per operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpansSpec {
    /// What an operation takes that is not named below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Span>,
    /// What a read takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Span>,
    /// What a write takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Span>,
    /// What a flush takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<Span>,
    /// What a discard takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard: Option<Span>,
    /// What a write-zeroes takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_zeroes: Option<Span>,
    /// Commands in service at once; any number if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub parallelism: Option<u32>,
    /// A volatile write cache; none if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSpec>,
    /// Whether what is acknowledged survives a power cut, without a flush; no if
    /// not given. It changes no time.
    #[serde(default, skip_serializing_if = "is_false")]
    pub plp: bool,
}

fn is_false(plp: &bool) -> bool {
    !plp
}

/// A volatile cache is not protected, and no drive serves nothing at a time.
fn check_common(
    plp: bool,
    cache: Option<&CacheSpec>,
    parallelism: Option<u32>,
) -> Result<(), Problem> {
    if plp && cache.is_some() {
        let problem = "`cache` is a volatile write cache, which a power cut empties: leave one of \
                       `plp` and `cache` out";
        return Err(("plp", problem.into()));
    }
    if parallelism == Some(0) {
        return Err(("parallelism", "must be at least 1".into()));
    }
    Ok(())
}

impl SpansSpec {
    /// Every operation takes `latency`.
    pub fn all(latency: Span) -> Self {
        Self { latency: Some(latency), ..Self::default() }
    }

    /// What is wrong with a value, if anything is; `fixed`: whether nothing is drawn.
    pub(super) fn check(&self, fixed: bool) -> Result<(), Problem> {
        for (key, span) in [
            ("latency", self.latency),
            ("read", self.read),
            ("write", self.write),
            ("flush", self.flush),
            ("discard", self.discard),
            ("write_zeroes", self.write_zeroes),
        ] {
            if let Some(span) = span.filter(|span| fixed && !span.is_fixed()) {
                let problem = format!("`{span}` is no single duration; take kind `uniform`");
                return Err((key, problem));
            }
        }
        check_common(self.plp, self.cache.as_ref(), self.parallelism)
    }

    /// A key that has to be there and is not.
    pub(super) fn missing(&self) -> Option<&'static str> {
        let none = self.latency.is_none() && self.read.is_none() && self.write.is_none();
        none.then_some("latency")
    }

    /// By [`Operation`] number. What is not given takes `latency`; without that
    /// as long as a write, a write as long as a read, a read as long as a write.
    /// A copy takes as long as a write, a verify as long as a read.
    pub(super) fn spans(&self) -> [Span; Operation::ALL.len()] {
        let (copy, verify) = (self.write, self.read);
        let own = [
            self.read,
            self.write,
            self.flush,
            self.discard,
            self.write_zeroes,
            copy,
            verify,
            None,
        ];
        own.map(|own| own.or(self.latency).or(self.write).or(self.read).unwrap_or_default())
    }
}

/// The kind `profile`: latencies as measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileSpec {
    /// The profile's file, relative to the experiment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its content; [`ModelSpec::resolve`](super::ModelSpec::resolve) puts it here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// What a flush takes, in place of the profile's figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<Span>,
    /// What a discard takes, in place of the profile's figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard: Option<Span>,
    /// What a write-zeroes takes, in place of the profile's figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_zeroes: Option<Span>,
    /// Commands in service at once; any number if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub parallelism: Option<u32>,
    /// A volatile write cache; none if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSpec>,
    /// Whether what is acknowledged survives a power cut, without a flush; no if
    /// not given. It changes no time.
    #[serde(default, skip_serializing_if = "is_false")]
    pub plp: bool,
}

impl ProfileSpec {
    /// What is wrong with a value, if anything is.
    pub(super) fn check(&self) -> Result<(), Problem> {
        check_common(self.plp, self.cache.as_ref(), self.parallelism)
    }

    /// A key that has to be there and is not.
    pub(super) fn missing(&self) -> Option<&'static str> {
        (self.profile.is_none() && self.file.is_none()).then_some("file")
    }

    pub(super) fn costs(&self) -> [Option<Span>; Operation::ALL.len()] {
        [None, None, self.flush, self.discard, self.write_zeroes, None, None, None]
    }
}

/// The latency of a command of 4 KiB at queue depth 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RatedLatency {
    /// `"67us"` or `"60us-80us"`.
    Span(Span),
    /// Pairs of percentile and duration: `[[99, "10us"], [99.999, "60us"]]`.
    Percentiles(Vec<(f64, Span)>),
}

/// A direction's figures in a data sheet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rating {
    /// Of a command of 4 KiB at queue depth 1.
    pub latency: RatedLatency,
    /// The most commands of 4 KiB a second.
    #[schemars(range(min = 1, max = IOPS_MAX))]
    #[serde(deserialize_with = "iops")]
    pub iops: u64,
    /// Of large commands.
    pub bandwidth: Rate,
}

/// The kind `rated`: a solid-state drive by its data sheet; see
/// [`Rated`](crate::Rated).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RatedSpec {
    /// Reads.
    pub read: Rating,
    /// Writes.
    pub write: Rating,
    /// What a flush takes; 0 if not given.
    #[serde(default)]
    pub flush: Span,
    /// What a discard takes; 0 if not given.
    #[serde(default)]
    pub discard: Span,
    /// What a write-zeroes takes; as a write of its length if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_zeroes: Option<Span>,
    /// A volatile write cache; none if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSpec>,
    /// Whether what is acknowledged survives a power cut, without a flush; no if
    /// not given. It changes no time.
    #[serde(default, skip_serializing_if = "is_false")]
    pub plp: bool,
}

impl RatedSpec {
    /// What is wrong with a value, if anything is.
    pub(super) fn check(&self) -> Result<(), Problem> {
        check_common(self.plp, self.cache.as_ref(), None)
    }
}

/// The most commands a second: one a nanosecond.
const IOPS_MAX: u64 = 1_000_000_000;

fn iops<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    match u64::deserialize(from)? {
        iops @ 1..=IOPS_MAX => Ok(iops),
        iops => Err(D::Error::custom(format_args!("is {iops}: it must be from 1 to {IOPS_MAX}"))),
    }
}

impl Rating {
    pub(super) fn direction(&self) -> Direction {
        let draw = match &self.latency {
            RatedLatency::Span(span) => Draw::Span(*span),
            RatedLatency::Percentiles(points) => {
                let points: Vec<_> =
                    points.iter().map(|&(percent, at)| (percent, at.min() as f64)).collect();
                Draw::Distribution(Distribution::of_percentiles(&points, Interpolation::Linear))
            }
        };
        Direction::new(draw, self.iops, self.bandwidth)
    }
}

impl<'de> Deserialize<'de> for RatedLatency {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = RatedLatency;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a duration such as \"10us\", or pairs such as [[99, \"10us\"]]")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<RatedLatency, E> {
                Span::parse(word).map(RatedLatency::Span).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut pairs: A) -> Result<RatedLatency, A::Error> {
                let mut points: Vec<(f64, Span)> = Vec::new();
                while let Some((percent, span)) = pairs.next_element::<(f64, Span)>()? {
                    let (p, s) = points.last().copied().unwrap_or_default();
                    let ascends = (p..=100.0).contains(&percent) && s.min() <= span.min();
                    if !ascends || !span.is_fixed() {
                        return Err(A::Error::custom(format_args!(
                            "`[{percent}, \"{span}\"]`: write pairs of percentile and duration that \
                             ascend in both, such as [[99, \"10us\"]]"
                        )));
                    }
                    points.push((percent, span));
                }
                if points.is_empty() {
                    return Err(A::Error::custom("is empty: write a duration such as \"10us\""));
                }
                Ok(RatedLatency::Percentiles(points))
            }
        }
        from.deserialize_any(Reads)
    }
}

impl JsonSchema for RatedLatency {
    fn schema_name() -> Cow<'static, str> {
        "rated-latency".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let span = generator.subschema_for::<Span>();
        json_schema!({
            "description": "A duration, or pairs of percentile and duration that ascend in both.",
            "anyOf": [
                span,
                {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "array",
                        "prefixItems": [{ "type": "number", "minimum": 0, "maximum": 100 }, span],
                        "minItems": 2,
                        "maxItems": 2
                    },
                    "examples": [[[99, "10us"], [99.999, "60us"]]]
                }
            ]
        })
    }
}
