//! Sizes and durations as people write them: `1GiB`, `100us`, `1.5ms`.
//!
//! Sizes are in bytes, durations in ns. Decimal and binary prefixes are those
//! of IEC 80000-13; the single letters `K`, `M`, `G` and `T` are binary, as in
//! `truncate -s`. Numbers are read exactly, without floating point: what
//! [`format_size`] and [`format_duration`] write reads back as the same value.

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};
use stasis_clock::Nanos;

/// Spelling and worth of each unit, largest first.
type Units = &'static [(&'static str, u64)];

const SIZES: Units = &[
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
    // Also read, never written.
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("k", 1 << 10),
    ("KB", 1_000),
];
const SIZES_WRITTEN: usize = 9;

const DURATIONS: Units = &[
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
    // Also read, never written: with the micro sign and the Greek letter.
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
];
const DURATIONS_WRITTEN: usize = 6;

/// Decimals that are written at most.
const DECIMALS: u128 = 1_000;

/// Decimals that are read at most: more than any that is written.
const FRACTION_DIGITS: usize = 18;

/// A word that is no size or no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The word does not begin with a number.
    #[error("`{word}` is no {kind}: write a number and a unit, such as `{example}`")]
    Number {
        /// What was written.
        word: String,
        /// What was wanted: `size` or `duration`.
        kind: &'static str,
        /// A right one.
        example: &'static str,
    },
    /// The unit is unknown.
    #[error("`{word}`: unknown unit `{unit}` of a {kind}; did you mean `{nearest}`?")]
    Unknown {
        /// What was written.
        word: String,
        /// Its unit.
        unit: String,
        /// What was wanted: `size` or `duration`.
        kind: &'static str,
        /// The right unit that is most like it.
        nearest: &'static str,
    },
    /// A duration without its unit.
    #[error("`{word}`: a {kind} needs a unit, such as `{word}us` or `{word}ms`")]
    Missing {
        /// What was written.
        word: String,
        /// What was wanted: `duration`.
        kind: &'static str,
    },
    /// The value is not a whole number of the smallest unit.
    #[error("`{word}` is not a whole number of {smallest}")]
    Fraction {
        /// What was written.
        word: String,
        /// `bytes` or `ns`.
        smallest: &'static str,
    },
    /// The value does not fit 64 bits.
    #[error("`{word}` is too large for a {kind}: the largest is {largest}")]
    TooLarge {
        /// What was written.
        word: String,
        /// What was wanted: `size` or `duration`.
        kind: &'static str,
        /// About 2^64 of the smallest unit.
        largest: &'static str,
    },
}

struct Kind {
    name: &'static str,
    smallest: &'static str,
    example: &'static str,
    largest: &'static str,
    units: Units,
    // Whether a bare number counts the smallest unit.
    bare: bool,
}

const SIZE: Kind = Kind {
    name: "size",
    smallest: "bytes",
    example: "1GiB",
    largest: "16777215TiB",
    units: SIZES,
    bare: true,
};

const DURATION: Kind = Kind {
    name: "duration",
    smallest: "ns",
    example: "100us",
    largest: "5124095h",
    units: DURATIONS,
    bare: false,
};

/// Reads a size in bytes: `4096`, `4KiB`, `1.5GiB`, `500GB`.
///
/// # Errors
/// A [`UnitError`] that names the word, and for an unknown unit the nearest
/// right one.
pub fn parse_size(word: &str) -> Result<u64, UnitError> {
    parse(word, &SIZE)
}

/// Reads a duration in ns: `100us`, `1.5ms`, `2s`, `0`.
///
/// # Errors
/// A [`UnitError`] that names the word, and for an unknown unit the nearest
/// right one. A number other than 0 needs a unit.
pub fn parse_duration(word: &str) -> Result<Nanos, UnitError> {
    parse(word, &DURATION)
}

/// Writes a size in the largest unit that holds it exactly.
pub fn format_size(bytes: u64) -> String {
    format(bytes, &SIZES[..SIZES_WRITTEN])
}

/// Writes a duration in the largest unit that holds it exactly.
pub fn format_duration(duration: Nanos) -> String {
    format(duration, &DURATIONS[..DURATIONS_WRITTEN])
}

