//! What can be wrong with an experiment.

use std::path::PathBuf;

/// What is wrong with an experiment, and where.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The file cannot be read.
    #[error("cannot read the experiment {path}: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file does not say what an experiment says.
    #[error("{path}: {message}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Place, word, and the nearest right one.
        message: String,
    },
    /// A `--drive` is wrong.
    #[error("--drive {word}: {message}")]
    Drive {
        /// What was given.
        word: String,
        /// What is wrong with it.
        message: String,
    },
    /// A value that cannot be.
    #[error("{0}")]
    Value(String),
}

/// The word of `choices` that is most like `word`.
pub(crate) fn nearest<'a>(word: &str, choices: impl Iterator<Item = &'a str>) -> &'a str {
    choices
        .map(|choice| (strsim::damerau_levenshtein(word, choice), choice))
        .min_by_key(|(distance, _)| *distance)
        .map_or("", |(_, choice)| choice)
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
    let nearest = nearest(word, choices.into_iter());
    format!("{}\ndid you mean `{nearest}`?", message.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_added() {
        let message = "unknown field `modle`, expected one of `name`, `model`, `medium`";
        assert!(with_nearest(message).ends_with("did you mean `model`?"));
        assert_eq!(with_nearest("something else"), "something else");
    }
}
