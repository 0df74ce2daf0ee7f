//! Spans: durations to sample from.

use std::borrow::Cow;
use std::fmt;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use stasis_block::clock::Nanos;
use stasis_block::units::{format_duration, parse_duration, UnitError};
use stasis_block::Random;

/// A duration, or an interval of durations drawn from uniformly: `100us`, or
/// `200us-400us` with both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    min: Nanos,
    max: Nanos,
}

/// Why a word is no span.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// One of the ends is no duration.
    #[error(transparent)]
    Duration(#[from] UnitError),
    /// A span of negative durations.
    #[error("`{word}` is negative: a duration is 0 or more")]
    Negative {
        /// The word given.
        word: String,
    },
    /// A span that ends before it begins.
    #[error("`{word}` ends before it begins: write the smaller duration first")]
    Reversed {
        /// The word given.
        word: String,
    },
}

impl Span {
    /// Always `duration` (ns).
    pub const fn fixed(duration: Nanos) -> Self {
        Self { min: duration, max: duration }
    }

    /// From the smaller to the larger of the two (ns), both included.
    pub fn between(one: Nanos, other: Nanos) -> Self {
        Self { min: one.min(other), max: one.max(other) }
    }

    /// Reads `100us` or `200us-400us`.
    ///
    /// # Errors
    /// [`SpanError`], which names the word.
    pub fn parse(word: &str) -> Result<Self, SpanError> {
        if word.trim_start().starts_with('-') {
            return Err(SpanError::Negative { word: word.into() });
        }
        let Some((min, max)) = word.split_once('-') else {
            return Ok(Self::fixed(parse_duration(word)?));
        };
        let (min, max) = (parse_duration(min)?, parse_duration(max)?);
        if max < min {
            return Err(SpanError::Reversed { word: word.into() });
        }
        Ok(Self { min, max })
    }

    /// The shortest duration (ns).
    pub fn min(self) -> Nanos {
        self.min
    }

    /// The longest duration (ns).
    pub fn max(self) -> Nanos {
        self.max
    }

    /// Returns whether there is only one duration in it.
    pub fn is_fixed(self) -> bool {
        self.min == self.max
    }

    pub(crate) fn sample(self, random: &mut Random) -> Nanos {
        if self.min == self.max {
            return self.min;
        }
        self.min + random.up_to(self.max - self.min)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&format_duration(self.min))?;
        if self.min != self.max {
            write!(f, "-{}", format_duration(self.max))?;
        }
        Ok(())
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Word("a duration such as \"100us\" or \"200us-400us\"", Self::parse))
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration, or two between which each command's is drawn.",
            "type": "string",
            "pattern": "^ *[0-9]+(\\.[0-9]+)? *[a-z\u{b5}\u{3bc}]*( *- *[0-9]+(\\.[0-9]+)? *[a-z\u{b5}\u{3bc}]*)? *$",
            "examples": ["100us", "200us-400us"]
        })
    }
}

/// Reads a word by a function, with the expectation for errors.
pub(crate) struct Word<T, E>(pub &'static str, pub fn(&str) -> Result<T, E>);

impl<T, E: fmt::Display> Visitor<'_> for Word<T, E> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<F: serde::de::Error>(self, word: &str) -> Result<T, F> {
        (self.1)(word).map_err(F::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_back_and_say_what_is_wrong() {
        for word in ["100us", "200us-400us", "0ns", "1.5ms-2s"] {
            assert_eq!(Span::parse(word).unwrap().to_string(), word);
        }
        assert_eq!(Span::parse("1us - 3us"), Ok(Span::between(3000, 1000)));
        let reversed = Span::parse("4us-2us").unwrap_err().to_string();
        assert!(reversed.contains("`4us-2us`"), "{reversed}");
        assert!(Span::parse("4us-2uss").unwrap_err().to_string().contains("`us`"));
        assert!(Span::parse("").is_err());
        let negative = Span::parse("-5us").unwrap_err().to_string();
        assert_eq!(negative, "`-5us` is negative: a duration is 0 or more");
    }

    #[test]
    fn draws_cover_the_span_evenly_and_stay_inside() {
        let mut random = Random::new(1);
        let span = Span::between(10, 19);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[(span.sample(&mut random) - 10) as usize] += 1;
        }
        // Ten standard deviations of a binomial around 10,000.
        assert!(counts.iter().all(|&n| (9_000..11_000).contains(&n)), "{counts:?}");
        let all = Span::between(0, u64::MAX);
        assert_ne!(all.sample(&mut random), all.sample(&mut random));
        assert!((0..1000).map(|_| random.unit()).all(|u| (0.0..1.0).contains(&u)));
    }
}
