//! The page of a cluster, from what was recorded: last words, faults from begin to end, operations
//! of clients by their outcome.

use std::time::Duration;

use serde_json::{Map, Value};
use stasis_block::{Command, Operation};
use stasis_report::ResultsWriter;
use stasis_results::sink::Records;
use stasis_results::{Drive, FaultCourse, PlannedFault};
use stasis_run_events::{Ending, FaultRecord, IoRecord, IoStatus, MachineOutcome, Outcome};

/// When the commands begin (ns), and a millisecond.
const BEGIN: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

struct Run {
    folder: tempfile::TempDir,
    summary: Value,
    page: String,
}

/// A client that writes to a server for a second, from which it is parted for 400 ms.
fn run(status: i32, last: &str) -> Run {
    run_with(status, last, Vec::new())
}

/// The same; `returns`: when the server and the client came back from failures (ns).
fn run_with(status: i32, last: &str, returns: Vec<Vec<u64>>) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::create(folder.path(), Vec::new()).unwrap();
    writer.of_machines(["server", "client"].map(str::to_owned).into(), Vec::new()).unwrap();
    writer.keep_history().unwrap();
    let fault = |kind: &str, target: &str, course| PlannedFault {
        kind: kind.into(),
        target: target.into(),
        course,
    };
    let window = FaultCourse::Window { begin: 200 * MS, end: Some(600 * MS) };
    let cut = FaultCourse::Failure { restart: Some(50 * MS) };
    writer
        .keep_faults(vec![
            fault("partition", "server", window),
            fault("power-cut", "server", cut),
            fault("kill", "server", FaultCourse::Each { length: Some(0) }),
        ])
        .unwrap();
    let mut line = |at: u64, text: &str| {
        let text = format!("{text}\n");
        writer.take(Records::Output(1, BEGIN + at * MS, false, text.as_bytes())).unwrap();
    };
    // One each 100 ms, of 10 ms; the third waits for the partition's end, and the last never ends.
    for number in 0..10u64 {
        let at = number * 100;
        let (ends, kind) = match number {
            2 => (Some(605), "info"),
            // Nobody is there meanwhile.
            3..=6 => continue,
            7 => (Some(at + 10), "fail"),
            9 => (None, "ok"),
            _ => (Some(at + 10), "ok"),
        };
        let text =
            |kind: &str| format!(r#"{{"type":"{kind}","process":0,"f":"set","value":{number}}}"#);
        line(at, &text("invoke"));
        if let Some(ends) = ends {
            line(ends, &text(kind));
        }
    }
    line(950, last);
    // Frames that the partition has lost.
    let at = [250, 300, 350, 590].map(|at| (0, at));
    let records = at.into_iter().chain([(1, 820), (2, 900)]).map(|(fault, at)| FaultRecord {
        fault,
        at: BEGIN + at * MS,
        order: None,
        offset: 0,
        length: 0,
    });
    writer.take(Records::Faults(&records.collect::<Vec<_>>())).unwrap();
    let machine = |name: &str, ending: Option<Ending>| MachineOutcome {
        name: name.into(),
        ending,
        started_ns: Some(BEGIN),
        virtual_ns: Some(1_000 * MS),
        refused_help: 0,
        refused_calls: 0,
    };
    let outcome = Outcome {
        virtual_ns: 1_000 * MS,
        boot_virtual_ns: BEGIN,
        returns,
        machines: vec![machine("server", None), machine("client", Some(Ending::Exited(status)))],
        ..Outcome::of(Ending::Exited(status))
    };
    writer.finish(&outcome, "exact", Duration::from_secs(1), Map::new()).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let summary = serde_json::from_str(&read("summary.json")).unwrap();
    Run { page: read("report.html"), summary, folder }
}

