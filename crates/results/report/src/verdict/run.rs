//! The answer of one run, simulation or server.

use stasis_block::Operation;

use super::{counted, Tenants, Verdict};
use crate::table::Tone;
use stasis_results::so_far::RUNNING;
use stasis_results::units;

/// The facts of a run.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// Its end.
    pub end: End<'a>,
    /// True if its own figures say that it is not to be trusted.
    pub is_warned: bool,
    /// The answer of several machines, where there are any.
    pub cluster: Option<Verdict>,
    /// The tenants of shared or limited drives, where something is known of their latencies.
    pub tenants: Option<Tenants<'a>>,
    /// All I/Os, and how many of them failed.
    pub ios: u64,
    /// I/Os of the host's workloads beside them.
    pub loads: u64,
    /// See [`Run::ios`].
    pub errors: u64,
    /// The operation and drive with the most I/Os; none where no I/O reached a drive.
    pub busiest: Option<Busiest<'a>>,
    /// Distance of the delivered latencies from the models'.
    pub precision: Precision,
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End<'a> {
    /// With its command, which had this status.
    Exited(i32),
    /// Not yet.
    GoesOn,
    /// Before, with a name such as `wall-limit` and where known the reason.
    Other(&'a str, &'a str),
}

/// The operation and drive with the most I/Os.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // as in `OperationSummary`
pub struct Busiest<'a> {
    pub operation: Operation,
    pub drive: &'a str,
    pub count: u64,
    pub iops: f64,
    pub bytes_per_second: f64,
    /// The median of the delivered latencies (ns).
    pub p50: u64,
}

/// The deviation of delivered latencies from the models'.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Precision {
    /// None can be: the latencies are the models' own.
    Simulated,
    /// Percentiles differ by so many per cent at most.
    Within(f64),
    /// The deviation has no percentage: the models take no time.
    NoTime,
}

