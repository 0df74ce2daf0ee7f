//! fio's ways to write numbers, sizes, times and lists (fio's HOWTO, "Parameter
//! types").

use stasis_clock::{Nanos, MICROSECOND, MILLISECOND, SECOND};

/// A size: bytes, or a share of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// Percent of the drive.
    Percent(u8),
}

impl Size {
    /// In bytes, of a drive of `capacity`; a share is rounded down to whole
    /// blocks.
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => {
                let bytes = (u128::from(capacity) * u128::from(percent) / 100) as u64;
                bytes - bytes % BLOCK
            }
        }
    }
}

/// The largest logical block of a drive (bytes).
const BLOCK: u64 = 4096;

/// Values for reads, writes and trims.
pub type Each<T> = [T; 3];

/// One of a choice with weights in percent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weighted<T> {
    /// The choices with the sums of the weights up to and including each.
    parts: Vec<(u64, T)>,
}

impl<T: Copy> Weighted<T> {
    /// Always the same.
    pub fn always(value: T) -> Self {
        Self { parts: vec![(100, value)] }
    }

    /// From weights that make 100.
    fn new(parts: impl Iterator<Item = (u64, T)>) -> Self {
        let mut sum = 0;
        let parts = parts.map(|(weight, value)| {
            sum += weight;
            (sum, value)
        });
        Self { parts: parts.collect() }
    }

    /// The only choice, if there is but one.
    pub fn only(&self) -> Option<T> {
        match self.parts.as_slice() {
            [(_, value)] => Some(*value),
            _ => None,
        }
    }

    /// The choice for a number that is uniform in `0..100`.
    pub fn choose(&self, percent: u64) -> T {
        let place = self.parts.partition_point(|(sum, _)| *sum <= percent);
        self.parts[place.min(self.parts.len() - 1)].1
    }

    /// Every choice.
    pub fn all(&self) -> impl Iterator<Item = T> + '_ {
        self.parts.iter().map(|(_, value)| *value)
    }
}

/// A whole number, decimal or with `0x`.
pub fn number(word: &str) -> Result<u64, String> {
    let word = word.trim();
    let parsed = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    parsed.map_err(|_| format!("`{word}` is no whole number"))
}

/// A number with a suffix that multiplies it.
fn suffixed(word: &str, what: &str, units: &[(&str, u64)], bare: u64) -> Result<u64, String> {
    let word = word.trim();
    let hexadecimal = word.starts_with("0x") || word.starts_with("0X");
    let end = match hexadecimal {
        true => word.len(),
        false => word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len()),
    };
    let (digits, unit) = word.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let factor = match units.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => *factor,
        None if unit.is_empty() => bare,
        None => {
            let known: Vec<_> = units.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "`{word}` is no {what}: unknown unit `{unit}`; there are {}",
                known.join(", ")
            ));
        }
    };
    let wrong = || format!("`{word}` is no {what}");
    if let Some((whole, fraction)) = digits.split_once('.') {
        let digits = fraction.len() as u32;
        if whole.is_empty() || fraction.is_empty() || digits > 9 {
            return Err(wrong());
        }
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        let part: u64 = fraction.parse().map_err(|_| wrong())?;
        let part = u128::from(part) * u128::from(factor) / 10u128.pow(digits);
        let sum = u128::from(whole) * u128::from(factor) + part;
        return u64::try_from(sum).map_err(|_| format!("`{word}` is too large"));
    }
    number(digits).map_err(|_| wrong())?.checked_mul(factor).ok_or(format!("`{word}` is too large"))
}

/// Suffixes of sizes, with `kb_base=1024` as it is unless said otherwise: `k`
/// is 1024 and `ki` is 1000, the reverse of IEC 80000-13 (fio's HOWTO, "kb_base").
const SIZES: &[(&str, u64)] = &[
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
    ("t", 1 << 40),
    ("tb", 1 << 40),
    ("p", 1 << 50),
    ("pb", 1 << 50),
    ("ki", 1_000),
    ("kib", 1_000),
    ("mi", 1_000_000),
    ("mib", 1_000_000),
    ("gi", 1_000_000_000),
    ("gib", 1_000_000_000),
    ("ti", 1_000_000_000_000),
    ("tib", 1_000_000_000_000),
];

/// A number of bytes.
pub fn bytes(word: &str) -> Result<u64, String> {
    suffixed(word, "size", SIZES, 1)
}

/// A size, or percents of the drive.
pub fn size(word: &str) -> Result<Size, String> {
    match word.trim().strip_suffix('%') {
        None => bytes(word).map(Size::Bytes),
        Some(percent) => match number(percent) {
            Ok(percent @ 0..=100) => Ok(Size::Percent(percent as u8)),
            _ => Err(format!("`{word}` is no share from 0% to 100%")),
        },
    }
}

/// A time (ns); `bare` is what a number without a unit counts.
pub fn time(word: &str, bare: Nanos) -> Result<Nanos, String> {
    let units = &[
        ("us", MICROSECOND),
        ("usec", MICROSECOND),
        ("ms", MILLISECOND),
        ("msec", MILLISECOND),
        ("s", SECOND),
        ("m", 60 * SECOND),
        ("h", 3_600 * SECOND),
        ("d", 86_400 * SECOND),
    ];
    suffixed(word, "time", units, bare)
}

/// A flag: `1`, `0`, or the key alone.
pub fn flag(word: &str) -> Result<bool, String> {
    match word.trim() {
        "" => Ok(true),
        word => Ok(number(word)? != 0),
    }
}

