//! The page of a run, as a browser shows it and a reader uses it.

mod browser;

use std::time::Duration;

use serde_json::{Map, Value};
use stasis_block::inside::Inside;
use stasis_block::{Command, Operation};
use stasis_report::page::{Block, Page, Section};
use stasis_report::published_vs_measured::{self, Figure, Relation};
use stasis_report::ResultsWriter;
use stasis_results::sink::Records;
use stasis_results::{Drive, FaultCourse, PlannedFault, REPORT_FILE};
use stasis_run_events::{Ending, Exits, FaultRecord, IoRecord, Outcome, PacketRecord};

use browser::Browser;

/// Statistics from inside a flash SSD, as its model writes them.
const INSIDE: &str = include_str!("inside.json");

/// The begin of the command (ns).
const BEGIN: u64 = 2_000_000_000;

fn outcome() -> Outcome {
    // The drive's own activity takes the time of the run: plots of any other time would show
    // nothing.
    let mut inside: Value = serde_json::from_str(INSIDE).unwrap();
    inside["at"] = (BEGIN + 12_000_000_000).into();
    for part in ["channels", "luns"] {
        inside[part]["bucket"] = 4_000_000_000u64.into();
    }
    Outcome {
        virtual_ns: 12_000_000_000,
        boot_virtual_ns: BEGIN,
        boot_wall_ns: 1,
        wall_ns: 2_000_000_000,
        frozen_ns: 3,
        skipped_ns: 4_000_000_000,
        exits: Exits { total: 12_345, io: 345, mmio: 2_000, msr: 10_000, ..Exits::default() },
        inside: vec![Some(serde_json::from_value(inside).unwrap())],
        tsc_khz: 1,
        ..Outcome::of(Ending::Exited(0))
    }
}

/// One of many I/Os: reads and writes of latencies that differ by the hundredfold.
fn record(index: u64) -> IoRecord {
    let submit = BEGIN + index * 9_000;
    let latency = 20_000 + index * 7_919 % 100_003 * (1 + 20 * u64::from(index.is_multiple_of(97)));
    let operation = if index.is_multiple_of(3) { Operation::Write } else { Operation::Read };
    let offset = index * 7_919 % (1 << 24) * 4096;
    IoRecord {
        queue: 1,
        order: index,
        submit,
        target: submit + latency,
        delivered: submit + latency + index % 11,
        ..IoRecord::of(&Command::new(operation, offset, 4096 << (index % 3)))
    }
}

/// The same on several drives, of each operation that transfers or discards.
fn mixed(index: u64) -> IoRecord {
    let operations = [
        Operation::Read,
        Operation::Write,
        Operation::Flush,
        Operation::Discard,
        Operation::WriteZeroes,
    ];
    let operation = operations[(index % 5) as usize];
    IoRecord { drive: (index % 7 % 4) as u16, operation, ..record(index) }
}

/// The same on 64 drives, of which some have more I/Os than others.
fn wide(index: u64) -> IoRecord {
    let drive = (index / 5 % 64).min(index / 320 % 64) as u16;
    IoRecord { drive, ..mixed(index) }
}

fn drive() -> Drive {
    let text = str::to_owned;
    let (name, model, parameters) = (text("fast"), text("some-ssd"), Value::Null);
    let (interface, medium) = (text("nvme"), text("ram"));
    Drive { name, model, parameters, changes: None, interface, medium }
}

/// The results of a run of `ios` I/Os.
fn run(ios: u64) -> tempfile::TempDir {
    run_of(ios, 1, record)
}

/// The same on several drives.
fn run_of(ios: u64, drives: usize, record: fn(u64) -> IoRecord) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::create(folder.path(), vec![drive(); drives]).unwrap();
    let mut batch = Vec::new();
    for index in 0..ios {
        batch.push(record(index));
        if batch.len() == 1000 || index + 1 == ios {
            writer.record(&batch).unwrap();
            batch.clear();
        }
    }
    finish(writer, outcome());
    folder
}

fn finish(writer: ResultsWriter, outcome: Outcome) {
    writer.finish(&outcome, "exact", Duration::from_secs(1), Map::new()).unwrap();
}

/// Returns the length of the page of some results.
fn length(folder: &tempfile::TempDir) -> u64 {
    std::fs::metadata(folder.path().join(REPORT_FILE)).unwrap().len()
}

/// A place that a reader may point at is at most this far from where it was (units of the drawing).
const FAR: f64 = 0.21;

