//! Statistics of scenarios, from a boot's results.

use std::path::Path;

use anyhow::{ensure, Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::guest::{self, Repetition};
use super::plan::{Boot, MACHINE, SAMPLE_MS};
use super::scenario::{Benchmark, Scenario};
use super::statistics::Statistics;

/// A scenario's figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The scenario's name.
    pub name: String,
    /// The scenario.
    pub scenario: Scenario,
    /// `s`, or `bytes/s`.
    pub unit: String,
    /// True if a start was given up at the limit.
    pub failed: bool,
    /// Statistics of the samples or starts of each repetition.
    pub repetitions: Vec<Statistics>,
    /// Statistics of the repetitions' means.
    pub overall: Option<Statistics>,
    /// Bytes a second that the guest and the host moved together meanwhile.
    pub together: Option<f64>,
}

impl Measurement {
    /// The mean of the repetitions' means; none where one was given up.
    pub fn mean(&self) -> Option<f64> {
        self.overall.filter(|_| !self.failed).map(|overall| overall.mean)
    }
}

/// Throughput of the host's workload in each sample (bytes a second).
type HostRates = Vec<f64>;

/// The measurements of a boot whose results are in `folder`.
pub fn read(folder: &Path, boot: &Boot) -> Result<Vec<Measurement>> {
    let json = |path: std::path::PathBuf| {
        let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()));
        anyhow::Ok((text?, path))
    };
    let (text, path) = json(folder.join(MACHINE).join(guest::FILE))?;
    let measured: Vec<guest::Measured> =
        serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
    let (text, path) = json(folder.join(stasis_results::SUMMARY_FILE))?;
    let summary: Value =
        serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
    measurements(boot, &measured, &host_rates(&summary))
}

