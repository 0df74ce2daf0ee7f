//! Places of an experiment's file, for errors in what its values mean.

use std::path::PathBuf;

use stasis_config::{Step, Text, TextError};

/// The file that an experiment was read from.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// An experiment is what it says, not where.
impl PartialEq for Source {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Lists of an experiment whose entries an error names, as `KIND NAME: `.
const KINDS: [&str; 5] = ["drive", "machine", "workload", "network", "fault"];

/// The error `message` with the line that it is about: of the entry that it names in front
/// (`drive data: `), the key of this entry that it names first, or else the entry itself. `None`
/// where it names nothing of the file.
pub(crate) fn placed(text: &str, message: &str) -> Option<TextError> {
    let text = Text::parse(text)?;
    let mut path = twice(&text, message).unwrap_or_default();
    let mut rest = message;
    while let Some((front, behind)) = rest.split_once(": ") {
        let Some(steps) = entry(&text, &path, front) else { break };
        (path, rest) = (steps, behind);
    }
    // An error of these tables names none of them.
    let [machine, guest] = ["machine", "guest"].map(|table| [Step::Key(table.into())]);
    let alone = [&[][..], &machine, &guest];
    let is_separator = |c: char| !(c.is_alphanumeric() || "-_.[]".contains(c));
    let named = rest.split(is_separator).find_map(|word| match path.is_empty() {
        true => alone.iter().find_map(|table| key(&text, table, word)),
        false => key(&text, &path, word),
    });
    let path = named.unwrap_or(path);
    if path.is_empty() {
        return None;
    }
    text.error(&path, message.to_owned())
}

/// The place of what the front of an error names: an entry of a list, or a table.
fn entry(text: &Text<'_>, within: &[Step], front: &str) -> Option<Vec<Step>> {
    let mut path = within.to_vec();
    for part in front.split(", ") {
        path = match part.split_once(' ') {
            Some((kind, name)) if KINDS.contains(&kind) => listed(text, &path, kind, name)?,
            Some(_) => return None,
            None => key(text, &path, part)?,
        };
    }
    Some(path)
}

/// The entry of a list `kind` below `within` that `name` is of: its name, its number, the name
/// that it has by its number, or the beginning of numbered ones.
fn listed(text: &Text<'_>, within: &[Step], kind: &str, name: &str) -> Option<Vec<Step>> {
    let entry = |index: usize| extended(within, [Step::Key(kind.into()), Step::Index(index)]);
    let own = |index| text.string(&extended(&entry(index), [Step::Key("name".into())]));
    let count = text.length(&extended(within, [Step::Key(kind.into())]));
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is = |index: &usize| match own(*index) {
        Some(own) => own == name || own == base && kind == "machine",
        None => name == format!("{kind}{index}"),
    };
    let numbered = || name.parse().ok().filter(|index| *index < count);
    if let Some(index) = (0..count).find(is).or_else(numbered) {
        return Some(entry(index));
    }
    // A machine's own drive.
    let machines = text.length(&extended(within, [Step::Key("machine".into())]));
    let below = |machine| extended(within, [Step::Key("machine".into()), Step::Index(machine)]);
    let is_drive = kind == "drive";
    (0..machines).filter(|_| is_drive).find_map(|machine| {
        let short = name.split_once('.').map_or(name, |(_, short)| short);
        let below = below(machine);
        let named = |name| {
            (text.length(&extended(&below, [Step::Key(kind.into())])) > 0)
                .then(|| listed(text, &below, kind, name))
                .flatten()
        };
        named(name).or_else(|| named(short))
    })
}

/// The place of a key, such as `vcpus` or `namespace[1].block-size`, below `within`.
fn key(text: &Text<'_>, within: &[Step], word: &str) -> Option<Vec<Step>> {
    let mut path = within.to_vec();
    for part in word.trim_matches('.').split('.') {
        let (name, index) = match part.split_once('[') {
            Some((name, index)) => (name, Some(index.strip_suffix(']')?.parse().ok()?)),
            None => (part, None),
        };
        path.push(Step::Key(name.to_owned()));
        path.extend(index.map(Step::Index));
    }
    text.has(&path).then_some(path)
}

/// The second of two entries of one name.
fn twice(text: &Text<'_>, message: &str) -> Option<Vec<Step>> {
    let (kind, name) = message.strip_prefix("two ")?.split_once("s have the name `")?;
    let name = name.split('`').next()?;
    let list = [Step::Key(kind.to_owned())];
    let named = (0..text.length(&list))
        .map(|index| extended(&list, [Step::Index(index), Step::Key("name".into())]));
    named.filter(|path| text.string(path) == Some(name)).nth(1)
}

fn extended<const N: usize>(path: &[Step], more: [Step; N]) -> Vec<Step> {
    path.iter().cloned().chain(more).collect()
}
