//! Every test is run by somebody: one that `make unit-test` leaves out names the target that
//! runs it.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn ignored_tests_name_their_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    let mut seen = 0;
    for file in files.iter().filter(|file| !file.ends_with("ignored.rs")) {
        for line in fs::read_to_string(file).unwrap().lines() {
            let Some(reason) = line.trim().strip_prefix("#[ignore") else { continue };
            seen += 1;
            // A program that another test starts by its name.
            if reason.contains("the other test starts it") {
                continue;
            }
            let target = reason.split("make ").nth(1).and_then(|rest| rest.split('"').next());
            let target = target.unwrap_or_else(|| panic!("{}: {reason}", file.display()));
            let target = format!("\n{target}:");
            assert!(makefile.contains(&target), "{}: no target {target}", file.display());
            let name = file.file_stem().unwrap().to_str().unwrap();
            let folder = file.parent().unwrap().file_name().unwrap().to_str().unwrap();
            let recipe = makefile.split(&target).nth(1).unwrap().split("\n\n").next().unwrap();
            assert!(
                [name, folder].iter().any(|test| recipe.contains(&format!("--test {test}"))),
                "{}: {target} does not run it",
                file.display()
            );
        }
    }
    assert!(seen >= 10, "{seen} ignored tests");
}
