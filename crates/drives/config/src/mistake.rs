//! Mistakes of meaning: values that are of the right types, and cannot be or do not go together.

use std::fmt;

use crate::Step;

/// A mistake of meaning, with its place: a check returns it without the text that it is in, and
/// [`crate::Places`] finds its line there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    // The innermost step first.
    path: Vec<Step>,
    pub(crate) message: String,
}

impl Mistake {
    /// A mistake in the value of a key.
    pub fn at(step: impl Into<Step>, message: impl Into<String>) -> Self {
        Self { path: vec![step.into()], message: message.into() }
    }

    /// Puts a table or list around the place of the mistake.
    #[must_use]
    pub fn inside(mut self, step: impl Into<Step>) -> Self {
        self.path.push(step.into());
        self
    }

    /// Puts `place` around the place of the mistake: steps from the outermost on.
    #[must_use]
    pub fn within(mut self, place: Vec<Step>) -> Self {
        self.path.extend(place.into_iter().rev());
        self
    }

    /// Puts `words` and a colon before the message.
    #[must_use]
    pub fn said_of(self, words: impl fmt::Display) -> Self {
        self.reworded(|message| format!("{words}: {message}"))
    }

    /// Changes the message.
    #[must_use]
    pub fn reworded(mut self, reword: impl FnOnce(String) -> String) -> Self {
        self.message = reword(self.message);
        self
    }

    /// The place: steps from the outermost to the innermost.
    pub fn path(&self) -> impl DoubleEndedIterator<Item = &Step> + Clone {
        self.path.iter().rev()
    }

    /// Changes the number of the element at this step of the place, counted from the outermost one.
    #[must_use]
    pub fn renumbered(mut self, step: usize, change: impl FnOnce(usize) -> usize) -> Self {
        if let Some(Step::Index(index)) = self.path.iter_mut().rev().nth(step) {
            *index = change(*index);
        }
        self
    }
}

/// A mistake of no place.
impl From<String> for Mistake {
    fn from(message: String) -> Self {
        Self { path: Vec::new(), message }
    }
}

/// A mistake of no place.
impl From<&str> for Mistake {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

/// The sentence alone.
impl From<Mistake> for String {
    fn from(mistake: Mistake) -> Self {
        mistake.message
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Mistake {}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}