fn host_rates(summary: &Value) -> HostRates {
    let rates = &summary["shared"][0]["workloads"][0]["bytes_per_second_each_2s"];
    rates.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

fn measurements(
    boot: &Boot,
    measured: &[guest::Measured],
    host: &HostRates,
) -> Result<Vec<Measurement>> {
    ensure!(measured.len() == boot.phases.len(), "it has not measured every workload");
    let mut all = Vec::new();
    for (phase, measured) in boot.phases.iter().zip(measured) {
        let scenario = |benchmark| Scenario {
            setup: boot.setup.clone(),
            guest_workload: phase.workload,
            benchmark,
        };
        if phase.samples > 0 {
            let rates_of = |repetition: &Repetition| samples(repetition);
            let rates = measured.repetitions.iter().map(rates_of).collect();
            let together = measured.repetitions.iter().map(|r| together_sampled(r, host));
            let together = mean_of(together);
            let throughput = scenario(Benchmark::Throughput);
            all.push(measurement(throughput, "bytes/s", rates, false, together));
        }
        for (index, application) in phase.applications.iter().enumerate() {
            let mut failed = false;
            let times = measured.repetitions.iter().map(|repetition| {
                let starts = repetition.starts.get(index).map_or(&[][..], Vec::as_slice);
                failed |= starts.iter().any(Option::is_none);
                starts.iter().copied().flatten().collect()
            });
            let times = times.collect();
            let together = mean_of(measured.repetitions.iter().map(|r| together_starting(r, host)));
            let startup = scenario(Benchmark::Startup(application.name.clone()));
            all.push(measurement(startup, "s", times, failed, together));
        }
    }
    Ok(all)
}

fn measurement(
    scenario: Scenario,
    unit: &str,
    values: Vec<Vec<f64>>,
    failed: bool,
    together: Option<f64>,
) -> Measurement {
    let repetitions: Vec<Statistics> =
        values.iter().filter_map(|values| Statistics::of(values)).collect();
    let means: Vec<f64> = repetitions.iter().map(|statistics| statistics.mean).collect();
    Measurement {
        name: scenario.name(),
        scenario,
        unit: unit.into(),
        failed,
        repetitions,
        overall: Statistics::of(&means),
        together,
    }
}

/// Bytes a second of each of the guest's samples.
fn samples(repetition: &Repetition) -> Vec<f64> {
    let seconds = SAMPLE_MS as f64 / 1e3;
    repetition.samples.iter().map(|moved| (moved.read + moved.written) as f64 / seconds).collect()
}

fn together_sampled(repetition: &Repetition, host: &HostRates) -> Option<f64> {
    let guest = Statistics::of(&samples(repetition))?.mean;
    let length = repetition.samples.len() as u64 * SAMPLE_MS * 1_000_000;
    let begin = repetition.samples_begin;
    Some(guest + rate_between(host, begin, begin + length))
}

fn together_starting(repetition: &Repetition, host: &HostRates) -> Option<f64> {
    let (begin, end) = (repetition.starts_begin, repetition.starts_end);
    let moved = repetition.starts_moved.read + repetition.starts_moved.written;
    let seconds = end.saturating_sub(begin) as f64 / 1e9;
    (seconds > 0.0).then(|| moved as f64 / seconds + rate_between(host, begin, end))
}

/// The mean of those samples of 2 s that lie between two times (ns since the first sample began):
/// none of them includes I/O before or after.
fn rate_between(rates: &HostRates, begin: u64, end: u64) -> f64 {
    let length = SAMPLE_MS * 1_000_000;
    let first = begin.div_ceil(length) as usize;
    let behind = ((end / length) as usize).min(rates.len());
    let within = rates.get(first..behind).unwrap_or_default();
    Statistics::of(within).map_or(0.0, |statistics| statistics.mean)
}

fn mean_of(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.flatten().collect();
    Statistics::of(&values).map(|statistics| statistics.mean)
}

#[cfg(test)]
mod tests {
    use super::super::guest::{Application, Measured, Phase};
    use super::super::scenario::{Device, Setup};
    use super::*;
    use stasis_program::pattern::Pattern;

    fn boot() -> Boot {
        Boot {
            setup: Setup {
                device: Device::named("sem16g"),
                host_scheduler: "bfq".into(),
                host_workload: Pattern::readers(1, false),
                guest_scheduler: "bfq".into(),
                coordinated: false,
            },
            phases: vec![Phase {
                workload: Pattern::readers(5, true),
                repetitions: 2,
                samples: 2,
                starts: 3,
                applications: vec![Application { name: "sh".into(), command: Vec::new() }],
            }],
        }
    }

    fn measured(starts: [Vec<Option<f64>>; 2]) -> Vec<Measured> {
        let text = r#"{"samples":[{"read":1000,"written":1000},{"read":6000,"written":0}],
            "samples_begin":2000000000,"starts_begin":7000000000,"starts_end":10000000000,
            "starts_moved":{"read":500,"written":100},"starts":[]}"#;
        let once: Repetition = serde_json::from_str(text).unwrap();
        let repetitions =
            starts.map(|starts| Repetition { starts: vec![starts], ..once.clone() }).to_vec();
        vec![Measured { repetitions }]
    }

    #[test]
    fn statistics_are_of_repetitions_and_of_their_means() {
        let starts = [vec![Some(1.0), Some(2.0), Some(3.0)], vec![Some(4.0); 3]];
        let host = vec![9.0, 10.0, 20.0, 30.0, 50.0, 70.0];
        let all = measurements(&boot(), &measured(starts), &host).unwrap();
        let [throughput, startup] = &all[..] else { panic!("{all:?}") };
        assert!(throughput.name.ends_with(".5r-rand.throughput"), "{}", throughput.name);
        assert_eq!(throughput.mean(), Some(2000.0));
        // The second and the third of the host's samples.
        assert_eq!(throughput.together, Some(2000.0 + 15.0));
        assert_eq!(startup.repetitions.iter().map(|r| r.mean).collect::<Vec<_>>(), [2.0, 4.0]);
        assert_eq!((startup.mean(), startup.overall.unwrap().count), (Some(3.0), 2));
        // From 7 s to 10 s: the fifth alone is within that time.
        assert_eq!(startup.together, Some(200.0 + 50.0));
    }

    #[test]
    fn a_start_that_was_given_up_fails_the_scenario() {
        let starts = [vec![Some(59.0), None], vec![]];
        let all = measurements(&boot(), &measured(starts), &Vec::new()).unwrap();
        assert!(all[1].failed && all[1].mean().is_none() && all[1].repetitions.len() == 1);
        assert!(measurements(&boot(), &[], &Vec::new()).is_err());
    }
}
