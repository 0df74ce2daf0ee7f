//! Seeds of a command line.

use std::str::FromStr;

use stasis_block::units;

/// Simulations of one command. More are a slip of the keyboard.
pub const MAX_POINTS: usize = 100_000;

/// Seeds as the command line has them: `7`, or `1,2,10-19`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(words: &str) -> Result<Self, String> {
        if words.starts_with('-') {
            units::parse_seed(words)?;
        }
        let number = units::parse_seed;
        let mut seeds = Vec::new();
        for word in words.split(',') {
            let (first, last) = match word.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(word)?, number(word)?),
            };
            if last < first {
                return Err(format!("`{word}` ends before it begins"));
            }
            if last - first >= MAX_POINTS as u64 || seeds.len() >= MAX_POINTS {
                return Err(format!("more than {MAX_POINTS} seeds"));
            }
            seeds.extend(first..=last);
        }
        Ok(Self(seeds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_numbers_and_ranges() {
        let seeds = |words: &str| words.parse::<Seeds>().map(|seeds| seeds.0);
        assert_eq!(seeds("7"), Ok(vec![7]));
        assert_eq!(seeds("1,10-12,3"), Ok(vec![1, 10, 11, 12, 3]));
        for (words, expected) in [
            ("", "no seed"),
            ("1,", "no seed"),
            ("-1", "no seed"),
            ("9-1", "ends before it begins"),
            ("0-18446744073709551615", "more than"),
        ] {
            assert!(seeds(words).is_err_and(|error| error.contains(expected)), "{words}");
        }
    }
}
