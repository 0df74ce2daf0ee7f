//! fio in the guest: its command line, and its JSON output.

use std::path::Path;

use anyhow::{bail, Context, Result};
use serde_json::Value;
use stasis_report::plot::{CdfSeries, Stroke};

/// The file that [`command`]'s fio leaves in `/results`.
pub const FILE: &str = "fio.json";

/// fio's command line for jobs that follow each other. Each makes `count` I/Os of
/// 4 KiB at random places of the first drive, one at a time and past the page
/// cache, with synchronous system calls, as the publication does.
pub fn command(jobs: &[(&str, &str)], count: u64) -> Vec<String> {
    let mut words = vec!["fio".to_owned()];
    let mut add = |option: &str| words.push(format!("--{option}"));
    add("output-format=json+");
    add(&format!("output=/results/{FILE}"));
    for (name, operation) in jobs {
        add(&format!("name={name}"));
        for option in ["filename=/dev/nvme0n1", "bs=4k", "direct=1", "ioengine=psync", "thread=1"] {
            add(option);
        }
        // No map of the blocks done: it costs memory and time for no figure.
        for option in ["norandommap=1", "stonewall=1"] {
            add(option);
        }
        add(&format!("rw={operation}"));
        add(&format!("number_ios={count}"));
    }
    words
}

/// Completion latencies of one job and direction, as fio gives them (ns).
#[derive(Debug, Clone, PartialEq)]
pub struct Latencies {
    /// Number of I/Os.
    pub count: u64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// (percent, ns), rising.
    pub percentiles: Vec<(f64, f64)>,
    /// (ns, count) of fio's bins, rising. fio names a bin by its middle.
    pub bins: Vec<(f64, u64)>,
}

/// Reads the jobs of fio's output in `folder`: (job's name, latencies of the
/// direction in which it made I/Os).
pub fn read(folder: &Path) -> Result<Vec<(String, Latencies)>> {
    let path = folder.join(FILE);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read fio's output {}", path.display()))?;
    parse(&text).with_context(|| format!("{}", path.display()))
}

/// See [`read`].
pub fn parse(json: &str) -> Result<Vec<(String, Latencies)>> {
    // Messages may precede the JSON.
    let json = json.find('{').map_or(json, |start| &json[start..]);
    let output: Value = serde_json::from_str(json).context("is not fio's JSON output")?;
    let jobs = output.get("jobs").and_then(Value::as_array).context("`jobs` is missing")?;
    jobs.iter().map(job).collect()
}

fn job(job: &Value) -> Result<(String, Latencies)> {
    let name = job.get("jobname").and_then(Value::as_str).context("`jobname` is missing")?;
    let error = job.get("error").and_then(Value::as_i64).unwrap_or(0);
    if error != 0 {
        bail!("fio's job {name} failed with error {error}");
    }
    for direction in ["read", "write"] {
        let Some(section) = job.get(direction) else { continue };
        let count = section.get("total_ios").and_then(Value::as_u64).unwrap_or(0);
        if count > 0 {
            let place = || format!("job {name}, {direction}.clat_ns");
            let times = section.get("clat_ns").with_context(place)?;
            return Ok((name.to_owned(), latencies(count, times).with_context(place)?));
        }
    }
    bail!("fio's job {name} made no I/O")
}

fn latencies(count: u64, times: &Value) -> Result<Latencies> {
    let number = |key: &str| {
        let value = times.get(key).and_then(Value::as_f64);
        value.with_context(|| format!("`{key}` is no number"))
    };
    let pairs = |key: &str| -> Result<Vec<(f64, f64)>> {
        let fields = times.get(key).and_then(Value::as_object);
        let fields = fields.with_context(|| format!("`{key}` is missing"))?;
        let mut pairs: Vec<(f64, f64)> = Vec::with_capacity(fields.len());
        for (name, value) in fields {
            let wrong = || format!("`{key}` has `{name}`: {value}");
            pairs.push((name.parse().with_context(wrong)?, value.as_f64().with_context(wrong)?));
        }
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(pairs)
    };
    Ok(Latencies {
        count,
        min: number("min")?,
        max: number("max")?,
        mean: number("mean")?,
        stddev: number("stddev")?,
        percentiles: pairs("percentile")?,
        bins: pairs("bins")?.into_iter().map(|(ns, count)| (ns, count as u64)).collect(),
    })
}

