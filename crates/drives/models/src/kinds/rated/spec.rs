//! The description of a drive by its data sheet in an experiment.

use std::borrow::Cow;
use std::fmt;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use stasis_block::{Model, Rate};

use super::{Direction, Draw, Rated};
use crate::cached::behind;
use crate::distribution::{Distribution, Interpolation};
use crate::kinds::Parameters;
use crate::span::Span;
use crate::spec::{check_protection, is_false, BuildContext, BuildError, CacheSpec, Problem};

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
    /// Latency of a command of 4 KiB at queue depth 1.
    pub latency: RatedLatency,
    /// Maximum rate of commands of 4 KiB (commands a second).
    #[schemars(range(min = 1, max = MAX_IOPS))]
    #[serde(deserialize_with = "iops")]
    pub iops: u64,
    /// Rate of large commands.
    pub bandwidth: Rate,
}

/// The kind `rated`: a solid-state drive by its data sheet; see
/// [`Rated`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RatedSpec {
    /// Reads.
    pub read: Rating,
    /// Writes.
    pub write: Rating,
    /// Time of a flush; 0 if not given.
    #[serde(default)]
    pub flush: Span,
    /// Time of a discard; 0 if not given.
    #[serde(default)]
    pub discard: Span,
    /// Time of a write-zeroes; that of a write of the same length if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_zeroes: Option<Span>,
    /// A volatile write cache; none if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSpec>,
    /// True if acknowledged writes survive a power cut without a flush; no if not given. The key
    /// changes no time.
    #[serde(default, skip_serializing_if = "is_false")]
    pub plp: bool,
}

impl Parameters for RatedSpec {
    const NAME: &'static str = "rated";

    fn check(&mut self) -> Result<(), Problem> {
        check_protection(self.plp, self.cache.as_ref(), None)
    }

    fn build(&self, _label: &str, context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
        let directions = [self.read.direction(), self.write.direction()];
        let costs = [self.flush, self.discard];
        let rated = Rated::new(directions, costs, self.write_zeroes, context.seed);
        Ok(behind(self.cache.as_ref(), self.plp, rated, None, context.seed))
    }
}

/// Maximum rate (commands a second): one a nanosecond.
const MAX_IOPS: u64 = 1_000_000_000;

fn iops<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    match u64::deserialize(from)? {
        iops @ 1..=MAX_IOPS => Ok(iops),
        iops => Err(D::Error::custom(format_args!("is {iops}: it must be from 1 to {MAX_IOPS}"))),
    }
}

impl Rating {
    fn direction(&self) -> Direction {
        Direction::new(self.latency.draw(), self.iops, self.bandwidth)
    }
}

impl RatedLatency {
    /// Makes the distribution that latencies are drawn from.
    pub(crate) fn draw(&self) -> Draw {
        match self {
            Self::Span(span) => Draw::Span(*span),
            Self::Percentiles(points) => {
                let points: Vec<_> =
                    points.iter().map(|&(percent, at)| (percent, at.min() as f64)).collect();
                Draw::Distribution(Distribution::of_percentiles(&points, Interpolation::Linear))
            }
        }
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
