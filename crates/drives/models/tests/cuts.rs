//! A power cut takes commands out of the figures of every model that tells parts of their time.

use stasis_block::clock::Nanos;
use stasis_block::inside::Inside;
use stasis_block::{Command, Operation};
use stasis_models::{BuildContext, Completion, Model, ModelSpec, NAMED};

/// Models that are none of those with names.
const TABLES: [&str; 3] = [
    r#"{"kind": "uniform", "read": "10us-90us", "write": "30us", "parallelism": 3}"#,
    r#"{"kind": "fixed", "latency": "30us", "flush": "1ms", "parallelism": 2,
        "cache": {"size": "8KiB", "drain": "100MB/s", "fua": "1us-9us"}}"#,
    r#"{"kind": "rated", "read": {"latency": [[50, "10us"], [99, "1h"]], "iops": 100000,
        "bandwidth": "1GB/s"}, "write": {"latency": "20us", "iops": 50000, "bandwidth": "1GB/s"}}"#,
];
const COMMANDS: u32 = 48;
/// Time between two commands (ns).
const GAP: Nanos = 5_000;

/// A model at `end`, with commands until then, and those of them that have ended.
fn until(spec: &ModelSpec, end: Nanos) -> (Box<dyn Model>, Vec<Completion>) {
    let capacity = if spec.kind().needs_capacity() { 1 << 22 } else { 1 << 30 };
    let mut model = spec.build(&BuildContext { seed: 7, capacity, path: 0 }).unwrap();
    let mut done = Vec::new();
    let mut advance = |model: &mut dyn Model, now: Nanos| {
        while let Some(at) = model.next_event().filter(|&at| at <= now) {
            model.advance(at, &mut done);
        }
        model.advance(now, &mut done);
    };
    for tag in (0..COMMANDS).take_while(|tag| Nanos::from(*tag) * GAP <= end) {
        let now = Nanos::from(tag) * GAP;
        advance(&mut *model, now);
        let operation = if tag % 3 == 1 { Operation::Write } else { Operation::Read };
        model.submit(now, tag, &Command::new(operation, u64::from(tag) << 14, 4096));
    }
    advance(&mut *model, end);
    (model, done)
}

#[test]
fn what_a_power_cut_takes_is_in_no_mean() {
    let tables = TABLES.iter().map(|table| serde_json::from_str(table).unwrap());
    let (mut models, mut taken) = (0, 0);
    for spec in NAMED.iter().map(|named| named.spec()).chain(tables) {
        let (_, whole) = until(&spec, 100_000_000);
        // In the middle of some commands, and just before others end.
        let ends = whole.iter().step_by(5).flat_map(|done| [done.at, done.at.saturating_sub(1)]);
        for cut in ends {
            let (mut model, done) = until(&spec, cut);
            let count = |model: &dyn Model| -> Option<u64> {
                let inside = model.inside(cut)?;
                let latency = inside.latency()?;
                Some(latency.values().map(|means| means.count).sum())
            };
            let before = count(&*model);
            model.cut_power(cut);
            let Some(after) = count(&*model) else { continue };
            assert_eq!(after, done.len() as u64, "{spec:?} at {cut} ns");
            taken += before.unwrap_or_default() - after;
            let slowest = Inside::take_slowest(&mut model.inside(cut));
            assert!(slowest.iter().all(|command| command.end <= cut), "{spec:?} at {cut} ns");
        }
        models += 1;
    }
    assert!(models > 10 && taken > 100, "{taken} commands of {models} models");
}
