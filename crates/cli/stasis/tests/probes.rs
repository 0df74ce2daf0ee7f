//! The program has the probes that the guide lists, and no others.

use std::collections::BTreeMap;
use std::path::Path;

use object::{Object as _, ObjectSection as _};

/// Number of arguments of each probe of an executable, by the notes of SystemTap's format, version 3: the
/// lengths of name and description and the type, 4 bytes each; the name; then three addresses, and as texts
/// the provider, the probe and its arguments.
fn probes(executable: &Path) -> BTreeMap<String, usize> {
    let file = std::fs::read(executable).unwrap();
    let file = object::File::parse(&*file).unwrap();
    let notes = file.section_by_name(".note.stapsdt").expect("notes").data().unwrap();
    let mut probes = BTreeMap::new();
    let mut rest = notes;
    while rest.len() >= 12 {
        let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let (name, description) = (number(0).next_multiple_of(4), number(4));
        let texts = &rest[12 + name..][..description][3 * 8..];
        let texts: Vec<_> = texts.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        assert_eq!(texts[0], "stasis", "{texts:?}");
        let arguments = texts[2].split_whitespace().count();
        let before = probes.insert(texts[1].clone().into_owned(), arguments);
        assert!(before.is_none_or(|before| before == arguments), "{texts:?}");
        rest = &rest[12 + name + description.next_multiple_of(4)..];
    }
    probes
}

#[test]
fn the_guide_lists_every_probe_with_its_arguments() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guides/tracers.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let rows = guide.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `stasis:")?.split_once("` |")?;
        let arguments = rest.split('|').next()?;
        Some((name.to_owned(), arguments.split(',').count()))
    });
    assert_eq!(
        rows.collect::<BTreeMap<_, _>>(),
        probes(Path::new(env!("CARGO_BIN_EXE_stasis"))),
        "docs/guides/tracers.md, and the program"
    );
}
