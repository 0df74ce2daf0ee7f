//! The latency that a model by figures has for an operation: the cause of its service time.

use serde_json::Value;
use stasis_block::units::parse_duration;
use stasis_block::Operation;

use crate::{units, Drive};

/// Returns the model's own figure for an operation, `45.454 µs`, or `10 µs up to
/// p99, from there to 60 µs at p99.999`. None of models that compute latencies.
pub fn own_figure(drive: &Drive, operation: Operation) -> Option<String> {
    let parameters = &drive.parameters;
    if let Some(name) = parameters.pointer("/profile/name").and_then(Value::as_str) {
        return Some(format!("drawn from the profile {name}"));
    }
    let given = parameters.get(operation.name().replace('-', "_")).unwrap_or(parameters);
    let own = match given.get("latency").unwrap_or(given) {
        Value::String(span) => shown(span),
        Value::Array(pairs) => {
            let pairs: Option<Vec<_>> = pairs.iter().map(pair).collect();
            let pairs = pairs?;
            let (first, later) = pairs.split_first()?;
            // The model interpolates between percentiles.
            let later =
                later.iter().map(|(rank, span)| format!(", from there to {span} at p{rank}"));
            format!("{} up to p{}{}", first.1, first.0, later.collect::<String>())
        }
        _ => return None,
    };
    let durable = parameters.pointer("/cache/fua").and_then(Value::as_str);
    Some(match durable.filter(|_| operation == Operation::Write) {
        Some(durable) => format!("{own}; of a durable write {} more", shown(durable)),
        None => own,
    })
}

/// A percentile and its latency.
fn pair(pair: &Value) -> Option<(f64, String)> {
    let [percentile, latency] = pair.as_array()?.as_slice() else { return None };
    let latency = latency.as_str().map_or_else(|| latency.to_string(), shown);
    Some((percentile.as_f64()?, latency))
}

/// A duration or a range of them, `45.454us` or `60us-80us`, as other figures are shown.
fn shown(span: &str) -> String {
    let one = |one: &str| match parse_duration(one) {
        Ok(ns) => units::duration(ns as f64),
        Err(_) => one.to_owned(),
    };
    span.split('-').map(one).collect::<Vec<_>>().join(" to ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_as_an_experiment_has_them() {
        let drive = Drive {
            parameters: json!({
                "kind": "rated",
                "read": { "latency": [[99.0, "10us"], [99.999, "60us"]], "iops": 550_000 },
                "write": { "latency": "16.666us" },
                "flush": "1ms",
                "cache": { "size": "64MiB", "fua": "2ms" },
                "write_zeroes": 7,
            }),
            ..Drive::default()
        };
        let figure = |operation| own_figure(&drive, operation);
        assert_eq!(
            figure(Operation::Read).unwrap(),
            "10 µs up to p99, from there to 60 µs at p99.999"
        );
        assert_eq!(figure(Operation::Write).unwrap(), "16.666 µs; of a durable write 2 ms more");
        assert_eq!(shown("60us-80us"), "60 µs to 80 µs");
        assert_eq!(figure(Operation::Flush).unwrap(), "1 ms");
        assert_eq!((figure(Operation::WriteZeroes), figure(Operation::Discard)), (None, None));
        let other =
            |parameters| own_figure(&Drive { parameters, ..Drive::default() }, Operation::Read);
        assert_eq!(other(json!({ "kind": "fixed", "latency": "100us" })).unwrap(), "100 µs");
        let profile = json!({ "kind": "profile", "profile": { "name": "dcpmm" } });
        assert_eq!(other(profile).unwrap(), "drawn from the profile dcpmm");
        assert_eq!((other(json!({ "kind": "flash" })), other(Value::Null)), (None, None));
    }
}
