//! fio's ways to write numbers, sizes, times and lists (fio's HOWTO, "Parameter
//! types").

use stasis_block::clock::{Nanos, MICROSECOND, MILLISECOND, SECOND};

/// A size: bytes, or a share of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// Percent of it.
    Percent(u8),
}

impl Size {
    /// Returns whether it is 0, which is the same as none.
    pub fn is_nothing(self) -> bool {
        matches!(self, Self::Bytes(0) | Self::Percent(0))
    }

    /// In bytes, of `whole`.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (u128::from(whole) * u128::from(percent) / 100) as u64,
        }
    }
}

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

    /// The choice for a number that is uniform in `0..100`. What is missing to 100 is the last
    /// one's.
    pub fn choose(&self, percent: u64) -> T {
        let place = self.parts.partition_point(|(sum, _)| *sum <= percent);
        self.parts[place.min(self.parts.len() - 1)].1
    }

    /// Like [`Self::choose`], but among the values that fit: the next one that does, in the order
    /// of the shares; or the last one, whether it fits or not.
    pub fn choose_fitting(&self, percent: u64, fits: impl Fn(T) -> bool) -> T {
        let place = self.parts.partition_point(|(sum, _)| *sum <= percent);
        let later = self.parts.get(place..).unwrap_or_default();
        let found = later.iter().find(|(_, value)| fits(*value));
        found.or(self.parts.last()).map_or_else(|| self.choose(percent), |(_, value)| *value)
    }

    /// Every choice.
    pub fn all(&self) -> impl Iterator<Item = T> + '_ {
        self.parts.iter().map(|(_, value)| *value)
    }
}

/// Meaning of `k` and `ki` (`kb_base`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Units {
    /// 1024 or 1000: the meaning of `k`. `kib` is the other one.
    pub base: u64,
}

/// A whole number as written, decimal or with `0x`.
pub fn digits(word: &str) -> Result<u64, String> {
    let parsed = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) if digits.starts_with('+') => Err(()),
        Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| ()),
        None if word.starts_with('+') => Err(()),
        None => word.parse().map_err(|_| ()),
    };
    parsed.map_err(|()| format!("`{word}` is no whole number"))
}

/// The number and the unit of a word, the latter in small letters.
fn split<'a>(word: &'a str, subject: &str) -> Result<(&'a str, String), String> {
    let word = word.trim();
    if word.starts_with('(') {
        return Err(format!(
            "`{word}`: fio has expressions in parentheses where it is built with them, which \
             Debian's is not; sim has not: write the number"
        ));
    }
    if let Some(name) = KEYWORDS.iter().find(|name| word.contains(*name)) {
        return Err(format!(
            "`{word}`: fio puts a figure of its host for {name}, sim has none: write the number"
        ));
    }
    let digit = |c: char| c.is_ascii_digit();
    let end = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(rest) => 2 + rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len()),
        None => word.find(|c| !digit(c)).unwrap_or(word.len()),
    };
    let (number, unit) = word.split_at(end);
    if unit.starts_with('.') {
        return Err(format!(
            "`{word}` is no whole number: fio takes what is before the point, without its unit"
        ));
    }
    if number.is_empty() {
        return Err(format!("`{word}` is no {subject}"));
    }
    Ok((number, unit.to_ascii_lowercase()))
}

/// Words that fio replaces by figures of its host.
const KEYWORDS: [&str; 3] = ["$pagesize", "$mb_memory", "$ncpus"];

fn times(word: &str, number: &str, factor: u64) -> Result<u64, String> {
    digits(number)?.checked_mul(factor).ok_or_else(|| format!("`{}` is too large", word.trim()))
}

/// Prefixes of bytes by powers.
const POWERS: [(char, u32); 5] = [('k', 1), ('m', 2), ('g', 3), ('t', 4), ('p', 5)];

/// A number, with a suffix of bytes or not: fio recognizes suffixes by their beginnings, so that
/// `ki` is `k` while `kib` is the other base's.
pub fn bytes(word: &str, units: Units) -> Result<u64, String> {
    let (number, unit) = split(word, "number of bytes")?;
    let power = unit.chars().next().and_then(|c| POWERS.iter().find(|(p, _)| *p == c));
    let factor = match (unit.get(1..).unwrap_or_default(), power) {
        ("", None) if unit.is_empty() || unit == "b" => 1,
        ("" | "b" | "i", Some((_, power))) => units.base.pow(*power),
        ("ib", Some((_, power))) => (if units.base == 1000 { 1024u64 } else { 1000 }).pow(*power),
        _ => {
            return Err(format!(
            "`{}`: unknown unit `{unit}`; there are b, k, m, g, t, p, and kib, mib, gib, tib, pib",
            word.trim()
        ))
        }
    };
    times(word, number, factor)
}

