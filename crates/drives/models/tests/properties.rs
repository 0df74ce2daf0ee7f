//! Properties of every model, for all commands.

use proptest::prelude::*;
use stasis_block::{Command, Operation};
use stasis_models::calibrate::{from_blkparse, from_fio};
use stasis_models::{BuildContext, Completion, ModelSpec, Profile, NAMED};

const TABLES: [&str; 8] = [
    r#"{"kind": "uniform", "read": "1us-9us", "write": "3us", "flush": "1ms", "parallelism": 3}"#,
    r#"{"kind": "fixed", "latency": "5124095h"}"#,
    r#"{"kind": "rated", "read": {"latency": "9us-70us", "iops": 9, "bandwidth": "1B/s"},
        "write": {"latency": [[50, "1us"], [99, "1h"]], "iops": 1000000000, "bandwidth": "9TB/s"}}"#,
    r#"{"base": "jpt39c", "write_settle": "5124095h", "overhead": "5124095h"}"#,
    r#"{"base": "jpt39c", "capacity": "1048576TiB", "outer_rate": "1B/s", "inner_rate": "1B/s",
        "rpm": 1, "read_ahead": "1TiB", "write_cache": "1TiB"}"#,
    r#"{"base": "ultrastar-hc310", "outer_rate": "16777215TiB/s", "rpm": 100000, "zones": 256,
        "average_seek": "1h", "write_cache_extents": 2, "queue": "fifo"}"#,
    r#"{"kind": "fixed", "latency": "3us", "flush": "1ms", "parallelism": 2,
        "cache": {"size": "8KiB", "drain": "1MB/s", "fua": "1us-9us", "queued_flush": false}}"#,
    r#"{"kind": "uniform", "latency": "1us-5124095h", "cache": {"size": "1TiB", "drain": "1B/s"}}"#,
];

fn spec(index: usize) -> ModelSpec {
    match NAMED.get(index) {
        Some(named) => named.spec(),
        None => serde_json::from_str(TABLES[index - NAMED.len()]).unwrap(),
    }
}

fn run(spec: &ModelSpec, seed: u64, commands: &[(Command, u64)]) -> (Vec<u64>, Vec<Completion>) {
    // The work of a flash SSD grows with the bytes that a command covers.
    let capacity = if spec.kind().needs_capacity() { 1 << 22 } else { 1 << 30 };
    let mut model = spec.build(&BuildContext { seed, capacity, path: 900 }).unwrap();
    let (mut now, mut submitted, mut done) = (0, Vec::new(), Vec::new());
    for (tag, (command, pause)) in commands.iter().enumerate() {
        while let Some(at) = model.next_event().filter(|&at| at <= now) {
            model.advance(at, &mut done);
        }
        model.submit(now, tag as u32, command);
        submitted.push(now);
        now += pause;
    }
    while let Some(at) = model.next_event() {
        model.advance(at, &mut done);
    }
    (submitted, done)
}

prop_compose! {
    fn any_command()(
        operation in 0u8..5,
        offset in prop_oneof![0u64..1 << 30, any::<u64>()],
        length in prop_oneof![Just(4096u64), 0u64..1 << 20, any::<u64>()],
        fua in any::<bool>(),
    ) -> Command {
        let operation = Operation::from_number(operation).unwrap();
        Command { fua, ..Command::new(operation, offset, length) }
    }
}

proptest! {
    #[test]
    fn every_command_completes_once_in_order_and_repeatably(
        index in 0..NAMED.len() + TABLES.len(),
        seed in any::<u64>(),
        commands in prop::collection::vec((any_command(), 0u64..3_000_000), 1..60),
    ) {
        let spec = spec(index);
        let (submitted, done) = run(&spec, seed, &commands);
        prop_assert!(done.windows(2).all(|pair| pair[0].at <= pair[1].at));
        prop_assert!(done.iter().all(|c| c.at >= submitted[c.tag as usize]));
        let mut tags: Vec<_> = done.iter().map(|completion| completion.tag as usize).collect();
        tags.sort_unstable();
        prop_assert_eq!(tags, (0..commands.len()).collect::<Vec<_>>());
        prop_assert_eq!(run(&spec, seed, &commands), (submitted, done));
    }

    /// Percentiles that go in come out within 1 %.
    #[test]
    fn sampling_gives_back_the_percentiles(
        mut values in prop::collection::vec(1_000u64..1_000_000, 9),
        log in any::<bool>(),
        seed in any::<u64>(),
    ) {
        values.sort_unstable();
        let percents = [0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0];
        let pairs: Vec<_> = percents.iter().zip(&values).collect();
        let text = format!(
            r#"{{"kind": "profile", "profile": {{"format": "stasis-profile", "version": 1,
                "name": "x", "interpolation": "{}", "operations":
                {{"read": [{{"block_size": 4096, "percentiles": {}}}]}}}}}}"#,
            if log { "log" } else { "linear" },
            serde_json::to_string(&pairs).unwrap(),
        );
        let spec: ModelSpec = serde_json::from_str(&text).unwrap();
        let mut model = spec.build(&BuildContext { seed, capacity: 1, path: 0 }).unwrap();
        let command = Command::new(Operation::Read, 0, 4096);
        const SAMPLES: u32 = 40_000;
        let mut done = Vec::new();
        (0..SAMPLES).for_each(|tag| model.submit(0, tag, &command));
        model.advance(u64::MAX, &mut done);
        for (&percent, &value) in percents.iter().zip(&values) {
            // The sample's own error counts where the distribution is steep: five standard
            // deviations of the rank.
            let share: f64 = percent / 100.0;
            if share == 0.0 || share == 1.0 {
                // The sample comes near the ends, and never passes them.
                prop_assert!(done[0].at >= values[0] && done[done.len() - 1].at <= values[8]);
                continue;
            }
            let spread = 5.0 * (share * (1.0 - share) / f64::from(SAMPLES)).sqrt();
            let at = |share: f64| {
                let rank = (share.clamp(0.0, 1.0) * f64::from(SAMPLES - 1)).round();
                done[rank as usize].at as f64
            };
            let (low, high) = (at(share - spread) * 0.99, at(share + spread) * 1.01);
            prop_assert!((low..=high).contains(&(value as f64)), "p{percent} {low} {value} {high}");
        }
    }

    /// Files may hold anything.
    #[test]
    fn noise_is_refused_without_a_panic(
        noise in "[ -~\n]{0,200}",
        at in 0usize..15_000,
        byte in any::<char>(),
        word in "[a-z0-9:.-]{0,20}",
    ) {
        let _ = (from_fio(&noise), from_blkparse(&noise), Profile::from_json(&noise));
        let _ = ModelSpec::parse(&word);
        for (index, text) in
            [include_str!("data/fio-randrw.json"), include_str!("data/blkparse.txt")].iter().enumerate()
        {
            let mut text: Vec<char> = text.chars().collect();
            let at = at % text.len();
            text[at] = byte;
            let text: String = text.into_iter().collect();
            let profile = if index == 0 { from_fio(&text) } else { from_blkparse(&text) };
            if let Ok(profile) = profile {
                prop_assert!(Profile::from_json(&profile.to_json()).is_ok());
            }
        }
    }
}