impl Run<'_> {
    /// The answer.
    pub fn verdict(&self) -> Verdict {
        let failed = match self.end {
            End::Exited(0) | End::GoesOn => None,
            End::Exited(status) => Some(Verdict::new(
                format!("status {status}"),
                Tone::Bad,
                format!("The command failed with status {status}."),
            )),
            End::Other(name, message) => {
                let name = name.replace('-', " ");
                let sentence = format!("The run did not end with its command: {name}: {message}");
                let sentence = format!("{}.", sentence.trim_end_matches([':', ' ', '.']));
                Some(Verdict::new(name, Tone::Bad, sentence))
            }
        };
        if self.end == End::GoesOn {
            let sentence = match &self.busiest {
                Some(busiest) => {
                    format!("The run goes on: {}{}", self.rate(busiest), self.failed())
                }
                None => "The run goes on.".to_owned(),
            };
            return Verdict::new(RUNNING, Tone::Neutral, sentence);
        }
        let tenants = self.tenants.as_ref().map(Tenants::verdict);
        if let Some(failed) = failed {
            // The failure is the word; what machines said is told before it, tenants after it.
            let parts = [self.cluster.clone(), Some(failed.clone()), tenants];
            let all: Vec<_> = parts.into_iter().flatten().map(|one| one.sentence).collect();
            return Verdict { sentence: all.join(" "), ..failed };
        }
        let parts = [self.cluster.clone(), tenants].into_iter().flatten();
        let drives = self.drives();
        let has_told = self.cluster.is_some() || self.tenants.is_some();
        // Without an I/O there is nothing to add to what several machines did.
        let drives = (self.busiest.is_some() || !has_told).then_some(drives);
        let mut all = parts.chain(drives);
        let first = all.next().unwrap_or_default();
        all.fold(first, Verdict::before)
    }

    /// Of the drives alone.
    fn drives(&self) -> Verdict {
        let Some(busiest) = &self.busiest else {
            let sentence = "No I/O reached a modelled drive.";
            return Verdict::new("no I/O", Tone::Neutral, sentence);
        };
        let (rate, failed) = (self.rate(busiest), self.failed());
        let (word, timing) = match self.precision {
            Precision::Simulated => ("simulated".to_owned(), String::new()),
            Precision::Within(0.0) => (
                "exact".to_owned(),
                " Each percentile of the latency equals the model's: what differs between two such runs comes from \
                 their drives, loads and seeds."
                    .to_owned(),
            ),
            Precision::Within(percent) => (
                format!("within {}", units::deviation(Some(percent.abs()))),
                format!(
                    " Percentiles of the latency (p1 to p99.9) differ from the model's by {} at most: \
                     differences between runs are to be larger than twice that.",
                    units::deviation(Some(percent))
                ),
            ),
            Precision::NoTime => (
                "no time modelled".to_owned(),
                " The models take no time, so that latencies have no deviation in per cent."
                    .to_owned(),
            ),
        };
        let (word, tone) = match (self.is_warned, self.errors, self.precision) {
            (true, ..) => ("not to be trusted".to_owned(), Tone::Bad),
            (false, 1.., _) => ("I/Os failed".to_owned(), Tone::Bad),
            (.., Precision::Within(_)) => (word, Tone::Good),
            _ => (word, Tone::Neutral),
        };
        Verdict::new(word, tone, format!("{rate}{failed}{timing}"))
    }

    /// The rate of the busiest operation, in a sentence.
    fn rate(&self, busiest: &Busiest) -> String {
        match self.ios {
            1 => format!(
                "One I/O, a {} of {}: it took {}.",
                busiest.operation.name(),
                busiest.drive,
                units::duration(busiest.p50 as f64)
            ),
            ios => format!(
                "{} I/Os{}; {} {} of {}: {} a second{}, half of them in {} or less.",
                units::count(ios),
                match self.loads {
                    0 => String::new(),
                    loads => format!(", beside {} of the host's workloads", units::count(loads)),
                },
                match busiest.count {
                    count if count == ios => "all are",
                    count if count > ios / 2 => "most are",
                    _ => "the most numerous are",
                },
                units::operations(busiest.operation),
                busiest.drive,
                units::significant(busiest.iops, 4),
                match busiest.operation.has_bandwidth() {
                    true => format!(", {}", units::bandwidth(busiest.bytes_per_second)),
                    false => String::new(),
                },
                units::duration(busiest.p50 as f64),
            ),
        }
    }

    /// The failed I/Os, in a sentence; nothing without any.
    fn failed(&self) -> String {
        match self.errors {
            0 => String::new(),
            errors => format!(" {} failed.", counted(errors, "I/O", "I/Os")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::super::{Tenant, Waited};
    use super::*;

    fn run<'a>() -> Run<'a> {
        Run {
            end: End::Exited(0),
            is_warned: false,
            cluster: None,
            tenants: None,
            ios: 1000,
            loads: 0,
            errors: 0,
            busiest: Some(Busiest {
                operation: Operation::Read,
                drive: "fast",
                count: 900,
                iops: 9708.0,
                bytes_per_second: 39.76e6,
                p50: 100_000,
            }),
            precision: Precision::Within(0.0),
        }
    }

    #[test]
    fn a_run_begins_with_what_matters_most() {
        let verdict = run().verdict();
        assert_eq!((verdict.word.as_str(), verdict.tone), ("exact", Tone::Good));
        assert_eq!(
            verdict.sentence,
            "1,000 I/Os; most are reads of fast: 9,708 a second, 39.76 MB/s, half of them in 100 µs or less. Each percentile of \
             the latency equals the model's: what differs between two such runs comes from their drives, loads and seeds."
        );
        let beside = Run { loads: 8300, ..run() }.verdict();
        let begin = "1,000 I/Os, beside 8,300 of the host's workloads; most are reads";
        assert!(beside.sentence.starts_with(begin), "{beside:?}");
        // Bytes a second of discards say nothing.
        let discards = run().busiest.map(|one| Busiest { operation: Operation::Discard, ..one });
        let discards = Run { busiest: discards, ..run() }.verdict();
        let part = "discards of fast: 9,708 a second, half of them in 100 µs or less.";
        assert!(discards.sentence.contains(part), "{discards:?}");
        let failed = Run { end: End::Exited(3), ..run() }.verdict();
        assert_eq!((failed.word.as_str(), failed.tone), ("status 3", Tone::Bad));
        let end = End::Other("wall-limit", "");
        let limit = Run { end, ..run() }.verdict();
        assert_eq!(limit.sentence, "The run did not end with its command: wall limit.");
        let cluster = Verdict::new("partitioned", Tone::Bad, "Three writes are lost.");
        let lost = Run { cluster: Some(cluster), busiest: None, ios: 0, ..run() }.verdict();
        assert_eq!(
            (lost.word.as_str(), lost.sentence.as_str()),
            ("partitioned", "Three writes are lost.")
        );
    }

    /// Every end, with and without I/Os, errors, doubts, machines, tenants and limits.
    #[test]
    fn all_cases_have_a_verdict() {
        let tenant_of = |name, ratio, is_alone, steps| Tenant {
            name,
            is_alone,
            steps,
            step: (2e9, 2.5e9),
            most: 1e6 * ratio,
            requests: steps as u64 * 20,
            usual: 1e6,
        };
        let tenant = |name, ratio| tenant_of(name, ratio, false, 9);
        let alone = |name, ratio| tenant_of(name, ratio, true, 9);
        let once = |name| tenant_of(name, 1.0, false, 1);
        let waited = || Waited {
            name: "web.disk",
            waited: 90,
            requests: 100,
            mean: 4.8e6,
            limit: Some("20 MB/s"),
        };
        let tenants = [
            vec![alone("web.disk", 1.0)],
            vec![once("web.disk"), once("db.disk")],
            vec![once("web.disk"), tenant("db.disk", 1.1)],
            vec![alone("web.disk", 2.0)],
            vec![alone("web.disk", 2.0), alone("db.disk", 9.0)],
            vec![tenant("web.disk", 1.0), tenant("db.disk", 1.2)],
            vec![tenant("web.disk", 1.0), tenant("db.disk", 3.0)],
            vec![tenant("web.disk", 4.0), tenant("db.disk", 3.0), tenant("backup", 1.6)],
        ];
        let all = tenants.into_iter().flat_map(|tenants| {
            [vec![], vec![waited()]]
                .map(|waited| Some(Tenants { tenants: tenants.clone(), waited }))
        });
        let tenants: Vec<_> = all.chain([None]).collect();
        let clusters = [None, Some(Verdict::new("lost", Tone::Bad, "Two writes are lost."))];
        let ends = [End::Exited(0), End::Exited(1), End::Other("panicked", "no init.")];
        let within = [0.0, 0.3, -0.004, 250.0].map(Precision::Within);
        let precisions = [Precision::Simulated, Precision::NoTime].into_iter().chain(within);
        for precision in precisions {
            for (ios, errors) in [(0_u64, 0), (1, 0), (1, 1), (1000, 0), (1000, 1), (1000, 10)] {
                for (end, cluster) in
                    ends.iter().flat_map(|end| clusters.iter().map(move |one| (end, one)))
                {
                    for tenants in &tenants {
                        for is_warned in [false, true] {
                            let busiest = run()
                                .busiest
                                .filter(|_| ios > 0)
                                .map(|one| Busiest { count: ios.div_ceil(2), ..one });
                            let (end, cluster, tenants) = (*end, cluster.clone(), tenants.clone());
                            let run = Run {
                                end,
                                is_warned,
                                cluster,
                                tenants,
                                ios,
                                loads: 0,
                                errors,
                                busiest,
                                precision,
                            };
                            let verdict = run.verdict();
                            check(&verdict, &format!("{run:?}"));
                            let bad =
                                end != End::Exited(0) || (ios > 0 && (is_warned || errors > 0));
                            assert!(!bad || verdict.tone == Tone::Bad, "{run:?}");
                            let alone = |all: &Tenants| all.tenants.iter().all(|one| one.is_alone);
                            let once = |all: &Tenants| all.tenants.iter().all(|one| one.steps == 1);
                            if run.tenants.as_ref().is_some_and(once) {
                                assert!(
                                    !verdict.sentence.contains("obody suffered"),
                                    "{verdict:?}"
                                );
                            }
                            if run.tenants.as_ref().is_some_and(alone) {
                                assert!(!verdict.sentence.contains("suffered"), "{verdict:?}");
                            }
                        }
                    }
                }
            }
        }
    }
}
