//! The pages of simulations and comparisons, as a browser shows them and a reader uses them.

#[path = "../../../results/report/tests/browser/mod.rs"]
mod browser;

use std::fs;
use std::path::Path;
use std::process::Command;

use browser::Browser;

fn stasis(folder: &Path, words: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
    let output = command.args(words).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Every plot of the page lives, and is the same when its script draws it; returns the
/// observations.
fn used(browser: &Browser, page: &Path) -> serde_json::Value {
    let observed = browser.used(page);
    assert_eq!(observed["errors"], serde_json::json!([]), "{}: {observed:#}", page.display());
    assert_eq!((&observed["live"], &observed["wide"]), (&observed["figures"], &false.into()));
    for figure in observed["again"].as_array().unwrap() {
        // By a tenth of the drawing's units, which is how its numbers are rounded.
        let far = figure[1].as_f64();
        assert!(far.is_some_and(|far| far < 0.21), "drawn by the script, {figure} is another");
    }
    browser.laid_out(page);
    observed
}

#[test]
fn pages_of_simulations_and_comparisons_are_to_be_used() {
    let Some(browser) = Browser::installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let job = "[global]\nioengine=libaio\nbs=4k\niodepth=8\nsize=64m\n[r]\nrw=randread\nnumber_ios=3000\n\
               [w]\nrw=randwrite\nnumber_ios=2000\n";
    fs::write(folder.join("job.fio"), job).unwrap();
    for (model, results) in [("samsung-980-pro", "before"), ("femu-basic", "after")] {
        let words = ["sim", model, "--workload", "job.fio", "--size", "1GiB", "--quiet"];
        stasis(folder, &[&words[..], &["--results", results]].concat());
        let observed = used(&browser, &folder.join(results).join("report.html"));
        let tip = observed["used"]["tip"].as_str().unwrap();
        assert!(tip.contains("length 4 KiB\nLBA "), "{tip}");
        // The least and the first percentile may stand in one place.
        let curve = observed["curve"].as_str().unwrap();
        assert!(["read min: ", "read p1: "].iter().any(|text| curve.starts_with(text)), "{curve}");
    }
    stasis(folder, &["compare", "before", "after", "--quiet"]);
    let page = folder.join("comparison/comparison.html");
    let observed = used(&browser, &page);
    let curve = observed["curve"].as_str().unwrap();
    assert!(curve.contains(" % at or below "), "{curve}");
    let (colours, pixels) = browser.colours(&page, false);
    let pixels_of = |colour: &str| colours[colour].as_u64().unwrap_or(0);
    assert!(pixels_of("#ffffff") * 2 > pixels && pixels_of("#d55e00") > 300, "{colours}");
}

/// The example of docs/reference/results.md, and faulty ones.
#[test]
fn a_page_is_drawn_from_its_description() {
    let book = include_str!("../../../../docs/reference/results.md");
    let example = book.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let described = folder.path().join("page.json");
    fs::write(&described, example).unwrap();
    let draw = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
        command.arg("page").args(words).current_dir(folder.path()).output().unwrap()
    };
    let drawn = draw(&["page.json"]);
    assert!(drawn.status.success(), "{}", String::from_utf8_lossy(&drawn.stderr));
    let page = folder.path().join("page.html");
    fs::write(&page, &drawn.stdout).unwrap();
    assert_eq!(fs::read_to_string(&page).unwrap().matches("<svg ").count(), 2);
    if let Some(browser) = Browser::installed() {
        used(&browser, &page);
    }
    fs::write(&described, example.replace("\"lines\"", "\"wires\"")).unwrap();
    let refused = draw(&["page.json"]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(125));
    assert!(stderr.contains("page.json describes no page: unknown variant `wires`"), "{stderr}");
    assert!(draw(&["none.json"]).stdout.is_empty());
}
