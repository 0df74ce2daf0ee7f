//! The `--` before a guest's command, where it was forgotten.

use std::path::Path;

use clap::error::ErrorKind;
use clap::{Command, Error};
use stasis_report::shell_word;

/// The parser's error, or one that explains where `--` goes: where the first plain word after
/// `stasis run` or `stasis shell` is no experiment's file.
pub fn explained(error: Error, description: &mut Command, words: &[String]) -> Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(corrected) = corrected(description, words) else { return error };
    let text = format!("a command goes after `--`: {corrected}\n");
    description.error(ErrorKind::UnknownArgument, text)
}

/// The words with `--` before the first that is the command's.
fn corrected(description: &Command, words: &[String]) -> Option<String> {
    let name = words.get(1).filter(|name| ["run", "shell"].contains(&name.as_str()))?;
    if words.iter().any(|word| word == "--") {
        return None;
    }
    let options = description.find_subcommand(name)?;
    let takes_value = |word: &str| {
        options.get_arguments().any(|argument| {
            argument.get_action().takes_values()
                && argument.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long))
        })
    };
    let mut at = 2;
    while words.get(at)?.starts_with('-') {
        at += if takes_value(&words[at]) { 2 } else { 1 };
    }
    let first = Path::new(&words[at]);
    // A file of an experiment is what may stand there.
    if first.extension().is_some_and(|ending| ending == "toml") || first.is_file() {
        return None;
    }
    let before = words[1..at].iter().map(|word| shell_word(word));
    let after = words[at..].iter().map(|word| shell_word(word));
    let all: Vec<_> = before.chain(["--".to_owned()]).chain(after).collect();
    Some(format!("stasis {}", all.join(" ")))
}
