//! The kinds `fixed` and `uniform`: a time for each operation, independent of its address.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use stasis_block::{Model, Operation, Rate};

use super::operation_times::operation_times;
use super::Parameters;
use crate::cached::behind;
use crate::latency::Spans;
use crate::pipeline::Throttled;
use crate::span::Span;
use crate::spec::{check_protection, is_false, BuildContext, BuildError, CacheSpec, Problem};

operation_times! {
    /// The kinds `fixed` and `uniform`: a span per operation.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct SpansSpec {
        /// Time of an operation that has no other.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub latency: Option<Span>,
        /// Maximum transfer rate of the drive, reads and writes together; no limit if not given.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bandwidth: Option<Rate>,
    }
}

impl SpansSpec {
    /// Every operation takes `latency`.
    pub fn all(latency: Span) -> Self {
        Self { latency: Some(latency), ..Self::default() }
    }

    /// Returns the first invalid value; `fixed`: whether no time is drawn at random.
    fn check(&self, fixed: bool) -> Result<(), Problem> {
        if self.latency.is_none() && self.read.is_none() && self.write.is_none() {
            return Err(Problem::Missing("latency"));
        }
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
                return Err(Problem::value(key, problem));
            }
        }
        self.check_service()
    }

    /// By [`Operation`] number. An operation that is not given takes `latency`; without that
    /// as long as a write, a write as long as a read, a read as long as a write.
    /// A copy takes as long as a write, a verify as long as a read.
    fn spans(&self) -> [Span; Operation::ALL.len()] {
        let [read, write, flush, discard, write_zeroes] = self.times();
        let (copy, verify) = (write, read);
        let own = [read, write, flush, discard, write_zeroes, copy, verify, None];
        own.map(|own| own.or(self.latency).or(self.write).or(self.read).unwrap_or_default())
    }

    fn model(&self, seed: u64) -> Box<dyn Model> {
        let spans = Throttled::new(Spans::new(self.spans(), seed), self.bandwidth);
        behind(self.cache.as_ref(), self.plp, spans, self.parallelism, seed)
    }
}

/// The kind `fixed`: each operation has a constant time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FixedSpec(pub SpansSpec);

impl JsonSchema for FixedSpec {
    fn schema_name() -> Cow<'static, str> {
        SpansSpec::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        SpansSpec::json_schema(generator)
    }
}

impl Parameters for FixedSpec {
    const NAME: &'static str = "fixed";
    const WORD: Option<&'static str> = Some("fixed:100us");

    fn of_word(value: &str) -> Result<Self, String> {
        let span = Span::parse(value).map_err(|error| error.to_string())?;
        if !span.is_fixed() {
            return Err(format!("that is no single duration: `uniform:{value}`"));
        }
        Ok(Self(SpansSpec::all(span)))
    }

    fn check(&mut self) -> Result<(), Problem> {
        self.0.check(true)
    }

    fn build(&self, _label: &str, context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
        Ok(self.0.model(context.seed))
    }
}

/// The kind `uniform`: each operation draws its time from an interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UniformSpec(pub SpansSpec);

impl JsonSchema for UniformSpec {
    fn schema_name() -> Cow<'static, str> {
        SpansSpec::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        SpansSpec::json_schema(generator)
    }
}

impl Parameters for UniformSpec {
    const NAME: &'static str = "uniform";
    const WORD: Option<&'static str> = Some("uniform:200us-400us");

    fn of_word(value: &str) -> Result<Self, String> {
        let span = Span::parse(value).map_err(|error| error.to_string())?;
        Ok(Self(SpansSpec::all(span)))
    }

    fn check(&mut self) -> Result<(), Problem> {
        self.0.check(false)
    }

    fn build(&self, _label: &str, context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
        Ok(self.0.model(context.seed))
    }
}
