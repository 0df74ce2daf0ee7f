//! `mqsim-mlc` beside MQSim's own program on the same configuration.

mod common;

use common::{build, numbers, run, REGION};
use serde::Deserialize;
use stasis_block::Command;
use stasis_block::Operation::{Read, Write};

/// The recorded output of MQSim's program, with its inputs.
const RECORDED: &str = include_str!("data/mqsim.json");

#[derive(Deserialize)]
struct Recorded {
    figures: Vec<Figure>,
}

#[derive(Deserialize)]
struct Figure {
    read_percent: u64,
    depth: u32,
    iops: u64,
}

/// How far the model may be from the program (%), by share of reads and queue depth.
///
/// Both schedule one operation of a chip at a time. MQSim begins it only while the
/// channel is idle, and a chip's turn comes with its channel's, which shows where queues are long.
const ALLOWED: [(u64, [(u32, f64); 4]); 3] = [
    (100, [(1, 3.0), (4, 4.0), (16, 8.0), (64, 27.0)]),
    (50, [(1, 20.0), (4, 22.0), (16, 14.0), (64, 13.0)]),
    (0, [(1, 2.0), (4, 2.0), (16, 2.0), (64, 2.0)]),
];

/// Commands a second: 4 KiB at random places, `depth` at a time.
fn rate(read_percent: u64, depth: u32) -> f64 {
    const COUNT: u32 = 12_000;
    const PAGE: u64 = 8192;
    let mut number = numbers();
    let command = || {
        let number = number();
        let operation = if number % 100 < read_percent { Read } else { Write };
        Command::new(operation, (number >> 8) % (REGION / PAGE) * PAGE, 4096)
    };
    let mut model = build("mqsim-mlc", 0);
    let (_, last) = run(model.as_mut(), (COUNT as usize, depth), 0, command);
    f64::from(COUNT) / (last as f64 / 1e9)
}

#[test]
fn mqsim_mlc_is_near_mqsims_program() {
    let recorded: Recorded = serde_json::from_str(RECORDED).unwrap();
    assert_eq!(recorded.figures.len(), 12);
    let mut outside = Vec::new();
    for Figure { read_percent, depth, iops } in recorded.figures {
        let (_, allowed) = ALLOWED.iter().find(|row| row.0 == read_percent).unwrap();
        let (_, allowed) = allowed.iter().find(|cell| cell.0 == depth).unwrap();
        let ours = rate(read_percent, depth);
        let error = (ours / iops as f64 - 1.0) * 100.0;
        println!("{read_percent} % reads at depth {depth}: {ours:.0} for {iops}: {error:+.1} %");
        if error.abs() > *allowed {
            outside.push((read_percent, depth, error));
        }
    }
    assert!(outside.is_empty(), "{outside:?}");
}
