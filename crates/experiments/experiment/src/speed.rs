//! The processors' speed, as the declared frequency of the guest's TSC.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Speed of the guest's processors.
///
/// The TSC is declared faster (or slower) than it ticks, so every instruction
/// takes less (or more) of the guest's time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CpuSpeed {
    /// The TSC's declared frequency (kHz). Under `exact`, where an instruction
    /// is a tick, 5 GHz is 5 instructions a nanosecond.
    Khz(u64),
    /// A multiple of the host's TSC frequency.
    Times(f64),
}

impl CpuSpeed {
    /// The default under `exact`: a tick is an instruction there, so this is a
    /// core that retires 5 instructions a nanosecond. A current server core
    /// runs at about 3.5 to 4 GHz under load (AMD EPYC 9474F data sheet: 3.6
    /// base, 4.1 boost) and retires some 1.3 instructions a cycle in kernel
    /// I/O paths, up to 4 in tight loops.
    pub const EXACT_DEFAULT: CpuSpeed = CpuSpeed::Khz(5_000_000);
}

impl FromStr for CpuSpeed {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let expected =
            || format!("`{word}` is no CPU speed; write a frequency like 5GHz or a factor like 2x");
        let (digits, khz) = if let Some(digits) = word.strip_suffix("GHz") {
            (digits, Some(1e6))
        } else if let Some(digits) = word.strip_suffix("MHz") {
            (digits, Some(1e3))
        } else if let Some(digits) = word.strip_suffix('x') {
            (digits, None)
        } else {
            return Err(expected());
        };
        let number: f64 = digits.trim().parse().map_err(|_| expected())?;
        let speed = match khz {
            Some(khz) => Self::Khz((number * khz).round() as u64),
            None => Self::Times(number),
        };
        // Linux takes a TSC between these for one (tsc_early_khz is 32 bits);
        // beyond them its clock arithmetic gives up precision.
        let possible = match speed {
            Self::Khz(khz) => number.is_finite() && (100_000..=100_000_000).contains(&khz),
            Self::Times(times) => (0.01..=100.0).contains(&times),
        };
        if possible {
            Ok(speed)
        } else {
            Err(format!("CPU speed `{word}` is out of range: 0.1GHz to 100GHz, or 0.01x to 100x"))
        }
    }
}

impl fmt::Display for CpuSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Khz(khz) => write!(f, "{}GHz", *khz as f64 / 1e6),
            Self::Times(times) => write!(f, "{times}x"),
        }
    }
}

impl Serialize for CpuSpeed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSpeed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for CpuSpeed {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "cpu-speed".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[0-9.]+ *(GHz|MHz|x)$",
            "examples": ["5GHz", "2x"]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_read_back() {
        for word in ["5GHz", "2.5GHz", "3x", "0.5x"] {
            assert_eq!(word.parse::<CpuSpeed>().unwrap().to_string(), word);
        }
        assert_eq!("800MHz".parse(), Ok(CpuSpeed::Khz(800_000)));
        for word in ["5", "GHz", "0GHz", "-1x", "NaNx", "infGHz", "1000GHz", "5ghz"] {
            assert!(word.parse::<CpuSpeed>().is_err(), "{word}");
        }
    }
}
