//! The scheduler in `docs/guides/extending.md` is registered here as the page says, for tests.

use serde::Deserialize;
use stasis_block::{Command, Operation};

use crate::{QueueId, QueueSpec, QueuedRequest, Refused, SchedulerSpec};

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Drive {
    scheduler: SchedulerSpec,
}

fn read(scheduler: &str) -> Result<SchedulerSpec, String> {
    let drive: Result<Drive, _> = toml::from_str(&format!("scheduler = {scheduler}"));
    drive.map(|drive| drive.scheduler).map_err(|error| error.to_string())
}

#[test]
fn the_page_shows_the_file_and_the_lines() {
    let page = include_str!("../../../../../docs/guides/extending.md");
    let code = include_str!("newest.rs");
    assert!(page.contains(&format!("```rust\n{code}```")), "newest.rs is not as in the page");
    let registered = include_str!("mod.rs");
    for line in ["mod newest;", "Registered::of::<newest::NewestSpec>(),"] {
        assert!(page.contains(line), "{line}");
        let (before, _) = registered.split_once(line).unwrap();
        assert!(before.trim_end().ends_with("#[cfg(test)]"), "{line}");
    }
}

#[test]
fn a_scheduler_of_ones_own_is_one_like_any_other() {
    let spec = read(r#"{ kind = "newest", overtake_limit = 2, depth = 3 }"#).unwrap();
    assert_eq!((spec.kind.name(), spec.depth), ("newest", 3));
    let table = serde_json::to_value(&spec).unwrap();
    assert_eq!((&table["kind"], &table["overtake_limit"]), (&"newest".into(), &2.into()));
    let mut scheduler = spec.build();
    let queue = scheduler.create(0, &QueueSpec::default());
    let read = |tag: u32| {
        QueuedRequest::new(tag, Command::new(Operation::Read, 4096 * u64::from(tag), 4096))
    };
    for tag in 0..5 {
        scheduler.add(0, queue, &read(tag)).unwrap();
    }
    let order: Vec<_> = std::iter::from_fn(|| scheduler.dispatch(0)).collect();
    assert_eq!(order, [4, 3, 0, 2, 1], "two overtake the oldest one");
    assert_eq!(scheduler.statistics(0, queue).requests, 5);
    assert_eq!(scheduler.add(0, queue, &read(2)), Err(Refused::Tag(2)), "it is in flight");
    scheduler.complete(0, 2);
    assert_eq!(scheduler.add(0, queue, &read(2)), Ok(()));
    let nobody = QueueId(7);
    assert_eq!(scheduler.add(0, nobody, &read(3)), Err(Refused::Queue(nobody)));
}

#[test]
fn its_name_and_its_keys_are_known_everywhere() {
    assert_eq!(read(r#""newest""#), read(r#"{ kind = "newest", overtake_limit = 64 }"#));
    for (scheduler, expected) in [
        (r#""newst""#, "did you mean `newest`?"),
        (r#"{ kind = "newest", overtake_limits = 1 }"#, "did you mean `overtake_limit`?"),
        (
            r#"{ kind = "newest", overtake_limit = 0 }"#,
            "`overtake_limit` of scheduler `newest`: `0`",
        ),
    ] {
        let error = read(scheduler).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let schema = stasis_config::schema::<Drive>();
    let tables = schema["$defs"]["scheduler"]["anyOf"][1]["oneOf"].as_array().unwrap();
    let own = tables.iter().find(|table| table["properties"]["kind"]["const"] == "newest").unwrap();
    let overtake_limit = "Requests that overtake the oldest one at most.";
    assert_eq!(own["properties"]["overtake_limit"]["description"], overtake_limit);
}
