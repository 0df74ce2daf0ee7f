//! Power states of a drive, as users write them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::units;

/// Maximum number of power states.
pub const MAX_STATES: usize = 32;
/// Maximum latency of a state in nanoseconds.
const MAX_LATENCY: Nanos = 100_000_000_000;
/// The precision of latencies, as Identify tells them, in nanoseconds.
const STEP: Nanos = 1000;

/// A power state (NVMe 2.0 section 8.15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerState {
    /// Maximum power in milliwatts: up to 6553, or a multiple of 10 up to 655350.
    pub milliwatts: u32,
    /// Entry latency in nanoseconds: whole microseconds.
    pub entry: Nanos,
    /// Exit latency, likewise.
    pub exit: Nanos,
    /// True if the drive carries out I/O in it.
    pub operational: bool,
}

impl PowerState {
    /// Power of a drive with one state: 25 W.
    pub const ONLY: Self = Self { milliwatts: 25_000, entry: 0, exit: 0, operational: true };

    /// Reads `POWER`, `POWER:ENTRY:EXIT`, and either behind `idle:`.
    fn parse(word: &str) -> Result<Self, String> {
        let (rest, operational) = match word.strip_prefix("idle:") {
            Some(rest) => (rest, false),
            None => (word, true),
        };
        let (power, latencies) = match rest.split_once(':') {
            Some((power, latencies)) => {
                (power, latencies.split_once(':').ok_or("no exit latency")?)
            }
            None => (rest, ("0ns", "0ns")),
        };
        let digits = power.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
        let scale = match &power[digits.len()..] {
            "W" => 1000,
            "mW" => 1,
            _ => return Err(format!("`{power}` is no power such as 8W or 50mW")),
        };
        let number: u32 = digits.parse().map_err(|_| format!("`{power}`: take whole mW"))?;
        let duration = |word| units::parse_duration(word).map_err(|error| error.to_string());
        Ok(Self {
            milliwatts: number.saturating_mul(scale),
            entry: duration(latencies.0)?,
            exit: duration(latencies.1)?,
            operational,
        })
    }

    fn to_word(self) -> String {
        let Self { milliwatts, entry, exit, operational } = self;
        let idle = if operational { "" } else { "idle:" };
        let power = match milliwatts % 1000 {
            0 => format!("{}W", milliwatts / 1000),
            _ => format!("{milliwatts}mW"),
        };
        if entry == 0 && exit == 0 {
            return format!("{idle}{power}");
        }
        let [entry, exit] = [entry, exit].map(units::format_duration);
        format!("{idle}{power}:{entry}:{exit}")
    }

    /// Returns whether Identify can express it.
    fn check(&self) -> Result<(), String> {
        let Self { milliwatts, entry, exit, .. } = *self;
        let is_exact = milliwatts <= 6553 || milliwatts <= 655_350 && milliwatts % 10 == 0;
        if !is_exact {
            let allowed = "up to 6553mW, or a multiple of 10mW up to 655350mW";
            return Err(format!("{milliwatts}mW must be {allowed}"));
        }
        match [entry, exit].into_iter().find(|&time| time > MAX_LATENCY || time % STEP != 0) {
            Some(wrong) => Err(format!("{wrong}ns must be whole microseconds up to 100s")),
            None => Ok(()),
        }
    }
}

/// The power states of a drive, from 0 on: `POWER[:ENTRY:EXIT]` each, behind `idle:` if the drive
/// carries out no I/O in it, with `/` between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("examples" = ["8W/idle:50mW:2ms:1500us"]))]
pub struct PowerStates(Vec<PowerState>);

impl Default for PowerStates {
    /// One state.
    fn default() -> Self {
        Self(vec![PowerState::ONLY])
    }
}

impl PowerStates {
    /// Checks `states` and makes a table of them.
    ///
    /// # Errors
    /// There are none, or more than 32; the first is not operational; or a state cannot be told.
    pub fn new(states: Vec<PowerState>) -> Result<Self, String> {
        if !(1..=MAX_STATES).contains(&states.len()) {
            return Err(format!("there are {} power states, but must be 1 to 32", states.len()));
        }
        if !states[0].operational {
            return Err("the first power state must be operational: write `idle:` to others".into());
        }
        states.iter().try_for_each(PowerState::check)?;
        Ok(Self(states))
    }

    /// The states.
    pub fn states(&self) -> &[PowerState] {
        &self.0
    }

    /// Returns whether there is more than one state.
    pub fn is_choice(&self) -> bool {
        self.0.len() > 1
    }
}

impl TryFrom<String> for PowerStates {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        let form = "8W/idle:50mW:2ms:1500us, say: POWER:ENTRY:EXIT, without I/O behind `idle:`";
        let wrong = |why: String| format!("power-states is `{word}`, but must be {form}: {why}");
        let states: Result<Vec<_>, _> = word.split('/').map(PowerState::parse).collect();
        states.and_then(Self::new).map_err(wrong)
    }
}

impl From<PowerStates> for String {
    fn from(states: PowerStates) -> Self {
        let words: Vec<_> = states.0.into_iter().map(PowerState::to_word).collect();
        words.join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were_read() {
        for word in ["25W", "8W/3500mW:100us:200us/idle:50mW:2ms:1.5ms/idle:5mW:5ms:9ms"] {
            let states = PowerStates::try_from(word.to_owned()).unwrap();
            assert_eq!(String::from(states), word);
        }
        let one = PowerStates::default();
        assert_eq!(one, PowerStates::try_from("25W:0ns:0ns".to_owned()).unwrap());
    }

    #[test]
    fn wrong_words_say_what_would_be_right() {
        for (word, expected) in [
            ("", "8W"),
            ("8", "50mW"),
            ("8.5W", "whole mW"),
            ("8W:1ms", "exit latency"),
            ("8W:1ms:2 parsec", "parsec"),
            ("8W:1500ns:0ns", "microseconds"),
            ("8W:0ns:101s", "up to 100s"),
            ("7005mW", "multiple of 10mW"),
            ("700kW", "50mW"),
            ("700W", "655350mW"),
            ("idle:8W", "operational"),
        ] {
            let message = PowerStates::try_from(word.to_owned()).unwrap_err();
            assert!(message.contains(expected), "{word}: {message}");
        }
        assert!(PowerStates::new(vec![PowerState::ONLY; 33]).is_err());
    }
}
