//! Times at which I/Os of drives were late: one of the slowest of an operation was under way.

use std::collections::BTreeMap;
use std::path::Path;

use stasis_block::clock::Nanos;
use stasis_block::Operation;

use stasis_results::latency::carried;
use stasis_results::summary::Summary;
use stasis_results::{units, KeptIos, ResultsError};

/// The rank of the percentile from which on an I/O is late, in hundredths of a percent.
const LATE: u64 = 9900;
/// Limit on drives and operations.
const MAX_LATE: usize = 16;

/// From when to when (ns).
type Times = Vec<(Nanos, Nanos)>;

/// The times in which a late I/O of an operation of a drive was under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Late {
    /// Which, in words.
    pub(crate) name: String,
    /// Ascending and apart.
    pub(crate) times: Times,
}

impl Late {
    /// Returns whether a late one was under way.
    pub(crate) fn holds(&self, at: Nanos) -> bool {
        let after = self.times.partition_point(|(begin, _)| *begin <= at);
        after.checked_sub(1).is_some_and(|place| at < self.times[place].1)
    }
}

/// Returns the late times of the results in `folder`, whose figures are `summary`'s: of operations
/// with enough I/Os for a 99th percentile.
pub(crate) fn of(folder: &Path, summary: &Summary) -> Result<Vec<Late>, ResultsError> {
    let mut wanted: BTreeMap<(String, Operation), (Nanos, Times)> = BTreeMap::new();
    for drive in &summary.drives {
        for (operation, figures) in drive.used().filter(|(_, used)| carried(used.count, LATE)) {
            if wanted.len() < MAX_LATE {
                let key = (drive.described.name.clone(), operation);
                wanted.insert(key, (figures.delivered_ns.p99, Vec::new()));
            }
        }
    }
    let Ok(mut ios) = KeptIos::open(folder) else { return Ok(Vec::new()) };
    while let Some(io) = ios.next().transpose()? {
        let drive = ios.drives()[usize::from(io.drive)].clone();
        if io.boot || io.refused() {
            continue;
        }
        if let Some((least, times)) = wanted.get_mut(&(drive, io.operation)) {
            if io.delivered.saturating_sub(io.submit) >= *least {
                times.push((io.submit, io.delivered));
            }
        }
    }
    let late = |((drive, operation), (least, times)): ((String, Operation), (Nanos, _))| Late {
        name: format!(
            "a {} of {drive} took {} or more (p99)",
            operation.name(),
            units::duration(least as f64)
        ),
        times: apart(times),
    };
    Ok(wanted.into_iter().map(late).collect())
}

/// Merges overlapping times, in order.
fn apart(mut times: Times) -> Times {
    times.sort_unstable();
    let mut all = Times::new();
    for (begin, end) in times {
        match all.last_mut() {
            Some((_, last)) if begin <= *last => *last = (*last).max(end),
            _ => all.push((begin, end)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against one look at each.
        #[test]
        fn a_time_is_late_where_an_io_is(
            raw in prop::collection::vec((0u64..200, 1u64..30), 0..20),
        ) {
            let all: Vec<_> = raw.iter().map(|(begin, length)| (*begin, begin + length)).collect();
            let late = Late { name: String::new(), times: apart(all.clone()) };
            for at in 0..240 {
                let expected = all.iter().any(|(begin, end)| (*begin..*end).contains(&at));
                prop_assert_eq!(late.holds(at), expected, "{}", at);
            }
        }
    }
}
