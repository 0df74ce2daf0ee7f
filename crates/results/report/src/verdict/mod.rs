//! The answer on top of a page, from the facts of its case.
//!
//! Pages state facts: what was the same, what differed, by how much, and how sure that is. The
//! word, its tone and the sentence are made of them here and nowhere else, so that one test goes
//! through all cases.

mod cluster;
mod compared;
mod crash;
mod explored;
mod published;
mod run;
mod scenarios;
mod study;
mod tenants;
mod thresholds;

pub use cluster::{Cluster, Fault, Operations};
pub use compared::{is_close, Alike, Compared, Doer, Latencies, Runs, Several, Sure, Times, Work};
pub use crash::{Broken, CrashTest, Found};
pub use explored::Explored;
pub use published::Published;
pub use run::{Busiest, End, Precision, Run};
pub use scenarios::{Range, Scenarios};
pub use study::{State, Study, StudyPoint};
pub use tenants::{Tenant, Tenants, Waited, SUFFERED};
pub use thresholds::Thresholds;

use crate::table::Tone;

/// The answer of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// In a word or two.
    pub word: String,
    /// Whether it is good.
    pub tone: Tone,
    /// One or more sentences, each with a capital letter or a figure at its start.
    pub sentence: String,
}

impl Verdict {
    pub(crate) fn new(word: impl Into<String>, tone: Tone, sentence: impl Into<String>) -> Self {
        Self { word: word.into(), tone, sentence: sentence.into() }
    }

    /// This answer, and after it another's sentence; `word` is both words, and the tone is this
    /// one's unless the other's is worse.
    fn before(self, other: Self) -> Self {
        let word = match (self.word.is_empty(), other.word.is_empty()) {
            (false, false) => format!("{}; {}", self.word, other.word),
            _ => self.word + &other.word,
        };
        let tone = if other.tone == Tone::Bad { Tone::Bad } else { self.tone };
        Self { word, tone, sentence: format!("{} {}", self.sentence, other.sentence) }
    }
}

/// A count with its noun: `1 read`, `2,000 reads`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", stasis_results::units::count(count), if count == 1 { one } else { many })
}

/// The words of a list: `a`, `a and b`, `a, b and c`.
pub(crate) fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A text as a sentence's begin.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>());
    first.unwrap_or_default() + letters.as_str()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Panics where a verdict is none that a page may begin with.
    pub fn check(verdict: &Verdict, case: &str) {
        let Verdict { word, sentence, .. } = verdict;
        assert!(!word.is_empty() && word.chars().count() <= 60, "{case}: {word:?}");
        assert!(sentence.ends_with(['.', '!']), "{case}: {sentence}");
        for bad in ["  ", "..", " .", "NaN", "inf", "– ", "1 reads", "1 I/Os", "of  "] {
            assert!(!sentence.contains(bad), "{case}: {bad:?} in {sentence}");
        }
        for begin in sentence.split(". ") {
            let first = begin.chars().next();
            let right = first
                .is_some_and(|first| first.is_uppercase() || first.is_numeric() || first == '“');
            assert!(right, "{case}: a sentence begins with {begin:?} in {sentence}");
        }
    }

    #[test]
    fn words_make_a_list() {
        let list =
            |words: &[&str]| listed(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        assert_eq!(list(&[]), "");
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!(counted(1, "read", "reads"), "1 read");
        assert_eq!(counted(2000, "read", "reads"), "2,000 reads");
        assert_eq!(capital("éa"), "Éa");
    }
}