/// Up to three values for reads, writes and trims, with commas: what is
/// missing is as the one before it.
pub fn each<T: Copy>(
    word: &str,
    separator: char,
    mut read: impl FnMut(&str) -> Result<T, String>,
    before: Each<T>,
) -> Result<Each<T>, String> {
    let mut values = before;
    let parts: Vec<_> = word.split(separator).collect();
    if parts.len() > 3 {
        return Err(format!("`{word}` has more than three values: reads, writes, trims"));
    }
    let mut last = None;
    for (index, value) in values.iter_mut().enumerate() {
        match parts.get(index).map(|part| part.trim()) {
            // An empty place keeps what was: `bs=,8k` sets writes and trims.
            Some("") => {}
            Some(part) => {
                last = Some(read(part)?);
                *value = last.unwrap_or(*value);
            }
            None => *value = last.unwrap_or(*value),
        }
    }
    Ok(values)
}

/// `4k/60:64k/40`: block sizes with their shares; those without one share
/// what is left.
pub fn bssplit(word: &str) -> Result<Weighted<u64>, String> {
    let mut parts = Vec::new();
    for part in word.split(':') {
        let (size, share) = match part.split_once('/') {
            Some((size, "")) => (size, None),
            Some((size, share)) => (size, Some(number(share)?)),
            None => (part, None),
        };
        let size = bytes(size)?;
        if size == 0 {
            return Err("a block size is 0".into());
        }
        parts.push((size, share));
    }
    weighted(parts, word)
}

/// `60/10:30/20:8/30:2/40`: percent of the I/Os over percent of the region.
/// Gives the zones as (first, last) in percent.
pub fn zones(word: &str) -> Result<Weighted<(u8, u8)>, String> {
    let mut parts = Vec::new();
    let mut at = 0;
    for part in word.split(':') {
        let (access, size) = part.split_once('/').ok_or(format!(
            "`{part}` is no zone: write the share of I/Os over the share of the region, such as \
             60/10"
        ))?;
        let size = number(size)?;
        if !(1..=100 - at).contains(&size) {
            return Err(format!("`{word}`: the zones' sizes must be at least 1 and make 100"));
        }
        parts.push(((at as u8, (at + size) as u8), Some(number(access)?)));
        at += size;
    }
    if at != 100 {
        return Err(format!("`{word}`: the zones' sizes make {at}, but must make 100"));
    }
    weighted(parts, word)
}

fn weighted<T: Copy>(parts: Vec<(T, Option<u64>)>, word: &str) -> Result<Weighted<T>, String> {
    let given: u64 = parts.iter().filter_map(|part| part.1).fold(0, u64::saturating_add);
    let open = parts.iter().filter(|part| part.1.is_none()).count() as u64;
    let rest = 100u64.checked_sub(given).filter(|rest| open > 0 || *rest == 0);
    let Some(rest) = rest else {
        return Err(format!("`{word}`: the shares make {given}, but must make 100"));
    };
    let mut left = open;
    let mut shared = rest;
    let filled = parts.into_iter().map(|(value, share)| match share {
        Some(share) => (share, value),
        None => {
            let part = shared / left.max(1);
            shared -= part;
            left -= 1;
            (part, value)
        }
    });
    Ok(Weighted::new(filled.filter(|(share, _)| *share > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_and_times_are_fios() {
        for (word, expected) in [
            ("4k", 4096),
            ("4kB", 4096),
            ("1Ki", 1000),
            ("0x200", 512),
            ("1.5m", 1_572_864),
            ("7", 7),
        ] {
            assert_eq!(bytes(word), Ok(expected), "{word}");
        }
        assert_eq!(size("25%").unwrap().of(1 << 20), 1 << 18);
        assert_eq!(time("10", SECOND), Ok(10 * SECOND));
        assert_eq!(time("10", MICROSECOND), Ok(10 * MICROSECOND));
        assert_eq!((time("2m", SECOND), time("5ms", SECOND)), (Ok(120 * SECOND), Ok(5_000_000)));
        for word in ["", "k", "4q", "-1", "1.", ".5", "99999999999t"] {
            assert!(bytes(word).is_err(), "{word}");
        }
        assert!(size("101%").is_err());
    }

    #[test]
    fn lists_fill_from_the_left() {
        let each = |word| each(word, ',', bytes, [1, 2, 3]);
        assert_eq!(each("4k"), Ok([4096; 3]));
        assert_eq!(each("4k,8k"), Ok([4096, 8192, 8192]));
        assert_eq!(each(",8k"), Ok([1, 8192, 8192]));
        assert_eq!(each("4k,,5"), Ok([4096, 2, 5]));
        assert!(each("1,2,3,4").is_err());
    }

    #[test]
    fn shares_make_a_hundred() {
        let split = bssplit("4k/10:64k/50:32k").unwrap();
        let count = |size| (0..100).filter(|&percent| split.choose(percent) == size).count();
        assert_eq!((count(4096), count(65536), count(32768)), (10, 50, 40));
        assert_eq!(bssplit("4k").unwrap().only(), Some(4096));
        for word in ["4k/60:8k/50", "4k/60:8k/30", "0/100", "4k/x", ""] {
            assert!(bssplit(word).is_err(), "{word}");
        }
        let zones = zones("60/10:30/20:8/30:2/40").unwrap();
        assert_eq!(
            (zones.choose(59), zones.choose(60), zones.choose(99)),
            ((0, 10), (10, 30), (60, 100))
        );
    }

    proptest! {
        #[test]
        fn no_word_panics(word in ".{0,20}") {
            let _ = (bytes(&word), size(&word), time(&word, 1), flag(&word));
            let _ = (bssplit(&word), zones(&word), each(&word, ',', bytes, [0; 3]));
        }
    }
}
