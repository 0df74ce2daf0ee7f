use stasis_run_events::{Ending, Outcome};

use super::figures::{all, Subject};
use super::*;
use crate::summary::OWN_FIELDS;
use crate::Drive;

/// A summary of drives of these names, each with one read.
fn summary(names: &[&str]) -> Summary {
    let drive = |name: &&str| {
        let read = OperationSummary { count: 1, ..OperationSummary::default() };
        let described = Drive { name: (*name).to_owned(), ..Drive::default() };
        DriveSummary { described, read, ..DriveSummary::default() }
    };
    let drives = names.iter().map(drive).collect();
    let outcome = Outcome::of(Ending::Exited(0));
    Summary::new(&outcome, "exact", std::time::Duration::ZERO, drives, Default::default())
}

/// `summary` with 7 at a figure's place of its first drive.
fn with_seven(summary: &Summary, figure: &Figure) -> Summary {
    let mut json = serde_json::to_value(summary).unwrap();
    let drive = &mut json["drives"][0];
    drive["inside"] = serde_json::to_value(figures::flash().unwrap()).unwrap();
    let mut place = match figure.subject {
        Subject::Run => &mut json,
        Subject::Drive => drive,
        Subject::Operation => &mut drive["read"],
    };
    // Names of percentiles have a dot.
    let mut path = figure.path.as_str();
    while let Some((first, rest)) = path.split_once('.').filter(|_| place.get(path).is_none()) {
        (place, path) = (&mut place[first], rest);
    }
    place[path] = 7.into();
    serde_json::from_value(json).unwrap()
}

