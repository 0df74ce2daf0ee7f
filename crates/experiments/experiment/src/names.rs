//! Names: whether they are usable, once each, and messages about unknown ones.

use std::collections::BTreeSet;

use stasis_config::{guess, listed, Mistake, Step};

/// Message about an unknown name, with the nearest one and all known ones.
pub(crate) fn missing<'a>(
    noun: &str,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> String {
    if names.clone().next().is_none() {
        return format!("there is no {noun} `{name}`: there is no {noun} at all");
    }
    let guess = guess(name, names.clone());
    format!("there is no {noun} `{name}`; {guess}there are {}", listed(names))
}

/// Checks that each name is given once; `noun`: plural of the named, for the message.
pub(crate) fn once<'a>(
    noun: &str,
    names: impl Iterator<Item = (Vec<Step>, &'a Option<String>)>,
) -> Result<(), Mistake> {
    let mut known = BTreeSet::new();
    for (place, name) in names {
        if let Some(name) = name.as_ref().filter(|name| !known.insert(*name)) {
            let message = format!("two {noun} have the name `{name}`");
            return Err(Mistake::at("name", message).within(place));
        }
    }
    Ok(())
}

/// Elements of a list, each with its place.
pub(crate) fn placed<'a, T>(
    key: &'static str,
    all: &'a [T],
) -> impl Iterator<Item = (Vec<Step>, &'a T)> + Clone {
    all.iter().enumerate().map(move |(index, one)| (vec![key.into(), index.into()], one))
}

/// Checks that each serial number of NVMe drives that one host sees is given once: the host would
/// take two for one drive.
///
/// # Errors
/// Names the serial number that two drives have.
pub fn distinct_serials(serials: impl IntoIterator<Item = String>) -> Result<(), String> {
    let mut known = BTreeSet::new();
    for serial in serials {
        if known.contains(&serial) {
            return Err(format!(
                "two drives have the serial number {serial}, so that a host would take them for \
                 one: give each its own `serial`"
            ));
        }
        known.insert(serial);
    }
    Ok(())
}

/// Limit on the length of a name in bytes: a file's name has 255, with the endings that results add.
const MAX_NAME: usize = 200;

/// Symbols of a name besides letters and digits; drives can be called by the word of their model, such
/// as `fixed:100us`.
const SYMBOLS: &str = "-_.";
const SYMBOLS_OF_DRIVES: &str = "-_.:+";

/// Returns whether a name can be a machine's, a file's or a folder's, and a mark in the output.
pub(crate) fn is_name(name: &str) -> bool {
    is_of(name, SYMBOLS)
}

fn is_of(name: &str, symbols: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || symbols.contains(c);
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('.')
}

/// Checks the `name` of a table: files and folders of the results are called by it, and none of them has
/// another meaning.
pub(crate) fn check_name(name: &str) -> Result<(), Mistake> {
    check(name, SYMBOLS)?;
    match stasis_results::FILES.iter().find(|(file, _)| *file == name) {
        None => Ok(()),
        Some((file, content)) => {
            let message =
                format!("its name is `{file}`, which results have for {content}: take another");
            Err(Mistake::at("name", message))
        }
    }
}

/// Like [`check_name`], but for a drive, a virtual disk or a workload.
pub(crate) fn check_drive_name(name: &str) -> Result<(), Mistake> {
    check(name, SYMBOLS_OF_DRIVES)
}

fn check(name: &str, symbols: &str) -> Result<(), Mistake> {
    if is_of(name, symbols) {
        return Ok(());
    }
    let symbols = listed(symbols.split("").filter(|symbol| !symbol.is_empty()));
    let message = format!(
        "its name is `{name}`, but must be 1 to {MAX_NAME} letters, digits, {symbols}, and not \
         begin with `.`"
    );
    Err(Mistake::at("name", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_can_be_called_by_its_models_word_and_by_no_path() {
        for name in ["data", "fixed:100us", "flash-tlc+gc", "a.b_c"] {
            check_drive_name(name).unwrap();
        }
        for name in ["", "a/b", "../x", ".x", "two\nlines", "a b"] {
            check_drive_name(name).unwrap_err();
        }
        for name in ["fixed:100us", "summary.json", "output.txt", "stdin"] {
            check_name(name).unwrap_err();
        }
        check_name("node1.example").unwrap();
    }
}
