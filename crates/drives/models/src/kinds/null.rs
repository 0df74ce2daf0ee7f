//! The kind `null`: every command takes no time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::{Model, Operation};

use super::Parameters;
use crate::latency::{Independent, Spans};
use crate::span::Span;
use crate::spec::{BuildContext, BuildError};

/// A kind of model without parameters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NullSpec {}

impl Parameters for NullSpec {
    const NAME: &'static str = "null";

    fn build(&self, _label: &str, context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
        let spans = [Span::default(); Operation::ALL.len()];
        Ok(Box::new(Independent::new(Spans::new(spans, context.seed), None)))
    }
}
