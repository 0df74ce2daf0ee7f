//! The limits on the rate of somebody who uses a drive, in words: the cause of a wait for them.

use serde_json::Value;
use stasis_block::units::{parse_duration, parse_size};
use stasis_block::Rate;

use crate::owner::tables;
use crate::{units, Summary};

/// Returns the limits of a drive, of a virtual disk (`MACHINE.DISK`) or of a workload as the run's
/// experiment has them: `500 I/Os a second and 125 MB/s`. None where there are none, or where the results
/// do not have the experiment.
pub fn limit_of<'a>(summary: &'a Summary, name: &str) -> Option<String> {
    let experiment = summary.extra.get("experiment")?;
    let machines = tables(&experiment["machine"]);
    let its_drives = machines.iter().flat_map(|machine| tables(&machine["drive"]));
    let drives = tables(&experiment["drive"]).iter().chain(its_drives);
    let named = drives.chain(tables(&experiment["workload"])).enumerate().map(|(number, one)| {
        let own = one["name"].as_str().map(str::to_owned);
        (own.unwrap_or_else(|| format!("drive{number}")), one)
    });
    let disks = machines.iter().flat_map(|machine| {
        let of_machine = format!("{}.", machine["name"].as_str().unwrap_or_default());
        let disk = move |disk: &'a Value| {
            let own = disk["name"].as_str().unwrap_or_default();
            // A run's summary has the whole name.
            let its = own.strip_prefix(&of_machine).unwrap_or(own);
            (format!("{of_machine}{its}"), disk)
        };
        tables(&machine["disk"]).iter().map(disk)
    });
    let (_, found) = named.chain(disks).find(|(each, _)| each == name)?;
    in_words(&found["limits"])
}

fn in_words(limits: &Value) -> Option<String> {
    let rate = |key: &str, shown: fn(&Value) -> Option<String>| {
        let own = shown(limits.get(key)?)?;
        Some(match limits.get(format!("burst-{key}")).and_then(shown) {
            Some(burst) => format!("{own} ({burst} in bursts)"),
            None => own,
        })
    };
    let iops = |value: &Value| Some(format!("{} I/Os a second", units::count(value.as_u64()?)));
    let bandwidth = |value: &Value| {
        let rate = Rate::parse(value.as_str()?).ok()?;
        Some(units::bandwidth(rate.bytes_per_second() as f64))
    };
    let rates = [rate("iops", iops), rate("bandwidth", bandwidth)];
    let mut words = rates.into_iter().flatten().collect::<Vec<_>>().join(" and ");
    if words.is_empty() {
        return None;
    }
    let text = |key: &str| limits.get(key).and_then(Value::as_str);
    if let Some(burst) = text("burst").and_then(|word| parse_duration(word).ok()) {
        words += &format!(", bursts of {} at most", units::duration(burst as f64));
    }
    if let Some(size) = text("io-size").and_then(|word| parse_size(word).ok()) {
        words += &format!(", each {} of a request counted as an I/O", units::bytes(size));
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use stasis_run_events::{Ending, Outcome};

    use super::*;

    fn summary(experiment: Value) -> Summary {
        let extra = [("experiment".to_owned(), experiment)].into_iter().collect();
        Summary::new(&Outcome::of(Ending::Exited(0)), "exact", Duration::ZERO, Vec::new(), extra)
    }

    #[test]
    fn limits_are_those_of_the_experiment() {
        let none = json!({ "iops": null, "bandwidth": null, "burst": null });
        let several = summary(json!({
            "drive": [{ "name": "ssd", "limits": none }],
            "machine": [
                { "name": "web", "disk": [{ "name": "web.disk", "limits": { "iops": 3000 } }] },
                { "name": "db", "disk": [{ "name": "disk", "limits": {
                    "iops": 500, "burst-iops": 6000, "burst": "30min", "io-size": "16KiB",
                    "bandwidth": "125MB/s" } }] },
            ],
            "workload": [{ "name": "backup", "limits": { "bandwidth": "20MB/s" } }, { "name": "x" }],
        }));
        for (name, expected) in [
            ("web.disk", Some("3,000 I/Os a second")),
            (
                "db.disk",
                Some(
                    "500 I/Os a second (6,000 I/Os a second in bursts) and 125 MB/s, bursts of 1,800 s at most, \
                     each 16 KiB of a request counted as an I/O",
                ),
            ),
            ("backup", Some("20 MB/s")),
            ("ssd", None),
            ("x", None),
            ("nobody", None),
        ] {
            assert_eq!(limit_of(&several, name).as_deref(), expected, "{name}");
        }
        let one = summary(json!({ "machine": {}, "drive": [{ "limits": { "iops": 7 } }] }));
        assert_eq!(limit_of(&one, "drive0").as_deref(), Some("7 I/Os a second"));
        assert_eq!(limit_of(&summary(Value::Null), "drive0"), None);
    }

    #[test]
    fn what_is_no_experiment_has_no_limits() {
        for odd in [
            json!(null),
            json!(7),
            json!([]),
            json!({ "drive": 7, "machine": "x", "workload": { "limits": [] } }),
            json!({ "drive": [7, { "name": 3, "limits": { "iops": "many", "bandwidth": 9 } }] }),
            json!({ "drive": [{ "name": "d", "limits": { "bandwidth": "0B/s", "burst": 1 } }] }),
        ] {
            for name in ["d", "drive0", "drive1", "."] {
                assert_eq!(limit_of(&summary(odd.clone()), name), None, "{odd}");
            }
        }
    }
}
