//! Figures as people read them. All functions give the same text for the same
//! number, on every machine.

use stasis_block::units::format_duration;
use stasis_block::Operation;

/// A unit of time with its length in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Nanoseconds.
    Nanosecond,
    /// Microseconds.
    Microsecond,
    /// Milliseconds.
    Millisecond,
    /// Seconds.
    Second,
}

impl TimeUnit {
    /// The largest unit in which `ns` is at least 1.
    pub fn of(ns: f64) -> Self {
        match ns.abs() {
            ns if ns >= 1e9 => Self::Second,
            ns if ns >= 1e6 => Self::Millisecond,
            ns if ns >= 1e3 => Self::Microsecond,
            _ => Self::Nanosecond,
        }
    }

    /// Returns the unit's length (ns).
    pub fn ns(self) -> f64 {
        match self {
            Self::Nanosecond => 1.0,
            Self::Microsecond => 1e3,
            Self::Millisecond => 1e6,
            Self::Second => 1e9,
        }
    }

    /// Returns the unit's symbol.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Nanosecond => "ns",
            Self::Microsecond => "µs",
            Self::Millisecond => "ms",
            Self::Second => "s",
        }
    }
}

/// A time of `ns` with five significant digits at most: `100.02 µs`.
pub fn duration(ns: f64) -> String {
    let unit = TimeUnit::of(ns);
    format!("{} {}", significant(ns / unit.ns(), 5), unit.symbol())
}

/// A time of `ns` as in experiments, with four significant digits, for a message: `437.9ms`.
pub fn rounded(ns: u64) -> String {
    let step = 10u64.saturating_pow(ns.checked_ilog10().unwrap_or(0).saturating_sub(3));
    let rounded = (ns / step + u64::from(ns % step >= step.div_ceil(2))).checked_mul(step);
    format_duration(rounded.unwrap_or(ns))
}

/// A time of `ns` with two significant digits at most: `100 µs`.
pub fn short(ns: f64) -> String {
    let unit = TimeUnit::of(ns);
    format!("{} {}", significant(ns / unit.ns(), 2), unit.symbol())
}

/// A number with at most `digits` significant ones, without trailing zeros, its
/// whole part never shortened.
pub fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let whole = if value.abs() < 1.0 { 0 } else { value.abs().log10().floor() as usize + 1 };
    // Below 1, zeros after the point do not count.
    let leading = if value != 0.0 && value.abs() < 1.0 {
        ((-value.abs().log10()).floor() as usize).min(12)
    } else {
        0
    };
    decimals(value, digits.saturating_sub(whole) + leading)
}

/// A number with at most `places` after the point, without trailing zeros, and
/// with commas between thousands.
pub fn decimals(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    let mut out = group(whole);
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    if out == "-0" {
        out.remove(0);
    }
    out
}

/// A number with exactly `places` after the point and commas between thousands.
pub fn fixed(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    match text.split_once('.') {
        Some((whole, fraction)) => format!("{}.{fraction}", group(whole)),
        None => group(&text),
    }
}

/// A count, with commas between thousands.
pub fn count(value: u64) -> String {
    group(&value.to_string())
}

/// Operations in words: `reads`, `flushes`.
pub fn operations(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "reads",
        Operation::Write => "writes",
        Operation::Flush => "flushes",
        Operation::Discard => "discards",
        Operation::WriteZeroes => "writes of zeroes",
        Operation::Copy => "copies",
        Operation::Verify => "verifies",
        Operation::Barrier => "barriers",
    }
}

/// An amount of bytes in binary units: `40 MiB`.
pub fn bytes(value: u64) -> String {
    let (scale, unit) = bytes_unit(value as f64);
    format!("{} {unit}", significant(value as f64 / scale, 4))
}

/// Returns the largest binary unit in which `value` bytes are at least 1, with its length.
pub fn bytes_unit(value: f64) -> (f64, &'static str) {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut scale, mut unit) = (1.0, 0);
    while value.abs() / scale >= 1024.0 && unit + 1 < UNITS.len() {
        scale *= 1024.0;
        unit += 1;
    }
    (scale, UNITS[unit])
}

/// Bytes a second, in decimal units as drives are sold: `92.2 MB/s`.
pub fn bandwidth(value: f64) -> String {
    let (scale, unit) = bandwidth_unit(value);
    format!("{} {unit}", significant(value / scale, 4))
}

/// Bytes a second of an operation; `–` where these have no meaning.
pub fn bandwidth_of(operation: Operation, value: f64) -> String {
    match operation.has_bandwidth() {
        true => bandwidth(value),
        false => "–".to_owned(),
    }
}

/// Returns the largest unit in which `value` bytes a second are at least 1, with its length.
pub fn bandwidth_unit(value: f64) -> (f64, &'static str) {
    match value.abs() {
        value if value >= 1e9 => (1e9, "GB/s"),
        value if value >= 1e6 => (1e6, "MB/s"),
        value if value >= 1e3 => (1e3, "kB/s"),
        _ => (1.0, "B/s"),
    }
}

/// Formats a deviation in percent with its sign; `–` where there is none.
pub fn deviation(percent: Option<f64>) -> String {
    match percent {
        None => "–".to_owned(),
        Some(0.0) => "0 %".to_owned(),
        Some(percent) => {
            let sign = if percent < 0.0 { "−" } else { "+" };
            match percent.abs() {
                size if size < 0.01 => "<0.01 %".to_owned(),
                // Nobody reads four digits of percent.
                size if size >= 1000.0 && percent > 0.0 => {
                    format!("{} times", significant(1.0 + percent / 100.0, 4))
                }
                size => format!("{sign}{} %", fixed(size, 2)),
            }
        }
    }
}

/// Commas between thousands of a whole number, with or without a sign.
fn group(whole: &str) -> String {
    let (sign, digits) = match whole.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", whole),
    };
    let mut out = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(duration(0.0), "0 ns");
        assert_eq!(duration(999.0), "999 ns");
        assert_eq!(duration(100_000.0), "100 µs");
        assert_eq!(duration(100_023.0), "100.02 µs");
        assert_eq!(duration(5.25e6), "5.25 ms");
        assert_eq!(duration(12_345.678e9), "12,346 s");
        assert_eq!(significant(0.012345, 3), "0.0123");
        assert_eq!(significant(123_456.7, 3), "123,457");
        assert_eq!(decimals(-0.0001, 2), "0");
        assert_eq!(fixed(-1234.5, 3), "-1,234.500");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(999), "999");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(4096), "4 KiB");
        assert_eq!(bytes(u64::MAX), "16 EiB");
        assert_eq!(bandwidth(92_235_854.96), "92.24 MB/s");
        let rates = Operation::ALL.map(|operation| bandwidth_of(operation, 1e9));
        assert_eq!(rates, ["1 GB/s", "1 GB/s", "–", "–", "1 GB/s", "1 GB/s", "–", "–"]);
        assert_eq!(bandwidth(7e9), "7 GB/s");
        assert_eq!(bandwidth(0.0), "0 B/s");
        assert_eq!(deviation(Some(0.0)), "0 %");
        assert_eq!(deviation(Some(-0.0004)), "<0.01 %");
        assert_eq!(deviation(Some(2.346)), "+2.35 %");
        assert_eq!(deviation(None), "–");
    }
}
