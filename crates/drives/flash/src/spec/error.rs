//! Errors in a drive's description.

use stasis_nand::{EccError, FaultError, GeometryError, PatternError, VariationError};

use crate::kept::KeptError;

/// Why no drive can be built from a description.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// The array cannot be like that.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The page types are none, or do not fit the block.
    #[error(transparent)]
    Cells(#[from] PatternError),
    /// Cells cannot differ like that.
    #[error(transparent)]
    Variation(#[from] VariationError),
    /// Bits cannot be corrected like that.
    #[error(transparent)]
    Ecc(#[from] EccError),
    /// A fault that can never happen.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// An unknown word.
    #[error("`{key}` = \"{value}\" is not known; did you mean `{nearest}`? It is one of {known}")]
    Word {
        /// The key of the value.
        key: &'static str,
        /// The value given.
        value: String,
        /// The word that is most like it.
        nearest: String,
        /// All known words.
        known: String,
    },
    /// The state that was kept is no such drive's.
    #[error("the state in `{file}`: {error}; remove the file to begin with a new drive")]
    Kept {
        /// Its file.
        file: String,
        /// The fault of it.
        error: KeptError,
    },
    /// A value that cannot work.
    #[error("`{key}` = {value} cannot work: {reason}; the nearest that works is {nearest}")]
    Value {
        /// The key of the value.
        key: &'static str,
        /// The value given.
        value: String,
        /// Why the value cannot work.
        reason: String,
        /// The nearest value that works.
        nearest: String,
    },
}

impl SpecError {
    pub(crate) fn value(
        key: &'static str,
        value: impl ToString,
        reason: impl Into<String>,
        nearest: impl ToString,
    ) -> Self {
        let (value, nearest) = (value.to_string(), nearest.to_string());
        Self::Value { key, value, reason: reason.into(), nearest }
    }

    /// `value` is none of `known`.
    pub(crate) fn word(key: &'static str, value: &str, known: &[&str]) -> Self {
        let alike = |name: &&str| strsim::jaro_winkler(value, name);
        let nearest = known.iter().copied().max_by(|a, b| alike(a).total_cmp(&alike(b)));
        let nearest = nearest.unwrap_or_default().to_owned();
        Self::Word { key, value: value.to_owned(), nearest, known: known.join(", ") }
    }
}
