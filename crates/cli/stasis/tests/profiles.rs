//! Packages optimise what `make build` does not, whatever is added to the list of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The level of each crate in a table of `Cargo.toml`.
fn levels<'a>(manifest: &'a str, table: &str) -> BTreeMap<&'a str, &'a str> {
    let (_, below) = manifest.split_once(&format!("\n[{table}]\n")).expect(table);
    let lines = below.lines().take_while(|line| !line.starts_with('['));
    let named = lines.filter_map(|line| line.split_once(" = { opt-level = "));
    named.map(|(name, rest)| (name, rest.split([',', ' ']).next().unwrap())).collect()
}

#[test]
fn what_is_built_unoptimised_is_optimised_in_packages() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../Cargo.toml");
    let manifest = fs::read_to_string(path).unwrap();
    let [built, packed] =
        ["release", "dist"].map(|name| levels(&manifest, &format!("profile.{name}.package")));
    let unoptimised: Vec<_> =
        built.iter().filter(|(_, level)| **level == "0").map(|(name, _)| *name).collect();
    assert!(unoptimised.contains(&"stasis"), "{built:?}");
    for name in unoptimised {
        assert_eq!(packed.get(name), Some(&"\"s\""), "{name} in profile.dist");
    }
}
