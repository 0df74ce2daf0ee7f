//! From blkparse's default text: the time from issue to the driver (`D`) to
//! completion (`C`) of each request, which is the drive's.

use std::collections::{BTreeMap, HashMap, VecDeque};

use stasis_block::blkparse::{parse, SECTOR};
use stasis_block::clock::Nanos;
use stasis_block::Operation;

use super::error::CalibrateError;
use crate::profile::{Block, Observed, Profile};

/// Minimum number of samples for a separate block size.
const MIN_SAMPLES: usize = 30;
/// Maximum number of samples that are kept as they are; of more, percentiles are kept.
const MAX_SAMPLES: usize = 2048;

/// The key of a request under way: device, operation, sector.
type Key<'a> = (&'a str, Operation, u64);
/// Time at which a request was issued (ns), and its bytes.
type Issue = (Nanos, u64);

/// Makes a profile of blkparse's default text output.
///
/// Requests without an issue or a completion are left out, failed ones too, as
/// are lines that are no events. Block sizes with few samples are left out
/// where there are others with enough.
///
/// # Errors
/// [`CalibrateError`], with the line.
pub fn from_blkparse(text: &str) -> Result<Profile, CalibrateError> {
    // Flushes have no sector to distinguish them: they complete in order.
    let mut issued: HashMap<Key, VecDeque<Issue>> = HashMap::new();
    let mut samples: BTreeMap<Operation, BTreeMap<u64, Vec<Nanos>>> = BTreeMap::new();
    // Requests under way, and the most that there were.
    let (mut under_way, mut depth) = (0u32, 0u32);
    for (index, line) in text.lines().enumerate() {
        let bad = |problem| CalibrateError::Line { line: index + 1, problem, text: line.into() };
        let Some(event) = parse(line).map_err(bad)? else { continue };
        let key = (event.device, event.operation, event.sector);
        match event.action {
            "D" => {
                let waiting = issued.entry(key).or_default();
                if event.operation != Operation::Flush {
                    // Its completion was lost.
                    under_way -= waiting.len() as u32;
                    waiting.clear();
                }
                waiting.push_back((event.at, event.sectors * SECTOR));
                under_way += 1;
                depth = depth.max(under_way);
            }
            "R" => {
                under_way -= issued.remove(&key).map_or(0, |waiting| waiting.len() as u32);
            }
            "C" => {
                let waiting = issued.get_mut(&key).and_then(VecDeque::pop_front);
                let Some((at, bytes)) = waiting else { continue };
                under_way -= 1;
                if event.failed {
                    continue;
                }
                let latency = event.at.checked_sub(at);
                let latency = latency.ok_or_else(|| bad("completes before it was issued"))?;
                let sizes = samples.entry(event.operation).or_default();
                sizes.entry(bytes).or_default().push(latency);
            }
            _ => {}
        }
    }

    let mut profile = Profile::new("blktrace", "blkparse, D to C", Observed::Device);
    profile.depth = Some(depth.max(1));
    for (operation, sizes) in samples {
        let enough = sizes.values().any(|samples| samples.len() >= MIN_SAMPLES);
        let kept = sizes.into_iter().filter(|(_, s)| !enough || s.len() >= MIN_SAMPLES);
        let blocks = kept.map(|(block_size, samples)| block(block_size, samples)).collect();
        profile.operations.insert(operation, blocks);
    }
    if profile.operations.is_empty() {
        let hint = "trace both the issue (D) and the completion (C) of requests";
        return Err(CalibrateError::Empty { output: "blkparse's output", hint });
    }
    profile.check()?;
    Ok(profile)
}

fn block(block_size: u64, mut samples: Vec<Nanos>) -> Block {
    if samples.len() <= MAX_SAMPLES {
        return Block { block_size, samples, ..Block::default() };
    }
    samples.sort_unstable();
    // Every percent, and a decade finer for each nine.
    let mut percents: Vec<f64> = (0..=99).map(f64::from).collect();
    for step in [0.1, 0.01, 0.001] {
        let from = 100.0 - 10.0 * step;
        percents.extend((1..=9).map(|i| from + f64::from(i) * step));
    }
    percents.push(100.0);
    let last = (samples.len() - 1) as f64;
    let at = |percent: f64| samples[(percent / 100.0 * last).round() as usize] as f64;
    let percentiles = percents.into_iter().map(|percent| (percent, at(percent))).collect();
    Block { block_size, percentiles, ..Block::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// blkparse's own output for a trace of 60 requests.
    const OUTPUT: &str = include_str!("../../tests/data/blkparse.txt");

    #[test]
    fn issues_and_completions_are_matched() {
        let profile = from_blkparse(OUTPUT).unwrap();
        assert_eq!(profile.observed, Observed::Device);
        let samples = |operation: Operation| -> Vec<(u64, usize)> {
            let blocks = &profile.operations[&operation];
            blocks.iter().map(|block| (block.block_size, block.samples.len())).collect()
        };
        let total = |operation| samples(operation).iter().map(|(_, n)| n).sum::<usize>();
        // One of 20 reads never completes; the writes are 9 W, 13 WS, 7 WFS.
        assert_eq!((total(Operation::Read), total(Operation::Write)), (19, 29));
        assert_eq!((total(Operation::Discard), samples(Operation::Flush)), (6, vec![(0, 6)]));
        // The first read: issued at 2000 ns, completed at 94978 ns.
        let read = &profile.operations[&Operation::Read];
        assert!(read
            .iter()
            .any(|block| block.block_size == 4096 && block.samples.contains(&92978)));
        assert!(read.iter().flat_map(|b| &b.samples).all(|ns| (80_000..100_000).contains(ns)));
    }

    #[test]
    fn many_samples_become_percentiles() {
        let mut text = String::new();
        for i in 0..3000u64 {
            let begin = i * 10_000;
            let end = begin + i + 1;
            text.push_str(&format!("259,0 1 1 0.{begin:09} 9 D RA {i} + 8 [x]\n"));
            text.push_str(&format!("259,0 1 1 0.{end:09} 9 C RA {i} + 8 [0]\n"));
        }
        let profile = from_blkparse(&text).unwrap();
        let read = &profile.operations[&Operation::Read][0];
        assert_eq!((read.block_size, read.samples.len()), (4096, 0));
        let at = |percent: f64| read.percentiles.iter().find(|p| p.0 == percent).unwrap().1;
        assert_eq!((at(0.0), at(50.0), at(100.0)), (1.0, 1501.0, 3000.0));
        assert!((2995.0..=2999.0).contains(&read.percentiles[read.percentiles.len() - 20].1));
    }

    #[test]
    fn errors_name_the_line() {
        let good = "8,0 0 1 0.000000100 1 D R 8 + 8 [x]\n";
        for (line, expected) in [
            ("8,0 0 2 0.0001 1 C R 8 + 8 [0]", "line 2 of blkparse's output: the time"),
            ("8,0 0 2 0.000000001 1 C R 8 + 8 [0]", "completes before it was issued"),
            ("8,0 0 2 0.000000200 1 C R x + 8 [0]", "the sector is no number"),
            ("8,0 0 2", "the time is missing"),
            ("8,0 0 2 0.000000200 1 C R 8 + 8 [5]", "no completed I/O"),
            ("", "no completed I/O"),
        ] {
            let error = from_blkparse(&format!("{good}{line}")).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