fn parse(word: &str, kind: &Kind) -> Result<u64, UnitError> {
    let trimmed = word.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim_start();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let dangling = number.contains('.') && fraction.is_empty();
    if whole.is_empty() || dangling || fraction.contains('.') {
        let (kind, example) = (kind.name, kind.example);
        return Err(UnitError::Number { word: word.into(), kind, example });
    }
    let zero = number.bytes().all(|digit| digit == b'0' || digit == b'.');
    let factor = match kind.units.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => *factor,
        None if unit.is_empty() && (kind.bare || zero) => 1,
        None if unit.is_empty() => {
            return Err(UnitError::Missing { word: trimmed.into(), kind: kind.name })
        }
        None => {
            let nearest = nearest(unit, kind.units);
            let (word, unit) = (word.into(), unit.into());
            return Err(UnitError::Unknown { word, unit, kind: kind.name, nearest });
        }
    };
    let too_large =
        || UnitError::TooLarge { word: word.into(), kind: kind.name, largest: kind.largest };
    let not_whole = || UnitError::Fraction { word: word.into(), smallest: kind.smallest };

    // Trailing zeroes say nothing; the limit keeps the product below 2^128.
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > FRACTION_DIGITS {
        return Err(not_whole());
    }
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let scale = 10u128.pow(fraction.len() as u32);
    let part: u128 =
        if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| too_large())? };
    let part = part * u128::from(factor);
    if part % scale != 0 {
        return Err(not_whole());
    }
    let value = u128::from(whole) * u128::from(factor) + part / scale;
    u64::try_from(value).map_err(|_| too_large())
}

fn format(value: u64, units: &[(&'static str, u64)]) -> String {
    for &(unit, factor) in units {
        let scaled = u128::from(value) * DECIMALS;
        if value >= factor && scaled % u128::from(factor) == 0 {
            let thousandths = scaled / u128::from(factor);
            let (whole, part) = (thousandths / DECIMALS, thousandths % DECIMALS);
            let fraction = if part == 0 { String::new() } else { format!(".{part:03}") };
            let fraction = fraction.trim_end_matches('0');
            return format!("{whole}{fraction}{unit}");
        }
    }
    // Only zero is less than every unit.
    format!("0{}", units.last().map_or("", |(unit, _)| unit))
}

fn nearest(unit: &str, units: Units) -> &'static str {
    let lower = unit.to_lowercase();
    let distance = |name: &str| {
        // Case counts least: `gib` is `GiB`, not `B`.
        let folded = strsim::damerau_levenshtein(&lower, &name.to_lowercase());
        (long_name(&lower) != Some(name), folded, strsim::levenshtein(unit, name))
    };
    units.iter().map(|(name, _)| *name).min_by_key(|name| distance(name)).unwrap_or("")
}

/// Words that people write out, and the unit that they mean.
fn long_name(word: &str) -> Option<&'static str> {
    const NAMES: &[(&str, &str)] = &[
        ("nano", "ns"),
        ("nsec", "ns"),
        ("micro", "us"),
        ("usec", "us"),
        ("milli", "ms"),
        ("msec", "ms"),
        ("sec", "s"),
        ("min", "min"),
        ("hour", "h"),
        ("hr", "h"),
        ("byte", "B"),
    ];
    NAMES.iter().find(|(start, _)| word.starts_with(start)).map(|(_, unit)| *unit)
}

/// Reads what `Kind` describes from a number or a string.
struct Value(&'static Kind);

impl<'de> Visitor<'de> for Value {
    type Value = u64;

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Kind { name, smallest, example, .. } = self.0;
        write!(f, "a {name} such as \"{example}\", or a number of {smallest}")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
        u64::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<u64, E> {
        parse(word, self.0).map_err(E::custom)
    }
}

/// The same, where there may be none.
struct Optional(&'static Kind);

impl<'de> Visitor<'de> for Optional {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        Value(self.0).expecting(f)
    }

    fn visit_none<E: Error>(self) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Option<u64>, D::Error> {
        from.deserialize_any(Value(self.0)).map(Some)
    }
}

/// Sizes in configurations, for `#[serde(with = "stasis_block::units::size")]`:
/// a number of bytes or a string; written as a string.
pub mod size {
    use super::*;

    /// Writes the size with its unit.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(bytes: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_size(*bytes))
    }

    /// Reads a number of bytes, or a string that [`parse_size`] takes.
    ///
    /// # Errors
    /// The deserializer's, with a [`UnitError`]'s message among them.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        from.deserialize_any(Value(&SIZE))
    }
}

/// [`size`] for an `Option<u64>`, together with `#[serde(default)]`.
pub mod size_option {
    use super::*;

    /// Writes the size with its unit, if there is one.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(bytes: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        bytes.map(format_size).serialize(to)
    }

    /// Reads a number of bytes, a string that [`parse_size`] takes, or none.
    ///
    /// # Errors
    /// The deserializer's, with a [`UnitError`]'s message among them.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        from.deserialize_option(Optional(&SIZE))
    }
}

/// Durations in configurations, for
/// `#[serde(with = "stasis_block::units::duration")]`: a number of ns or a
/// string; written as a string.
pub mod duration {
    use super::*;

    /// Writes the duration with its unit.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(duration: &Nanos, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_duration(*duration))
    }

    /// Reads a number of ns, or a string that [`parse_duration`] takes.
    ///
    /// # Errors
    /// The deserializer's, with a [`UnitError`]'s message among them.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
        from.deserialize_any(Value(&DURATION))
    }
}

/// [`duration`] for an `Option<Nanos>`, together with `#[serde(default)]`.
pub mod duration_option {
    use super::*;

