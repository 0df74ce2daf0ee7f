//! The list of a run's files in the folder of its results.

use std::fs;
use std::path::{Component, Path};

/// The list of a run's files in its folder, a name to a line; locked while the run lasts.
pub const LIST_FILE: &str = ".stasis-results";

/// The names in a list.
pub(crate) fn names_in(list: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(list);
    // A name can end with a carriage return, which `lines` takes off.
    text.split('\n').map(unescaped).filter(|name| is_inside(Path::new(name))).collect()
}

/// A name as a line of the list.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('\n', "\\n")
}

/// The name of a line.
fn unescaped(line: &str) -> String {
    let mut name = String::with_capacity(line.len());
    let mut symbols = line.chars();
    while let Some(symbol) = symbols.next() {
        name.push(match symbol {
            '\\' => match symbols.next() {
                Some('n') => '\n',
                other => other.unwrap_or('\\'),
            },
            symbol => symbol,
        });
    }
    name
}

/// The names in the list of the folder `path`; none without a list.
pub fn listed(path: &Path) -> Vec<String> {
    fs::read(path.join(LIST_FILE)).map(|list| names_in(&list)).unwrap_or_default()
}

/// Returns whether a name stays in its folder, and is not the list's.
pub(crate) fn is_inside(name: &Path) -> bool {
    let mut parts = name.components().peekable();
    parts.peek().is_some()
        && parts.all(|part| matches!(part, Component::Normal(_)))
        && name != Path::new(LIST_FILE)
}
