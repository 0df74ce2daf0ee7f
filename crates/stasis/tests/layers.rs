//! The crates' layers are those of `ARCHITECTURE.md`, and arrows point down.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

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

/// What a crate needs of the workspace, by the folders' names.
fn dependencies(manifest: &str) -> Vec<String> {
    let manifest: toml::Table = toml::from_str(manifest).unwrap();
    ["dependencies", "dev-dependencies", "build-dependencies"]
        .iter()
        .filter_map(|section| manifest.get(*section)?.as_table())
        .flat_map(|table| table.keys())
        .filter_map(|name| name.strip_prefix("stasis-").map(str::to_owned))
        .collect()
}

#[test]
fn dependencies_point_to_lower_layers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let layers = documented(&fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap());
    let mut crates = Vec::new();
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let layer = *layers.get(&name).unwrap_or_else(|| {
            panic!("crates/{name} is missing from the table in ARCHITECTURE.md")
        });
        for needed in dependencies(&manifest) {
            let below = layers.get(&needed).copied();
            assert!(
                below.is_some_and(|below| below < layer),
                "{name} (layer {layer}) depends on {needed} (layer {below:?}), which is not below it"
            );
        }
        crates.push(name);
    }
    assert!(crates.contains(&"clock".to_owned()));
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut forbidden = Vec::new();
    let mut rules: Option<String> = None;
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(text) = fs::read_to_string(folder.join("clippy.toml")) else { continue };
        assert!(text.contains("std::time::Instant::now") && text.contains("std::fs::read"));
        let first = rules.get_or_insert_with(|| text.clone());
        assert_eq!(*first, text, "{}: all pure crates have the same rules", folder.display());
        forbidden.push(folder.file_name().unwrap().to_str().unwrap().to_owned());
    }
    forbidden.sort();
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
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
                    [dev-dependencies]\nstasis-media = { path = '../media' }\n";
    assert_eq!(dependencies(manifest), ["block", "media"]);
}
