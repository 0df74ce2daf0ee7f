//! A model that draws by another seed from its beginning on is the model of that seed.

use stasis_block::{Command, Operation};
use stasis_models::{BuildContext, Model, ModelSpec};

/// The ends of some commands.
fn ends(model: &mut dyn Model) -> Vec<u64> {
    let operations = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];
    for number in 0..64 {
        let operation = operations[number as usize % operations.len()];
        let mut command = Command::new(operation, u64::from(number) << 20, 4096);
        command.fua = operation == Operation::Write && number % 8 == 1;
        model.submit(u64::from(number) * 1_000_000, number, &command);
    }
    let mut done = Vec::new();
    while let Some(at) = model.next_event() {
        model.advance(at, &mut done);
    }
    done.iter().map(|completion| completion.at).collect()
}

#[test]
fn what_is_drawn_is_drawn_by_the_new_seed() {
    let cached = r#"{"kind":"uniform","read":"1us-9us","write":"1us-9us","flush":"1us-99us","cache":{"size":"1MiB","drain":"1GB/s","fua":"1us-50us"}}"#;
    let rated = r#"{"kind":"rated","read":{"latency":"60us-70us","iops":500000,"bandwidth":"3400MB/s"},"write":{"latency":"20us-30us","iops":450000,"bandwidth":"2500MB/s"},"flush":"1ms-2ms"}"#;
    let card = r#"{"kind":"card","read":"1ms-2ms","read_rate":"18MB/s","write":"1ms-2ms","write_rate":"9MB/s","open_units":2,"close":"200ms-300ms"}"#;
    for text in [r#""uniform:1us-9us""#, cached, rated, card] {
        let spec: ModelSpec = serde_json::from_str(text).unwrap();
        assert!(!spec.kind().begins_by_seed(), "{text}");
        let build = |seed| {
            let context = BuildContext { seed, capacity: 1 << 30, path: 0 };
            spec.build(&context).unwrap()
        };
        let mut changed = build(1);
        changed.reseed(2);
        let (one, two, changed) = (ends(&mut *build(1)), ends(&mut *build(2)), ends(&mut *changed));
        assert_eq!(changed, two, "{text}");
        assert_ne!(one, two, "{text}: nothing is drawn");
    }
}

/// A run of another seed needs them made anew.
#[test]
fn drives_whose_beginning_is_drawn_say_so() {
    for text in [r#""jpt39c""#, r#""flash-tlc""#] {
        let spec: ModelSpec = serde_json::from_str(text).unwrap();
        assert!(spec.kind().begins_by_seed(), "{text}");
    }
}
