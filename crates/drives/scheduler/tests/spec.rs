//! Schedulers as experiments describe them.

use stasis_block::clock::{MILLISECOND, SECOND};
use stasis_scheduler::{BfqSpec, SchedulerKind, SchedulerSpec, KINDS};

#[derive(Debug, serde::Deserialize, serde::Serialize)]
struct Drive {
    scheduler: SchedulerSpec,
}

fn read(text: &str) -> Result<SchedulerSpec, String> {
    toml::from_str(&format!("scheduler = {text}"))
        .map(|drive: Drive| drive.scheduler)
        .map_err(|error| error.message().to_owned())
}

#[test]
fn words_and_tables_are_read() {
    for kind in KINDS {
        let name = kind.name;
        let spec = read(&format!("\"{name}\"")).unwrap();
        assert_eq!((spec.kind.name(), spec.depth), (name, 1));
        assert_eq!(spec.build().name(), name);
        assert_eq!(read(&format!("{{ kind = \"{name}\" }}")), Ok(spec.clone()));
        let written = toml::to_string(&Drive { scheduler: spec.clone() }).unwrap();
        assert_eq!(toml::from_str::<Drive>(&written).unwrap().scheduler, spec, "{written}");
    }
    let spec = read(
        r#"{ kind = "bfq", depth = 4, max_budget = "1MiB", idle = "0s", help_share = 0.25,
             help_burst = "10s", budget_timeout = "40ms", charge_time = false }"#,
    );
    let bfq = BfqSpec {
        max_budget: 1 << 20,
        idle: 0,
        help_share: 250_000,
        help_burst: 10 * SECOND,
        budget_timeout: 40 * MILLISECOND,
        charge_time: false,
        ..BfqSpec::default()
    };
    assert_eq!(spec, Ok(SchedulerSpec { kind: SchedulerKind::of(bfq), depth: 4 }));
}

#[test]
fn errors_name_the_nearest() {
    for (text, expected) in [
        ("\"bqf\"", "unknown scheduler `bqf`; did you mean `bfq`? one of `bfq`, `cfq`, "),
        ("\"mq-deadline\"", "unknown scheduler `mq-deadline`; "),
        ("\"NONE\"", "did you mean `none`?"),
        ("\"x\"", "unknown scheduler `x`; one of"),
        ("{ depth = 1 }", "needs the key `kind`"),
        ("{ kind = 3 }", "unknown scheduler `3`"),
        ("{ kind = \"cfq\", slice = \"1s\" }", "it has `kind`, `depth`, `slice_sync`"),
        ("{ kind = \"bfq\", help_shares = 1 }", "did you mean `help_share`?"),
        ("{ kind = \"none\", idle = \"1s\" }", "it has `kind`, `depth`"),
        ("{ kind = \"bfq\", help_share = 1.5 }", "`1.5`: write a part from 0 to 1"),
        ("{ kind = \"bfq\", budget_timeout = \"0s\" }", "is too short"),
        ("{ kind = \"bfq\", budget_timeout = true }", "`true` is not a duration such as"),
        ("{ kind = \"bfq\", depth = 0 }", "`0`: write a number from 1 to 65535"),
        ("{ kind = \"deadline\", batch = -1 }", "`-1` is not a whole number"),
        ("{ kind = \"bfq\", low_latency = 1 }", "`1` is not true or false"),
        ("{ kind = \"bfq\", max_budget = \"1 parsec\" }", "parsec"),
        ("7", "a scheduler's name"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
