//! From fio's JSON: the bins of `json+`, or the percentiles of `json`.
//!
//! The fields are those of fio's `stat.c` (`show_thread_status_json`); times
//! are completion latencies (`clat_ns`, else `lat_ns`) as the application saw
//! them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use stasis_block::Operation;

use super::error::CalibrateError;
use super::shape::{self, Points};
use crate::profile::{Block, Observed, Profile};

/// Values below this have a bin of their own; above it fio has 64 bins for each
/// power of two (`FIO_IO_U_PLAT_BITS` 6 in fio's `stat.h`).
const EXACT_BELOW: u64 = 128;
/// Binary logarithm of the number of bins for each power of two.
const BIN_BITS: u32 = 6;

/// fio's sections and the operations that they measure.
const SECTIONS: [(&str, Operation); 4] = [
    ("read", Operation::Read),
    ("write", Operation::Write),
    ("trim", Operation::Discard),
    ("sync", Operation::Flush),
];

/// One kind of command as measured by all jobs of one depth: of each job the number of its commands,
/// and the distribution of their times.
#[derive(Debug, Default)]
struct Measured(Vec<(f64, Points)>);

/// Totals of jobs that ran at the same time.
#[derive(Debug, Default, Clone, Copy)]
struct Together {
    // Maximum number of commands in flight.
    depth: u32,
    // Commands and bytes a second.
    rate: f64,
    bandwidth: f64,
}

/// Options with which the block size of a job is no single one.
const MIXED_SIZES: [&str; 4] = ["bssplit", "bsrange", "blocksize_range", "bs_unaligned"];

/// Makes a profile of fio's JSON output.
///
/// The latencies of a block size are those of the jobs with the fewest commands in
/// flight; jobs with more give its highest rate. Jobs of one operation, mean block size and depth
/// are taken together. Each job's distribution has the mean and the percentiles that fio prints for it.
/// Of several outputs one after another (`--status-interval`) the last counts.
///
/// # Errors
/// [`CalibrateError`], with the field.
pub fn from_fio(json: &str) -> Result<Profile, CalibrateError> {
    // Messages may precede the JSON, and other forms of output follow it.
    let json = json.find('{').map_or(json, |start| &json[start..]);
    let mut output = Value::Null;
    for (number, value) in serde_json::Deserializer::from_str(json).into_iter().enumerate() {
        match value {
            Ok(value) => output = value,
            Err(error) if number == 0 => return Err(error.into()),
            Err(_) => break,
        }
    }
    if output.get("client_stats").is_some() {
        return Err(field("client_stats", "is of several machines; give the output of one fio"));
    }
    let jobs = output.get("jobs").and_then(Value::as_array);
    let jobs = jobs.ok_or_else(|| field("jobs", "is missing: is this fio's JSON output?"))?;
    let common = output.get("global options").and_then(Value::as_object);

    let mut together: BTreeMap<u64, Together> = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate() {
        check_job(index, job, common)?;
        let depth = depth(job, jobs, common);
        let group = together.entry(group(job)).or_default();
        group.depth = group.depth.saturating_add(depth);
        for (section, operation) in SECTIONS.map(|(name, operation)| (job.get(name), operation)) {
            let transfers = matches!(operation, Operation::Read | Operation::Write);
            let Some(section) = section.filter(|_| transfers) else { continue };
            group.rate += real(section, "iops");
            group.bandwidth += real(section, "bw_bytes");
        }
    }

    // By operation and block size: the least depth, the measurements there, and the best rate.
    let mut measured: BTreeMap<(Operation, u64), (u32, Measured, f64)> = BTreeMap::new();
    let mut bandwidth: BTreeMap<Operation, f64> = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate() {
        for (name, operation) in SECTIONS {
            let place = format!("jobs[{index}].{name}");
            let Some(section) = job.get(name).and_then(Value::as_object) else { continue };
            let count = number(section, "total_ios");
            if count == 0 {
                continue;
            }
            let block_size = number(section, "io_bytes") / count;
            let at_once = together.get(&group(job)).copied().unwrap_or_default();
            let (least, measured, rate) = measured
                .entry((operation, block_size))
                .or_insert_with(|| (at_once.depth, Measured::default(), 0.0));
            if at_once.depth > 1 {
                *rate = rate.max(at_once.rate);
            }
            let best = bandwidth.entry(operation).or_default();
            *best = best.max(at_once.bandwidth);
            if at_once.depth < *least {
                (*least, *measured) = (at_once.depth, Measured::default());
            }
            if at_once.depth == *least {
                measured.add(section, &place)?;
            }
        }
    }

    let version = output.get("fio version").and_then(Value::as_str).unwrap_or("fio");
    let name = jobs.first().and_then(|job| job.get("jobname")).and_then(Value::as_str);
    let mut profile = Profile::new(name.unwrap_or("fio"), version, Observed::Application);
    profile.depth = together.values().map(|group| group.depth).max();
    for ((operation, block_size), (depth, Measured(measured), rate)) in measured {
        let transfers = matches!(operation, Operation::Read | Operation::Write);
        let rate = (transfers && rate >= 1.0).then_some(rate as u64);
        let (percentiles, depth) = (shape::together(&measured), (depth > 1).then_some(depth));
        let block = Block { block_size, percentiles, rate, depth, ..Block::default() };
        profile.operations.entry(operation).or_default().push(block);
        let bandwidth = bandwidth.get(&operation).map_or(0, |&bandwidth| bandwidth as u64);
        if transfers && bandwidth > 0 {
            profile.bandwidth.insert(operation, bandwidth);
        }
    }
    if profile.operations.is_empty() {
        let hint = "run a job that reads or writes";
        return Err(CalibrateError::Empty { output: "fio's output", hint });
    }
    profile.check()?;
    Ok(profile)
}

