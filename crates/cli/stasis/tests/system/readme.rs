//! The README, the tutorial, the guides and pages of the reference as a newcomer takes them: what
//! they tell to run is run, and prints what they say.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Mutex;
use std::time::Instant;

use crate::reader::{Reader, Typed};

#[path = "../documents/commands.rs"]
pub mod commands;
#[path = "../documents/guides.rs"]
pub mod guides;
#[path = "../documents/markdown.rs"]
#[allow(dead_code)] // another test has more to look for
pub mod markdown;
#[path = "../documents/pages.rs"]
#[allow(dead_code)] // only its folders
pub mod pages;

use guides::Trial;
use pages::root;

/// Pages of the reference, of which the commands are run.
const REFERENCE: [&str; 6] =
    ["flash", "disk-images", "models", "ordered-disks", "power-cuts", "sim"];

fn reader(page: &str) -> Reader {
    let reader = Reader::new(&root());
    // Measurements of a real drive.
    let data = root().join("crates/drives/models/tests/data");
    for (file, measured) in [("fio.json", "fio-randrw.json"), ("sdb.txt", "blkparse.txt")] {
        reader.write(file, std::fs::read(data.join(measured)).unwrap());
    }
    // The experiment that the page has a reader write, or the reader's own.
    let demo = std::fs::read_to_string(root().join("examples/demo.toml")).unwrap();
    let mut written = markdown::blocks(page, "toml").into_iter();
    let written = written.find(|block| block.contains("command"));
    reader.write("experiment.toml", written.unwrap_or(demo));
    reader
}

/// Runs the commands of a page that is no guide.
fn commands_of(name: &str) {
    let text = std::fs::read_to_string(root().join(name)).unwrap();
    let mut reader = reader(&text);
    // A synopsis has placeholders.
    for block in guides::blocks(&text).iter().filter(|block| !block.text.contains("MODEL")) {
        if block.language == "sh" {
            reader.run(&guides::run_of(name, block), None);
        }
    }
    reader.end_lasting();
}

/// Follows a guide.
fn follow(name: &str) {
    let text = std::fs::read_to_string(root().join(format!("docs/{name}.md"))).unwrap();
    let mut reader = reader(&text);
    let blocks = guides::blocks(&text);
    let trials = guides::trials(name, &blocks, &root());
    let mut wrong = Vec::new();
    for (index, (block, trial)) in blocks.iter().zip(&trials).enumerate() {
        match trial {
            Some(Trial::Run) => {
                let next = trials.get(index + 1).and_then(Option::as_ref);
                let typed = match next {
                    Some(Trial::Typed(prompt)) => Some(Typed::of(&blocks[index + 1].text, prompt)),
                    _ => None,
                };
                reader.run(&guides::run_of(name, block), typed.as_ref());
            }
            Some(Trial::File(file)) => reader.write(file, &block.text),
            Some(Trial::Printed | Trial::Typed(_)) => {
                // A terminal shows what is typed.
                let lines = block.text.lines().filter(|line| !guides::is_typed(line));
                let lines = lines.filter(|line| !guides::is_printed(line, &reader.printed));
                wrong.extend(lines.map(str::to_owned));
            }
            Some(Trial::Part(_) | Trial::Read) | None => {}
        }
    }
    reader.end_lasting();
    assert!(wrong.is_empty(), "nothing prints\n{}\nbut\n{}", wrong.join("\n"), reader.printed);
}

/// Calls `follow` with each of `names`, two at a time; all are tried though one fails.
fn each(names: Vec<String>, follow: fn(&str)) {
    let (names, failed) = (Mutex::new(names.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| loop {
                let next = names.lock().unwrap().next();
                let Some(name) = next else { break };
                let begun = Instant::now();
                let result = catch_unwind(AssertUnwindSafe(|| follow(&name)));
                let end = if result.is_ok() { "works" } else { "FAILED" };
                eprintln!("{name} {end}: {:.0} s", begun.elapsed().as_secs_f64());
                if let Err(panic) = result {
                    let message = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                    failed.lock().unwrap().push(format!("{name}: {message}"));
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// The guides that take minutes, or those that do not; STASIS_GUIDES= words of the names of some.
fn guides(slow: bool) -> Vec<String> {
    let some = std::env::var("STASIS_GUIDES").unwrap_or_default();
    let is = |list: &[(&str, &str)], name: &String| list.iter().any(|(each, _)| each == name);
    let names = guides::pages().into_iter().map(|(name, _)| name);
    let names = names.filter(|name| !is(guides::APART, name) && is(guides::SLOW, name) == slow);
    let wanted = |name: &String| some.split_whitespace().any(|word| name.contains(word));
    names.filter(|name| some.is_empty() || wanted(name)).collect()
}

#[test]
fn the_readme_works_by_copy_and_paste() {
    commands_of("README.md");
}

#[test]
fn the_reference_works_by_copy_and_paste() {
    each(REFERENCE.map(|name| format!("docs/reference/{name}.md")).to_vec(), commands_of);
}

#[test]
fn the_guides_work_by_copy_and_paste() {
    each(guides(false), follow);
}

#[test]
#[ignore = "takes an hour: make slow-test"]
fn the_slow_guides_work_by_copy_and_paste() {
    each(guides(true), follow);
}
