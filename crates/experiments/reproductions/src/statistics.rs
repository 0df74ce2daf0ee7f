//! The few figures that publications give of a set of values.

/// Arithmetic mean; not a number without values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation, of a sample; none for fewer than two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// Standard deviation over mean, of a sample; one value alone does not vary.
pub fn coefficient_of_variation(values: &[f64]) -> f64 {
    deviation(values).unwrap_or(0.0) / mean(values)
}

/// Percentile by nearest rank; not a number without values.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Histogram of values in steps of `width`: (middle of the step, count), without gaps from the
/// first to the last.
pub fn histogram(values: &[f64], width: f64) -> Vec<(f64, f64)> {
    let steps = values.iter().map(|value| (value / width).round() as i64);
    let (Some(first), Some(last)) = (steps.clone().min(), steps.clone().max()) else {
        return Vec::new();
    };
    let mut counts = vec![0.0; (last - first + 1).unsigned_abs() as usize];
    for step in steps {
        counts[(step - first).unsigned_abs() as usize] += 1.0;
    }
    counts.into_iter().zip(first..).map(|(count, step)| (step as f64 * width, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_the_usual_ones() {
        let values = [4.0, 2.0, 6.0, 8.0];
        assert_eq!(mean(&values), 5.0);
        assert!((coefficient_of_variation(&values) - (20.0f64 / 3.0).sqrt() / 5.0).abs() < 1e-12);
        assert_eq!(coefficient_of_variation(&[3.0]), 0.0);
        assert_eq!(
            [0.0, 25.0, 26.0, 50.0, 100.0].map(|percent| percentile(&values, percent)),
            [2.0, 2.0, 4.0, 4.0, 8.0]
        );
        assert!(mean(&[]).is_nan() && percentile(&[], 50.0).is_nan());
    }

    #[test]
    fn a_histogram_has_every_value_once_and_no_gap() {
        let histogram = histogram(&[-1.2, -0.9, 0.4, 2.0], 1.0);
        assert_eq!(histogram, [(-1.0, 2.0), (0.0, 1.0), (1.0, 0.0), (2.0, 1.0)]);
        assert_eq!(super::histogram(&[], 1.0), []);
    }
}
