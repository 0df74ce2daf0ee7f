//! Intervals against what is known of distributions.

use proptest::prelude::*;
use stasis_block::inside::{LatencyMeans, Parts};
use stasis_block::Operation;
use stasis_comparison::{
    mean, of_runs, percentile, Candidate, Comparison, Ios, Run, Setup, Slower, TextDifference,
};
use stasis_report::InputFile;
use stasis_results::SlowIo;

/// The smallest difference that matters (%).
const MIN_DIFFERENCE: f64 = 1.0;

/// A sequence that is spread evenly (Weyl), for tests that need no randomness.
fn spread(seed: u64, count: u64) -> Vec<u64> {
    let mut values: Vec<u64> = (0..count)
        .map(|index| (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed) >> 44)
        .collect();
    values.sort_unstable();
    values
}

fn candidate(name: &str, runs: &[&[u64]]) -> Candidate {
    let run = |values: &&[u64]| Run {
        ios: [(("drive".to_owned(), Operation::Read), ios(values))].into(),
        setup: Setup([("drive: model".to_owned(), name.to_owned())].into()),
        digest: name.bytes().map(u64::from).sum(),
        ..Run::default()
    };
    Candidate::new(name, runs.iter().map(run).collect())
}

/// I/Os of 4 KiB that follow one another.
fn ios(latencies: &[u64]) -> Ios {
    let iops = latencies.len() as f64 * 1e9 / latencies.iter().sum::<u64>().max(1) as f64;
    let bytes = 4096 * latencies.len() as u64;
    Ios { latencies: latencies.to_vec(), iops, bytes_per_second: iops * 4096.0, bytes }
}

#[test]
fn percentiles_are_those_of_the_values() {
    let values: Vec<u64> = (1..=1000).collect();
    let p50 = percentile(&values, 50.0).unwrap();
    assert_eq!(p50.value, 500.0);
    // 1.96 sqrt(1000/4) = 31 ranks on either side.
    assert!((465.0..=470.0).contains(&p50.low) && (530.0..=535.0).contains(&p50.high), "{p50:?}");
    // One value in a thousand is above p99.9; none is expected above p99.99.
    assert_eq!(percentile(&values, 99.9).unwrap().value, 999.0);
    assert_eq!(percentile(&values, 99.99), None);
    assert_eq!(percentile(&[], 50.0), None);
    assert_eq!(mean(&[7]), None);
}

/// The percentile's interval has the true value in about 95 of 100 samples.
#[test]
fn an_interval_covers_what_it_says() {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    let random = |sample: u64, index: u64| {
        BuildHasherDefault::<DefaultHasher>::default().hash_one((sample, index)) % 1_000_000
    };
    let covered = (0..1000_u64).filter(|sample| {
        let mut values: Vec<u64> = (0..200).map(|index| random(*sample, index)).collect();
        values.sort_unstable();
        let p90 = percentile(&values, 90.0).unwrap();
        p90.low <= 900_000.0 && 900_000.0 <= p90.high
    });
    let covered = covered.count();
    assert!((930..=985).contains(&covered), "{covered} of 1000");
}

/// Ranks by the binomial distribution (R: `qbinom(c(.025, .975), n, p)`), and where there are none.
#[test]
fn a_tail_of_few_values_has_no_interval() {
    let interval =
        |count: u64, percent| percentile(&(1..=count).collect::<Vec<_>>(), percent).unwrap();
    let ends = |count, percent| {
        let found = interval(count, percent);
        found.is_known().then_some((found.low, found.high))
    };
    // All 1,000 values are at most p99.9 in 37 % of samples, 300 at most p99 in 5 %.
    assert_eq!(ends(1000, 99.9), None);
    assert_eq!(ends(300, 99.0), None);
    assert_eq!(ends(5, 50.0), None);
    assert_eq!(ends(6, 50.0), Some((1.0, 6.0)));
    assert_eq!(ends(10, 50.0), Some((2.0, 9.0)));
    assert_eq!(ends(1000, 99.0), Some((983.0, 997.0)));
    assert_eq!(ends(1000, 1.0), Some((4.0, 18.0)));
    assert_eq!(interval(1000, 99.9).value, 999.0);
}

