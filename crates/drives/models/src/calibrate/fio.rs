//! From fio's JSON: the bins of `json+`, or the percentiles of `json`.
//!
//! The fields are those of fio's `stat.c` (`show_thread_status_json`); times
//! are completion latencies (`clat_ns`, else `lat_ns`) as the application saw
//! them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use stasis_block::Operation;

use super::CalibrateError;
use crate::profile::{Block, Observed, Profile};

/// Values below this have a bin of their own; above it fio has 64 bins for each
/// power of two (`FIO_IO_U_PLAT_BITS` 6 in fio's `stat.h`).
const EXACT_BELOW: u64 = 128;
/// Binary logarithm of the number of bins for each power of two.
const BIN_BITS: u32 = 6;

/// fio's sections and what they measure.
const SECTIONS: [(&str, Operation); 4] = [
    ("read", Operation::Read),
    ("write", Operation::Write),
    ("trim", Operation::Discard),
    ("sync", Operation::Flush),
];

/// One kind of command as measured by all jobs.
#[derive(Debug, Default)]
struct Measured {
    // Commands per bin, by the value (ns) that fio gives the bin.
    bins: BTreeMap<u64, u64>,
    percentiles: Vec<(f64, f64)>,
    min: u64,
    max: u64,
    jobs: u32,
}

/// Makes a profile of fio's JSON output.
///
/// Jobs of one operation and mean block size are taken together if they have
/// bins (`--output-format=json+`).
///
/// # Errors
/// [`CalibrateError`], with the field.
pub fn from_fio(json: &str) -> Result<Profile, CalibrateError> {
    // Messages may precede the JSON.
    let json = json.find('{').map_or(json, |start| &json[start..]);
    let output: Value = serde_json::from_str(json)?;
    let jobs = output.get("jobs").and_then(Value::as_array);
    let jobs = jobs.ok_or_else(|| field("jobs", "is missing: is this fio's JSON output?"))?;

    let mut measured: BTreeMap<(Operation, u64), Measured> = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate() {
        for (section, operation) in SECTIONS {
            let place = format!("jobs[{index}].{section}");
            let Some(section) = job.get(section).and_then(Value::as_object) else { continue };
            let count = number(section, "total_ios");
            if count == 0 {
                continue;
            }
            let block_size = number(section, "io_bytes") / count;
            measured.entry((operation, block_size)).or_default().add(section, &place)?;
        }
    }

    let version = output.get("fio version").and_then(Value::as_str).unwrap_or("fio");
    let name = jobs.first().and_then(|job| job.get("jobname")).and_then(Value::as_str);
    let mut profile = Profile::new(name.unwrap_or("fio"), version, Observed::Application);
    for ((operation, block_size), measured) in measured {
        let percentiles = measured.into_percentiles();
        let block = Block { block_size, percentiles, ..Block::default() };
        profile.operations.entry(operation).or_default().push(block);
    }
    if profile.operations.is_empty() {
        let hint = "run a job that reads or writes";
        return Err(CalibrateError::Empty { what: "fio's output", hint });
    }
    profile.check()?;
    Ok(profile)
}

impl Measured {
    fn add(&mut self, section: &Map<String, Value>, place: &str) -> Result<(), CalibrateError> {
        let times = ["clat_ns", "lat_ns"].into_iter().find_map(|key| {
            let times = section.get(key)?.as_object()?;
            let has = |part| times.get(part).is_some_and(|part| part.as_object().is_some());
            (has("bins") || has("percentile")).then_some((key, times))
        });
        let (key, times) = times.ok_or_else(|| {
            field(place, "has neither `bins` nor `percentile`; run fio with --output-format=json+")
        })?;
        let place = format!("{place}.{key}");
        let (min, max) = (number(times, "min"), number(times, "max"));
        self.min = if self.jobs == 0 { min } else { self.min.min(min) };
        self.max = self.max.max(max);
        self.jobs += 1;
        match times.get("bins").and_then(Value::as_object) {
            Some(bins) => {
                for (ns, count) in bins {
                    let place = || format!("{place}.bins.{ns}");
                    let ns = ns.parse::<u64>().map_err(|_| field(place(), "is no number of ns"))?;
                    let count = count.as_u64().ok_or_else(|| field(place(), "is no count"))?;
                    *self.bins.entry(ns).or_default() += count;
                }
            }
            None if self.jobs > 1 => {
                let problem = "percentiles of several jobs cannot be taken together; run fio with \
                               --output-format=json+ or --group_reporting";
                return Err(field(place, problem));
            }
            None => {
                let percentiles = times.get("percentile").and_then(Value::as_object);
                for (percent, ns) in percentiles.into_iter().flatten() {
                    let place = || format!("{place}.percentile.{percent}");
                    let percent = percent.parse().map_err(|_| field(place(), "is no number"))?;
                    let ns = ns.as_f64().ok_or_else(|| field(place(), "is no number of ns"))?;
                    self.percentiles.push((percent, ns));
                }
            }
        }
        Ok(())
    }

