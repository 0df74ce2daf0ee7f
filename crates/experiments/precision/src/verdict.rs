//! Conclusion from the measurements: the precision on which an experiment can rely.

use serde::Serialize;
use stasis_results::units;

use crate::clock::Clocks;
use crate::delivered::{Delivered, Precision};

/// Limit on the deviation of a percentile of delivered latency from its target (percent): the
/// project's aim for every engine.
const GOOD: f64 = 1.0;

/// The precision on which an experiment can rely.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Verdict {
    /// Every I/O is delivered at its target, whatever the host does.
    Exact {
        /// The verdict in a sentence.
        text: String,
    },
    /// Latencies from some length on are within [`GOOD`] percent.
    Good {
        /// The verdict in a sentence.
        text: String,
        /// The shortest latency that is as precise on a quiet host (ns).
        quiet_from_ns: u64,
        /// The shortest latency that is as precise with every core of the host busy, if any is
        /// (ns).
        loaded_from_ns: Option<u64>,
    },
    /// Results are not to be trusted.
    Unusable {
        /// The reason, in a sentence.
        text: String,
    },
}

impl Verdict {
    /// Derives the verdict from figures; a missing measurement is not evidence of precision.
    pub fn of(
        quiet: Option<&Precision>,
        loaded: Option<&Precision>,
        clocks: Option<&Clocks>,
    ) -> Self {
        if let Some(clocks) = clocks.filter(|clocks| clocks.backwards > 0) {
            return Self::Unusable {
                text: format!(
                    "clocks of the guest's processors went back {} times, by {} at most: \
                     take one processor, or another engine",
                    units::count(clocks.backwards),
                    units::duration(clocks.worst_ns as f64)
                ),
            };
        }
        let Some(quiet) = quiet else {
            let text = "drives of known latency could not be measured".to_owned();
            return Self::Unusable { text };
        };
        let all_exact = [Some(quiet), loaded].iter().all(|precision| {
            precision.is_some_and(|precision| precision.delivered.iter().all(Delivered::exact))
        });
        if all_exact && clocks.is_some_and(|clocks| clocks.backwards == 0) {
            let text = "every I/O is delivered at its target to the nanosecond, whatever else \
                        the host does"
                .to_owned();
            return Self::Exact { text };
        }
        let Some(quiet_from_ns) = from(quiet) else {
            return Self::Unusable {
                text: format!(
                    "not even latencies of {} are delivered within {GOOD} %: \
                     take --engine exact",
                    longest(quiet)
                ),
            };
        };
        let loaded_from_ns = loaded.and_then(from);
        let mut text = format!(
            "latencies of {} and longer are delivered within {GOOD} % of their target",
            units::duration(quiet_from_ns as f64)
        );
        text.push_str(&match (loaded, loaded_from_ns) {
            (_, Some(ns)) if ns == quiet_from_ns => ", also while the host is busy".to_owned(),
            (_, Some(ns)) => {
                format!(
                    "; while the host is busy, those of {} and longer",
                    units::duration(ns as f64)
                )
            }
            (Some(_), None) => "; while the host is busy, none: keep it idle during a run".into(),
            (None, None) => "; a busy host was not measured".into(),
        });
        if clocks.is_none() {
            text.push_str(". Clocks of several processors were not compared");
        }
        Self::Good { text, quiet_from_ns, loaded_from_ns }
    }

    /// The verdict in a sentence.
    pub fn text(&self) -> &str {
        match self {
            Self::Exact { text } | Self::Good { text, .. } | Self::Unusable { text } => text,
        }
    }

    /// Returns whether results can be trusted at all.
    pub fn is_usable(&self) -> bool {
        !matches!(self, Self::Unusable { .. })
    }
}

impl Delivered {
    /// Returns whether every I/O took as long as it was to take. Without a target there is nothing
    /// to compare: a drive of 0 ns completes with the exit that submits.
    fn exact(&self) -> bool {
        self.target_ns == 0 || self.max_ns == self.target_ns && self.error_percent == Some(0.0)
    }

    fn good(&self) -> bool {
        self.target_ns > 0 && self.error_percent.is_some_and(|error| error.abs() <= GOOD)
    }
}

/// The shortest latency from which on all are good (ns).
fn from(precision: &Precision) -> Option<u64> {
    let good = precision.delivered.iter().rev().take_while(|delivered| delivered.good());
    good.last().map(|delivered| delivered.target_ns)
}

fn longest(precision: &Precision) -> String {
    let longest = precision.delivered.iter().map(|delivered| delivered.target_ns).max();
    units::duration(longest.unwrap_or(0) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivered::MODELS;
    use stasis_run_events::Overshoot;
    use std::collections::BTreeMap;

    /// Each drive late by `late` ns.
    fn late(late: u64) -> Precision {
        let delivered = MODELS.map(|(model, target_ns)| {
            let ns = target_ns + late;
            let error = 100.0 * late as f64 / target_ns as f64;
            let error_percent = (target_ns > 0).then_some(error);
            Delivered {
                model,
                target_ns,
                ios: 100,
                p50_ns: ns,
                p99_ns: ns,
                max_ns: ns,
                error_percent,
            }
        });
        Precision {
            delivered: delivered.into(),
            overshoot_ns: Overshoot { p50: 0, p99: late, max: late },
            exit_ns: BTreeMap::new(),
            exit_spread_ns: 0.0,
            wall_ns_per_exit: 40_000.0,
        }
    }

    fn clocks(backwards: u64) -> Clocks {
        Clocks { processors: 4, reads: 100_000, backwards, worst_ns: 17 * backwards }
    }

    #[test]
    fn what_is_always_on_time_is_exact() {
        let verdict = Verdict::of(Some(&late(0)), Some(&late(0)), Some(&clocks(0)));
        assert!(matches!(verdict, Verdict::Exact { .. }), "{verdict:?}");
        // Without all measurements, the verdict is not `Exact`.
        for verdict in [
            Verdict::of(Some(&late(0)), None, Some(&clocks(0))),
            Verdict::of(Some(&late(0)), Some(&late(0)), None),
        ] {
            assert!(matches!(verdict, Verdict::Good { .. }), "{verdict:?}");
            assert!(verdict.text().contains("not"), "{verdict:?}");
        }
    }

    #[test]
    fn lateness_decides_which_latencies_can_be_measured() {
        let verdict = Verdict::of(Some(&late(400)), Some(&late(3_000)), Some(&clocks(0)));
        let Verdict::Good { quiet_from_ns, loaded_from_ns, .. } = &verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!((*quiet_from_ns, *loaded_from_ns), (50_000, Some(1_000_000)));
        let text = verdict.text();
        assert!(
            text.contains("50 µs and longer") && text.contains("busy, those of 1 ms"),
            "{text}"
        );
        let verdict = Verdict::of(Some(&late(400)), Some(&late(30_000)), Some(&clocks(0)));
        assert!(verdict.text().contains("while the host is busy, none"), "{verdict:?}");
    }

    #[test]
    fn late_drives_and_clocks_that_go_back_are_not_to_be_trusted() {
        for verdict in [
            Verdict::of(Some(&late(20_000)), Some(&late(0)), Some(&clocks(0))),
            Verdict::of(Some(&late(0)), Some(&late(0)), Some(&clocks(1))),
            Verdict::of(None, Some(&late(0)), Some(&clocks(0))),
        ] {
            assert!(!verdict.is_usable(), "{verdict:?}");
        }
    }
}