#[test]
fn runs_are_compared_by_their_figures() {
    // Student's 97.5th percentile for two degrees of freedom, times the standard error.
    let three = of_runs(&[1.0, 2.0, 3.0]).unwrap();
    assert_eq!(three.value, 2.0);
    assert!((three.high - 2.0 - 4.303 / 3_f64.sqrt()).abs() < 1e-9, "{three:?}");
    assert_eq!(of_runs(&[1.0]), None);
}

#[test]
fn what_is_the_same_differs_in_nothing_and_what_is_slower_is_found() {
    let values = spread(1, 5000);
    let slower: Vec<u64> = values.iter().map(|value| value + value / 5).collect();
    let [a, b, c] = [("a", &values), ("b", &values), ("c", &slower)]
        .map(|(name, values)| candidate(name, &[values]));
    let same = Comparison::of(vec![a.clone(), b], MIN_DIFFERENCE).unwrap();
    assert!(same.differences.len() >= 4);
    assert!(same.differences.iter().all(|one| one.percent == 0.0 && !one.significant));
    let other = Comparison::of(vec![a.clone(), c], MIN_DIFFERENCE).unwrap();
    let found = other.slower_by(10.0);
    let mean = |one: &Slower| matches!(one, Slower::Latency(one) if one.statistic == "mean");
    assert!(found.iter().any(mean), "{found:?}");
    assert!(other.slower_by(30.0).is_empty());
    // By figure in order, rates first; a single run's rates have no interval.
    let order: Vec<_> = other.differences.iter().map(|one| one.statistic.as_str()).collect();
    assert_eq!(order, ["IOPS", "bandwidth", "mean", "p50", "p95", "p99", "p99.9"]);
    let rate = &other.differences[0];
    assert!(rate.is_slower() && !rate.significant && (-17.0..-16.0).contains(&rate.percent));
    assert_eq!(other.setup, [("drive: model".into(), vec!["a".into(), "c".into()])]);
    let html = other.to_html(None, None);
    for part in [
        "c against a",
        "<p class=\"sentence\">Of the same I/Os, ",
        "<dd>slower</dd>",
        "<dt>Latencies that differ</dt><dd>5 of 5 longer beyond chance</dd>",
        "the difference is 1 % or more (--least sets this)",
        "<td class=\"figure bad\" data-c=\"c: difference\">+20",
        "What differs in the set-up",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let html = same.to_html(None, None);
    assert!(html.contains("<dd>no difference</dd>") && !html.contains("<td class=\"figure bad"));
    assert!(Comparison::of(vec![a], MIN_DIFFERENCE).is_none());
}

/// A run's slowest I/Os spent their time where the page says.
fn slow(latency: u64, gc: u64) -> SlowIo {
    let parts = Parts { gc, cell: latency - gc, ..Parts::default() };
    SlowIo {
        order: 1,
        operation: Operation::Read,
        lba: 0,
        bytes: 4096,
        submit_ns: 0,
        target_ns: latency,
        delivered_ns: latency,
        image_ns: 0,
        limited_ns: 0,
        scheduled_ns: 0,
        fault_ns: 0,
        parts: Some(parts),
        guest: None,
    }
}

#[test]
fn of_several_the_fastest_and_the_slowest_are_named_and_why() {
    let values = spread(1, 5000);
    let [a, b, c] = [("a", 10), ("b", 5), ("c", 40)].map(|(name, factor)| {
        let values: Vec<u64> = values.iter().map(|value| value * factor).collect();
        let mut one = candidate(name, &[&values]);
        let slowest = vec![slow(1000, if name == "c" { 800 } else { 0 })];
        one.runs[0].slowest.insert("drive".into(), slowest);
        one
    });
    let comparison = Comparison::of(vec![a, b, c], MIN_DIFFERENCE).unwrap();
    let html = comparison.to_html(None, None);
    let sentence = html.split("<p class=\"sentence\">").nth(1).unwrap().split("</p>").next();
    let sentence = sentence.unwrap();
    for part in
        ["At p99.9 of reads b is the fastest, ", ", and c the slowest, ", ", 8 times as long."]
    {
        assert!(sentence.contains(part), "{part}: {sentence}");
    }
    let why =
        "Where the slowest reads spent their time: of b: cell, 100 %; of a: cell, 100 %; of c: \
               collection, 80 %; cell, 20 %.";
    assert!(html.contains(why), "{why}");
    for part in ["<dd>shortest p99", "Why I/Os take their time", "All differences"] {
        assert!(html.contains(part), "{part}");
    }
    // A row for each in place of a column, so that the table has room for any number.
    let head = html.split("<thead>").nth(1).unwrap().split("</thead>").next().unwrap();
    let columns = head.matches("<th ").count();
    assert_eq!(columns, 9, "{head}");
    assert!(
        html.contains("<td class=\"figure bad\"") && html.contains("<td class=\"figure good\"")
    );
}

/// The p99.9 of 1,000 I/Os has no interval: nobody knows whether its difference is chance.
#[test]
fn a_figure_without_an_interval_is_told_as_such() {
    let values = spread(1, 1000);
    let [a, b, c] = [("a", 10), ("b", 5), ("c", 40)].map(|(name, factor)| {
        let values: Vec<u64> = values.iter().map(|value| value * factor).collect();
        candidate(name, &[&values])
    });
    let doubt = ", 8 times as long; too few I/Os carry these figures to tell what is chance.";
    let several = Comparison::of(vec![a.clone(), b, c.clone()], MIN_DIFFERENCE).unwrap();
    let sentence = several.verdict().sentence;
    assert!(sentence.contains("At p99.9 of reads b is the fastest, "), "{sentence}");
    assert!(sentence.contains(doubt), "{sentence}");
    assert!(several.to_html(None, None).contains("a – stands there"));
    let two = Comparison::of(vec![a, c], MIN_DIFFERENCE).unwrap().to_html(None, None);
    let tile = "<dd>4 of 5 longer beyond chance; 1 cannot be told</dd>";
    assert!(two.contains(tile) && !two.contains("a – stands there"), "{tile}");
}

#[test]
fn many_results_make_a_page_of_less_than_two_megabytes() {
    let values = spread(1, 5000);
    let candidates = (0..12u64).map(|number| {
        let mut one = candidate(&format!("c{number}"), &[&values]);
        use Operation::{Copy, Discard, Flush, Write};
        for operation in [Write, Flush, Discard, Copy] {
            let slower: Vec<u64> = values.iter().map(|value| value * (10 + number) / 10).collect();
            one.runs[0].ios.insert(("drive".into(), operation), ios(&slower));
        }
        one
    });
    let html = Comparison::of(candidates.collect(), MIN_DIFFERENCE).unwrap().to_html(None, None);
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    assert_eq!(html.matches("<figcaption>Upper tail").count(), 5);
}

#[test]
fn what_only_one_has_is_told() {
    let a = candidate("a", &[&[1, 2, 3]]);
    let mut b = candidate("b", &[&[1, 2, 3]]);
    b.runs[0].ios.insert(("drive".into(), Operation::Write), ios(&[1, 2]));
    let comparison = Comparison::of(vec![a, b], MIN_DIFFERENCE).unwrap();
    assert_eq!(comparison.apart, [("drive".into(), Operation::Write, vec!["b".into()])]);
}

/// A candidate of one run that took `seconds`, with so many I/Os of each operation.
fn command(name: &str, seconds: f64, ios_of: &[(Operation, u64, u64)]) -> Candidate {
    let mut one = candidate(name, &[]);
    let mut run = Run { time: Some(seconds * 1e9), span: seconds * 1e9, ..Run::default() };
    for (operation, count, latency) in ios_of {
        let latencies: Vec<u64> = (0..*count).map(|n| latency + n % 10).collect();
        run.ios.insert(("drive".to_owned(), *operation), ios(&latencies));
    }
    run.digest = (seconds * 1e9) as u64;
    one.runs.push(run);
    Candidate::new(one.name, one.runs)
}

/// The guide's own example: a twentieth of the time, a twentieth of the flushes, and each I/O that
/// is left takes longer.
#[test]
fn a_command_that_is_faster_by_other_work_is_no_slower_one() {
    use Operation::{Flush, Write};
    let one = command("one", 1.0972, &[(Write, 1700, 19_000), (Flush, 500, 1_000_000)]);
    let lazy = command("lazy", 0.0513, &[(Write, 700, 190_000), (Flush, 25, 1_100_000)]);
    let comparison = Comparison::of(vec![one.clone(), lazy.clone()], MIN_DIFFERENCE).unwrap();
    let verdict = comparison.verdict();
    assert_eq!(verdict.word, "faster");
    for part in ["21.4 times as fast", "not do the same I/Os", "700 writes in place of 1,700"] {
        assert!(verdict.sentence.contains(part), "{part}: {}", verdict.sentence);
    }
    assert!(comparison.differences.iter().all(|one| !one.significant && !one.comparable));
    assert!(comparison.slower_by(5.0).is_empty());
    // The other way round it takes longer, and that fails.
    let slower = Comparison::of(vec![lazy, one], MIN_DIFFERENCE).unwrap();
    let found = slower.slower_by(5.0);
    assert!(
        matches!(found[..], [Slower::Time(one, more)] if one.name == "one" && more > 2000.0),
        "{found:?}"
    );
    assert_eq!(slower.verdict().word, "slower");
    let html = comparison.to_html(None, None);
    assert!(html.contains("<dd>faster</dd>") && !html.contains("<td class=\"figure bad\""));
}

#[test]
fn a_nanosecond_is_no_difference_that_matters() {
    let [a, b] = [100_000, 100_001].map(|ns| candidate("x", &[&vec![ns; 1000]]));
    let comparison = Comparison::of(vec![a.clone(), b.clone()], MIN_DIFFERENCE).unwrap();
    assert!(comparison.differences.iter().all(|one| !one.significant));
    assert!(comparison.verdict().sentence.contains("by 1 % or more"), "{:?}", comparison.verdict());
    // Unless it is asked for.
    let comparison = Comparison::of(vec![a, b], 0.0).unwrap();
    assert!(comparison.differences.iter().any(|one| one.significant));
}

#[test]
fn identical_runs_of_several_seeds_are_one_run() {
    let values = vec![100_000; 1000];
    let several = candidate("seeds", &[&values, &values, &values]);
    assert_eq!((several.runs.len(), several.distinct().len()), (3, 1));
    let slower = candidate("slower", &[&vec![120_000; 1000]]);
    let comparison = Comparison::of(vec![several, slower], MIN_DIFFERENCE).unwrap();
    let sentence = comparison.verdict().sentence;
    let expected =
        "The seed changes nothing here: the 3 runs of seeds have the same figures and count as one.";
    assert!(sentence.contains(expected), "{sentence}");
    let html = comparison.to_html(None, None);
    assert!(html.contains("1,000 I/Os in each of 3 identical runs"));
    // The same latencies at other places: what is the same is said.
    let mut others = comparison.candidates[0].runs.clone();
    others[1].digest = 7;
    let slower = comparison.candidates[1].clone();
    let others = vec![Candidate::new("seeds", others), slower];
    let comparison = Comparison::of(others, MIN_DIFFERENCE).unwrap();
    let sentence = comparison.verdict().sentence;
    assert!(
        sentence.contains("places or times of single I/Os, and no figure here: the 3 runs"),
        "{sentence}"
    );
    let html = comparison.to_html(None, None);
    assert!(html.contains("1,000 I/Os in each of 3 runs with the same figures"));
    assert!(!html.contains("identical"));
}

/// The part of an I/O's own time that takes the longest is a figure, beside a queue before it.
#[test]
fn a_queue_has_what_it_waits_for_beside_it() {
    let mut slow = candidate("slow", &[&[100_000; 1000]]);
    let parts =
        Parts { queue: 75_000.0, positioning: 24_000.0, transfer: 1_000.0, ..Parts::default() };
    let means = LatencyMeans { count: 1000, latency: 100_000.0, parts };
    slow.runs[0].means = [(("drive".to_owned(), Operation::Read), means)].into();
    slow.runs[0].span = 25e6;
    let fast = candidate("fast", &[&[10_000; 1000]]);
    let comparison = Comparison::of(vec![fast, slow], MIN_DIFFERENCE).unwrap();
    let html = comparison.to_html(None, None);
    let text = "of slow takes 100 µs: queue behind other commands, 75 %; positioning, 24 % (4 I/Os of all \
                operations are there at once, and one ends every 25 µs; without the queue 96 % of its time is positioning).";
    assert!(html.contains(text), "{html:.3000}");
}

/// Discards and flushes are counted a second, and their bytes are not.
#[test]
fn discards_have_no_bandwidth() {
    use Operation::{Discard, Write};
    let [one, two] =
        ["one", "two"].map(|name| command(name, 1.0, &[(Write, 700, 1000), (Discard, 300, 1000)]));
    let comparison = Comparison::of(vec![one, two], MIN_DIFFERENCE).unwrap();
    let of_discards = comparison.differences.iter().filter(|one| one.operation == Discard);
    let figures: Vec<_> = of_discards.map(|one| one.statistic.as_str()).collect();
    assert!(figures.contains(&"IOPS") && !figures.contains(&"bandwidth"), "{figures:?}");
    assert!(comparison.differences.iter().any(|one| one.statistic == "bandwidth"));
}

/// A load with a time limit does more on a faster drive: its latencies can be compared.
#[test]
fn more_of_the_same_in_the_same_time_is_compared() {
    use Operation::{Read, Write};
    let one = command("one", 1.0, &[(Read, 700, 100_000), (Write, 300, 20_000)]);
    let two = command("two", 1.001, &[(Read, 1400, 50_000), (Write, 600, 10_000)]);
    let comparison = Comparison::of(vec![one.clone(), two], MIN_DIFFERENCE).unwrap();
    let verdict = comparison.verdict();
    assert_eq!(verdict.word, "faster");
    let expected =
        "In the same time two did 2 times as many I/Os as one, of the same kinds and sizes.";
    assert!(verdict.sentence.contains(expected), "{}", verdict.sentence);
    assert!(comparison.differences.iter().any(|one| one.significant));
    let other = command("mix", 1.0, &[(Read, 1400, 50_000), (Write, 300, 10_000)]);
    let comparison = Comparison::of(vec![one, other], MIN_DIFFERENCE).unwrap();
    assert!(comparison.verdict().sentence.contains("not do the same I/Os"));
}

/// Inputs are compared by their contents, and small texts are shown with what differs.
#[test]
fn other_inputs_are_told_with_what_differs_in_them() {
    let read = |path: &str, text: &str| InputFile {
        path: path.into(),
        bytes: text.len() as u64,
        sha256: Some(format!("{:064x}", text.len())),
        text: Some(text.into()),
    };
    let with = |name: &str, inputs: Vec<InputFile>| {
        let mut one = candidate(name, &[&[1, 2, 3]]);
        one.runs[0].inputs = inputs;
        Candidate::new(one.name, one.runs)
    };
    let job = || read("a.fio", "bs=4k\n");
    let one = with("one", vec![read("full.sh", "set -eu\nfull\n"), job()]);
    let two = with("two", vec![job(), read("lazy.sh", "set -eu\nnormal\n")]);
    let comparison = Comparison::of(vec![one.clone(), two], MIN_DIFFERENCE).unwrap();
    assert_eq!(comparison.inputs.len(), 1);
    assert_eq!(comparison.inputs[0].name, "full.sh / lazy.sh");
    let [(candidate, TextDifference::Lines(changes))] = &comparison.inputs[0].texts[..] else {
        panic!("{:?}", comparison.inputs);
    };
    assert_eq!((candidate.as_str(), &*changes.shown), ("two", " set -eu\n-full\n+normal\n"));
    let html = comparison.to_html(None, None);
    for part in [
        "input full.sh / lazy.sh",
        "SHA-256 000000000000…",
        "-full\n+normal",
        // At the page's top too.
        "In the file full.sh / lazy.sh, two has “normal” in place of “full”.",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // One more file, and one of the same name with another text.
    let more = with(
        "more",
        vec![read("full.sh", "set -eu\nfull\n"), read("b/a.fio", "bs=16k\n"), read("new", "x")],
    );
    let comparison = Comparison::of(vec![one, more], MIN_DIFFERENCE).unwrap();
    let names: Vec<_> = comparison.inputs.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a.fio / b/a.fio", "new"]);
    assert_eq!(comparison.inputs[1].values[0], "–");
}

/// Each of a pair has an experiment and a load of its own: the option that differs is on the page, escaped;
/// of a text that is not kept the page says so.
#[test]
fn the_option_that_differs_between_two_loads_is_shown() {
    let read = |path: &str, text: Option<&str>, hash: u64| InputFile {
        path: path.into(),
        bytes: 40_000,
        sha256: Some(format!("{hash:064x}")),
        text: text.map(str::to_owned),
    };
    let with = |name: &str, inputs: Vec<InputFile>| {
        let mut one = candidate(name, &[&[1, 2, 3]]);
        one.runs[0].inputs = inputs;
        Candidate::new(one.name, one.runs)
    };
    let compared = |was: Vec<InputFile>, is: Vec<InputFile>| {
        Comparison::of(vec![with("one", was), with("two", is)], MIN_DIFFERENCE).unwrap()
    };
    let load = |path: &str, depth: u64| {
        let text = format!("[<r>]\nrw=randread\nbs=4k\niodepth={depth}\n");
        read(path, Some(&text), depth)
    };
    let one = || vec![read("one.toml", Some("a = 1\n"), 100), load("shallow.fio", 1)];
    let two = || vec![load("deep.fio", 32), read("two.toml", Some("a = 1\n\nb = 2\n"), 101)];
    let comparison = compared(one(), two());
    let names: Vec<_> = comparison.inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(names, ["one.toml / two.toml", "shallow.fio / deep.fio"]);
    let html = comparison.to_html(None, None);
    for part in [
        " [&lt;r&gt;]\n rw=randread\n bs=4k\n-iodepth=1\n+iodepth=32\n</pre>",
        "shallow.fio / deep.fio: − is a line of one, + one of two.",
        "In the file shallow.fio / deep.fio, two has “iodepth=32” in place of “iodepth=1”.",
        "In the file one.toml / two.toml, two has “b = 2” besides.",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // Nobody knows which is which of several of a kind.
    let several = compared(
        vec![load("a.fio", 1), load("b.fio", 2)],
        vec![load("c.fio", 3), load("d.fio", 4)],
    );
    assert!(several.inputs.iter().all(|input| input.texts.is_empty()));
    // Nobody knows either what differs in a file whose text is not kept, or in the ends of lines.
    let text = |text, hash| vec![read("a.fio", text, hash)];
    for (was, is, sentence) in [
        (None, None, "as results keep the text of small files only"),
        (Some("a"), None, "as results keep the text of small files only"),
        (Some("a\n"), Some("a\r\n"), "differ in the ends of lines only"),
    ] {
        let html = compared(text(was, 1), text(is, 2)).to_html(None, None);
        assert!(html.contains(sentence) && !html.contains("In the file"), "{sentence}");
    }
    assert!(compared(text(None, 1), text(None, 1)).inputs.is_empty());
}

proptest! {
    #[test]
    fn no_values_panic(mut values in prop::collection::vec(any::<u64>(), 0..50), percent in 0.0..100.0) {
        values.sort_unstable();
        if let Some(found) = percentile(&values, percent) {
            prop_assert!(found.low <= found.value && found.value <= found.high);
        }
        mean(&values);
        let other: Vec<u64> = values.iter().map(|value| value / 2).collect();
        let both = vec![candidate("a", &[&values]), candidate("b", &[&other, &values])];
        let comparison = Comparison::of(both, MIN_DIFFERENCE);
        comparison.unwrap().to_html(None, None);
    }
}

/// Commands that do no I/O, and one that fails beside one that does not.
#[test]
fn commands_without_io_are_compared_by_their_times() {
    let command = |seconds: f64, failed: Option<&str>| {
        let failed = failed.map(str::to_owned);
        Candidate::new("c", vec![Run { time: Some(seconds * 1e9), failed, ..Run::default() }])
    };
    let compared = |was, is| Comparison::of(vec![was, is], 1.0).unwrap();
    let slower = compared(command(1.0, None), command(2.0, None));
    assert!(slower.is_timed() && slower.differences.is_empty());
    assert_eq!(slower.verdict().word, "slower");
    assert!(matches!(slower.slower_by(5.0)[..], [Slower::Time(..)]));
    let failed = compared(command(1.0, None), command(2.0, Some("failed with status 3")));
    assert_eq!(failed.verdict().word, "not compared");
    assert!(matches!(failed.slower_by(5.0)[..], [Slower::Failed(..)]));
    // Beside a command that did not end nothing is slower.
    let after = compared(command(1.0, Some("did not end")), command(9.0, None));
    assert_eq!(after.verdict().word, "not compared");
    assert!(after.slower_by(5.0).is_empty());
    // A load's time says nothing beside another load's.
    let load = |seconds: f64| {
        let run = Run { time: Some(seconds * 1e9), is_load: true, ..Run::default() };
        Candidate::new("l", vec![run])
    };
    assert!(!compared(load(1.0), load(2.0)).is_timed());
}