impl Latencies {
    /// Value of a percentile that fio lists (ns).
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let found = self.percentiles.iter().find(|(listed, _)| (listed - percent).abs() < 1e-9);
        found.map(|(_, ns)| *ns)
    }

    /// Share of I/Os in bins up to `ns`.
    pub fn share_below(&self, ns: f64) -> f64 {
        let below: u64 = self.bins.iter().filter(|bin| bin.0 <= ns).map(|bin| bin.1).sum();
        below as f64 / self.count.max(1) as f64
    }

    /// Every I/O's latency (ns), as exact as fio's bins are.
    pub fn values(&self) -> Vec<f64> {
        let bins = self.bins.iter();
        let each = bins.flat_map(|&(ns, count)| {
            let ns = ns.clamp(self.min, self.max);
            std::iter::repeat_n(ns, usize::try_from(count).unwrap_or(0))
        });
        each.collect()
    }

    /// The distribution function that fio's bins make.
    pub fn cdf(&self, name: &str, colour: usize, stroke: Stroke) -> CdfSeries {
        let total: u64 = self.bins.iter().map(|bin| bin.1).sum();
        let mut passed = 0;
        let mut points = Vec::with_capacity(self.bins.len());
        for (ns, count) in self.bins.iter().filter(|bin| bin.1 > 0) {
            passed += count;
            points.push((ns.clamp(self.min, self.max), passed as f64 / total as f64));
        }
        let marks = self.percentiles.iter().filter(|mark| [50.0, 99.0].contains(&mark.0));
        let marks = marks.map(|(percent, ns)| (format!("p{percent}"), *ns, percent / 100.0));
        CdfSeries { name: name.to_owned(), colour, stroke, points, marks: marks.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = r#"fio: a message first
        {"fio version": "fio-3.33", "jobs": [
          {"jobname": "r", "error": 0,
           "read": {"total_ios": 4, "clat_ns": {"min": 100, "max": 2500, "mean": 875.5,
             "stddev": 12.25, "N": 4, "percentile": {"99.000000": 2480, "1.000000": 100,
             "50.000000": 300}, "bins": {"300": 2, "2480": 1, "100": 1}}},
           "write": {"total_ios": 0, "clat_ns": {"min": 0, "max": 0, "mean": 0, "stddev": 0}}},
          {"jobname": "w", "error": 0,
           "read": {"total_ios": 0, "clat_ns": {}},
           "write": {"total_ios": 1, "clat_ns": {"min": 7, "max": 7, "mean": 7, "stddev": 0,
             "percentile": {"50.000000": 7}, "bins": {"7": 1}}}}]}"#;

    #[test]
    fn each_job_gives_its_directions_latencies() {
        let jobs = parse(OUTPUT).unwrap();
        assert_eq!(jobs.iter().map(|job| job.0.as_str()).collect::<Vec<_>>(), ["r", "w"]);
        let read = &jobs[0].1;
        assert_eq!((read.count, read.min, read.max), (4, 100.0, 2500.0));
        assert_eq!((read.mean, read.stddev), (875.5, 12.25));
        assert_eq!(read.percentiles, [(1.0, 100.0), (50.0, 300.0), (99.0, 2480.0)]);
        assert_eq!(read.bins, [(100.0, 1), (300.0, 2), (2480.0, 1)]);
        assert_eq!((read.percentile(50.0), read.percentile(51.0)), (Some(300.0), None));
        assert_eq!(read.share_below(300.0), 0.75);
        assert_eq!(read.values(), [100.0, 300.0, 300.0, 2480.0]);
        let curve = read.cdf("read", 0, Stroke::Thin);
        assert_eq!(curve.points, [(100.0, 0.25), (300.0, 0.75), (2480.0, 1.0)]);
        assert_eq!(jobs[1].1.count, 1);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (change, to, expected) in [
            ("\"jobs\"", "\"job\"", "`jobs` is missing"),
            ("\"error\": 0", "\"error\": 5", "failed with error 5"),
            ("\"total_ios\": 4", "\"total_ios\": 0", "made no I/O"),
            ("\"mean\": 875.5", "\"mean\": \"x\"", "`mean` is no number"),
            ("\"bins\": {\"300\"", "\"bins\": {\"x\"", "`bins` has `x`"),
            ("\"percentile\"", "\"other\"", "`percentile` is missing"),
        ] {
            let error = format!("{:#}", parse(&OUTPUT.replacen(change, to, 1)).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
        assert!(parse("").is_err());
    }

    #[test]
    fn jobs_follow_each_other() {
        let words = command(&[("r", "randread"), ("w", "randwrite")], 5);
        assert_eq!(words.iter().filter(|word| *word == "--stonewall=1").count(), 2);
        let name = words.iter().position(|word| word == "--name=w").unwrap();
        assert!(words[name..].contains(&"--rw=randwrite".to_owned()));
        assert!(words[name..].contains(&"--number_ios=5".to_owned()));
    }
}