#[test]
fn a_page_begins_with_last_words_faults_and_what_clients_saw() {
    let run = run(0, "9 of 10 acknowledged, none lost");
    let first = run.page.split("<p class=\"sentence\">").nth(1).unwrap();
    let first = first.split("</p>").next().unwrap();
    assert_eq!(
        first,
        "“9 of 10 acknowledged, none lost” (client). Partition of server for 400 ms from 200 ms on; \
         power-cut of server for 50 ms from 820 ms on; kill of server at 900 ms."
    );
    let note =
        "Clients began 6 operations: 3 were done, 1 failed, and the outcome of 2 is unknown. The longest took \
         405 ms; the longest time without success was 700 ms, around the partition of server at 200 ms.";
    assert!(run.page.contains(note), "{note}");
    assert!(!run.page.contains("No I/O reached"));
    // The parts are in their order.
    let place = |part: &str| run.page.find(part).unwrap_or_else(|| panic!("there is no {part}"));
    let parts =
        ["lost” (client).", "its last line", ">Faults<", "The cluster over time"].map(place);
    assert!(parts.is_sorted(), "{parts:?}");
}

#[test]
fn a_partition_is_one_interval_however_many_frames_it_has_lost() {
    let run = run(0, "done");
    let faults = run.summary["faults"].as_array().unwrap();
    let happened: Vec<_> = faults.iter().map(|fault| fault["happened"].as_u64().unwrap()).collect();
    assert_eq!(happened, [4, 1, 1]);
    let intervals = |fault: usize| {
        let all = faults[fault]["intervals"].as_array().unwrap().iter();
        let ends = |one: &Value| ["begin_ns", "end_ns"].map(|key| one[key].as_u64().unwrap());
        all.map(|one| ends(one).map(|at| (at - BEGIN) / MS)).collect::<Vec<_>>()
    };
    assert_eq!([0, 1, 2].map(intervals), [[[200, 600]], [[820, 870]], [[900, 900]]]);
    let operations = &faults[0]["intervals"][0]["operations"];
    assert_eq!(
        (&operations["count"], &operations["info"], &operations["ok"]),
        (&1.into(), &1.into(), &0.into())
    );
    assert_eq!(operations["longest_ns"], 405 * MS);
    // Two bands, and a mark for what has no length; the frames are none.
    assert_eq!(run.page.matches("<rect class=\"fill shade c1\"").count(), 2);
    assert_eq!(run.page.matches("kill of server at 900 ms</title>").count(), 1);
    assert_eq!(
        run.page.matches("partition of server from 200 ms to 600 ms: 400 ms</title>").count(),
        1
    );
}

/// The server is without power from 820 to 870 ms, and boots until 930 ms. The operation at 900 ms belongs
/// to the power cut, though it began when the machine had its power back.
#[test]
fn an_operation_while_a_machine_boots_again_belongs_to_the_failure() {
    let count = |run: &Run| {
        let interval = &run.summary["faults"][1]["intervals"][0];
        assert_eq!(interval["end_ns"], BEGIN + 870 * MS);
        interval["operations"]["count"].clone()
    };
    assert_eq!(count(&run(0, "done")), 0);
    let run = run_with(0, "done", vec![vec![BEGIN + 930 * MS], Vec::new()]);
    assert_eq!(count(&run), 1);
    let interval = &run.summary["faults"][1]["intervals"][0];
    assert_eq!(interval["back_ns"], BEGIN + 930 * MS);
    let operations = &interval["operations"];
    assert_eq!((&operations["info"], &operations["longest_ns"]), (&1.into(), &(100 * MS).into()));
    // A partition ends by itself.
    assert!(run.summary["faults"][0]["intervals"][0].get("back_ns").is_none());
    for part in [
        "data-c=\"back at\">930 ms</td>",
        "boot after the power-cut of server from 870 ms to 930 ms: 60 ms</title>",
        "operations until then are its fault&#39;s",
        "An operation belongs to the first fault that it met",
    ] {
        assert!(
            run.page.contains(part) || run.page.contains(&part.replace("&#39;", "'")),
            "{part}"
        );
    }
    // A machine that is not back at the end is away until then.
    let never = run_with(0, "done", vec![Vec::new(), Vec::new()]);
    assert_eq!(never.summary["faults"][1]["intervals"][0]["back_ns"], BEGIN + 1_000 * MS);
    assert_eq!(count(&never), 1);
}

