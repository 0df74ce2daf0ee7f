//! Sizes and durations as people write them: `1GiB`, `100us`, `1.5ms`.
//!
//! Sizes are in bytes, durations in ns. Decimal and binary prefixes are those
//! of IEC 80000-13; the single letters `K`, `M`, `G` and `T` are binary, as in
//! `truncate -s`. Numbers are read exactly, without floating point: the text of [`format_size`] and
//! [`format_duration`] reads back as the same value.

mod config;
#[cfg(test)]
mod tests;

use crate::clock::Nanos;

pub use config::{duration, duration_option, size, size_option};

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

/// Limit on the number of parts into which a written unit is divided, unless a duration is a power
/// of ten of ns: all of those are allowed.
const DECIMALS: u128 = 1_000;
const SECOND: u64 = 1_000_000_000;

/// Decimals that are read at most: more than any that is written.
const FRACTION_DIGITS: usize = 18;

/// A word that is no size or no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The word does not begin with a number.
    #[error("`{word}` is no {kind}: write a number and a unit, such as `{example}`")]
    Number {
        /// The text as written.
        word: String,
        /// Expected quantity: `size` or `duration`.
        kind: &'static str,
        /// A right one.
        example: &'static str,
    },
    /// The unit is unknown.
    #[error("`{word}`: unknown unit `{unit}` of a {kind}; did you mean `{nearest}`?")]
    Unknown {
        /// The text as written.
        word: String,
        /// Its unit.
        unit: String,
        /// Expected quantity: `size` or `duration`.
        kind: &'static str,
        /// The valid unit nearest to the written one.
        nearest: &'static str,
    },
    /// A duration without its unit.
    #[error("`{word}`: a {kind} needs a unit, such as `{word}us` or `{word}ms`")]
    Missing {
        /// The text as written.
        word: String,
        /// Expected quantity: `duration`.
        kind: &'static str,
    },
    /// The value is not a whole number of the smallest unit.
    #[error("`{word}` is not a whole number of {smallest}")]
    Fraction {
        /// The text as written.
        word: String,
        /// `bytes` or `ns`.
        smallest: &'static str,
    },
    /// The value does not fit 64 bits.
    #[error("`{word}` is too large for a {kind}: the largest is {largest}")]
    TooLarge {
        /// The text as written.
        word: String,
        /// Expected quantity: `size` or `duration`.
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
    // True if a bare number counts the smallest unit.
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

/// Reads a seed.
///
/// # Errors
/// A sentence with the word and the allowed form.
pub fn parse_seed(word: &str) -> Result<u64, String> {
    word.parse()
        .map_err(|_| format!("`{word}` is no seed, which is a whole number from 0 to {}", u64::MAX))
}

/// Writes a size in the largest unit that holds it exactly.
pub fn format_size(bytes: u64) -> String {
    format(bytes, &SIZES[..SIZES_WRITTEN], |_| DECIMALS)
}

/// Refuses a span of virtual time that ends before it has begun; without a beginning it begins at
/// once, without an end it lasts.
///
/// # Errors
/// Names both times.
pub fn check_span(begin: Option<Nanos>, end: Option<Nanos>) -> Result<(), String> {
    match (begin.unwrap_or(0), end) {
        (begin, Some(end)) if end <= begin => {
            let [begin, end] = [begin, end].map(format_duration);
            Err(format!("it ends at {end}, but begins at {begin}"))
        }
        _ => Ok(()),
    }
}

/// Writes a duration in the largest unit that it has one of: `437.907614ms`. In minutes and hours
/// only with few decimals, as 60 divides few numbers.
pub fn format_duration(duration: Nanos) -> String {
    format(duration, &DURATIONS[..DURATIONS_WRITTEN], |factor| {
        if factor > SECOND {
            DECIMALS
        } else {
            u128::from(factor)
        }
    })
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

    // Trailing zeroes have no effect; the limit keeps the product below 2^128.
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > FRACTION_DIGITS {
        return Err(not_whole());
    }
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let scale = 10u128.pow(fraction.len() as u32);
    let part: u128 =
        if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| too_large())? };
    let part = part * u128::from(factor);
    if !part.is_multiple_of(scale) {
        return Err(not_whole());
    }
    let value = u128::from(whole) * u128::from(factor) + part / scale;
    u64::try_from(value).map_err(|_| too_large())
}

/// `parts`: into how many parts, a power of ten, a unit of that length is divided at most.
fn format(value: u64, units: &[(&'static str, u64)], parts: impl Fn(u64) -> u128) -> String {
    for &(unit, factor) in units {
        let parts = parts(factor);
        let scaled = u128::from(value) * parts;
        if value >= factor && scaled.is_multiple_of(u128::from(factor)) {
            let scaled = scaled / u128::from(factor);
            let (whole, part) = (scaled / parts, scaled % parts);
            let digits = parts.ilog10() as usize;
            let fraction = if part == 0 { String::new() } else { format!(".{part:0digits$}") };
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
        let begins = name.to_lowercase().starts_with(&lower);
        (long_name(&lower) != Some(name), !begins, folded, strsim::levenshtein(unit, name))
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
