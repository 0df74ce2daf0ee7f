//! The machine that a drive belongs to, by the run's experiment.

use serde_json::Value;

use crate::Summary;

/// The tables of a key that has one of them, or several.
pub(crate) fn tables(value: &Value) -> &[Value] {
    match value {
        Value::Array(all) => all,
        Value::Object(_) => std::slice::from_ref(value),
        _ => &[],
    }
}

/// Returns the number of the machine that a drive of this name, or a virtual disk (`MACHINE.DISK`), belongs to.
/// None of a drive that several share, and where the results do not have the experiment.
pub fn machine_of(summary: &Summary, name: &str) -> Option<u64> {
    let experiment = summary.extra.get("experiment")?;
    let machines = tables(&experiment["machine"]);
    if machines.len() < 2 {
        return Some(0);
    }
    // A drive without a name has its number, those of the experiment itself first.
    let mut number = tables(&experiment["drive"]).len();
    let mut found = None;
    for (machine, described) in (0..).zip(machines) {
        let own = described["name"].as_str().unwrap_or_default();
        let is_disk = name.strip_prefix(own).is_some_and(|rest| rest.starts_with('.'));
        let has_disks = !tables(&described["disk"]).is_empty();
        let mut is_its = is_disk && has_disks;
        for drive in tables(&described["drive"]) {
            let numbered = || format!("drive{number}");
            is_its |= drive["name"].as_str().map_or_else(numbered, str::to_owned) == name;
            number += 1;
        }
        found = found.or(is_its.then_some(machine));
    }
    found
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
    fn a_drive_is_of_the_machine_that_has_it() {
        let several = summary(json!({
            "drive": [{ "name": "ssd" }],
            "machine": [
                { "name": "web", "disk": [{ "name": "web.disk" }] },
                { "name": "db", "drive": [{ "name": "log" }, {}] },
            ],
        }));
        for (name, expected) in [
            ("web.disk", Some(0)),
            ("log", Some(1)),
            ("drive2", Some(1)),
            ("ssd", None),
            ("db.disk", None),
            ("nobody", None),
        ] {
            assert_eq!(machine_of(&several, name), expected, "{name}");
        }
        let one = summary(json!({ "drive": [{ "name": "ssd" }], "machine": { "vcpus": 2 } }));
        assert_eq!(machine_of(&one, "ssd"), Some(0));
        assert_eq!(machine_of(&summary(json!({})), "ssd"), Some(0));
    }
}
