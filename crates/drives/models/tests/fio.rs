//! Profiles against fio itself: each repeats the mean and the percentiles that fio prints, in every form
//! in which it prints them.

#![cfg(target_os = "linux")]
// The peer is a program.
#![allow(clippy::disallowed_methods)]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command as Program;

use serde_json::{json, Value};
use stasis_block::{Command, Operation};
use stasis_models::calibrate::{from_fio, from_text};
use stasis_models::{BuildContext, ModelSpec, Profile};

/// Lists of percentiles; fio's own where there is none.
const LISTS: [Option<&str>; 7] = [
    None,
    Some("50"),
    Some("99.9:50"),
    Some("90"),
    Some("100"),
    Some("0.1:99.99"),
    Some("1:2:3:5:10:20:30:40:45:50:55:60:70:80:90:95:97:98:99:99.9"),
];

/// Options that choose the times of which fio keeps percentiles.
const TIMES: [&str; 3] = ["", "lat_percentiles=1", "clat_percentiles=0\nlat_percentiles=1"];

/// Kinds of jobs.
const JOBS: [&str; 7] = [
    "rw=randread",
    "rw=randwrite",
    "rw=randrw\nnumjobs=3",
    "rw=randrw\nnumjobs=3\ngroup_reporting=1",
    "rw=write\nfsync=8",
    "rw=randread\nioengine=null\niodepth=8",
    "rw=randread\nioengine=null\niodepth=4\nnumjobs=2\ngroup_reporting=1",
];

/// A job file with every list for every kind of job, one after another: each is a group.
fn jobs() -> (String, Vec<String>) {
    let mut text = String::from(
        "[global]\nfilename=data\nsize=1m\nbs=4k\nioengine=psync\nnumber_ios=300\nthread\n",
    );
    let mut all = Vec::new();
    for (place, list) in LISTS.iter().enumerate() {
        for (job_place, job) in JOBS.iter().enumerate() {
            // Each job and each list meets each of the times.
            let times = TIMES[(place + job_place) % TIMES.len()];
            let list = list.map_or(String::new(), |list| format!("percentile_list={list}"));
            let _ =
                write!(text, "[job{}]\nstonewall\nnew_group\n{job}\n{times}\n{list}\n", all.len());
            all.push(format!("{job}, {times}, {list}").replace('\n', ", "));
        }
    }
    (text, all)
}

