//! The time of a seek.

use stasis_block::clock::Nanos;

/// The share of the stroke up to which the square root holds.
const THIRD: f64 = 1.0 / 3.0;

/// Seek time as a function of distance.
///
/// A square root up to a third of the stroke, where the arm accelerates and
/// brakes, and a straight line beyond, where it coasts: the form measured by
/// C. Ruemmler and J. Wilkes, "An introduction to disk drive modeling", IEEE
/// Computer 27(3), 1994.
#[derive(Debug, Clone)]
pub(crate) struct Seek {
    single: f64,
    root: f64,
    third: f64,
    slope: f64,
}

impl Seek {
    /// From the three figures of data sheets (ns): to the next track, on average
    /// over all pairs of places, and over the whole stroke.
    ///
    /// Without a full stroke the square root holds throughout. The mean of
    /// `sqrt(d)` over uniformly chosen pairs (density 2 (1 - d)) is 8/15; that
    /// of the two-part curve is single/5 + 88/135 third + 4/27 full, where
    /// `third` is the time at a third of the stroke. Either way the mean of the
    /// curve is the data sheet's average.
    pub(crate) fn new(single: Nanos, average: Nanos, full: Option<Nanos>) -> Option<Self> {
        let (single, average) = (single as f64, average as f64);
        let Some(full) = full else {
            let full_root = (average - single) * 15.0 / 8.0;
            if full_root < 0.0 {
                return None;
            }
            // The straight part starts beyond the stroke: it is never used.
            return Some(Self { single, root: full_root, third: f64::INFINITY, slope: 0.0 });
        };
        let full = full as f64;
        let third = (average - single / 5.0 - full * 4.0 / 27.0) * 135.0 / 88.0;
        if third < single || full < third {
            return None;
        }
        let root = (third - single) / THIRD.sqrt();
        Some(Self { single, root, third, slope: (full - third) / (1.0 - THIRD) })
    }

    /// The time (ns) to move by `distance`, a share of the stroke of more than
    /// no track.
    pub(crate) fn time(&self, distance: f64) -> Nanos {
        let ns = if distance <= THIRD || self.third.is_infinite() {
            self.single + self.root * distance.sqrt()
        } else {
            self.third + self.slope * (distance - THIRD)
        };
        ns as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curves_mean_is_the_data_sheets_average() {
        for full in [None, Some(15_000_000)] {
            let seek = Seek::new(600_000, 8_200_000, full).unwrap();
            // The mean over all pairs of 1000 places.
            let n = 1000u64;
            let (mut sum, mut pairs) = (0.0, 0.0);
            for d in 1..n {
                let weight = 2.0 * (n - d) as f64;
                sum += weight * seek.time(d as f64 / n as f64) as f64;
                pairs += weight;
            }
            let mean = sum / pairs;
            assert!((mean / 8_200_000.0 - 1.0).abs() < 0.002, "{mean}");
            assert!((0..1000).all(|d| seek.time(d as f64 / 1e3) <= seek.time((d + 1) as f64 / 1e3)));
        }
        assert_eq!(Seek::new(600_000, 8_200_000, Some(15_000_000)).unwrap().time(1.0), 15_000_000);
        assert!(Seek::new(9_000_000, 8_200_000, None).is_none());
        assert!(Seek::new(600_000, 8_200_000, Some(1_000_000)).is_none());
    }
}