/// Refuses jobs that a profile would misread.
fn check_job(
    index: usize,
    job: &Value,
    common: Option<&Map<String, Value>>,
) -> Result<(), CalibrateError> {
    let place = |part: &str| format!("jobs[{index}].{part}");
    if job.get("error").and_then(Value::as_i64).is_some_and(|error| error != 0) {
        return Err(field(place("error"), "is not 0: the job failed; leave it out"));
    }
    if job.get("mixed").is_some_and(|mixed| real(mixed, "iops") > 0.0) {
        let problem = "mixes reads and writes; run fio without unified_rw_reporting";
        return Err(field(place("mixed"), problem));
    }
    if let Some(mixed) =
        MIXED_SIZES.into_iter().find(|option| setting(job, common, option).is_some())
    {
        let problem =
            "gives commands of several sizes, whose latencies cannot be told apart; run a \
                       job for each block size";
        return Err(field(place(&format!("job options.{mixed}")), problem));
    }
    for (name, _) in SECTIONS {
        let Some(section) = job.get(name).filter(|section| section.get("clat").is_some()) else {
            continue;
        };
        if section.get("clat_ns").is_none() {
            let problem = "is in microseconds, as fio 2 prints it; run fio 3";
            return Err(field(place(&format!("{name}.clat")), problem));
        }
    }
    Ok(())
}

/// An option of a job, or of all.
fn setting<'a>(
    job: &'a Value,
    common: Option<&'a Map<String, Value>>,
    option: &str,
) -> Option<&'a str> {
    let own = job.get("job options").and_then(|options| options.get(option));
    own.or_else(|| common?.get(option))?.as_str()
}

/// Jobs of one group run at the same time.
fn group(job: &Value) -> u64 {
    job.get("groupid").and_then(Value::as_u64).unwrap_or(0)
}

/// Commands that a job has in flight: `iodepth`, if fio saw more than one there, and of each of
/// its processes where they are reported as one.
fn depth(job: &Value, jobs: &[Value], common: Option<&Map<String, Value>>) -> u32 {
    let levels = job.get("iodepth_level").and_then(Value::as_object);
    let reached = |level: &str| {
        levels.map_or(0.0, |levels| levels.get(level).and_then(Value::as_f64).unwrap_or(0.0))
    };
    let given = |option| setting(job, common, option).and_then(|value| value.parse().ok());
    let depth = match levels {
        // A few percent of the commands are a job's first and last.
        Some(_) if reached("1") >= 95.0 => 1,
        _ => given("iodepth").unwrap_or(1u32).max(1),
    };
    let alike =
        |other: &&Value| other.get("jobname") == job.get("jobname") && group(other) == group(job);
    let clones = jobs.iter().filter(alike).count() as u32;
    let processes = given("numjobs").unwrap_or(1u32).max(1);
    if clones < processes {
        depth.saturating_mul(processes)
    } else {
        depth
    }
}

