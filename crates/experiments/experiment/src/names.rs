//! Names: whether they are usable, once each, and messages about unknown ones.

use std::collections::BTreeSet;

use stasis_config::{guess, listed};

/// Message about a name that nothing has, with the nearest and all that there are.
pub(crate) fn missing<'a>(
    what: &str,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> String {
    if names.clone().next().is_none() {
        return format!("there is no {what} `{name}`: there is no {what} at all");
    }
    let guess = guess(name, names.clone());
    format!("there is no {what} `{name}`; {guess}there are {}", listed(names))
}

pub(crate) fn once<'a>(
    what: &str,
    names: impl Iterator<Item = &'a Option<String>>,
) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names.flatten() {
        if !seen.insert(name) {
            return Err(format!("two {what} have the name `{name}`"));
        }
    }
    Ok(())
}

/// Checks that each serial number of NVMe drives that one host sees is given once: the host would
/// take two for one drive.
///
/// # Errors
/// Names the serial number that two drives have.
pub fn distinct_serials(serials: impl IntoIterator<Item = String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for serial in serials {
        if seen.contains(&serial) {
            return Err(format!(
                "two drives have the serial number {serial}, so that a host would take them for \
                 one: give each its own `serial`"
            ));
        }
        seen.insert(serial);
    }
    Ok(())
}

/// Returns whether a name can be a folder's, and a mark in the output.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.chars().all(plain) && !name.starts_with('.')
}
