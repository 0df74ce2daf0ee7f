//! A shared drive's scheduler: its parameters, and what its weights divide (docs/reference/schedulers.md).

use serde_json::Value;

/// The parameters of all schedulers, each with its effect in a clause. A queue is that of a tenant or of a
/// process of a workload.
const PARAMETERS: &[(&str, &str)] = &[
    ("batch", "requests in one direction until the other one has its turn"),
    ("budget-timeout", "the longest turn of a queue"),
    (
        "charge-time",
        "a queue that seeks pays for its time: weights divide the drive's time with it; without it they divide bytes",
    ),
    ("class-expire", "a request of a lower priority class is served after waiting for so long"),
    ("depth", "requests at the drive at once; the others wait in the scheduler, which orders them"),
    ("expire-async", "a request that nobody waits for, as most writes, is late after so long, and goes first"),
    ("expire-sync", "a request that somebody waits for is late after so long, and goes first"),
    ("help-burst", "time for which a guest that asks for help gets it at once, beyond help-share"),
    ("help-raise", "its weight is multiplied by so much while it gets help"),
    ("help-share", "the part of the time for which it gets help in the long run"),
    ("idle", "the drive waits for so long for the next request of whoever has the turn"),
    ("low-latency", "weights of queues that look interactive or like playback are raised"),
    ("max-budget", "bytes of a turn at most; 0B is what the drive moves within budget-timeout"),
    ("overtake-limit", "so many later requests at most go before an earlier one"),
    ("raise", "a raised weight is multiplied by so much"),
    ("read-expire", "a read is late after so long, and goes first"),
    ("slice-async", "the turn of a queue whose requests nobody waits for"),
    ("slice-sync", "the turn of a queue whose requests somebody waits for"),
    ("write-expire", "a write is late after so long, and goes first"),
    ("writes-starved", "batches of reads that may go before writes that wait"),
];

/// A scheduler's kind.
fn kind(scheduler: &Value) -> &str {
    scheduler.get("kind").and_then(Value::as_str).unwrap_or("none")
}

/// Returns the parameters of a scheduler as an experiment would give them, each with its effect.
pub(crate) fn parameters(scheduler: &Value) -> Vec<(String, String)> {
    let all = scheduler.as_object().into_iter().flatten().filter(|(name, _)| *name != "kind");
    let described = all.map(|(name, value)| {
        let name = name.replace('_', "-");
        let effect = PARAMETERS.iter().find(|(each, _)| *each == name);
        (format!("{name} = {value}"), effect.map_or(String::new(), |(_, text)| format!("{text}.")))
    });
    described.collect()
}

/// Returns whether weights have an effect under a scheduler.
pub(crate) fn has_weights(scheduler: &Value) -> bool {
    matches!(kind(scheduler), "bfq" | "cfq")
}

/// Returns a scheduler's name, the quantity that its weights divide, and the reasons for other shares.
pub(crate) fn division(scheduler: &Value) -> String {
    let by_time = scheduler.get("charge_time").and_then(Value::as_bool) == Some(true);
    let divided = match (kind(scheduler), by_time) {
        ("bfq", true) => {
            "Weights divide the amount among those whose requests follow one another on the drive, and the drive's time \
             with those that seek; among those with requests at that time. Where nobody seeks, a share of the amount is \
             that by weight, and a share of the time is larger than it where a byte takes more of the drive's time."
        }
        ("bfq", false) => "Weights divide the amount among those with requests at that time.",
        ("cfq", _) => {
            "Weights divide the drive's time among those with requests at that time. A share of the amount is another one \
             where a byte takes more of the drive's time."
        }
        _ => "It takes no account of weights: a share is what somebody asked for, within a limit.",
    };
    let early = match has_weights(scheduler) {
        true => {
            " Whoever pauses, or asks for one request at a time, can get less than its weight's share, as its turn ends \
             early: what it leaves goes to the others that have requests then, by their weights. Whoever had the drive \
             before others began has more."
        }
        false => "",
    };
    format!(
        "The scheduler is {}; its parameters are at the end of this part. {divided}{early}",
        kind(scheduler)
    )
}

#[cfg(test)]
mod tests {
    use stasis_scheduler::{SchedulerSpec, KINDS};

    use super::*;

    #[test]
    fn each_parameter_of_each_scheduler_has_its_effect_in_a_clause() {
        for one in KINDS {
            let spec = SchedulerSpec::parse(one.name).unwrap();
            let spec = serde_json::to_value(spec).unwrap();
            let parameters = parameters(&spec);
            assert!(!parameters.is_empty(), "{}", one.name);
            for (term, effect) in parameters {
                assert!(
                    effect.ends_with('.') && effect.len() > 10,
                    "{}: {term}: {effect}",
                    one.name
                );
            }
            let division = division(&spec);
            assert!(division.starts_with(&format!("The scheduler is {};", one.name)));
            let weighed = has_weights(&spec);
            assert_eq!(
                division.contains("what it leaves goes to the others"),
                weighed,
                "{division}"
            );
        }
        // Time is divided with those that seek only (docs/reference/schedulers.md).
        for (by_time, divided) in
            [(true, "the drive's time with those that seek"), (false, "amount")]
        {
            let spec = serde_json::json!({ "kind": "bfq", "charge_time": by_time });
            assert!(division(&spec).contains(divided), "{by_time}");
        }
        assert!(PARAMETERS.is_sorted());
    }
}
