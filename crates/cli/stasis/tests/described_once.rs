//! Names and sentences with a description of their own stand in one place of the sources.

use std::fs;
use std::path::PathBuf;

use crate::pages::{below, root};

/// The place of the names of results' files.
const FILES: &str = "crates/results/results/src/lib.rs";
/// The place of the sentence about a program that is missing.
const PROGRAMS: &str = "crates/experiments/program/src/beside.rs";

/// The lines of a program's sources that are no tests.
fn sources() -> Vec<(String, Vec<String>)> {
    let is_source = |path: &PathBuf| {
        path.components().any(|part| part.as_os_str() == "src") && !path.ends_with("tests.rs")
    };
    let crates = below(&root().join("crates"), "rs").into_iter().filter(is_source);
    let lines = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        let own = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        (name, own.map(str::to_owned).collect())
    };
    crates.map(lines).collect()
}

/// A file that runs leave is called by its constant, so that its name and what it holds have one
/// description.
#[test]
fn files_of_results_are_named_once() {
    let mut found = Vec::new();
    for (source, lines) in sources() {
        for (name, _) in stasis_results::FILES {
            let quoted = format!("\"{name}\"");
            // A word without an ending has other meanings too: it counts where it is a constant.
            let is_named = |line: &&String| {
                line.contains(&quoted) && (name.contains('.') || line.contains("const "))
            };
            found.extend(lines.iter().filter(is_named).map(|_| (name, source.clone())));
        }
    }
    let elsewhere: Vec<_> = found.iter().filter(|(_, source)| source != FILES).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    assert_eq!(found.len(), stasis_results::FILES.len(), "{found:?}");
}

#[test]
fn the_origin_of_a_missing_program_is_told_once() {
    let places = sources().into_iter().flat_map(|(source, lines)| {
        let is_told = |line: &String| line.contains("`make build` makes it");
        lines.into_iter().filter(is_told).map(move |_| source.clone())
    });
    assert_eq!(places.collect::<Vec<_>>(), [PROGRAMS]);
}
