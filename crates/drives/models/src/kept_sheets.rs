//! The sheets of the named models, kept: driving all of them takes seconds.
//!
//! A line of `kept_sheets.txt` has a model's name, the digest of its parameters, and its figures. A model
//! with other parameters is driven anew; `tests/kept_sheets.rs` drives them all, so that other code of the
//! models cannot have the same lines.

use crate::sheet::{Figures, Sheet};
use crate::spec::{BuildError, ModelSpec};

const KEPT: &str = include_str!("kept_sheets.txt");

/// The kept sheet of a model with these parameters.
pub(crate) fn find(spec: &ModelSpec) -> Option<Sheet> {
    let digest = format!("{:016x}", digest(spec)?);
    let of_spec = |line: &&str| line.split_whitespace().nth(1) == Some(&digest);
    read(KEPT.lines().find(of_spec)?)
}

impl Sheet {
    /// Returns the kept sheet of a named model with the same parameters; else measures it.
    ///
    /// # Errors
    /// [`BuildError`] if it cannot be built.
    pub fn of(spec: &ModelSpec) -> Result<Self, BuildError> {
        find(spec).map_or_else(|| Self::measure(spec), Ok)
    }
}

/// The line of a model in `kept_sheets.txt`.
pub fn line(name: &str, spec: &ModelSpec, sheet: &Sheet) -> String {
    let figure = |figure: Option<u64>| figure.map_or("-".to_owned(), |figure| figure.to_string());
    let figures = [sheet.read, sheet.write].map(|Figures { latency, iops, bandwidth }| {
        format!("{latency} {} {}", figure(iops), figure(bandwidth))
    });
    format!("{name} {:016x} {}", digest(spec).unwrap_or_default(), figures.join(" "))
}

fn read(line: &str) -> Option<Sheet> {
    let mut words = line.split_whitespace().skip(2);
    let mut figures = || {
        let mut figure = || match words.next()? {
            "-" => Some(None),
            number => number.parse().ok().map(Some),
        };
        Some(Figures { latency: figure()??, iops: figure()?, bandwidth: figure()? })
    };
    Some(Sheet { read: figures()?, write: figures()? })
}

/// FNV-1a, 64 bits, of the model's JSON.
fn digest(spec: &ModelSpec) -> Option<u64> {
    let json = serde_json::to_vec(spec).ok()?;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    Some(json.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NAMED;

    #[test]
    fn every_named_model_has_a_line_and_others_have_none() {
        for named in NAMED {
            let sheet = find(&named.spec()).unwrap_or_else(|| panic!("{} has none", named.name));
            assert!(named.name == "null" || sheet.read.latency > 1_000, "{}", named.name);
            let kept = KEPT.lines().find(|kept| kept.starts_with(&format!("{} ", named.name)));
            assert_eq!(kept, Some(&*line(named.name, &named.spec(), &sheet)));
        }
        assert_eq!(KEPT.lines().count(), NAMED.len());
        assert_eq!(find(&ModelSpec::parse("fixed:100us").unwrap()), None);
    }
}