impl Measured {
    fn add(&mut self, section: &Map<String, Value>, place: &str) -> Result<(), CalibrateError> {
        let has = |times: &Map<String, Value>, part| {
            times.get(part).and_then(Value::as_object).is_some_and(|part| !part.is_empty())
        };
        let times = ["clat_ns", "lat_ns"].into_iter().find_map(|key| {
            let times = section.get(key)?.as_object()?;
            (has(times, "bins") || has(times, "percentile")).then_some((key, times))
        });
        let (key, times) = times.ok_or_else(|| {
            field(place, "has neither `bins` nor `percentile`; run fio with --output-format=json+")
        })?;
        let place = format!("{place}.{key}");
        let (count, mut points) = match has(times, "bins") {
            true => of_bins(times, &place)?,
            false => (number(section, "total_ios"), of_percentiles(times, &place)?),
        };
        if let Some(mean) = times.get("mean").and_then(Value::as_f64).filter(|mean| *mean > 0.0) {
            points = shape::with_mean(&points, mean);
            if !shape::is_near(shape::mean(&points), mean) {
                let problem =
                    "is none that latencies with these percentiles can have: a profile would \
                               not repeat both; run fio with --output-format=json+";
                return Err(field(format!("{place}.mean"), problem));
            }
        }
        self.0.push((count as f64, points));
        Ok(())
    }
}

/// The least and the largest of some times (ns): as fio tells them, else the `first` and the `last` that
/// are known.
fn ends(times: &Map<String, Value>, first: f64, last: f64) -> (f64, f64) {
    let given = |key, known| times.get(key).and_then(Value::as_f64).unwrap_or(known);
    let (min, max) = (given("min", first), given("max", last));
    (min, max.max(min))
}

/// Returns the number of the latencies, and their distribution, from the bins of `json+`.
fn of_bins(times: &Map<String, Value>, place: &str) -> Result<(u64, Points), CalibrateError> {
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    for (ns, count) in times.get("bins").and_then(Value::as_object).into_iter().flatten() {
        let place = || format!("{place}.bins.{ns}");
        let ns = ns.parse::<u64>().map_err(|_| field(place(), "is no number of ns"))?;
        let count = count.as_u64().ok_or_else(|| field(place(), "is no count"))?;
        let all = bins.entry(ns).or_default();
        *all = all.saturating_add(count);
    }
    bins.retain(|_, count| *count > 0);
    let total = bins.values().fold(0u64, |all, count| all.saturating_add(*count));
    if total == 0 {
        return Err(field(format!("{place}.bins"), "is empty: fio kept no latencies"));
    }
    let (first, last) = (bins.keys().next().copied(), bins.keys().next_back().copied());
    let known = [first, last].map(|bin| bin.map_or((0.0, 0.0), bin_edges));
    let (min, max) = ends(times, known[0].0, known[1].1);
    let mut points = vec![(0.0, min)];
    let mut before = 0u64;
    for (&ns, &count) in &bins {
        let percent = |count: u64| count as f64 / total as f64 * 100.0;
        let (low, high) = bin_edges(ns);
        // fio's last bin has whatever is beyond it.
        let high = if Some(ns) == last { max } else { high };
        points.push((percent(before), low.clamp(min, max)));
        before = before.saturating_add(count);
        points.push((percent(before), high.clamp(min, max)));
    }
    points.push((100.0, max));
    points.dedup();
    Ok((total, points))
}

/// The distribution with these percentiles, with the minimum at 0 and the maximum at 100.
fn of_percentiles(times: &Map<String, Value>, place: &str) -> Result<Points, CalibrateError> {
    let mut given = Points::new();
    for (percent, ns) in times.get("percentile").and_then(Value::as_object).into_iter().flatten() {
        let place = || format!("{place}.percentile.{percent}");
        let number = percent.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
        let percent = number.ok_or_else(|| field(place(), "is no number from 0 to 100"))?;
        let ns = ns.as_f64().ok_or_else(|| field(place(), "is no number of ns"))?;
        given.push((percent, ns));
    }
    given.sort_by(|a, b| a.0.total_cmp(&b.0));
    let known = [given.first(), given.last()].map(|point| point.map_or(0.0, |(_, ns)| *ns));
    let (min, max) = ends(times, known[0], known[1]);
    let mut points = vec![(0.0, min)];
    points.extend(given.into_iter().map(|(percent, ns)| (percent, ns.clamp(min, max))));
    points.push((100.0, max));
    points.dedup();
    Ok(points)
}

/// Returns the first and the last value of the bin to which fio gives the value `ns`, its middle.
fn bin_edges(ns: u64) -> (f64, f64) {
    if ns < EXACT_BELOW {
        return (ns as f64, ns as f64);
    }
    let half = (1u64 << (ns.ilog2() - BIN_BITS)) as f64 / 2.0;
    (ns as f64 - half, ns as f64 + half)
}

/// A field's number, or 0.
fn real(from: &Value, key: &str) -> f64 {
    from.get(key).and_then(Value::as_f64).unwrap_or(0.0)
}

