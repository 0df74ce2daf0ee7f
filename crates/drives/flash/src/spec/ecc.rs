//! Bit errors and their correction in a description.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::{Nanos, MICROSECOND};
use stasis_block::units;
use stasis_nand::{Ecc, EccStep, ErrorRate};

/// The rate of raw bit errors; see [`ErrorRate`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ErrorsSpec {
    /// Rate of a new block: a share of the bits.
    pub base: f64,
    /// `[a, k]`: `a * erases^k`.
    pub wear: [f64; 2],
    /// `[b, m, n]`: `b * erases^m * days^n`.
    pub retention: [f64; 3],
    /// `[c, p, q]`: `c * erases^p * reads^q`, with the reads of a block by its pages.
    pub disturb: [f64; 3],
}

impl Default for ErrorsSpec {
    /// Returns the parameters of a 72-layer TLC chip, as two public programs have them
    /// (`docs/reference/flash.md`).
    fn default() -> Self {
        Self {
            base: 1.48e-3,
            wear: [3.90e-10, 2.05],
            retention: [6.28e-5, 0.14, 0.54],
            disturb: [3.73e-9, 0.33, 1.71],
        }
    }
}

/// A step of decoding; see [`EccStep`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EccStepSpec {
    /// Wrong bits of a codeword that it corrects at most.
    pub bits: u32,
    /// The share of the raw bit errors that its reference voltages leave.
    #[serde(default = "whole")]
    pub errors: f64,
    /// Number of times that the cells are read again for it.
    #[serde(default)]
    pub reads: u32,
    /// The time that it takes besides (ns).
    #[serde(default, with = "units::duration")]
    pub latency: Nanos,
}

fn whole() -> f64 {
    1.0
}

/// Bit errors, and the steps that correct them; see [`Ecc`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EccSpec {
    /// The rate of raw bit errors.
    pub errors: ErrorsSpec,
    /// Data of a codeword (bytes).
    #[serde(with = "units::size")]
    pub codeword: u64,
    /// The steps, in their order.
    pub steps: Vec<EccStepSpec>,
    /// The age of the data on the drive when it is first used (ns).
    #[serde(with = "units::duration")]
    pub age: Nanos,
    /// Erases that each block had before the drive is first used.
    pub erases: u32,
}

impl Default for EccSpec {
    fn default() -> Self {
        let step = |bits, errors, reads, latency| EccStepSpec { bits, errors, reads, latency };
        Self {
            errors: ErrorsSpec::default(),
            codeword: 1 << 10,
            // 72 bits of 1 KiB, as Kim, Choi and Min have it; two reads with other voltages; a soft
            // decision of four more reads.
            steps: vec![
                step(72, 1.0, 0, 0),
                step(72, 0.7, 1, 0),
                step(72, 0.5, 1, 0),
                step(120, 0.5, 4, 10 * MICROSECOND),
            ],
            age: 0,
            erases: 0,
        }
    }
}

impl EccSpec {
    /// Returns the error correction as the array takes it.
    pub fn ecc(&self) -> Ecc {
        let ErrorsSpec { base, wear, retention, disturb } = self.errors;
        let step = |step: &EccStepSpec| {
            let &EccStepSpec { bits, errors, reads, latency } = step;
            EccStep { bits, errors, reads, latency }
        };
        Ecc {
            rate: ErrorRate { base, wear, retention, disturb },
            codeword: u32::try_from(self.codeword).unwrap_or(u32::MAX),
            steps: self.steps.iter().map(step).collect(),
            age: self.age,
            erases: self.erases,
        }
    }
}
