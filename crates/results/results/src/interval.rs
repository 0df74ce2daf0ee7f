//! Figures with their confidence intervals of 95 %.

use serde::Serialize;

/// The normal distribution's 97.5th percentile.
const NORMAL: f64 = 1.959_964;

/// Student's 97.5th percentiles for 1 to 30 degrees of freedom (NIST/SEMATECH e-Handbook of
/// Statistical Methods, section 1.3.6.7.2).
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// A figure, and between which values it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The figure.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
    /// True if the ends are known; else they are the figure itself.
    #[serde(skip)]
    known: bool,
}

impl Interval {
    /// Returns whether no value is in both.
    pub fn is_apart_from(&self, other: &Self) -> bool {
        self.low > other.high || self.high < other.low
    }

    /// A figure whose interval is not known.
    pub fn exactly(value: f64) -> Self {
        Self { value, low: value, high: value, known: false }
    }

    /// Returns whether the interval is known.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// The interval without what is below `least`, where no figure can be.
    #[must_use]
    pub fn not_below(self, least: f64) -> Self {
        Self { low: self.low.max(least), high: self.high.max(least), ..self }
    }

    fn around(value: f64, half: f64) -> Self {
        Self { value, low: value - half, high: value + half, known: true }
    }
}

/// Variance of a binomial count from which on its normal approximation is used: a rank is off by less
/// than one then.
const MIN_NORMAL_VARIANCE: f64 = 100.0;

/// Chance that may lie beyond either end of an interval.
const BEYOND: f64 = 0.025;

/// The percentile `percent` of values that rise: the least value that at least so many are not
/// above. The interval's ends are order statistics (Conover, *Practical Nonparametric Statistics*,
/// section 3.2); it is not known where no two values have the percentile between them in 95 of 100
/// samples, such as p99.9 of 1,000. None where the values are too few for the percentile: less than
/// one of them is expected above it.
pub fn percentile(sorted: &[u64], percent: f64) -> Option<Interval> {
    let (count, share) = (sorted.len() as f64, percent / 100.0);
    // 99.9 % has no exact binary fraction.
    if count * (1.0 - share) < 1.0 - 1e-6 {
        return None;
    }
    let at = |rank: f64| {
        let place = (rank.ceil() as usize).clamp(1, sorted.len()) - 1;
        sorted[place] as f64
    };
    let middle = count * share - 1e-6;
    let value = at(middle);
    let variance = count * share * (1.0 - share);
    if variance >= MIN_NORMAL_VARIANCE {
        let half = NORMAL * variance.sqrt();
        let (low, high) = (at(middle - half), at(middle + half + 1.0));
        return Some(Interval { value, low, high, known: true });
    }
    // Counts of the rarer kind: the values above, or those not above.
    let (from, to) = likely_counts(count, share.min(1.0 - share));
    let (low, high) = match share < 0.5 {
        true => (from, to),
        false => (count + 1.0 - to, count + 1.0 - from),
    };
    match low >= 1.0 && high <= count {
        true => Some(Interval { value, low: at(low), high: at(high), known: true }),
        false => Some(Interval::exactly(value)),
    }
}

/// The largest count with at most [`BEYOND`] of the chance below it, and the least with at most as much
/// from it on, of `trials` that each succeed with this chance.
fn likely_counts(trials: f64, chance: f64) -> (f64, f64) {
    let mut probability = (trials * (-chance).ln_1p()).exp();
    let (mut count, mut below) = (0.0, 0.0);
    let mut from = 0.0;
    // `below`: the chance of fewer than `count`.
    while count <= trials && below < 1.0 - BEYOND {
        if below <= BEYOND {
            from = count;
        }
        below += probability;
        probability *= (trials - count) / (count + 1.0) * chance / (1.0 - chance);
        count += 1.0;
    }
    (from, count)
}

/// The arithmetic mean, by the normal approximation.
pub fn mean(values: &[u64]) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().map(|value| *value as f64).sum::<f64>() / count;
    let squares = values.iter().map(|value| (*value as f64 - mean).powi(2)).sum::<f64>();
    Some(Interval::around(mean, NORMAL * (squares / (count - 1.0) / count).sqrt()))
}

/// The mean of several runs' figures.
pub fn of_runs(figures: &[f64]) -> Option<Interval> {
    let freedom = figures.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let count = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / count;
    let squares = figures.iter().map(|figure| (figure - mean).powi(2)).sum::<f64>();
    let student = STUDENT.get(freedom - 1).copied().unwrap_or(NORMAL);
    Some(Interval::around(mean, student * (squares / freedom as f64 / count).sqrt()))
}
