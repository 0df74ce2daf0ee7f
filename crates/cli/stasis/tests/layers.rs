//! Wings and layers of the crates are those of `ARCHITECTURE.md`, and arrows point down.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap().to_str().unwrap().to_owned()
}

/// The folder of each crate, `crates/WING/CRATE`.
fn crate_folders() -> Vec<PathBuf> {
    let folders = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    folders(&root().join("crates")).iter().flat_map(|wing| folders(wing)).collect()
}

/// The wings that each wing may use beside itself, from lines such as
/// `| `machines` | `drives`, `guests` | ... |` below the heading `Wings`.
fn wings(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let section = text.split("\n## Wings\n").nth(1).expect("a section `Wings`");
    let section = section.split("\n## ").next().unwrap();
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        (cells[1].trim_matches('`').to_owned(), words(cells[2]))
    })
    .collect()
}

#[test]
fn wings_use_what_the_table_allows() {
    let wings = wings(&architecture());
    let wing_of: BTreeMap<_, _> = crate_folders()
        .iter()
        .map(|folder| (name_of(folder), name_of(folder.parent().unwrap())))
        .collect();
    let there: BTreeSet<_> = wing_of.values().collect();
    assert_eq!(wings.keys().collect::<BTreeSet<_>>(), there, "the table, and the folders");
    for folder in crate_folders() {
        let wing = &wing_of[&name_of(&folder)];
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for needed in dependencies(&manifest) {
            let other = &wing_of[&needed];
            assert!(
                other == wing || wings[wing].contains(other),
                "{}: the wing {wing} may not use {needed} of the wing {other}",
                folder.display()
            );
        }
    }
}

#[test]
fn wings_form_no_circle() {
    let mut remaining = wings(&architecture());
    while !remaining.is_empty() {
        let names: BTreeSet<_> = remaining.keys().cloned().collect();
        let free = remaining.iter().find(|(_, uses)| uses.is_disjoint(&names));
        let free = free.unwrap_or_else(|| panic!("a circle among {names:?}")).0.clone();
        remaining.remove(&free);
    }
}

/// Layer of each crate, from lines such as `| 2 | `media` | ... |`.
fn documented(text: &str) -> BTreeMap<String, u32> {
    text.lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
            let layer = cells.next()?.parse().ok()?;
            Some((cells.next()?.trim_matches('`').to_owned(), layer))
        })
        .collect()
}

/// The crates of the workspace that a crate depends on, by the folders' names.
fn dependencies(manifest: &str) -> Vec<String> {
    let manifest: toml::Table = toml::from_str(manifest).unwrap();
    let targets = manifest.get("target").and_then(|targets| targets.as_table());
    let targets = targets.into_iter().flat_map(|targets| targets.values());
    let tables = targets.filter_map(|target| target.as_table()).chain([&manifest]);
    let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
    tables
        .flat_map(|table| sections.iter().filter_map(|section| table.get(*section)?.as_table()))
        .flat_map(|table| table.keys())
        .filter_map(|name| name.strip_prefix("stasis-").map(str::to_owned))
        .collect()
}

#[test]
fn dependencies_point_to_lower_layers() {
    let layers = documented(&architecture());
    let mut crates = Vec::new();
    for folder in crate_folders() {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let name = name_of(&folder);
        let layer = *layers
            .get(&name)
            .unwrap_or_else(|| panic!("{name} is missing from the table in ARCHITECTURE.md"));
        for needed in dependencies(&manifest) {
            let below = layers.get(&needed).copied();
            assert!(
                below.is_some_and(|below| below < layer),
                "{name} (layer {layer}) depends on {needed} (layer {below:?}), which is not below it"
            );
        }
        crates.push(name);
    }
    assert!(crates.contains(&"block".to_owned()));
    crates.sort();
    let documented: Vec<_> = layers.into_keys().collect();
    assert_eq!(documented, crates, "ARCHITECTURE.md names crates that there are not");
}

/// The crates that the table calls pure.
fn pure(text: &str) -> Vec<&str> {
    let rows = text.lines().filter(|line| line.ends_with("| pure |"));
    let mut pure: Vec<_> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    pure.sort_unstable();
    pure
}

#[test]
fn pure_crates_are_forbidden_clocks_threads_and_io() {
    let mut forbidden = Vec::new();
    let mut rules: Option<String> = None;
    for folder in crate_folders() {
        let Ok(text) = fs::read_to_string(folder.join("clippy.toml")) else { continue };
        assert!(text.contains("std::time::Instant::now") && text.contains("std::fs::read"));
        let first = rules.get_or_insert_with(|| text.clone());
        assert_eq!(*first, text, "{}: all pure crates have the same rules", folder.display());
        forbidden.push(name_of(&folder));
    }
    forbidden.sort();
    let text = architecture();
    assert_eq!(
        forbidden,
        pure(&text),
        "the table in ARCHITECTURE.md, and the crates with a clippy.toml"
    );
    assert!(forbidden.contains(&"flash".to_owned()));
}

#[test]
fn the_table_and_the_manifests_are_read() {
    let table = "| layer | crate | what |\n|---|---|---|\n| 3 | `drive` | a drive |\ntext | 4 |\n";
    assert_eq!(documented(table), BTreeMap::from([("drive".to_owned(), 3)]));
    assert_eq!(
        pure("| 1 | `b` | x | pure |\n| 1 | `c` | y | |\n| 0 | `a` | z | pure |"),
        ["a", "b"]
    );
    let manifest = "[dependencies]\nstasis-block.workspace = true\nlibc = '1'\n\
                    [dev-dependencies]\nstasis-nand = { path = '../nand' }\n\
                    [target.'cfg(unix)'.dev-dependencies]\nstasis-media = '1'\n";
    let mut found = dependencies(manifest);
    found.sort();
    assert_eq!(found, ["block", "media", "nand"]);
}