#[test]
fn a_reader_points_zooms_hides_and_switches() {
    let Some(browser) = Browser::installed() else { return };
    let folder = run(1500);
    let observed = browser.used(&folder.path().join(REPORT_FILE));
    assert_eq!(observed["errors"], serde_json::json!([]), "{observed:#}");
    assert_eq!(observed["live"], observed["figures"]);
    assert!(observed["figures"].as_u64().unwrap() >= 12, "{}", observed["figures"]);
    assert_eq!(observed["wide"], false, "the page is wider than its window");
    for figure in observed["again"].as_array().unwrap() {
        let far = figure[1].as_f64();
        assert!(far.is_some_and(|far| far < FAR), "drawn by the script, {figure} is another");
    }
    let used = &observed["used"];
    let tip = used["tip"].as_str().unwrap();
    // The first I/O of reads is the second of all: at 9 us, of 8 KiB.
    for part in ["read: ", " at ", "length 8 KiB", "LBA 63,352", "order 1"] {
        assert!(tip.contains(part), "{part}: {tip}");
    }
    assert_eq!((&used["gone"], &used["choosing"]), (&Value::Null, &Value::Bool(true)));
    // Plots of the same time have their cursor and their zoom together.
    let linked = used["linked"].to_string();
    for title in
        ["Delivered latency over time", "I/Os per second", "Queue depth", "Channels: ", "LUNs: "]
    {
        assert!(linked.contains(title), "{title}: {linked}");
    }
    assert!(!linked.contains("Distribution"), "{linked}");
    assert_eq!(used["unlinked"], serde_json::json!([]));
    let ends = |labels: &Value| labels.as_array().unwrap().last().unwrap().clone();
    assert_eq!(ends(&used["zoomed"]["peer"]), ends(&used["zoomed"]["labels"]));
    assert_ne!(used["zoomed"]["peer"], used["peer"]);
    let share = used["zoomed"]["share"].as_f64().unwrap();
    assert!((0.05..0.5).contains(&share), "a quarter of the time has {share} of the I/Os");
    assert!(used["reset"].as_f64().is_some_and(|far| far < FAR), "{}", used["reset"]);
    assert_eq!(used["hidden"], serde_json::json!(["none", "false"]));
    assert_eq!(used["shown"], serde_json::json!(["", "true"]));
    assert_eq!(used["scales"], serde_json::json!(["x: linear", "y: log"]));
    assert_eq!(used["switched"]["button"], "y: linear");
    let labels = used["switched"]["labels"].to_string();
    assert!(labels.contains("Latency (ms)"), "{labels}");
    assert!(used["back"].as_f64().is_some_and(|far| far < FAR), "{}", used["back"]);
    // A click on one of the slowest opens where its time went, and the keyboard is there.
    let opened = &observed["opened"];
    let orders = opened["orders"].as_str().unwrap_or_default().to_owned();
    let order = opened["order"].as_u64().unwrap_or_default();
    assert!(orders.split(' ').any(|one| one.parse() == Ok(order)), "{opened}");
    assert_eq!(opened["shown"], true, "{opened}");
    assert!(!opened["parts"].as_array().unwrap().is_empty(), "{opened}");
    let curve = observed["curve"].as_str().unwrap();
    assert!(curve.contains("target min: ") || curve.contains("target p1: "), "{curve}");
    assert!(!observed["bar"].as_str().unwrap_or_default().is_empty(), "{observed:#}");
    taken_away(&browser, &observed);
}

/// A frame of TCP to port 2379, told apart by its number.
fn frame(number: u64) -> Vec<u8> {
    let mut frame = vec![0; 60];
    (frame[12], frame[14], frame[23]) = (8, 0x45, 6);
    frame[34..38].copy_from_slice(&[0x80, 0, 0x09, 0x4b]);
    frame[40..48].copy_from_slice(&number.to_le_bytes());
    frame
}

/// Pauses of a machine of this length (ns).
fn pause(machine: &str, length: Option<u64>) -> PlannedFault {
    let course = FaultCourse::Each { length };
    PlannedFault { kind: "pause".into(), target: machine.into(), course }
}