#[test]
fn operations_are_bars_by_their_outcome_and_no_lines() {
    let run = run(0, "done");
    let bars = |text: &str| run.page.matches(text).count();
    assert_eq!(bars(": ok after 10 ms</title>"), 3);
    assert_eq!(bars("set at 700 ms: failed after 10 ms</title>"), 1);
    assert_eq!(bars("set at 200 ms: unknown after 405 ms</title>"), 1);
    assert_eq!(bars("set at 900 ms: unknown without an end</title>"), 1);
    // Each outcome has a colour of its own, and an entry of the legend, after output and faults.
    for (colour, series, count) in [(2, 2, 3), (3, 3, 1), (5, 4, 2)] {
        let class = format!("<rect class=\"fill c{colour}\" data-s=\"{series}\"");
        assert_eq!(bars(&class), count, "{class}");
    }
    assert!(run.page.contains("The one line."), "operations are no lines for a reader");
    let history = std::fs::read_to_string(run.folder.path().join("history.jsonl")).unwrap();
    let lines: Vec<Value> =
        history.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 11);
    assert_eq!((&lines[4]["time"], &lines[4]["value"]), (&(BEGIN + 200 * MS).into(), &2.into()));
    let whole = &run.summary["history"];
    assert_eq!((&whole["count"], &whole["ok"], &whole["fail"]), (&6.into(), &3.into(), &1.into()));
}

/// Bars of the lanes add up to the table of drives: neither has the I/Os of the boot, of which the last lie
/// in a step that lasts beyond it, nor one that the controller refused.
#[test]
fn lanes_have_the_ios_of_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let drive = |name: &str| Drive { name: name.into(), ..Drive::default() };
    let drives = ["server.ssd", "client.ssd"].map(drive);
    let mut writer = ResultsWriter::create(folder.path(), drives.into()).unwrap();
    let machines = ["server", "client"].map(str::to_owned);
    writer.of_machines(machines.into(), vec![Some(0), Some(1)]).unwrap();
    let io = |drive: u16, order: u64, submit: u64| IoRecord {
        drive,
        order,
        submit,
        target: submit + 1000,
        delivered: submit + 1000,
        boot: submit < BEGIN,
        ..IoRecord::of(&Command::new(Operation::Read, 0, 4096))
    };
    let boot = (0..40).map(|n| io((n % 2) as u16, n / 2, BEGIN - (41 - n) * MS / 8));
    let measured = (0..12).map(|n| io((n % 2) as u16, 20 + n / 2, BEGIN + n * 40 * MS + MS / 8));
    let refused = IoRecord { status: IoStatus::Refused, ..io(0, 26, BEGIN + 500 * MS) };
    writer.record(&boot.chain(measured).chain([refused]).collect::<Vec<_>>()).unwrap();
    let outcome = Outcome {
        virtual_ns: 1_000 * MS,
        boot_virtual_ns: BEGIN,
        ..Outcome::of(Ending::Exited(0))
    };
    let summary = writer.finish(&outcome, "exact", Duration::from_secs(1), Map::new()).unwrap();
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    for (machine, drive) in ["server", "client"].into_iter().zip(&summary.drives) {
        let begin = format!(">{machine}, ");
        let bars = page.split(begin.as_str()).skip(1);
        let texts = bars.filter_map(|bar| bar.split("</title>").next()?.split_once(" I/O"));
        let counts =
            texts.map(|(text, _)| text.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        assert_eq!(
            (counts.sum::<u64>(), drive.read.count, drive.boot_ios),
            (6, 6, 20),
            "{machine}"
        );
    }
}

#[test]
fn a_command_that_fails_is_quoted_before_all_else() {
    let run = run(3, "key5 lost");
    let first = run.page.split("<p class=\"sentence\">").nth(1).unwrap();
    assert!(first.starts_with("“key5 lost” (client). "), "{first:.100}");
    assert!(first.contains("The command failed with status 3."), "{first:.300}");
    assert!(run.page.contains(">status 3<"));
}
