//! Words of a command line: this program's own, and those that repeat a run.

use std::sync::OnceLock;

use stasis_report::shell_word;

/// Folder for the results of a repetition, beside those that are there.
const AGAIN: &str = "again";

/// The words by which a user calls this program, where they are not its own.
static CALLED: OnceLock<Vec<String>> = OnceLock::new();

/// Has results name `words` as this program's command line, for a program that users call as a command
/// of another one. The first call counts.
pub fn called_as(words: Vec<String>) {
    let _ = CALLED.set(words);
}

/// This program's words, the program by its name without its folder.
pub fn own() -> Vec<String> {
    if let Some(words) = CALLED.get() {
        return words.clone();
    }
    let mut words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(program) = words.first_mut() {
        if let Some((_, name)) = program.rsplit_once('/') {
            *program = name.to_owned();
        }
    }
    words
}

/// The words without the folder of the results, which each repetition has its own of.
pub fn without_results(words: Vec<String>) -> Vec<String> {
    let own = own_words(&words);
    let mut kept = Vec::new();
    let mut words = words.into_iter().enumerate();
    while let Some((place, word)) = words.next() {
        match word.as_str() {
            "--results" if place < own => drop(words.next()),
            joined if place < own && joined.starts_with("--results=") => {}
            _ => kept.push(word),
        }
    }
    kept
}

/// The words with a folder of results of its own, and without those that change no result.
pub(super) fn with_own_results(words: Vec<String>) -> Vec<String> {
    let mut words = without_results(words);
    let own = own_words(&words);
    let (mut place, mut kept) = (0, 0);
    words.retain(|word| {
        let stays = place >= own || !matches!(word.as_str(), "--quiet" | "-q");
        (place, kept) = (place + 1, kept + usize::from(stays && place < own));
        stays
    });
    let own = kept;
    words.splice(own..own, ["--results".to_owned(), AGAIN.to_owned()]);
    words
}

/// Returns the number of words that are the program's own: the others, behind `--`, are a guest's
/// command.
pub fn own_words(words: &[String]) -> usize {
    words.iter().position(|word| word == "--").unwrap_or(words.len())
}

/// Words as a shell takes them.
pub fn command_line(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().map(|word| shell_word(&word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted() {
        let words = [
            "stasis",
            "run",
            "--drive=model=null,medium=ram:1GiB",
            "--",
            "sh",
            "-c",
            "echo 'it''s' $1",
            "",
        ];
        let line = command_line(words.map(String::from));
        let shell = std::process::Command::new("sh")
            .args(["-c", &format!("printf '%s\\n' {line}")])
            .output()
            .unwrap();
        let stdout = String::from_utf8(shell.stdout).unwrap();
        assert_eq!(stdout.split_terminator('\n').collect::<Vec<_>>(), words);
        assert!(
            line.starts_with("stasis run --drive=model=null,medium=ram:1GiB -- sh -c '"),
            "{line}"
        );
    }

    #[test]
    fn the_results_folder_is_no_part_of_a_run() {
        let words = ["run", "--results", "a", "--results=b", "--", "x", "--results", "c"];
        let words = words.map(String::from).to_vec();
        assert_eq!(without_results(words.clone()), ["run", "--", "x", "--results", "c"]);
        let again = with_own_results(words);
        assert_eq!(again, ["run", "--results", "again", "--", "x", "--results", "c"]);
        let quiet = ["--quiet", "run", "--", "x", "--quiet"].map(String::from).to_vec();
        let again = with_own_results(quiet);
        assert_eq!(again, ["run", "--results", "again", "--", "x", "--quiet"]);
    }
}