/// Its page and summary are not there, and its rows are.
#[test]
fn the_rows_of_a_run_that_fails_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::create(folder.path(), vec![drive()]).unwrap();
    writer.of_machines(["a", "b"].map(str::to_owned).into(), vec![None]).unwrap();
    writer.keep_faults(vec![pause("a", None)]).unwrap();
    writer.keep_timeline().unwrap();
    writer.take(Records::Output(1, BEGIN, false, b"ready\n")).unwrap();
    let fault = FaultRecord { fault: 0, at: BEGIN + 1, order: None, offset: 0, length: 0 };
    writer.take(Records::Faults(&[fault])).unwrap();
    writer.folder().begun();
    writer.abandon().unwrap();
    for name in ["faults.parquet", "cluster.parquet", "timeline.parquet"] {
        let bytes = std::fs::read(folder.path().join(name)).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{name}");
    }
    assert!(!folder.path().join(REPORT_FILE).exists());
}

#[test]
fn a_cluster_is_lanes_with_messages_output_and_faults() {
    let names = || ["client", "<server>"].map(str::to_owned);
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::create(folder.path(), vec![drive(); 2]).unwrap();
    writer.of_machines(names().into(), vec![None, Some(1)]).unwrap();
    writer.add_network("lan", &names(), false).unwrap();
    writer.keep_faults(vec![pause("client", Some(400_000_000))]).unwrap();
    let record = |index| IoRecord { drive: (index % 2) as u16, ..mixed(index) };
    writer.record(&(0..1500).map(record).collect::<Vec<_>>()).unwrap();
    let packet = |number: u64, port: u16, outgoing: bool| PacketRecord {
        network: 0,
        port,
        outgoing,
        at: BEGIN + number * 10_000_000 + u64::from(!outgoing) * 50_000,
        length: 60,
        bytes: frame(number),
    };
    let packets = (0..300).flat_map(|number| {
        let from = (number % 2) as u16;
        [packet(number, from, true), packet(number, 1 - from, false)]
    });
    writer.take(Records::Packets(&packets.collect::<Vec<_>>())).unwrap();
    writer
        .take(Records::Output(1, BEGIN + 7_000_000, false, b"ready & <waiting>\nbusy\n"))
        .unwrap();
    let fault = FaultRecord { fault: 0, at: BEGIN + 9_000_000, order: None, offset: 0, length: 0 };
    writer.take(Records::Faults(&[fault])).unwrap();
    finish(writer, outcome());
    let page = std::fs::read_to_string(folder.path().join(REPORT_FILE)).unwrap();
    for part in [
        "The cluster over time",
        "&lt;server&gt; to client, TCP 2379, 60 bytes: sent at 10 ms, there after 50 µs",
        "300 of 300 are shown",
        "7 ms: ready &amp; &lt;waiting&gt;",
        "pause of client from 9 ms to 409 ms: 400 ms",
        "Pause of client for 400 ms from 9 ms on",
        "What the machines wrote",
        "All 2 lines.",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let lines = |class: &str| page.matches(&format!("<line class=\"{class} ")).count();
    assert_eq!((lines("message"), lines("moment")), (300, 2));
    assert_eq!(page.matches("<rect class=\"fill shade c1\"").count(), 1);
    let Some(browser) = Browser::installed() else { return };
    let observed = browser.used(&folder.path().join(REPORT_FILE));
    assert_eq!(observed["errors"], serde_json::json!([]), "{observed:#}");
    assert_eq!(observed["live"], observed["figures"]);
    for figure in observed["again"].as_array().unwrap() {
        let far = figure[1].as_f64();
        assert!(far.is_some_and(|far| far < FAR), "drawn by the script, {figure} is another");
    }
}

#[test]
fn the_plots_of_a_page_have_one_zero_and_one_scale_of_time() {
    for (ios, drives, record_of) in [(1500, 1, record as fn(u64) -> IoRecord), (3000, 4, mixed)] {
        let folder = run_of(ios, drives, record_of);
        let page = std::fs::read_to_string(folder.path().join(REPORT_FILE)).unwrap();
        let axes = page.split("data-axis=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
        let axes = axes.map(|axis| serde_json::from_str(&axis.replace("&quot;", "\"")).unwrap());
        let axes: Vec<Value> = axes.filter(|axis: &Value| axis["common"] == true).collect();
        assert!(axes.len() >= 4 * drives.min(2) + 2, "{}", axes.len());
        for axis in &axes {
            let ends =
                |axis: &Value| [&axis["low"], &axis["high"], &axis["step"]].map(Value::clone);
            assert_eq!(ends(axis), ends(&axes[0]), "of {drives} drives");
            assert_eq!(axis["low"], 0.0);
        }
        // No other plot over time is left.
        assert!(!page.contains("Virtual time ("));
    }
}

/// The files of the plot over time, and of the first one of bars.
fn taken_away(browser: &Browser, observed: &Value) {
    let name = "drive-fast-delivered-latency-over-time-every-i-o";
    let file =
        |kind: &str| observed["taken"][format!("{name}.{kind}")].as_str().unwrap_or_default();
    let csv: Vec<&str> = file("csv").lines().collect();
    let header =
        "series,Virtual time since the command began (ns),Latency (ns),length (B),LBA,order";
    assert_eq!(csv.first(), Some(&header), "{:#}", observed["taken"]);
    // Every I/O, and the slowest of reads and of writes once more.
    assert_eq!(csv.len(), 1 + 1500 + 2 * 20);
    // The second I/O of all: a read of 8 KiB.
    let second = record(1);
    let [at, latency] = [second.delivered - BEGIN, second.delivered - second.submit];
    let row = format!("read,{at},{latency},8192,{},1", second.offset / 512);
    assert!(csv.contains(&row.as_str()), "{row}");
    let svg = file("svg");
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{svg:.200}");
    for part in [">Delivered latency over time: every I/O</text>", ">read</text>", ">write</text>"]
    {
        assert!(svg.contains(part), "{part}");
    }
    assert!(!svg.contains("data-"), "what only the page needs is left out");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plot.svg");
    std::fs::write(&path, svg).unwrap();
    // It has its colours without the page.
    let (colours, _) = browser.colours(&path, false);
    assert!(colours["#0072b2"].as_u64() > Some(50), "{colours}");
    let png = file("png");
    assert!(png.starts_with("1680 x ") && png.contains(" data:image/png;base64,iVBOR"), "{png}");
    let bars = observed["takenBars"].as_object().unwrap();
    let csv = bars.iter().find(|(name, _)| name.ends_with(".csv")).unwrap().1.as_str().unwrap();
    assert!(csv.starts_with("what,figure,from: ") && csv.lines().count() > 2, "{csv}");
}

#[test]
fn pages_are_light_or_dark_as_the_reader_likes() {
    let Some(browser) = Browser::installed() else { return };
    let folder = run(3000);
    let page = folder.path().join(REPORT_FILE);
    for (dark, paper, reads, writes) in
        [(false, "#ffffff", "#0072b2", "#d55e00"), (true, "#14171a", "#56b4e9", "#f0894a")]
    {
        let (colours, pixels) = browser.colours(&page, dark);
        let pixels_of = |colour: &str| colours[colour].as_u64().unwrap_or(0);
        // Most of the page is paper; the series have their colours, bars and legends at least.
        assert!(pixels_of(paper) * 2 > pixels, "{paper}: {} of {pixels}", pixels_of(paper));
        for colour in [reads, writes] {
            assert!(pixels_of(colour) > 500, "{colour}: {} of {pixels}", pixels_of(colour));
        }
    }
}

/// The pages of runs, of a shared drive and of a publication; those of other commands are looked at
/// where they are made.
#[test]
fn pages_are_to_be_read_on_a_screen_on_a_phone_and_on_paper() {
    let Some(browser) = Browser::installed() else { return };
    let folder = run(1500);
    browser.laid_out(&folder.path().join(REPORT_FILE));

    let folder = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::create(folder.path(), vec![drive(); 4]).unwrap();
    (0..3000).for_each(|index| writer.record(&[mixed(index)]).unwrap());
    let shared = vec![serde_json::from_str(include_str!("shared.json")).unwrap()];
    finish(writer, Outcome { shared, ..outcome() });
    browser.laid_out(&folder.path().join(REPORT_FILE));

    let figure = |device: &str, published: f64, measured: f64| Figure {
        id: "Table 2".into(),
        what: format!("{device}, 4 KiB random reads of eight processes, p99"),
        unit: "us".into(),
        published: Some(published),
        relation: Relation::default(),
        closed_form: None,
        measured: Some(measured),
        missing: None,
    };
    let figures = vec![
        figure("the first drive", 50.0, 51.0),
        figure("the second drive", 2_000.0, 250_000.0).at_most(),
        figure("the third drive", 70.0, 0.004).at_least(),
        figure("another system", 1.0, 3.0).incomparable(),
    ];
    let failed = vec![("Figure 3".to_owned(), "the guest did not boot".to_owned())];
    let head = Some(published_vs_measured::head(&figures, &failed));
    let sections = vec![Section::new("Figures").with(Block::Figures(figures))];
    let (title, subtitle) = ("A publication".to_owned(), "In its quick form.".to_owned());
    Page { title, subtitle, head, sections }.write(folder.path(), "figures.html").unwrap();
    browser.laid_out(&folder.path().join("figures.html"));
}

/// No fault is overlooked: each one in a page of its own.
#[test]
fn a_page_that_is_not_to_be_read_is_refused() {
    let Some(browser) = Browser::installed() else { return };
    let folder = run(100);
    let page = std::fs::read_to_string(folder.path().join(REPORT_FILE)).unwrap();
    for (fault, style) in [
        ("contrast", ":root { --soft: #b0b4b8 !important; }"),
        ("wider than its window", ".tiles { min-width: 500px; }"),
        ("cut off by the paper", "@media print { .wide { overflow: auto; width: 200px; } }"),
        ("texts overlap", ".sentence { margin-top: -1.2rem; }"),
        ("cut off by its drawing", "svg text { font-size: 60px; }"),
        ("a label of", "figure svg { min-width: 0 !important; }"),
        (
            "figures beyond a phone's window",
            ".rows { overflow: auto !important; } .rows table { width: 900px; }",
        ),
        ("a control on paper", "@media print { .take { display: flex; } }"),
        ("out of order", ".tiles { position: relative; top: 400px; }"),
    ] {
        let path = folder.path().join("faulty.html");
        std::fs::write(&path, page.replace("</style>", &format!("{style}</style>"))).unwrap();
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            browser.laid_out(&path);
        }));
        let message = looked.expect_err(fault);
        let message = message.downcast_ref::<String>().unwrap();
        assert!(message.contains(&format!(": {fault}")), "{fault}: {message}");
    }
}

