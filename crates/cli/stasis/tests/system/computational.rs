//! Computational programs, by nvme-cli in a stock guest.

use std::path::Path;

use crate::support::Bench;

#[test]
#[ignore = "boots a guest for a minute: make slow-test"]
fn records_are_filtered_in_the_drive() {
    let bench = Bench::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    for name in ["computational.toml", "filter.sh"] {
        std::fs::copy(examples.join(name), bench.path(name)).unwrap();
    }
    let run = bench.run(&["computational.toml", "--results=r", "--ios=csv"]);
    run.expect(0);
    // The drive's matches are grep's: the script compares them. 32768 / 7, rounded down.
    assert!(run.stdout.contains("4681 records of 32768: "), "{}", run.stdout);
    // 5 instructions, 5 a record and 11 more of a match, and 2 at the end, of a nanosecond each; the
    // memory moves 8 bytes of each record and 48 of a match in less.
    let instructions = 5 + 6 * (32768 - 4681) + 15 * 4681 + 2;
    let latency = run.stdout.lines().find_map(|line| {
        let (_, latency) = line.split_once("latency: ")?;
        latency.split_whitespace().next()?.parse::<u64>().ok()
    });
    let latency = latency.unwrap_or_else(|| panic!("no latency: {}", run.stdout));
    assert!((instructions / 1000..instructions / 1000 + 100).contains(&latency), "{latency} us");
    // The copies are reads of the drive, of half a MiB each.
    let text = bench.text("r/ios.csv");
    let copies = text.lines().filter(|io| io.contains(",read,") && io.contains(",524288,"));
    assert!(copies.count() >= 2, "{text}");
}