fn fio(folder: &Path, words: &[&str]) -> String {
    let output =
        Program::new("fio").args(words).current_dir(folder).output().expect("fio is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The value (ns) below which `percent` of a quantile function are, from below at a jump.
fn at(points: &[(f64, f64)], percent: f64) -> f64 {
    let after = points.partition_point(|(at, _)| *at < percent);
    match (after.checked_sub(1).map(|before| points[before]), points.get(after)) {
        (Some((from, lower)), Some(&(to, upper))) => {
            lower + (upper - lower) * (percent - from) / (to - from)
        }
        (None, Some((_, first))) => *first,
        (before, None) => before.unwrap().1,
    }
}

fn mean(points: &[(f64, f64)]) -> f64 {
    points.windows(2).map(|p| (p[1].0 - p[0].0) / 200.0 * (p[0].1 + p[1].1)).sum()
}

/// Compares a profile with the jobs that it was made of.
fn repeats(profile: &Profile, jobs: &[Value], name: &str) {
    for (section, operation) in
        [("read", Operation::Read), ("write", Operation::Write), ("sync", Operation::Flush)]
    {
        let times = |job: &Value| {
            let own = &job[section];
            let kept =
                ["clat_ns", "lat_ns"].into_iter().find(|key| own[key]["percentile"].is_object());
            kept.map(|key| (own["total_ios"].as_f64().unwrap(), own[key].clone()))
        };
        let printed: Vec<_> =
            jobs.iter().filter_map(times).filter(|(count, _)| *count > 0.0).collect();
        if printed.is_empty() {
            continue;
        }
        let points = &profile.operations[&operation][0].percentiles;
        let whole: f64 = printed.iter().map(|(count, _)| count).sum();
        let number = |times: &Value, key: &str| times[key].as_f64().unwrap();
        let expected =
            printed.iter().map(|(count, times)| count * number(times, "mean")).sum::<f64>() / whole;
        let found = mean(points);
        assert!(
            (found / expected - 1.0).abs() < 0.03,
            "{name}: mean {found}, and fio has {expected}"
        );
        let [(count, times)] = &printed[..] else { continue };
        assert_eq!(points[points.len() - 1].1, number(times, "max"), "{name}");
        for (percent, ns) in times["percentile"].as_object().unwrap() {
            // One sample may fall on either side; fio's bins are 1.6 % wide.
            let (percent, ns) = (percent.parse::<f64>().unwrap(), ns.as_f64().unwrap());
            let sample = 100.0 / count;
            let low = 0.97 * at(points, (percent - sample).max(0.0));
            let high = 1.03 * at(points, (percent + sample).min(100.0));
            assert!((low..=high).contains(&ns), "{name}: p{percent} {low} {ns} {high}");
        }
    }
}

/// The mean time of a profile's drive with `depth` commands in flight, and its standard error (ns).
fn driven(profile: &Profile, operation: Operation, depth: usize) -> (f64, f64) {
    const COMMANDS: usize = 20_000;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.json"), profile.to_json()).unwrap();
    let mut spec = ModelSpec::parse("profile:p.json").unwrap();
    spec.resolve(folder.path()).unwrap();
    let mut model = spec.build(&BuildContext { seed: 7, capacity: 1 << 30, path: 0 }).unwrap();
    let command = Command::new(operation, 0, profile.operations[&operation][0].block_size);
    let mut begun = vec![0u64; depth];
    (0..depth).for_each(|tag| model.submit(0, tag as u32, &command));
    let (mut sum, mut squares, mut count, mut done) = (0.0, 0.0, 0usize, Vec::new());
    while count < COMMANDS {
        let now = model.next_event().unwrap();
        model.advance(now, &mut done);
        for completion in done.drain(..) {
            let latency = (completion.at - begun[completion.tag as usize]) as f64;
            (sum, squares, count) = (sum + latency, squares + latency * latency, count + 1);
            begun[completion.tag as usize] = completion.at;
            model.submit(completion.at, completion.tag, &command);
        }
    }
    let mean = sum / count as f64;
    let variance = squares / count as f64 - mean * mean;
    (mean, (variance / count as f64).sqrt())
}

#[test]
fn profiles_repeat_what_fio_prints() {
    let folder = tempfile::tempdir().unwrap();
    let (text, names) = jobs();
    std::fs::write(folder.path().join("all.fio"), text).unwrap();
    for form in ["json", "json+"] {
        let output = fio(folder.path(), &["all.fio", &format!("--output-format={form}")]);
        let output: Value = serde_json::from_str(&output).unwrap();
        for (group, name) in names.iter().enumerate() {
            let name = format!("{form}: {name}");
            let own = |job: &&Value| job["groupid"] == group;
            let jobs: Vec<Value> =
                output["jobs"].as_array().unwrap().iter().filter(own).cloned().collect();
            assert!(!jobs.is_empty(), "{name}");
            let one = json!({
                "fio version": output["fio version"],
                "global options": output["global options"],
                "jobs": jobs,
            });
            let profile =
                from_fio(&one.to_string()).unwrap_or_else(|error| panic!("{name}: {error}"));
            repeats(&profile, &jobs, &name);
            // And so does its drive, with as many in flight as there were.
            let depth = profile.depth.unwrap() as usize;
            for (&operation, blocks) in
                profile.operations.iter().filter(|(o, _)| **o != Operation::Flush)
            {
                let (found, error) = driven(&profile, operation, depth);
                let expected = mean(&blocks[0].percentiles);
                let most = 0.03 * expected + 5.0 * error + 1.0;
                assert!(
                    (found - expected).abs() <= most,
                    "{name}: {found}, and the profile has {expected}"
                );
            }
        }
    }
}

/// Forms that do not tell, by name.
#[test]
fn what_does_not_tell_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let job = [
        "--name=a",
        "--filename=data",
        "--size=1m",
        "--bs=4k",
        "--rw=randrw",
        "--ioengine=psync",
        "--number_ios=100",
    ];
    for (more, expected) in [
        (&["--output-format=normal"][..], "fio's usual text"),
        (&["--output-format=terse"], "fio's terse output"),
        (&["--minimal"], "fio's terse output"),
        (&["--output-format=terse", "--terse-version=5"], "fio's terse output"),
        (&["--output-format=json", "--clat_percentiles=0"], "has neither `bins` nor `percentile`"),
        (&["--output-format=json+", "--clat_percentiles=0"], "has neither `bins` nor `percentile`"),
        (&["--output-format=json+", "--disable_clat=1"], "has neither `bins` nor `percentile`"),
        (&["--output-format=json+", "--bssplit=4k/50:8k/50"], "commands of several sizes"),
        (&["--output-format=json+", "--unified_rw_reporting=1"], "mixes reads and writes"),
        (&["--output-format=json+", "--unified_rw_reporting=both"], "mixes reads and writes"),
    ] {
        let output = fio(folder.path(), &[&job[..], more].concat());
        let error = from_text(&output).map(|profile| profile.to_json()).unwrap_err().to_string();
        assert!(error.contains(expected), "{more:?}: {error}");
    }
}