/// Without a browser: the content of the page for one, and its size.
#[test]
fn a_million_ios_make_a_page_of_less_than_two_megabytes() {
    for (drives, record) in [(1, record as fn(u64) -> IoRecord), (4, mixed), (64, wide)] {
        let folder = run_of(1_000_000, drives, record);
        let length = length(&folder);
        println!("{drives} drives: {length} bytes");
        assert!(length < 2_000_000, "{drives} drives: {length} bytes");
        let page = std::fs::read_to_string(folder.path().join(REPORT_FILE)).unwrap();
        // Each drive has its tables; plots as far as there is room, the busiest first.
        assert_eq!(page.matches("Latency by percentile").count(), drives);
        let plots = page.matches("<figcaption>Distribution of latency").count();
        let without = page.matches("Its plots are left out").count();
        println!("{drives} drives: {plots} have plots");
        assert_eq!(plots + without, drives);
        assert!(plots >= drives.min(8), "{plots} of {drives}");
    }
    let folder = run(1000);
    let page = std::fs::read_to_string(folder.path().join(REPORT_FILE)).unwrap();
    // A rate has the length of its steps.
    assert!(page.contains("<figcaption>I/Os per second of virtual time, in steps of "));
    // Nothing is fetched.
    let fetched = ["src=", "href=", "@import", "url(http", "//cdn"];
    assert!(fetched.iter().all(|word| !page.contains(word)));
    // The colours of a dark screen are not printed.
    assert!(page.contains("@media screen and (prefers-color-scheme: dark)"));
}

/// Every cell of the maps of channels and LUNs has another shade than its neighbours.
#[test]
fn a_flash_array_with_much_to_show_makes_no_larger_page() {
    let mut inside: Value = serde_json::from_str(INSIDE).unwrap();
    for part in ["channels", "luns"] {
        let share = |row: u64, column: u64| (row * 7 + column * 3) % 20;
        let row = |row| (0..256).map(|column| share(row, column) as f64 / 20.0).collect();
        inside[part]["busy"] = (0..256).map(row).collect::<Vec<Vec<f64>>>().into();
    }
    let inside: Inside = serde_json::from_value(inside).unwrap();
    assert!(inside.flash().is_some());
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::create(folder.path(), vec![drive(); 4]).unwrap();
    (0..10_000).for_each(|index| writer.record(&[mixed(index)]).unwrap());
    let inside = vec![Some(inside); 4];
    finish(writer, Outcome { inside, boot_virtual_ns: 0, ..outcome() });
    let page = std::fs::read_to_string(folder.path().join(REPORT_FILE)).unwrap();
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert_eq!(page.matches("<figcaption>LUNs: share of time at work").count(), 4);
    assert!(page.matches("LUN 0, ").count() >= 4 * 8, "maps have columns");
}
