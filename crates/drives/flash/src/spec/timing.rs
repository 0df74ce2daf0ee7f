//! Times in a description.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::units;
use stasis_nand::{cells::PRESETS, BusRate, CellPattern, Timing};

use super::{Rate, SpecError};

/// A duration in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Duration(#[serde(with = "units::duration")] pub Nanos);

/// A time that is the same for every page, or one for each letter of the
/// pattern: `"50us"` or `{ L = "48us", u = "64us" }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ByLetter {
    /// For every page.
    All(Duration),
    /// By the page type's letter.
    Each(BTreeMap<char, Duration>),
}

/// Times that differ from the cells' usual ones ([`Timing::preset`]).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TimingSpec {
    /// Cells to register.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<ByLetter>,
    /// Register to cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<ByLetter>,
    /// Erasing a block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erase: Option<Duration>,
    /// The channel's speed; 400MB/s if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus: Option<Rate>,
    /// The time of a command and its address on the channel; 0 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Duration>,
    /// From data to cache register or back; 0 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub register_copy: Option<Duration>,
    /// Time to suspend a program or erase for a read; 0 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<Duration>,
    /// Time to resume the program or erase; 0 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Duration>,
}

impl TimingSpec {
    /// The times of cells of `pattern`, which is called `cells`.
    ///
    /// # Errors
    /// [`SpecError`] for a letter that the pattern does not have.
    pub fn timing(&self, cells: &str, pattern: &CellPattern) -> Result<Timing, SpecError> {
        // A pattern of one's own: the cells that have so many page types.
        let levels = pattern.letters().len().clamp(1, PRESETS.len());
        let usual = Timing::preset(cells.trim()).or_else(|| Timing::preset(PRESETS[levels - 1].0));
        let mut timing = usual
            .unwrap_or_else(|| Timing::uniform(50_000, 500_000, 3_000_000, BusRate::UNLIMITED));
        if let Some(read) = &self.read {
            set("timing.read", read, pattern, &mut timing.read)?;
        }
        if let Some(program) = &self.program {
            set("timing.program", program, pattern, &mut timing.program)?;
        }
        for (given, time) in [
            (self.erase, &mut timing.erase),
            (self.command, &mut timing.command),
            (self.register_copy, &mut timing.register_copy),
            (self.suspend, &mut timing.suspend),
            (self.resume, &mut timing.resume),
        ] {
            *time = given.map_or(*time, |given| given.0);
        }
        if let Some(rate) = self.bus {
            timing.bus = BusRate::per_second(rate.bytes_per_second());
        }
        Ok(timing)
    }
}

fn set(
    key: &'static str,
    given: &ByLetter,
    pattern: &CellPattern,
    times: &mut [Nanos],
) -> Result<(), SpecError> {
    match given {
        ByLetter::All(time) => times.fill(time.0),
        ByLetter::Each(each) => {
            for (&letter, time) in each {
                let Some(page_type) = pattern.type_of(letter) else {
                    let letters: Vec<String> =
                        pattern.letters().iter().map(char::to_string).collect();
                    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
                    return Err(SpecError::word(key, &letter.to_string(), &letters));
                };
                times[usize::from(page_type.0)] = time.0;
            }
        }
    }
    Ok(())
}