    /// Writes the duration with its unit, if there is one.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(duration: &Option<Nanos>, to: S) -> Result<S::Ok, S::Error> {
        duration.map(format_duration).serialize(to)
    }

    /// Reads a number of ns, a string that [`parse_duration`] takes, or none.
    ///
    /// # Errors
    /// The deserializer's, with a [`UnitError`]'s message among them.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Nanos>, D::Error> {
        from.deserialize_option(Optional(&DURATION))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    #[test]
    fn words_and_their_values() {
        for (word, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4KiB", 4096),
            ("4K", 4096),
            ("1.5GiB", 3 << 29),
            (" 2 TiB ", 2 << 40),
            ("500GB", 500_000_000_000),
            ("0.5K", 512),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(word), Ok(bytes), "{word}");
        }
        for (word, duration) in [
            ("0", 0),
            ("100us", 100_000),
            ("100 \u{b5}s", 100_000),
            ("1.5ms", 1_500_000),
            ("0.25s", 250_000_000),
            ("2min", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("7ns", 7),
        ] {
            assert_eq!(parse_duration(word), Ok(duration), "{word}");
        }
    }

    #[test]
    fn an_unknown_unit_names_the_nearest() {
        for (word, right) in [
            ("1gib", "GiB"),
            ("1GIB", "GiB"),
            ("1Gb", "GB"),
            ("1mib", "MiB"),
            ("1byte", "B"),
            ("1b", "B"),
        ] {
            let message = parse_size(word).unwrap_err().to_string();
            assert!(message.ends_with(&format!("`{right}`?")), "{message}");
            assert!(message.contains(word), "{message}");
        }
        for (word, right) in [
            ("1sec", "s"),
            ("5msec", "ms"),
            ("5usec", "us"),
            ("1US", "us"),
            ("3hours", "h"),
            ("3mins", "min"),
        ] {
            let message = parse_duration(word).unwrap_err().to_string();
            assert!(message.ends_with(&format!("`{right}`?")), "{message}");
        }
    }

    #[test]
    fn words_that_are_none() {
        for word in ["", "GiB", "-1", ".5K", "1.2.3K", "1.K", "1e3"] {
            assert!(parse_size(word).is_err(), "{word}");
        }
        assert!(matches!(parse_size("0.3B"), Err(UnitError::Fraction { .. })));
        assert!(matches!(parse_size("18446744073709551616"), Err(UnitError::TooLarge { .. })));
        assert!(matches!(parse_size("16777216TiB"), Err(UnitError::TooLarge { .. })));
        assert!(matches!(parse_duration("0.1ns"), Err(UnitError::Fraction { .. })));
        assert!(matches!(parse_duration("5"), Err(UnitError::Missing { .. })));
    }

    #[test]
    fn values_are_written_in_the_unit_that_fits() {
        assert_eq!(format_size(0), "0B");
        assert_eq!(format_size(3 << 29), "1.5GiB");
        assert_eq!(format_size(500_107_862_016), "488386584KiB");
        assert_eq!(format_duration(0), "0ns");
        assert_eq!(format_duration(100_000), "100us");
        assert_eq!(format_duration(1_500_000), "1.5ms");
        assert_eq!(format_duration(1_234_567), "1234.567us");
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Config {
        #[serde(with = "size")]
        size: u64,
        #[serde(with = "duration")]
        delay: Nanos,
        #[serde(default, with = "size_option")]
        limit: Option<u64>,
        #[serde(default, with = "duration_option")]
        period: Option<Nanos>,
    }

    #[test]
    fn configurations_hold_numbers_or_words() {
        let read = |text: &str| serde_json::from_str::<Config>(text);
        let some = read(r#"{"size": 512, "delay": "5ms", "limit": "1K", "period": 9}"#).unwrap();
        let expected = Config { size: 512, delay: 5_000_000, limit: Some(1024), period: Some(9) };
        assert_eq!(some, expected);
        let none = read(r#"{"size": "1K", "delay": 7}"#).unwrap();
        assert_eq!(none, Config { size: 1024, delay: 7, limit: None, period: None });
        for config in [some, none] {
            let text = serde_json::to_string(&config).unwrap();
            assert_eq!(read(&text).unwrap(), config, "{text}");
        }
        let error = read(r#"{"size": -1, "delay": 7}"#).unwrap_err().to_string();
        assert!(error.contains("a size such as"), "{error}");
        let error = read(r#"{"size": 1, "delay": "7usec"}"#).unwrap_err().to_string();
        assert!(error.contains("did you mean `us`?"), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            prop_assert_eq!(parse_size(&format_size(value)), Ok(value));
            prop_assert_eq!(parse_duration(&format_duration(value)), Ok(value));
        }

        #[test]
        fn noise_never_panics(word in "[0-9.]{0,40}[a-zA-Zµ ]{0,6}") {
            let _ = (parse_size(&word), parse_duration(&word));
        }
    }
}