/// A size, or percents.
pub fn size(word: &str, units: Units) -> Result<Size, String> {
    let word = word.trim();
    if word.len() > 1 && word.ends_with('z') {
        return Err(format!("`{word}`: fio counts zones by z, sim has none: write bytes"));
    }
    match word.strip_suffix('%') {
        None => bytes(word, units).map(Size::Bytes),
        Some(percent) => match digits(percent) {
            Ok(percent @ 0..=100) => Ok(Size::Percent(percent as u8)),
            _ => Err(format!("`{word}` is no share from 0% to 100%")),
        },
    }
}

/// A time (ns); `bare` is the unit of a number without one.
pub fn time(word: &str, bare: Nanos) -> Result<Nanos, String> {
    let (number, unit) = split(word, "time")?;
    let factor = match unit.as_str() {
        "" => bare,
        "us" | "usec" => MICROSECOND,
        "ms" | "msec" => MILLISECOND,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        "d" => 86_400 * SECOND,
        _ => {
            return Err(format!(
                "`{}`: unknown unit `{unit}`; there are us, ms, s, m, h, d",
                word.trim()
            ))
        }
    };
    times(word, number, factor)
}

/// A flag that may stand alone.
pub fn flag(word: Option<&str>) -> Result<bool, String> {
    match word {
        None => Ok(true),
        Some(word) => Ok(digits(word.trim())? != 0),
    }
}

/// A flag that is 0 or 1.
pub fn boolean(word: &str) -> Result<bool, String> {
    match digits(word.trim())? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(format!("is {other}, but must be 0 or 1")),
    }
}

/// Up to three values for reads, writes and trims, with commas: a missing one is as the one before
/// it.
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
            // An empty place keeps its value: `bs=,8k` sets writes and trims.
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

/// `4k/60:64k/40`: block sizes with their shares (fio's options.c: `bssplit_ddir`). Those without
/// one, or with 0, share the rest; sizes without a share count for alignment.
pub fn bssplit(word: &str, units: Units) -> Result<Weighted<u64>, String> {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    // As in fio, an empty one ends the list.
    for part in word.split(':').take_while(|part| !part.is_empty()) {
        let (size, share) = match part.split_once('/') {
            Some((size, "")) => (size, 0),
            Some((size, share)) => (size, digits(share)?.min(100)),
            None => (part, 0),
        };
        let size = bytes(size, units)?;
        if size == 0 {
            return Err("a block size is 0".into());
        }
        parts.push((share, size));
    }
    let given: u64 = parts.iter().map(|part| part.0).sum();
    let open = parts.iter().filter(|part| part.0 == 0).count() as u64;
    match (parts.len(), 100u64.checked_sub(given)) {
        (0, _) => return Err("needs a size".into()),
        (_, None) if open > 0 => {
            return Err(format!("`{word}`: the shares make {given}, more than 100"))
        }
        (_, rest) => {
            let each = rest.unwrap_or(0) / open.max(1);
            parts.iter_mut().filter(|part| part.0 == 0).for_each(|part| part.0 = each);
        }
    }
    // In this order, what is above 100 is cut off, and what is missing is the last one's.
    parts.sort_by_key(|part| part.0);
    Ok(Weighted::new(parts.into_iter()))
}

/// `60/10:30/20:8/30:2/40`: percent of the I/Os over percent of the region.
/// Gives the zones as (first, last) in percent.
pub fn zones(word: &str) -> Result<Weighted<(u8, u8)>, String> {
    let wrong = |problem: &str| format!("`{word}`: {problem}");
    let mut parts = Vec::new();
    for part in word.split(':') {
        let (access, size) = part.split_once('/').ok_or(format!(
            "`{part}` is no zone: write the share of I/Os over the share of the region, such as \
             60/10"
        ))?;
        let size = Some(size).filter(|size| !size.is_empty()).map(digits).transpose()?;
        parts.push((digits(access)?, size));
    }
    // Zones without a size share the rest, as in fio.
    let given = parts.iter().filter_map(|part| part.1).fold(0u64, u64::saturating_add);
    let mut open = parts.iter().filter(|part| part.1.is_none()).count() as u64;
    let mut rest = 100u64.checked_sub(given).ok_or(wrong("the zones' sizes are above 100"))?;
    let mut at = 0;
    let mut placed = Vec::new();
    for (access, size) in parts {
        let size = size.unwrap_or_else(|| {
            let share = rest / open.max(1);
            (rest, open) = (rest - share, open - 1);
            share
        });
        if !(1..=100 - at).contains(&size) {
            return Err(wrong("the zones' sizes must be at least 1 and make 100"));
        }
        placed.push(((at as u8, (at + size) as u8), Some(access)));
        at += size;
    }
    if at != 100 {
        return Err(wrong(&format!("the zones' sizes make {at}, but must make 100")));
    }
    weighted(placed, word)
}

