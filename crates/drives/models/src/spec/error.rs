//! Errors in an experiment's description of a model.

use std::path::PathBuf;

use stasis_config::{self as config, listed, nearest, ReadError};

use crate::profile::ProfileError;

/// Why a word or a table describes no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The word names no model.
    #[error("unknown model `{word}`; {}`stasis models` lists them all", did_you_mean(.nearest))]
    Model {
        /// The word given.
        word: String,
        /// The right name that is most like it.
        nearest: Option<String>,
    },
    /// The word before a colon, or the value of `kind`, is no kind of model.
    #[error("unknown kind of model `{word}`; {}one of {kinds}", did_you_mean(.nearest))]
    Kind {
        /// The word given.
        word: String,
        /// The right kind that is most like it.
        nearest: Option<String>,
        /// All kinds.
        kinds: String,
    },
    /// A key that this kind of model does not have.
    #[error("unknown key `{key}` of a model of kind `{place}`; {}it has {keys}", did_you_mean(.nearest))]
    Key {
        /// The kind, and the table in it.
        place: String,
        /// The key given.
        key: String,
        /// The right key that is most like it.
        nearest: Option<String>,
        /// All keys.
        keys: String,
    },
    /// A table without the key that says what the model is.
    #[error("a model's table needs the key `kind`, or `base` with the name of a model{instead}")]
    NoKind {
        /// The right form, behind a semicolon, where a kind is in place of the key.
        instead: String,
    },
    /// A missing key that is required.
    #[error("a model of kind `{place}` needs the key `{key}`")]
    Missing {
        /// The kind, and the table in it.
        place: String,
        /// The key.
        key: String,
    },
    /// A value that is not of the right form, or out of range.
    #[error("`{key}` of a model of kind `{place}`: {problem}")]
    Value {
        /// The kind, and the table in it.
        place: String,
        /// The key.
        key: String,
        /// The fault, and the values allowed.
        problem: String,
    },
    /// A table that is not of the right form.
    #[error("a model of kind `{place}`: {problem}")]
    Table {
        /// The kind.
        place: String,
        /// The fault, and the values allowed.
        problem: String,
    },
    /// A word of the form `kind:value` with a value that is not right.
    #[error("model `{word}`: {problem}")]
    Word {
        /// The word.
        word: String,
        /// The fault, and the values allowed.
        problem: String,
    },
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |nearest| format!("did you mean `{nearest}`? "))
}

/// The fault in the keys of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// A missing key that is required unless others are given.
    Missing(&'static str),
    /// A key, and the fault of its value.
    Value(&'static str, String),
}

impl Problem {
    /// The fault of a key's value, and the values allowed.
    pub fn value(key: &'static str, problem: impl Into<String>) -> Self {
        Self::Value(key, problem.into())
    }
}

/// Returns whether a number is from 1 to `most`.
pub(crate) fn range(key: &'static str, value: u32, most: u32) -> Result<(), Problem> {
    if (1..=most).contains(&value) {
        Ok(())
    } else {
        Err(Problem::value(key, format!("must be from 1 to {most}")))
    }
}

impl SpecError {
    /// Converts the fault in the keys of a kind.
    pub(crate) fn of_check(kind: &str, problem: Problem) -> Self {
        let place = kind.into();
        match problem {
            Problem::Missing(key) => Self::Missing { place, key: key.into() },
            Problem::Value(key, problem) => Self::Value { place, key: key.into(), problem },
        }
    }

    /// Converts the error of a table's reader.
    pub(crate) fn of_table(kind: &str, error: &ReadError) -> Self {
        let path = [kind.to_owned()].into_iter().chain(error.path().map(ToString::to_string));
        let path: Vec<String> = path.collect();
        let place = path.join(".");
        match (&error.problem, path.split_last()) {
            (config::Problem::Unknown { key, keys }, _) => Self::Key {
                place,
                nearest: nearest(key, keys.iter().copied()).map(String::from),
                keys: listed(keys.iter().copied()),
                key: key.clone(),
            },
            (config::Problem::Missing { key }, _) => Self::Missing { place, key: (*key).into() },
            (problem, Some((key, outer))) if !outer.is_empty() => Self::Value {
                place: outer.join("."),
                key: key.clone(),
                problem: problem.to_string(),
            },
            (problem, _) => Self::Table { place, problem: problem.to_string() },
        }
    }
}

/// Why a profile file could not be taken in.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The file cannot be read.
    #[error("cannot read the profile {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        cause: std::io::Error,
    },
    /// The file is not a profile.
    #[error("{}: {cause}", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: ProfileError,
    },
}

/// Why a model could not be built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BuildError {
    /// The profile's file was not read yet.
    #[error("the profile `{file}` was not read: call `resolve` before `build`")]
    Unresolved {
        /// The file.
        file: String,
    },
    /// The drive is larger than the disk that is modelled.
    #[error(
        "a drive of {capacity} does not fit the model `{model}`, a disk of {disk}: make the drive \
         smaller, or the disk larger with `capacity = \"{capacity}\"`"
    )]
    Capacity {
        /// The model's label.
        model: String,
        /// The drive's size.
        capacity: String,
        /// The disk's size.
        disk: String,
    },
    /// No flash SSD of that size can be like that.
    #[error("the model `{model}`: {cause}")]
    Flash {
        /// The model's label.
        model: String,
        /// The value that cannot work, the reason, and the nearest that works.
        #[source]
        cause: Box<stasis_flash::SpecError>,
    },
    /// There is no such volume for a drive of that size.
    #[error("the model `{model}`: {problem}")]
    Volume {
        /// The model's label.
        model: String,
        /// The value that cannot be, and what to do.
        problem: String,
    },
    /// A description that was changed by hand is inconsistent.
    #[error("the model `{model}` is inconsistent: {problem}")]
    Contradiction {
        /// The model's label.
        model: String,
        /// The inconsistency.
        problem: &'static str,
    },
}

impl BuildError {
    /// The error of a flash SSD.
    pub(crate) fn flash(label: &str, cause: stasis_flash::SpecError) -> Self {
        Self::Flash { model: label.into(), cause: Box::new(cause) }
    }
}
