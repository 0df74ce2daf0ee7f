//! 4 KiB synchronous I/Os by fio.

use anyhow::{bail, Context, Result};
use serde_json::Value;

/// Latency and I/Os a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Mean, as fio's thread sees it (us).
    pub latency_us: f64,
    /// Median (us), which other work on the machine hardly moves.
    pub median_us: f64,
    /// I/Os a second of all threads.
    pub iops: f64,
}

/// The command: `count` I/Os by each of `threads` threads, one at a time, which poll
/// for completions if `polled`: by io_uring, as Linux 5.19 and later ignore RWF_HIPRI
/// of a synchronous call.
pub fn fio(device: &str, kind: &str, threads: u32, count: u64, polled: bool) -> String {
    command(device, kind, threads, &format!("--number_ios={count}"), polled)
}

/// The command for fio with a limit in seconds.
pub fn fio_for(device: &str, kind: &str, threads: u32, seconds: u64, polled: bool) -> String {
    command(device, kind, threads, &format!("--time_based --runtime={seconds}"), polled)
}

/// I/Os and the time (s) of each round, from the output of [`sampler`].
pub fn rounds(text: &str) -> Result<Vec<(f64, f64)>> {
    let samples = text.lines().map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<f64>);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(time)), Some(Ok(reads)), Some(Ok(writes))) => Ok((time, reads + writes)),
            _ => bail!("`{line}` is no sample of a drive's I/Os"),
        }
    });
    let samples = samples.collect::<Result<Vec<_>>>()?;
    let pairs = samples.windows(2);
    Ok(pairs.map(|pair| (pair[1].1 - pair[0].1, pair[1].0 - pair[0].0)).collect())
}

/// A script that prints the number of a drive's I/Os before and after each of `rounds`.
pub fn sampler(device: &str, rounds: usize, seconds: u64) -> String {
    // Time since the boot; reads and writes completed (Documentation/block/stat.rst).
    let stat = format!("/sys/block/{}/stat", device.trim_start_matches("/dev/"));
    format!(
        "say() {{ read up rest </proc/uptime; read r a b c w rest <{stat}; echo $up $r $w; }}\n\
         say; for i in $(seq {rounds}); do sleep {seconds}; say; done"
    )
}

fn command(device: &str, kind: &str, threads: u32, limit: &str, polled: bool) -> String {
    let polled = if polled { " --hipri=1" } else { "" };
    format!(
        "fio --name=m --filename={device} --rw={kind} --bs=4k --direct=1 --ioengine=io_uring --iodepth=1{polled} --size=48M \
         {limit} --numjobs={threads} --thread --group_reporting --lat_percentiles=1 --output-format=json 2>/dev/null"
    )
}

/// Parses fio's output.
pub fn parse(text: &str) -> Result<Rate> {
    let start = text.find('{').context("fio printed no JSON")?;
    let value: Value = serde_json::from_str(&text[start..]).context("fio's JSON is broken")?;
    let job = &value["jobs"][0];
    let side = ["read", "write"]
        .map(|side| &job[side])
        .into_iter()
        .find(|side| side["total_ios"].as_u64().unwrap_or(0) > 0)
        .context("fio did nothing")?;
    let number = |value: &Value| value.as_f64().context("fio's JSON lacks a figure");
    let times = &side["lat_ns"];
    Ok(Rate {
        latency_us: number(&times["mean"])? / 1000.0,
        median_us: number(&times["percentile"]["50.000000"])? / 1000.0,
        iops: number(&side["iops"])?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_what_the_drive_counted_between_samples() {
        let text = "10.50 100 7\n12.50 100 1607\n14.00 100 2807\n";
        assert_eq!(rounds(text).unwrap(), [(1600.0, 2.0), (1200.0, 1.5)]);
        assert!(rounds("10.5 100\n").is_err() && rounds("sh: no\n").is_err());
        let script = sampler("/dev/vda", 3, 2);
        assert!(script.contains("/sys/block/vda/stat") && script.contains("seq 3"), "{script}");
    }

    #[test]
    fn the_side_that_did_something_counts() {
        let text = "fio: note\n{\"jobs\":[{\"read\":{\"total_ios\":0},\"write\":{\"total_ios\":9,\
                    \"iops\":250.5,\"lat_ns\":{\"mean\":15900.0,\"percentile\":{\"50.000000\":9000}}}}]}";
        let rate = Rate { latency_us: 15.9, median_us: 9.0, iops: 250.5 };
        assert_eq!(parse(text).unwrap(), rate);
        assert!(parse("").is_err() && parse("{}").is_err() && parse("{").is_err());
    }
}
