//! The shape of a distribution of which percentiles and the mean are known.
//!
//! Points are pairs of (percent, ns) from 0 to 100 that ascend in both: a quantile function, linear
//! between two points.

/// Limit on the distance of a distribution's mean from the measured one, as a share of that.
pub const TOLERANCE: f64 = 0.03;

/// A quantile function: pairs of (percent, ns).
pub type Points = Vec<(f64, f64)>;

/// The mean (ns).
pub fn mean(points: &[(f64, f64)]) -> f64 {
    let each =
        |pair: &[(f64, f64)]| (pair[1].0 - pair[0].0) / 100.0 * (pair[0].1 + pair[1].1) / 2.0;
    points.windows(2).map(each).sum()
}

/// Returns whether a mean is the measured one.
pub fn is_near(mean: f64, measured: f64) -> bool {
    (mean - measured).abs() <= TOLERANCE * measured
}

/// Returns the points, and between some of them one more, so that the mean is `wanted` (ns), or as
/// near to it as any distribution with these points is.
///
/// Between two points the mean can be anywhere from the lower to the upper one. What linear pieces lack is
/// made up where least is known: the wider a piece in share and value, the larger its part.
pub fn with_mean(points: &[(f64, f64)], wanted: f64) -> Points {
    /// Halvings: the span of any two doubles has fewer bits.
    const STEPS: usize = 200;
    let room = |pair: &[(f64, f64)]| (pair[1].0 - pair[0].0) / 100.0 * (pair[1].1 - pair[0].1);
    let rooms: Vec<f64> = points.windows(2).map(room).collect();
    let least: f64 = points.windows(2).map(|p| (p[1].0 - p[0].0) / 100.0 * p[0].1).sum();
    // The place of each piece's mean between its ends.
    let place = |room: f64, tilt: f64| (0.5 + tilt * room).clamp(0.0, 1.0);
    let mean = |tilt: f64| least + rooms.iter().map(|&room| place(room, tilt) * room).sum::<f64>();
    let smallest = rooms.iter().copied().filter(|room| *room > 0.0).fold(f64::INFINITY, f64::min);
    let (mut low, mut high) = (-0.5 / smallest, 0.5 / smallest);
    if !high.is_finite() || high == 0.0 {
        return points.to_vec();
    }
    for _ in 0..STEPS {
        let middle = low + (high - low) / 2.0;
        match mean(middle) < wanted {
            true => low = middle,
            false => high = middle,
        }
    }
    let mut shaped = vec![points[0]];
    for (pair, &room) in points.windows(2).zip(&rooms) {
        let [(from, lower), (to, upper)] = [pair[0], pair[1]];
        let place = place(room, high);
        // A level piece, and a rise over the rest.
        if place < 0.5 {
            shaped.push((to - 2.0 * place * (to - from), lower));
        } else if place > 0.5 {
            shaped.push((from + 2.0 * (1.0 - place) * (to - from), upper));
        }
        shaped.push((to, upper));
    }
    shaped.dedup();
    shaped
}

/// The distribution of what several together have, each with its weight.
pub fn together(parts: &[(f64, Points)]) -> Points {
    if let [(_, only)] = parts {
        return only.clone();
    }
    let whole: f64 = parts.iter().map(|(weight, _)| weight).sum();
    let mut values: Vec<f64> =
        parts.iter().flat_map(|(_, points)| points.iter().map(|p| p.1)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let share = |value: f64, above: fn(f64, f64) -> bool| {
        let part = |(weight, points): &(f64, Points)| weight * share(points, value, above);
        (parts.iter().map(part).sum::<f64>() / whole).clamp(0.0, 100.0)
    };
    let mut points = Points::new();
    let mut last = 0.0_f64;
    for value in values {
        for above in [|at: f64, value: f64| at >= value, |at: f64, value: f64| at > value] {
            last = last.max(share(value, above));
            points.push((last, value));
        }
    }
    // Sums of weights are rounded.
    if let Some(end) = points.last_mut() {
        end.0 = 100.0;
    }
    points.dedup();
    points
}

/// The percentage that is below `value`: up to the first point that is `above` it.
fn share(points: &[(f64, f64)], value: f64, above: fn(f64, f64) -> bool) -> f64 {
    let after = points.partition_point(|(_, at)| !above(*at, value));
    match (after.checked_sub(1).map(|before| points[before]), points.get(after)) {
        (None, _) => 0.0,
        (_, None) => 100.0,
        (Some((from, lower)), Some(&(to, upper))) => {
            from + (to - from) * (value - lower) / (upper - lower)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points() -> impl Strategy<Value = Points> {
        let pair = (0.0f64..100.0, 0.0f64..1e7);
        prop::collection::vec(pair, 0..20).prop_map(|pairs| {
            let (mut percents, mut values): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            percents.extend([0.0, 100.0]);
            values.extend([10.0, 2e7]);
            percents.sort_by(f64::total_cmp);
            values.sort_by(f64::total_cmp);
            percents.into_iter().zip(values).collect()
        })
    }

    proptest! {
        #[test]
        fn any_mean_that_the_points_allow_is_met(points in points(), place in 0.0f64..1.0) {
            let bound = |value: fn(&[(f64, f64)]) -> f64| {
                points.windows(2).map(|p| (p[1].0 - p[0].0) / 100.0 * value(p)).sum::<f64>()
            };
            let (least, most) = (bound(|p| p[0].1), bound(|p| p[1].1));
            let wanted = least + place * (most - least);
            let shaped = with_mean(&points, wanted);
            prop_assert!((mean(&shaped) - wanted).abs() <= 1e-6 * wanted, "{} {wanted}", mean(&shaped));
            prop_assert!(points.iter().all(|point| shaped.contains(point)));
            prop_assert!(shaped.windows(2).all(|p| p[0].0 <= p[1].0 && p[0].1 <= p[1].1), "{shaped:?}");
        }

        #[test]
        fn the_mean_of_several_is_that_of_their_means(
            several in prop::collection::vec((1.0f64..1e5, points()), 1..5)
        ) {
            let whole: f64 = several.iter().map(|(weight, _)| weight).sum();
            let expected = several.iter().map(|(weight, points)| weight * mean(points)).sum::<f64>() / whole;
            let mixed = together(&several);
            prop_assert!((mean(&mixed) - expected).abs() <= 1e-6 * expected);
            prop_assert!(mixed.windows(2).all(|p| p[0].0 <= p[1].0 && p[0].1 <= p[1].1));
            prop_assert_eq!((mixed[0].0, mixed[mixed.len() - 1].0), (0.0, 100.0));
        }
    }

    #[test]
    fn what_is_unknown_takes_the_difference() {
        // A body that is known well, and a tail of which only the maximum is.
        let points = [(0.0, 90.0), (50.0, 100.0), (99.0, 110.0), (100.0, 1_000_000.0)];
        assert!(mean(&points) > 5_000.0);
        let shaped = with_mean(&points, 150.0);
        assert!((mean(&shaped) - 150.0).abs() < 1e-6);
        let body = shaped.iter().filter(|(percent, _)| *percent < 99.0).count();
        let level = shaped.iter().find(|(percent, _)| (99.0..100.0).contains(percent));
        assert!(level.is_some() && body <= 4, "{shaped:?}");
        // Two jumps have no room between them.
        let jump = [(0.0, 5.0), (100.0, 5.0)];
        assert_eq!(with_mean(&jump, 7.0), jump);
    }
}
