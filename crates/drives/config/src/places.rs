//! Reads texts in TOML, and keeps the places of their values.

use std::ops::Range;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::limits::read_within;
use crate::text::parse;
use crate::tree::{Tree, Value};
use crate::{schema, Mistake, Problem, ReadError, Step, TextError};

/// The places of a text's values.
#[derive(Debug, Clone)]
pub struct Places {
    text: String,
    tree: Tree,
}

/// Reads a text in TOML into `T`.
///
/// # Errors
/// [`TextError`], which names line, column and key, the value found, the allowed ones, and for
/// words the nearest of them.
pub fn read_text<T: DeserializeOwned + JsonSchema>(text: &str) -> Result<T, TextError> {
    read_placed(text).map(|(value, _)| value)
}

/// Reads a text in TOML into `T`, as [`read_text`] does, and keeps the places of its values.
///
/// # Errors
/// [`TextError`], as of [`read_text`].
pub fn read_placed<T: DeserializeOwned + JsonSchema>(text: &str) -> Result<(T, Places), TextError> {
    let of_text = |error| TextError::new(text, error);
    let tree = parse(text).map_err(of_text)?;
    let value = read_within(&schema::<T>(), &tree).map_err(of_text)?;
    Ok((value, Places { text: text.to_owned(), tree }))
}

impl Places {
    /// The mistake with its line: that of the value, or of the innermost table around it that the
    /// text has. None if the mistake has no place, or is in an element that the text does not have.
    pub fn error(&self, mistake: &Mistake) -> Option<TextError> {
        let span = self.find(mistake.path())?;
        let error = ReadError::new(Problem::Value(mistake.message.clone())).at(Some(&span));
        Some(TextError::new(&self.text, error))
    }

    fn find<'a>(&self, path: impl Iterator<Item = &'a Step>) -> Option<Range<usize>> {
        let (mut tree, mut found) = (&self.tree, None);
        for step in path {
            match (step, &tree.value) {
                (Step::Key(key), Value::Table(entries)) => {
                    let Some(entry) = entries.iter().find(|entry| entry.key == *key) else { break };
                    tree = &entry.tree;
                    // A table of which only parts are written has no bytes of its own.
                    let own = tree.span.clone().filter(|span| !span.is_empty());
                    found = own.or_else(|| entry.span.clone()).or(found);
                }
                (Step::Index(index), Value::List(values)) => {
                    tree = values.get(*index)?;
                    found = tree.span.clone().or(found);
                }
                // A word stands for a table.
                _ => break,
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> Places {
        Places { text: text.to_owned(), tree: parse(text).unwrap() }
    }

    fn mistake(path: &str) -> Mistake {
        let steps = path.split('.').filter(|step| !step.is_empty()).rev();
        steps.fold(Mistake::from("no"), |mistake, step| match step.parse::<usize>() {
            Ok(index) => mistake.inside(index),
            Err(_) => mistake.inside(step),
        })
    }

    #[test]
    fn a_mistake_is_at_its_value_or_at_the_innermost_table_around() {
        let text = "a = 1\n\n[one]\nb = 2\nc.d = 3\n[[many]]\ne = 4\nf = [\n  5,\n  6,\n]\n\
                    [[many]]\n[[many.deep]]\ng = 7\n[part.only]\nh = 8\n[[part.list]]\n\
                    [at]\nin = { i = 9, k = [{ l = 1 }] }\nword = 'x'\n";
        let places = places(text);
        for (path, wanted) in [
            ("a", Some((1, 5))),
            ("one.b", Some((4, 5))),
            ("one.x", Some((3, 1))),
            ("one.c.d", Some((5, 7))),
            ("one.c.x", Some((5, 1))),
            ("many.0", Some((6, 1))),
            ("many.0.e", Some((7, 5))),
            ("many.0.x.y", Some((6, 1))),
            ("many.0.f.1", Some((10, 3))),
            ("many.0.f.2", None),
            ("many.1.x", Some((12, 1))),
            ("many.1.deep.0.g", Some((14, 5))),
            ("many.1.deep.0.x", Some((13, 1))),
            ("many.2.e", None),
            ("part.only.h", Some((16, 5))),
            ("part.x", Some((15, 2))),
            ("at.in.i", Some((19, 12))),
            ("at.in.x", Some((19, 6))),
            ("at.in.k.0.l", Some((19, 26))),
            ("at.word.x.0", Some((20, 8))),
            ("x.y", None),
            ("", None),
        ] {
            let found = places.error(&mistake(path)).map(|error| (error.line, error.column));
            assert_eq!(found, wanted, "{path}");
        }
        let shown = places.error(&mistake("one.b")).unwrap().to_string();
        assert_eq!(shown, "line 4, column 5: no\n 4 | b = 2\n   |     ^");
    }
}
