//! Configuration of computational programs, as users write it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::units::{self, format_size};
use stasis_block::Rate;

/// Limit on the memory namespace: it is memory of the host's process.
const MAX_MEMORY: u64 = 1 << 30;
/// Limit on processors.
const MAX_PROCESSORS: u16 = 64;
/// Limit on the instructions of a processor in a second.
const MAX_SPEED: u64 = 1_000_000_000_000;
/// Limit on the instructions of one execution: minutes of the host's time.
const MAX_BUDGET: u64 = 100_000_000_000;

/// Computational programs of a drive: a memory namespace and a compute namespace behind its others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Programs {
    /// Processors that run programs, each one at a time.
    #[schemars(range(min = 1, max = 64))]
    pub processors: u16,
    /// eBPF instructions that a processor carries out in a second.
    #[schemars(range(min = 1, max = 1_000_000_000_000u64))]
    pub instructions_per_second: u64,
    /// Size of the memory namespace in bytes.
    #[serde(with = "units::size")]
    pub memory: u64,
    /// Rate at which the memory moves data, of commands and of programs.
    pub memory_rate: Rate,
    /// Maximum number of instructions of one execution, which fails after them.
    #[schemars(range(min = 1, max = 100_000_000_000u64))]
    pub max_instructions: u64,
}

impl Default for Programs {
    fn default() -> Self {
        Self {
            processors: 1,
            instructions_per_second: 1_000_000_000,
            memory: 64 << 20,
            // 16 bits of LPDDR4-1600.
            memory_rate: Rate::per_second(3_200_000_000),
            max_instructions: 1_000_000_000,
        }
    }
}

/// An invalid configuration of computational programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProgramsError {
    /// A number outside its range.
    #[error("programs: {key} is {value}, but must be 1 to {most}")]
    Number {
        /// The key.
        key: &'static str,
        /// The value given.
        value: u64,
        /// The highest one allowed.
        most: u64,
    },
    /// A size of the memory that cannot be.
    #[error(
        "programs: memory is {}, but must be a multiple of 4 bytes up to {}",
        format_size(*.0),
        format_size(MAX_MEMORY)
    )]
    Memory(u64),
}

impl Programs {
    /// Checks ranges that serde does not.
    ///
    /// # Errors
    /// The key, its value and the allowed ones.
    pub fn check(&self) -> Result<(), ProgramsError> {
        for (key, value, most) in [
            ("processors", self.processors.into(), MAX_PROCESSORS.into()),
            ("instructions-per-second", self.instructions_per_second, MAX_SPEED),
            ("max-instructions", self.max_instructions, MAX_BUDGET),
        ] {
            if !(1..=most).contains(&value) {
                return Err(ProgramsError::Number { key, value, most });
            }
        }
        if !(4..=MAX_MEMORY).contains(&self.memory) || !self.memory.is_multiple_of(4) {
            return Err(ProgramsError::Memory(self.memory));
        }
        Ok(())
    }
}

/// A namespace that lies in the controller's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The one whose bytes programs work on.
    Memory,
    /// The one that has the programs.
    Compute,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_checked() {
        let usual = Programs::default();
        assert_eq!(usual.check(), Ok(()));
        let text = |programs: Programs| programs.check().unwrap_err().to_string();
        for (wrong, expected) in [
            (Programs { processors: 0, ..usual }, "processors is 0, but must be 1 to 64"),
            (Programs { processors: 65, ..usual }, "processors is 65"),
            (Programs { max_instructions: 0, ..usual }, "max-instructions is 0"),
            (Programs { memory: 6, ..usual }, "memory is 6B, but must be a multiple of 4 bytes"),
            (Programs { memory: 2 << 30, ..usual }, "memory is 2GiB, but must be"),
        ] {
            assert!(text(wrong).contains(expected), "{}", text(wrong));
        }
    }
}
