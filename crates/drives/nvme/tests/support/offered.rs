//! The controller's offer, as `docs/reference/nvme.md` tells it.

#![allow(dead_code)] // Each test file uses its part.

use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../../../../docs/reference/nvme.md");

/// A row of a table: where something is offered, and whether QEMU has it.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: String,
    pub here: Vec<String>,
    pub qemu: bool,
}

impl Row {
    /// Returns whether a drive with these properties and transports offers it.
    pub fn is_offered(&self, properties: &[&str]) -> bool {
        self.here.iter().any(|place| match place.strip_prefix("not ") {
            Some(without) => !properties.contains(&without),
            None => place == "yes" || properties.contains(&place.as_str()),
        })
    }
}

/// The table below a heading, by identifiers. What is not the same in both has a reason.
pub fn table(heading: &str) -> BTreeMap<u8, Row> {
    let begin = format!("\n## {heading}\n");
    let (_, after) = PAGE.split_once(&begin).unwrap_or_else(|| panic!("no {heading}"));
    let lines = after.lines().skip_while(|line| !line.starts_with("| `"));
    let mut rows = BTreeMap::new();
    for line in lines.take_while(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, code, name, here, qemu, why, _] = cells[..] else { panic!("cells: {line}") };
        let code = u8::from_str_radix(code.trim_matches('`').trim_end_matches('h'), 16).unwrap();
        let here: Vec<String> = here.split(", ").map(str::to_owned).collect();
        let known = [
            "yes",
            "no",
            "PCIe",
            "TCP",
            "shared",
            "zones",
            "FDP",
            "streams",
            "Open-Channel",
            "power states",
            "key-value",
            "metadata",
            "programs",
            "groups",
            "sets",
        ];
        let unnegated = |place: &String| place.trim_start_matches("not ").to_owned();
        assert!(here.iter().map(unnegated).all(|place| known.contains(&place.as_str())), "{line}");
        let qemu = match qemu {
            "yes" => true,
            "no" => false,
            _ => panic!("{line}"),
        };
        let alike = here == [if qemu { "yes" } else { "no" }];
        assert_eq!(alike, why.is_empty(), "what differs has a reason: {line}");
        let row = Row { name: name.into(), here, qemu };
        assert!(rows.insert(code, row).is_none(), "twice: {line}");
    }
    assert!(!rows.is_empty(), "{heading}");
    rows
}