fn threshold(text: &str) -> Threshold {
    Threshold::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn each_figure_is_compared_by_each_operator() {
    // What holds where the value is below, at, and above the limit.
    let holds = [
        ("<", [true, false, false]),
        ("<=", [true, true, false]),
        (">", [false, false, true]),
        (">=", [false, true, true]),
        ("==", [false, true, false]),
        ("!=", [true, false, true]),
    ];
    assert_eq!(holds.len(), Operator::ALL.len());
    let mut compared = 0;
    for figure in all() {
        let run = with_seven(&summary(&["d"]), figure);
        let unit = match figure.unit {
            Unit::Number => "",
            Unit::Nanoseconds => "ns",
            Unit::Seconds => "s",
            Unit::Bytes => "B",
            Unit::BytesPerSecond => "B/s",
            Unit::Percent => "%",
        };
        let subject = match figure.subject {
            Subject::Run => "",
            Subject::Drive => "d.",
            Subject::Operation => "d.read.",
        };
        for (sign, holds) in holds {
            for (limit, met) in [8, 7, 6].into_iter().zip(holds) {
                let text = format!("{subject}{} {sign} {limit}{unit}", figure.name);
                let judged = threshold(&text).judge(&run);
                assert_eq!((judged.met, judged.value), (met, Some(7.0)), "{text}: {judged:?}");
                assert_eq!(judged.figure, format!("{subject}{}", figure.name));
                // Without the space, too, and without the drive.
                let text = format!("{}{sign}{limit}{unit}", figure.name);
                assert_eq!(threshold(&text).judge(&run).met, met, "{text}");
                compared += 1;
            }
        }
    }
    assert!(compared > 18 * 60, "{compared}");
}

#[test]
fn figures_are_numbers_of_the_summary_with_a_name_each() {
    let mut names: Vec<_> = all().iter().map(|figure| figure.name.as_str()).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    for name in ["exit_status", "virtual_seconds", "overshoot_ns.p99", "p99.9", "target_ns.mean"] {
        assert!(names.contains(&name), "{name}");
    }
    for name in ["count", "iops", "bytes_per_second", "inside.write_amplification", "refused"] {
        assert!(names.contains(&name), "{name}");
    }
    let of_run = all().iter().filter(|figure| figure.subject == Subject::Run);
    for figure in of_run {
        let first = figure.name.split('.').next().unwrap();
        assert!(OWN_FIELDS.contains(&first), "{first}");
    }
    // What differs from one computer to another is no figure of a run.
    let incidental = crate::INCIDENTAL_FIELDS.iter().find(|name| names.contains(name));
    assert_eq!(incidental, None);
}

#[test]
fn units_are_those_of_the_figures() {
    let words = ["7", "7ns", "7s", "7B", "7B/s", "7%", "x", "1 1", "7xs", "-"];
    for figure in all() {
        let right: &[&str] = match figure.unit {
            Unit::Number => &["7"],
            Unit::Nanoseconds | Unit::Seconds => &["7ns", "7s"],
            // A bare number of bytes, as everywhere.
            Unit::Bytes => &["7", "7B"],
            Unit::BytesPerSecond => &["7B/s"],
            Unit::Percent => &["7%"],
        };
        for word in words {
            let read = Threshold::parse(&format!("{} < {word}", figure.name));
            assert_eq!(read.is_ok(), right.contains(&word), "{} < {word}: {read:?}", figure.name);
            if let Err(error) = read {
                assert!(error.to_string().contains(&format!("`{word}`")), "{error}");
            }
        }
    }
}

#[test]
fn errors_name_what_is_near() {
    for (text, has) in [
        ("read.p98 < 1ms", "`p98` is no figure: did you mean `p9"),
        ("virtual_second < 1s", "did you mean `virtual_seconds`?"),
        ("write_amplification < 2", "did you mean `inside.write_amplification`?"),
        ("read.latency < 1ms", "`latency` is no figure"),
        ("wall_seconds < 1s", "depends on the computer"),
        ("read.p99 < 1", "needs a unit"),
        ("read.p99 < 1sm", "did you mean `s`?"),
        ("read.iops > 100k", "plain number"),
        ("read.p99", "write FIGURE OPERATOR VALUE"),
        ("read.p99 = 1ms", "write FIGURE OPERATOR VALUE"),
        ("read.p99 <", "write FIGURE OPERATOR VALUE"),
        ("< 1ms", "write FIGURE OPERATOR VALUE"),
        ("read.p99 << 1ms", "write FIGURE OPERATOR VALUE"),
        ("", "write FIGURE OPERATOR VALUE"),
    ] {
        let error = Threshold::parse(text).unwrap_err().to_string();
        assert!(error.contains(has) && error.contains(&format!("`{text}`")), "{error}");
    }
    for (text, has) in [
        ("red.p99 < 1ms", "did you mean `read`?"),
        ("date.read.p99 < 1ms", "did you mean `data`?"),
        ("drive0.exit.p99 < 1ms", "`drive0.exit` is no operation"),
    ] {
        let error = threshold(text).check(&["data", "m1.log"]).unwrap_err().to_string();
        assert!(error.contains(has), "{error}");
    }
    for text in ["m1.log.read.p99 < 1ms", "data.refused == 0", "read.p99 < 1ms", "exits > 1"] {
        assert_eq!(threshold(text).check(&["data", "m1.log"]), Ok(()));
    }
}

#[test]
fn no_text_makes_it_panic() {
    let parts = ["read", ".", "p99", "<", "=", " ", "1ms", "%", "/s", "é", "..", "d", "-", "inf"];
    for one in parts {
        for other in parts {
            for third in parts {
                let _ = Threshold::parse(&format!("{one}{other}{third}"));
                let _ = Threshold::parse(&format!("read{one}{other} < {third}"));
            }
        }
    }
}

#[test]
fn of_several_drives_the_worst_decides() {
    let mut run = summary(&["a", "b", "c"]);
    for (drive, p99) in run.drives.iter_mut().zip([5, 9, 7]) {
        drive.read.delivered_ns.p99 = p99;
    }
    let judged = |text: &str| {
        let judged = threshold(text).judge(&run);
        (judged.met, judged.figure, judged.value)
    };
    let figure_of = |drive: &str| format!("{drive}.read.p99");
    assert_eq!(judged("read.p99 < 8ns"), (false, figure_of("b"), Some(9.0)));
    assert_eq!(judged("p99 < 10ns"), (true, figure_of("b"), Some(9.0)));
    assert_eq!(judged("read.p99 > 5ns"), (false, figure_of("a"), Some(5.0)));
    assert_eq!(judged("c.read.p99 == 7ns"), (true, figure_of("c"), Some(7.0)));
    assert!(!judged("read.p99 == 7ns").0);
    assert_eq!(judged("read.p99 != 7ns"), (false, figure_of("c"), Some(7.0)));
}

#[test]
fn an_operation_without_an_io_has_counts_and_no_latency() {
    let run = summary(&["a"]);
    for (text, met, value) in [
        ("write.count == 0", true, Some(0.0)),
        ("write.errors == 0", true, Some(0.0)),
        ("a.write.bytes > 0", false, Some(0.0)),
        ("write.p99 < 1ms", false, None),
        ("write.iops < 1", false, None),
        ("a.write.max_error_percent < 1%", false, None),
        ("inside.write_amplification < 2", false, None),
        // Nothing is expected of a run that did nothing.
        ("errors == 0", true, Some(0.0)),
    ] {
        let judged = threshold(text).judge(&run);
        assert_eq!((judged.met, judged.value), (met, value), "{text}");
    }
    let nothing = summary(&[]);
    let judged = threshold("errors == 0").judge(&nothing);
    assert_eq!((judged.met, judged.line()), (false, "errors == 0: the run has no errors".into()));
}

#[test]
fn a_value_does_not_look_like_a_limit_that_it_misses() {
    let mut run = summary(&["a"]);
    run.drives[0].read.delivered_ns.max = 1_000_001;
    let judged = threshold("max < 1ms").judge(&run);
    assert_eq!(judged.line(), "max < 1ms: a.read.max is 1,000,001 ns");
    run.drives[0].read.delivered_ns.max = 2_500_000;
    assert_eq!(threshold("max < 1ms").judge(&run).shown(), "2.5 ms");
}

#[test]
fn the_exit_status_is_the_commands_or_tells_of_a_threshold() {
    let mut run = summary(&["a"]);
    run.thresholds = vec![threshold("read.count == 1").judge(&run)];
    assert_eq!(run.status(), 0);
    run.thresholds.push(threshold("read.count == 2").judge(&run));
    assert_eq!(run.status(), 99);
    run.exit_status = 3;
    assert_eq!(run.status(), 3);
    let written = serde_json::to_value(&run.thresholds).unwrap();
    let expected = serde_json::json!({
        "that": "read.count == 2", "met": false, "figure": "a.read.count", "value": 1.0,
        "limit": 2.0, "unit": "",
    });
    assert_eq!(written[1], expected);
}