/// A field's count, or 0: fio leaves out fields that it did not measure.
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
        assert!(read.percentiles.contains(&(1.0, 51968.0)));
        let last = read.percentiles[read.percentiles.len() - 1];
        assert_eq!((read.percentiles[0], last), ((0.0, 45895.0), (100.0, 12004511.0)));
        let output: Value = serde_json::from_str(OUTPUT).unwrap();
        let mean = output.pointer("/jobs/0/read/clat_ns/mean").and_then(Value::as_f64).unwrap();
        assert!((shape::mean(&read.percentiles) / mean - 1.0).abs() < 1e-6);
    }

    /// Without fio's `min` and `max` the first and the last percentile are the ends.
    #[test]
    fn ends_that_fio_does_not_tell_are_those_of_its_percentiles() {
        let output = r#"{"fio version": "fio-3.33", "jobs": [{"jobname": "j", "job options": {"bs": "4k"},
            "read": {"iops": 1, "total_ios": 9, "clat_ns": {"N": 9, "mean": 1000,
            "percentile": {"1.000000": 900, "50.000000": 1000, "99.900000": 1100}}}}]}"#;
        let profile = from_fio(output).unwrap();
        let percentiles = &profile.operations[&Operation::Read][0].percentiles;
        assert_eq!((percentiles[0].1, percentiles[percentiles.len() - 1].1), (900.0, 1100.0));
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

    /// Latencies come from the fewest commands in flight, rates from the most.
    #[test]
    fn depths_and_sizes_are_told_apart() {
        let job = |name: &str, group: u32, depth: u32, processes: u32, size: u64, iops: u64| {
            let (at, bytes) = (depth.to_string(), size * 100);
            let level = if depth == 1 { "1" } else { &*at };
            serde_json::json!({
                "jobname": name, "groupid": group, "error": 0,
                "job options": { "iodepth": at, "numjobs": processes.to_string() },
                "iodepth_level": { level: 100.0 },
                "read": {
                    "io_bytes": bytes, "total_ios": 100, "iops": iops, "bw_bytes": iops * size,
                    "clat_ns": { "min": 1000 * depth, "max": 1000 * depth, "bins": { "1000": 100 } }
                }
            })
        };
        let profile_of = |jobs: Vec<Value>| {
            from_fio(&serde_json::json!({ "fio version": "fio-3.39", "jobs": jobs }).to_string())
        };
        let several = profile_of(vec![
            job("deep", 0, 32, 4, 4096, 400_000),
            job("single", 1, 1, 1, 4096, 10_000),
            job("large", 2, 1, 1, 131_072, 5_000),
        ]);
        let several = several.unwrap();
        assert_eq!(several.depth, Some(128));
        let reads = &several.operations[&Operation::Read];
        assert_eq!((reads[0].block_size, reads[0].rate), (4096, Some(400_000)));
        assert_eq!(reads[0].percentiles.last(), Some(&(100.0, 1000.0)));
        assert_eq!((reads[1].block_size, reads[1].rate), (131_072, None));
        assert_eq!(several.bandwidth[&Operation::Read], 400_000 * 4096);
        // Clones are listed one by one, and run at the same time.
        let clones =
            profile_of(vec![job("two", 0, 1, 2, 4096, 10_000), job("two", 0, 1, 2, 4096, 10_000)]);
        let clones = clones.unwrap();
        assert_eq!(clones.depth, Some(2));
        assert_eq!(clones.operations[&Operation::Read][0].rate, Some(20_000));
        // The last of several outputs, and text behind it.
        let text =
            OUTPUT.replace("\"fio-3.33\"", "\"first\"") + OUTPUT + "\na: (groupid=0, jobs=1)\n";
        let last = from_fio(&text).unwrap();
        assert_eq!((last.source.as_str(), last.depth), ("fio-3.33", Some(1)));
        for (change, expected) in [
            (serde_json::json!({ "error": 5 }), "`jobs[0].error` of fio's output: is not 0"),
            (serde_json::json!({ "mixed": { "iops": 3.0 } }), "unified_rw_reporting"),
            (serde_json::json!({ "job options": { "bssplit": "4k/50:8k/50" } }), "bssplit"),
            (serde_json::json!({ "read": { "total_ios": 1, "clat": {} } }), "fio 2 prints"),
        ] {
            let mut changed = job("a", 0, 1, 1, 4096, 10_000);
            changed.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let error = profile_of(vec![changed]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(from_fio("{\"client_stats\": []}")
            .unwrap_err()
            .to_string()
            .contains("client_stats"));
    }

    #[test]
    fn bins_are_fios() {
        // From `plat_idx_to_val`: the middle of 2^k + i * 2^(k-6) and the next.
        assert_eq!(bin_edges(127), (127.0, 127.0));
        assert_eq!(bin_edges(129), (128.0, 130.0));
        assert_eq!(bin_edges(48896), (48640.0, 49152.0));
    }
}
