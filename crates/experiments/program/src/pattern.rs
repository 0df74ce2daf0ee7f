//! Workloads in a word, in the publication's terms: `1r-seq`, `5r-rand`,
//! `2r2w-seq`, and `none`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Readers and writers, each with a separate file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    /// Number of readers.
    pub readers: u32,
    /// Number of writers.
    pub writers: u32,
    /// True if readers and writers access random places.
    pub random: bool,
}

/// Maximum number of readers, and of writers: each has a part of the disk.
const MAX_WORKERS: u32 = 5;
const NONE: &str = "none";

impl Pattern {
    /// Nobody.
    pub const NONE: Self = Self { readers: 0, writers: 0, random: false };

    /// A pattern of `readers` readers.
    pub const fn readers(readers: u32, random: bool) -> Self {
        Self { readers, writers: 0, random }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NONE {
            return f.pad(NONE);
        }
        let mut word = String::new();
        for (count, letter) in [(self.readers, 'r'), (self.writers, 'w')] {
            if count > 0 {
                word.push_str(&format!("{count}{letter}"));
            }
        }
        f.pad(&format!("{word}-{}", if self.random { "rand" } else { "seq" }))
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if word == NONE {
            return Ok(Self::NONE);
        }
        let wrong =
            || format!("`{word}` is no workload: none, or such as 1r-seq, 5r-rand, 2r2w-seq");
        let (counts, kind) = word.split_once('-').ok_or_else(wrong)?;
        let random = match kind {
            "seq" => false,
            "rand" => true,
            _ => return Err(wrong()),
        };
        let (readers, rest) = count(counts, 'r');
        let (writers, rest) = count(rest, 'w');
        if !rest.is_empty() || readers + writers == 0 {
            return Err(wrong());
        }
        if readers > MAX_WORKERS || writers > MAX_WORKERS {
            return Err(format!(
                "`{word}`: at most {MAX_WORKERS} readers and {MAX_WORKERS} writers"
            ));
        }
        Ok(Self { readers, writers, random })
    }
}

/// The number before `letter`, and the rest of the text; 0 if there is none.
fn count(text: &str, letter: char) -> (u32, &str) {
    let parsed = text.split_once(letter).and_then(|(number, rest)| {
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        Some((number.parse().ok().filter(|_| digits)?, rest))
    });
    parsed.unwrap_or((0, text))
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written_the_same() {
        for word in ["none", "1r-seq", "5r-rand", "2r2w-seq", "3w-rand"] {
            assert_eq!(word.parse::<Pattern>().unwrap().to_string(), word);
        }
        assert_eq!("2r2w-seq".parse(), Ok(Pattern { readers: 2, writers: 2, random: false }));
        for word in ["", "1r", "r-seq", "1x-seq", "0r-seq", "1r-sequ", "1w1r-seq", "+1r-seq"] {
            assert!(word.parse::<Pattern>().unwrap_err().contains("2r2w-seq"), "{word}");
        }
        assert!("6r-seq".parse::<Pattern>().unwrap_err().contains("at most 5"));
    }
}
