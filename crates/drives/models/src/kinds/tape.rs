//! A tape: what a command takes depends on how far away it is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Command, Model};

use super::Parameters;
use crate::latency::{Independent, Latency};
use crate::spec::{BuildContext, BuildError};

/// A tape's description: `{ kind = "tape", ... }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TapeSpec {
    /// Time to wind past a MiB (ns).
    #[serde(with = "units::duration")]
    pub wind: Nanos,
}

impl Parameters for TapeSpec {
    const NAME: &'static str = "tape";

    fn build(&self, _label: &str, _context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
        let tape = Tape { wind: self.wind, head: 0 };
        // One command at a time.
        Ok(Box::new(Independent::new(tape, Some(1))))
    }
}

#[derive(Debug)]
struct Tape {
    wind: Nanos,
    /// Where the head is (bytes).
    head: u64,
}

impl Latency for Tape {
    fn latency(&mut self, _now: Nanos, command: &Command) -> Nanos {
        let distance = command.offset.abs_diff(self.head);
        self.head = command.offset.saturating_add(command.length);
        (distance.saturating_add(command.length) >> 20).saturating_mul(self.wind)
    }
}
