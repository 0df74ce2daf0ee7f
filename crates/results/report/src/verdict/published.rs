//! The answer of a publication's figures, measured here.

use super::Verdict;
use crate::table::Tone;
use stasis_results::units;

/// The facts of a publication's figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// Number of the publication's claims and bounds that can be judged, and of those that do not hold.
    pub bounds: usize,
    /// See [`Published::bounds`].
    pub broken: usize,
    /// Number of comparable values, and their median deviation (%).
    pub values: usize,
    /// See [`Published::values`].
    pub median: f64,
    /// Number of experiments that are not finished.
    pub unfinished: usize,
}

impl Published {
    /// The answer.
    pub fn verdict(&self) -> Verdict {
        let (word, tone) = match (self.broken, self.bounds, self.unfinished) {
            (1.., _, 1..) => ("does not hold; not finished", Tone::Bad),
            (.., 1..) => ("not finished", Tone::Bad),
            (0, 0, _) => ("measured", Tone::Neutral),
            (0, ..) => ("holds", Tone::Good),
            _ => ("does not hold", Tone::Bad),
        };
        let claims = match (self.bounds, self.broken) {
            (0, _) => "The publication bounds none of what was measured".to_owned(),
            (1, 0) => "The one bound of the publication holds here".to_owned(),
            (1, _) => "The one bound of the publication does not hold here".to_owned(),
            (all, 0) => format!("All {all} bounds of the publication hold here"),
            (all, 1) => format!("1 of {all} bounds of the publication does not hold here"),
            (all, broken) => {
                format!("{broken} of {all} bounds of the publication do not hold here")
            }
        };
        let off = format!("{} %", units::significant(self.median, 3));
        let values = match self.values {
            0 => String::new(),
            1 => format!("; one value can be compared, and is off by {off}"),
            count => {
                format!("; of {count} values that can be compared half are off by {off} or less")
            }
        };
        let missing = match self.unfinished {
            0 => String::new(),
            1 => "; one experiment is not finished".to_owned(),
            many => format!("; {many} experiments are not finished"),
        };
        Verdict::new(word, tone, format!("{claims}{values}{missing}."))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn all_cases_have_a_verdict() {
        for (bounds, broken) in [(0, 0), (1, 0), (1, 1), (7, 0), (7, 1), (7, 7)] {
            for (values, median) in [(0, 0.0), (1, 0.0), (1, 250.0), (30, 1.25)] {
                for unfinished in [0, 1, 5] {
                    let case = Published { bounds, broken, values, median, unfinished };
                    let verdict = case.verdict();
                    check(&verdict, &format!("{case:?}"));
                    let holds = verdict.tone == Tone::Good;
                    assert_eq!(holds, bounds > 0 && broken == 0 && unfinished == 0, "{case:?}");
                }
            }
        }
    }
}