    /// Pairs of (percent, ns), with the minimum at 0 and the maximum at 100.
    fn into_percentiles(self) -> Vec<(f64, f64)> {
        let (min, max) = (self.min as f64, self.max as f64);
        let mut points = vec![(0.0, min)];
        let total: u64 = self.bins.values().sum();
        if total == 0 {
            let mut given = self.percentiles;
            given.sort_by(|a, b| a.0.total_cmp(&b.0));
            points.extend(given.into_iter().map(|(p, ns)| (p, ns.clamp(min, max.max(min)))));
        }
        let mut before = 0;
        for (&ns, &count) in self.bins.iter().filter(|(_, &count)| count > 0) {
            let percent = |count: u64| count as f64 / total as f64 * 100.0;
            let (low, high) = bin_edges(ns);
            points.push((percent(before), low.clamp(min, max.max(min))));
            before += count;
            points.push((percent(before), high.clamp(min, max.max(min))));
        }
        points.push((100.0, max.max(min)));
        points.dedup();
        points
    }
}

/// Where the bin begins and ends to which fio gives the value `ns`, its middle.
fn bin_edges(ns: u64) -> (f64, f64) {
    if ns < EXACT_BELOW {
        return (ns as f64, ns as f64);
    }
    let half = (1u64 << (ns.ilog2() - BIN_BITS)) as f64 / 2.0;
    (ns as f64 - half, ns as f64 + half)
}

/// A field's count, or 0: fio leaves out what it did not measure.
fn number(from: &Map<String, Value>, key: &str) -> u64 {
    from.get(key).and_then(Value::as_u64).unwrap_or(0)
}

fn field(field: impl Into<String>, problem: &'static str) -> CalibrateError {
    CalibrateError::Field { field: field.into(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::{Distribution, Interpolation};

    const OUTPUT: &str = include_str!("../../tests/data/fio-randrw.json");

    /// fio's own percentiles are met within half a bin and a sample.
    #[test]
    fn the_bins_give_back_fios_percentiles() {
        let profile = from_fio(OUTPUT).unwrap();
        assert_eq!(
            (profile.source.as_str(), profile.observed),
            ("fio-3.33", Observed::Application)
        );
        let output: Value = serde_json::from_str(OUTPUT).unwrap();
        let mut compared = 0;
        for (operation, block_size, path) in [
            (Operation::Read, 4096, "/jobs/0/read/clat_ns/percentile"),
            (Operation::Write, 4096, "/jobs/0/write/clat_ns/percentile"),
            (Operation::Flush, 0, "/jobs/0/sync/lat_ns/percentile"),
        ] {
            let block = &profile.operations[&operation][0];
            assert_eq!(block.block_size, block_size);
            let d = Distribution::of_percentiles(&block.percentiles, Interpolation::Linear);
            let count = output.pointer(&path.replace("clat_ns/percentile", "total_ios"));
            let count = count.and_then(Value::as_u64).unwrap_or(44);
            for (percent, ns) in output.pointer(path).unwrap().as_object().unwrap() {
                let (share, ns) = (percent.parse::<f64>().unwrap() / 100.0, ns.as_f64().unwrap());
                // One sample of the finite number may fall on either side.
                let sample = 1.0 / count as f64;
                let low = d.quantile((share - sample).max(0.0)) * 0.99;
                let high = d.quantile((share + sample).min(1.0)) * 1.01;
                assert!((low..=high).contains(&ns), "{operation:?} {percent}: {low} {ns} {high}");
                compared += 1;
            }
        }
        assert_eq!(compared, 51);
    }

    #[test]
    fn percentiles_alone_are_enough() {
        let output = OUTPUT.replace("\"bins\"", "\"other\"");
        let profile = from_fio(&format!("fio: a message\n{output}")).unwrap();
        let read = &profile.operations[&Operation::Read][0];
        assert_eq!(read.percentiles.len(), 17 + 2);
        assert_eq!(read.percentiles[1], (1.0, 51968.0));
        assert_eq!((read.percentiles[0].1, read.percentiles[18].1), (45895.0, 12004511.0));
    }

    #[test]
    fn errors_name_the_field() {
        let neither = OUTPUT.replace("\"bins\"", "\"a\"").replace("\"percentile\"", "\"b\"");
        for (output, expected) in [
            ("{\"jobs\": 3}".to_string(), "field `jobs`"),
            ("no".to_string(), "--output-format=json+"),
            ("{\"jobs\": []}".to_string(), "no completed I/O"),
            (neither, "field `jobs[0].read` of fio's output: has neither"),
            (
                OUTPUT.replacen("\"48896\" : 1", "\"48896\" : -1", 1),
                "jobs[0].read.clat_ns.bins.48896",
            ),
            (OUTPUT.replacen("\"48896\"", "\"x\"", 1), "jobs[0].read.clat_ns.bins.x"),
        ] {
            let error = from_fio(&output).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn bins_are_fios() {
        // From `plat_idx_to_val`: the middle of 2^k + i * 2^(k-6) and the next.
        assert_eq!(bin_edges(127), (127.0, 127.0));
        assert_eq!(bin_edges(129), (128.0, 130.0));
        assert_eq!(bin_edges(48896), (48640.0, 49152.0));
    }
}
