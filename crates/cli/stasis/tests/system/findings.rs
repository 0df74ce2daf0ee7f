//! The page of findings, as a reader follows it: each crash test still finds what the page says.

use std::process::Command;

use crate::reader::Reader;
use crate::readme::guides::{self, Trial};
use crate::readme::pages;

/// The page.
const PAGE: &str = include_str!("../../../../../docs/guides/findings.md");

/// Runs the commands of the section that begins with `heading`. Its crash test ends as one that has
/// found something, and prints what the page shows.
fn is_found(heading: &str) {
    let mut sections = PAGE.split("\n## ").filter(|section| section.starts_with(heading));
    let section = sections.next().expect("the page has the section");
    let mut reader = Reader::new(&pages::root());
    let blocks = guides::blocks(section);
    let trials = guides::trials("guides/findings", &blocks, &pages::root());
    let (mut tests, mut printed) = (0, 0);
    for (block, trial) in blocks.iter().zip(trials) {
        match trial {
            Some(Trial::Run) => {
                let mut commands = guides::run_of("guides/findings", block);
                for command in &mut commands {
                    if command.starts_with("stasis crash-test ") {
                        *command = format!("status=0; {command} || status=$?; test $status -eq 1");
                        tests += 1;
                    }
                }
                reader.run(&commands, None);
            }
            Some(Trial::Printed) => {
                for line in block.text.lines() {
                    let is_printed = guides::is_printed(line, &reader.printed);
                    assert!(is_printed, "nothing prints\n{line}\nbut\n{}", reader.printed);
                    printed += 1;
                }
            }
            _ => {}
        }
    }
    assert!(tests > 0 && printed > 0, "{heading}: {tests} tests, {printed} lines");
}

#[test]
#[ignore = "takes minutes: make slow-test"]
fn btrfs_brings_deleted_files_back() {
    is_found("Btrfs");
}

#[test]
#[ignore = "takes minutes: make slow-test"]
fn nats_loses_acknowledged_messages() {
    is_found("NATS");
}

#[test]
#[ignore = "takes minutes: make slow-test"]
fn buntdb_loses_what_it_has_synced() {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!("skipped: no Go (golang-go)");
        return;
    }
    is_found("BuntDB");
}
