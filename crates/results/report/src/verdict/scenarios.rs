//! The answer of scenarios on shared drives, measured side by side.

use super::Verdict;
use crate::table::Tone;

/// The facts of scenarios.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenarios {
    /// Number of measured scenarios.
    pub count: usize,
    /// Number of failed scenarios, and of those that gave up a start.
    pub failed: usize,
    /// See [`Scenarios::failed`].
    pub given_up: usize,
    /// Of each kind of figure the least and the greatest.
    pub ranges: Vec<Range>,
}

/// The least and the greatest figure of a kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    /// Their kind in words, such as `starts take`.
    pub kind: &'static str,
    /// Each with its scenario, such as `1.2 s (idle)`.
    pub ends: [String; 2],
}

impl Scenarios {
    /// The answer.
    pub fn verdict(&self) -> Verdict {
        let (word, tone) = match (self.failed, self.given_up) {
            (0, 0) => ("measured", Tone::Good),
            (0, _) => ("starts given up", Tone::Bad),
            _ => ("incomplete", Tone::Bad),
        };
        let ranges = self
            .ranges
            .iter()
            .map(|Range { kind, ends: [least, greatest] }| format!("{kind} {least} to {greatest}"));
        let ranges: Vec<_> = ranges.collect();
        let count = match self.count {
            1 => "One scenario".to_owned(),
            count => format!("{count} scenarios"),
        };
        let sentence = match (ranges.is_empty(), self.count) {
            (true, 0) => "No scenario was measured.".to_owned(),
            (true, 1) => "One scenario was measured.".to_owned(),
            (true, _) => format!("{count} were measured."),
            (false, 1) => format!("In one scenario {}.", ranges.join("; ")),
            (false, _) => format!("In {count} {}.", ranges.join("; ")),
        };
        Verdict::new(word, tone, sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn all_cases_have_a_verdict() {
        let range = |kind| Range { kind, ends: ["1 s (idle)".into(), "9 s (busy)".into()] };
        for ranges in
            [vec![], vec![range("starts take")], vec![range("starts take"), range("throughput is")]]
        {
            for (count, failed, given_up) in
                (0..3).flat_map(|a| (0..3).flat_map(move |b| (0..3).map(move |c| (a, b, c))))
            {
                let case = Scenarios { count, failed, given_up, ranges: ranges.clone() };
                check(&case.verdict(), &format!("{case:?}"));
            }
        }
    }
}
