//! The kept figures of the named models are those that they deliver.
//!
//! After a change of a model or of its code: `STASIS_KEEP=1 cargo test -p stasis-models --test all kept_sheets::`
//! writes them anew.

// The test writes a file of its crate.
#![allow(clippy::disallowed_methods)]

use stasis_models::{line, Sheet, NAMED};

#[test]
fn kept_figures_are_delivered() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/kept_sheets.txt");
    let deliver = |named: &stasis_models::NamedModel| {
        let spec = named.spec();
        line(named.name, &spec, &Sheet::measure(&spec).unwrap()) + "\n"
    };
    let text: String = NAMED.iter().map(deliver).collect();
    if std::env::var_os("STASIS_KEEP").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap();
    for (kept, delivered) in kept.lines().zip(text.lines()) {
        assert_eq!(kept, delivered, "STASIS_KEEP=1 writes them anew");
    }
    assert_eq!(kept.len(), text.len(), "STASIS_KEEP=1 writes them anew");
}