/// `60/10g:40/20g`: percent of the I/Os over bytes. Gives the zones as (first, last) byte.
pub fn absolute_zones(word: &str, units: Units) -> Result<Weighted<(u64, u64)>, String> {
    let mut parts = Vec::new();
    let mut at: u64 = 0;
    for part in word.split(':') {
        let (access, size) = part.split_once('/').ok_or(format!(
            "`{part}` is no zone: write the share of I/Os over a size, such as 60/10g"
        ))?;
        let end = at.checked_add(bytes(size, units)?).filter(|end| *end > at);
        let end = end.ok_or(format!("`{word}`: a zone's size is 0 or too large"))?;
        parts.push(((at, end), Some(digits(access)?)));
        at = end;
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
    let mut unshared = open;
    let mut shared = rest;
    let filled = parts.into_iter().map(|(value, share)| match share {
        Some(share) => (share, value),
        None => {
            let part = shared / unshared.max(1);
            shared -= part;
            unshared -= 1;
            (part, value)
        }
    });
    Ok(Weighted::new(filled.filter(|(share, _)| *share > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIBI: Units = Units { base: 1024 };
    const KILO: Units = Units { base: 1000 };

    #[test]
    fn sizes_and_times_are_fios() {
        // As fio 3.33 reads them: a unit is known by its beginning.
        for (word, units, expected) in [
            ("4k", KIBI, 4096),
            ("4kB", KIBI, 4096),
            ("4ki", KIBI, 4096),
            ("400Mi", KIBI, 400 << 20),
            ("1KiB", KIBI, 1000),
            ("1KiB", KILO, 1024),
            ("1k", KILO, 1000),
            ("8MiB", KILO, 8 << 20),
            ("0x200", KIBI, 512),
            ("0x2k", KIBI, 2048),
            ("7", KIBI, 7),
        ] {
            assert_eq!(bytes(word, units), Ok(expected), "{word}");
        }
        assert_eq!(size("25%", KIBI).unwrap().of(1 << 20), 1 << 18);
        assert_eq!(time("10", SECOND), Ok(10 * SECOND));
        assert_eq!(time("10", MICROSECOND), Ok(10 * MICROSECOND));
        assert_eq!((time("2m", SECOND), time("5ms", SECOND)), (Ok(120 * SECOND), Ok(5_000_000)));
        for word in ["", "k", "4q", "-1", "1.", ".5", "1.5m", "(2*4k)", "99999999999t", "$ncpus"] {
            assert!(bytes(word, KIBI).is_err(), "{word}");
        }
        assert!(size("101%", KIBI).is_err() && size("2z", KIBI).is_err());
    }

    #[test]
    fn lists_fill_from_the_left() {
        let each = |word| each(word, ',', |word| bytes(word, KIBI), [1, 2, 3]);
        assert_eq!(each("4k"), Ok([4096; 3]));
        assert_eq!(each("4k,8k"), Ok([4096, 8192, 8192]));
        assert_eq!(each(",8k"), Ok([1, 8192, 8192]));
        assert_eq!(each("4k,,5"), Ok([4096, 2, 5]));
        assert!(each("1,2,3,4").is_err());
    }

    #[test]
    fn shares_make_a_hundred() {
        let split = bssplit("4k/10:64k/50:32k", KIBI).unwrap();
        let count = |size| (0..100).filter(|&percent| split.choose(percent) == size).count();
        assert_eq!((count(4096), count(65536), count(32768)), (10, 50, 40));
        assert_eq!(bssplit("4k", KIBI).unwrap().only(), Some(4096));
        // As fio takes what does not make 100: the rest is that of the largest share.
        let count = |word, size| {
            let split = bssplit(word, KIBI).unwrap();
            (0..100).filter(|&percent| split.choose(percent) == size).count()
        };
        assert_eq!((count("4k/60:8k/30:", 4096), count("4k/60:8k/30", 8192)), (70, 30));
        assert_eq!((count("4k/80:8k/50", 4096), count("4k/80:8k/50", 8192)), (50, 50));
        assert_eq!((count("4k/0:8k/40", 4096), count("4k/0:8k/100", 4096)), (60, 0));
        assert_eq!(bssplit("4k/0:8k/100", KIBI).unwrap().all().min(), Some(4096));
        for word in ["4k/120:8k/50:16k", "0/100", "4k/x", "", ":4k"] {
            assert!(bssplit(word, KIBI).is_err(), "{word}");
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
            let _ = (bytes(&word, KIBI), size(&word, KILO), time(&word, 1), flag(Some(&word)));
            let _ = (bssplit(&word, KIBI), zones(&word), absolute_zones(&word, KIBI));
            let _ = each(&word, ',', |word| bytes(word, KIBI), [0; 3]);
        }
    }
}
