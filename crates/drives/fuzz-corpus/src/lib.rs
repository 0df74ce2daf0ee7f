//! Inputs of fuzz targets, for tests on the stable toolchain.
//!
//! Each target in `crates/*/*/fuzz` keeps its corpus beside it: few inputs, which together reach
//! all the code that fuzzing guided by coverage has found a way to (`scripts/fuzz` adds to it).
//! A test runs each of them ([`corpus`]), then inputs that differ from them a little, and
//! arbitrary ones ([`inputs`]), so that a test of some seconds begins where hours have ended.

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

/// Number of inputs that a test tries: `usual`, or as many as `make fuzz` asks for in
/// `STASIS_FUZZ_CASES`.
///
/// # Panics
/// If that is not a number.
pub fn cases(usual: u32) -> u32 {
    let asked = std::env::var("STASIS_FUZZ_CASES").ok();
    asked.map_or(usual, |asked| asked.parse().expect("STASIS_FUZZ_CASES is a number"))
}

/// The inputs of a target of the crate at `manifest` (its `CARGO_MANIFEST_DIR`), in the order
/// of their names.
///
/// # Panics
/// If there is none: a test that runs nothing would pass.
pub fn corpus(manifest: &str, target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(manifest).join("fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{folder:?} is empty");
    let read = |path: &std::path::PathBuf| {
        std::fs::read(path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
    };
    paths.iter().map(read).collect()
}

/// One change of an input.
#[derive(Debug, Clone)]
enum Change {
    /// A byte becomes another one.
    Set(Index, u8),
    /// A bit is turned.
    Flip(Index, u8),
    /// A byte comes between.
    Insert(Index, u8),
    /// A piece is left out.
    Remove(Index, Index),
    /// A piece comes again, elsewhere.
    Repeat(Index, Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<Index>;
    prop_oneof![
        (place(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (place(), 0..8u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (place(), any::<u8>()).prop_map(|(at, byte)| Change::Insert(at, byte)),
        (place(), place()).prop_map(|(from, to)| Change::Remove(from, to)),
        (place(), place(), place()).prop_map(|(from, to, at)| Change::Repeat(from, to, at)),
    ]
}

impl Change {
    fn apply(&self, input: &mut Vec<u8>) {
        let between = |from: &Index, to: &Index, input: &[u8]| {
            let (from, to) = (from.index(input.len() + 1), to.index(input.len() + 1));
            from.min(to)..from.max(to)
        };
        match self {
            Self::Set(at, byte) if !input.is_empty() => {
                let at = at.index(input.len());
                input[at] = *byte;
            }
            Self::Flip(at, bit) if !input.is_empty() => {
                let at = at.index(input.len());
                input[at] ^= 1 << bit;
            }
            Self::Set(..) | Self::Flip(..) => {}
            Self::Insert(at, byte) => input.insert(at.index(input.len() + 1), *byte),
            Self::Remove(from, to) => {
                input.drain(between(from, to, input));
            }
            Self::Repeat(from, to, at) => {
                let piece = input[between(from, to, input)].to_vec();
                let at = at.index(input.len() + 1);
                input.splice(at..at, piece);
            }
        }
    }
}

/// Inputs of at most `longest` bytes: a majority are those of a corpus with some changes, two of
/// them joined at times; the others are arbitrary.
pub fn inputs(corpus: Vec<Vec<u8>>, longest: usize) -> impl Strategy<Value = Vec<u8>> {
    let one = prop::sample::select(corpus);
    let joined = (one.clone(), prop::option::weighted(0.3, one)).prop_map(|(mut first, second)| {
        first.extend(second.unwrap_or_default());
        first
    });
    let changed =
        (joined, prop::collection::vec(change(), 0..6)).prop_map(move |(mut input, changes)| {
            changes.iter().for_each(|change| change.apply(&mut input));
            input.truncate(longest);
            input
        });
    prop_oneof![3 => changed, 1 => prop::collection::vec(any::<u8>(), 0..longest)]
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest! {
        /// Whatever the changes are, an empty input among them.
        #[test]
        fn inputs_are_no_longer_than_asked(
            input in inputs(vec![vec![], vec![1, 2, 3], vec![9; 100]], 64),
        ) {
            prop_assert!(input.len() <= 64);
        }
    }

    #[test]
    #[should_panic(expected = "fuzz/corpus/nothing")]
    fn a_corpus_that_is_not_there_is_no_success() {
        corpus(env!("CARGO_MANIFEST_DIR"), "nothing");
    }
}
