//! Times at which each processor ran, in bounded memory: ticks by processor and column of virtual
//! time. The columns' width doubles whenever the run outgrows them.

/// Limit on the columns.
const COLUMNS: usize = 128;
/// The width of a column at first (ticks).
const WIDTH: u64 = 1 << 16;

/// Ticks for which processors ran.
#[derive(Debug, Clone)]
pub struct Utilization {
    origin: u64,
    width: u64,
    rows: Vec<[u64; COLUMNS]>,
    totals: Vec<u64>,
}

impl Utilization {
    /// Starts with `processors` processors, from `origin` (ticks) on.
    pub fn new(processors: usize, origin: u64) -> Self {
        let (rows, totals) = (vec![[0; COLUMNS]; processors], vec![0; processors]);
        Self { origin, width: WIDTH, rows, totals }
    }

    /// The processor at `place` ran between these times (ticks).
    pub fn add(&mut self, place: usize, from: u64, to: u64) {
        let from = from.max(self.origin) - self.origin;
        let to = to.max(self.origin) - self.origin;
        if from >= to {
            return;
        }
        while to.div_ceil(self.width) > COLUMNS as u64 {
            self.widen();
        }
        self.totals[place] += to - from;
        let mut at = from;
        while at < to {
            let column = at / self.width;
            let end = to.min((column + 1) * self.width);
            self.rows[place][column as usize] += end - at;
            at = end;
        }
    }

    fn widen(&mut self) {
        self.width *= 2;
        for row in &mut self.rows {
            let joined = std::array::from_fn(|column| match column < COLUMNS / 2 {
                true => row[2 * column] + row[2 * column + 1],
                false => 0,
            });
            *row = joined;
        }
    }

    /// The width of a column (ticks).
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Ticks for which the processor at `place` ran.
    pub fn total(&self, place: usize) -> u64 {
        self.totals[place]
    }

    /// The shares of time for which the processor at `place` ran, by column, up
    /// to `end` (ticks).
    pub fn shares(&self, place: usize, end: u64) -> Vec<f64> {
        let columns = end.saturating_sub(self.origin).div_ceil(self.width).min(COLUMNS as u64);
        let row = &self.rows[place][..columns as usize];
        row.iter().map(|&ran| ran as f64 / self.width as f64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Nothing is lost however often the columns widen, and no column is
        /// fuller than full.
        #[test]
        fn all_time_is_somewhere(
            origin in 0u64..1 << 40,
            slices in prop::collection::vec((0u64..1 << 22, 0u64..1 << 22), 1..100),
        ) {
            let mut utilization = Utilization::new(2, origin);
            let (mut at, mut sum) = (origin, 0);
            for (idle, ran) in slices {
                at += idle;
                utilization.add(1, at, at + ran);
                at += ran;
                sum += ran;
            }
            let shares = utilization.shares(1, at);
            let width = utilization.width() as f64;
            prop_assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
            let found = shares.iter().sum::<f64>() * width;
            prop_assert!((found - sum as f64).abs() < 1.0, "{found} of {sum}");
            prop_assert_eq!((utilization.total(1), utilization.total(0)), (sum, 0));
        }
    }
}
