//! The commands of the README and the documents, as far as they can be looked at without
//! running them: each is one that the program takes. Those of the README are also run, by
//! `tests/system/readme.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "documents/commands.rs"]
mod commands;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_command_in_the_documents_is_one() {
    let mut documents = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    let docs = std::fs::read_dir(root().join("docs")).unwrap();
    documents.extend(docs.flatten().map(|entry| entry.path()));
    let mut seen = 0;
    for document in documents.iter().filter(|path| path.extension().is_some_and(|end| end == "md"))
    {
        let text = std::fs::read_to_string(document).unwrap();
        for command in commands::of(&text) {
            // A synopsis has its own words.
            if command.contains('[') {
                continue;
            }
            let words = commands::words(&command);
            let Some((program, words)) = words.split_first() else { continue };
            if program != "stasis" {
                continue;
            }
            seen += 1;
            // The program reads each word up to the one that asks for help.
            let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
            let output = Command::new(env!("CARGO_BIN_EXE_stasis"))
                .args(&words[..own])
                .arg("--help")
                .output()
                .unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: `{command}`: {error}", document.display());
        }
    }
    assert!(seen > 30, "{seen} commands");
}

#[test]
fn files_that_the_documents_name_are_there() {
    for document in std::fs::read_dir(root().join("docs")).unwrap().flatten() {
        let text = std::fs::read_to_string(document.path()).unwrap_or_default();
        for command in commands::of(&text) {
            for word in commands::words(&command) {
                if word.starts_with("examples/") && !word.contains("results") {
                    let path = root().join(&word);
                    assert!(path.exists(), "{}: {word}", document.path().display());
                }
            }
        }
    }
}
