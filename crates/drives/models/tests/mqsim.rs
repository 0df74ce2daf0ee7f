//! `mqsim-mlc` beside MQSim's own program on the same configuration.

use crate::common::{build, numbers, run, REGION};
use serde::Deserialize;
use stasis_block::Command;
use stasis_block::Operation::{Discard, Read, Write};

/// The recorded output of MQSim's program, with its inputs.
const RECORDED: &str = include_str!("data/mqsim.json");

#[derive(Deserialize)]
struct Recorded {
    figures: Vec<Figure>,
}

#[derive(Deserialize)]
struct Figure {
    size: u64,
    read_percent: u64,
    depth: u32,
    iops: u64,
}

/// Largest distance of the model from the program (%).
///
/// Of the mix, MQSim's programs begin while their data enter the cache's memory, not after it, and
/// transfer only what was written of a page: at depth 1 that is 2.3 % (with it changed, MQSim has
/// 11,260 for its 11,519, and the model 11,116). Of several pages, MQSim joins some reads of both
/// planes of a die that meet by chance.
fn allowed(size: u64, read_percent: u64, depth: u32) -> f64 {
    match (read_percent, depth) {
        (50, 1) => 4.0,
        (50, 4 | 16) => 3.0,
        _ if size > PAGE => 2.0,
        _ => 1.0,
    }
}

const PAGE: u64 = 8192;

/// Commands a second: `size` bytes at the beginning of random pages, `depth` at a time.
///
/// In MQSim's run a write meets a page that was never written, and a read gives such a page a
/// place in the cells. Here the drive's first half is written, for the reads, and the second is
/// not.
fn rate(size: u64, read_percent: u64, depth: u32) -> f64 {
    const COUNT: u32 = 12_000;
    let stride = size.max(PAGE);
    let half = REGION / stride / 2;
    let (mut number, mut written) = (numbers(), half);
    let command = || {
        let number = number();
        if number % 100 < read_percent {
            return Command::new(Read, (number >> 8) % half * stride, size);
        }
        written += 1;
        Command::new(Write, (written - 1) * stride, size)
    };
    let (mut model, mut done) = (build("mqsim-mlc", 0), Vec::new());
    model.submit(0, 0, &Command::new(Discard, half * stride, half * stride));
    model.advance(1_000, &mut done);
    assert_eq!(done.len(), 1);
    let (_, last) = run(model.as_mut(), 1_000, (COUNT as usize, depth), 0, command);
    f64::from(COUNT) / ((last - 1_000) as f64 / 1e9)
}

#[test]
fn mqsim_mlc_is_near_mqsims_program() {
    let recorded: Recorded = serde_json::from_str(RECORDED).unwrap();
    assert_eq!(recorded.figures.len(), 30);
    let mut outside = Vec::new();
    for Figure { size, read_percent, depth, iops } in recorded.figures {
        let ours = rate(size, read_percent, depth);
        let error = (ours / iops as f64 - 1.0) * 100.0;
        println!("{size} bytes, {read_percent} % reads, depth {depth}: {ours:.0} for {iops}: {error:+.1} %");
        if error.abs() > allowed(size, read_percent, depth) {
            outside.push((size, read_percent, depth, error));
        }
    }
    assert!(outside.is_empty(), "{outside:?}");
}
