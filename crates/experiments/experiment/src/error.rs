//! Errors in an experiment.

use std::path::PathBuf;

use stasis_config::{nearest, plain_type};

/// An error in an experiment, with its place.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The file cannot be read.
    #[error("cannot read the experiment {path}: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file's content is not a valid experiment.
    #[error("{path}: {message}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Place, invalid word, and the nearest valid one.
        message: String,
    },
    /// A `--drive` is wrong.
    #[error("--drive {word}: {message}")]
    Drive {
        /// The given word.
        word: String,
        /// The reason why it is invalid.
        message: String,
    },
    /// An invalid value.
    #[error("{0}")]
    Value(String),
}

/// Adds the nearest right word to a message of serde's that names a wrong one
/// and the choices, as in "unknown field `modle`, expected one of `model`, ...".
pub(crate) fn with_nearest(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if message.contains("did you mean") || !message.contains("unknown ") {
        return message.to_owned();
    }
    let Some(word) = quoted.next() else { return message.to_owned() };
    let choices: Vec<&str> = quoted.collect();
    if choices.is_empty() {
        return message.to_owned();
    }
    match nearest(word, choices) {
        Some(nearest) => format!("{}\ndid you mean `{nearest}`?", message.trim_end()),
        None => message.to_owned(),
    }
}

/// A message of serde's in words of TOML: its types are Rust's.
pub(crate) fn in_plain_words(message: &str) -> String {
    let message = &message.replace("invalid type: ", "").replace("invalid value: ", "");
    let Some((before, after)) = message.split_once("expected ") else { return message.to_owned() };
    let (what, rest) = after.split_once('\n').unwrap_or((after, ""));
    match plain_type(what) {
        Some(plain) => format!("{before}expected {plain}\n{rest}"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_said_as_toml_has_them() {
        for (text, expected) in [
            ("command = 'fio'", "string \"fio\", expected a list"),
            ("[machine]\nvcpus = -1", "integer `-1`, expected a whole number"),
            ("[machine]\nrewind = 1", "integer `1`, expected true or false"),
            ("machine = 7", "integer `7`, expected a table"),
        ] {
            let error = toml::from_str::<crate::Experiment>(text).unwrap_err().to_string();
            let message = in_plain_words(&error);
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn the_nearest_word_is_added() {
        let message = "unknown field `modle`, expected one of `name`, `model`, `medium`";
        assert!(with_nearest(message).ends_with("did you mean `model`?"));
        assert_eq!(with_nearest("something else"), "something else");
    }
}
