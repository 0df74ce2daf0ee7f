//! Configuration: one schema, one deserializer.
//!
//! A type of the configuration derives serde's `Deserialize` and schemars' `JsonSchema`. Both read
//! the same fields, attributes and comments, so the reader, editors, help and the suggestions of
//! errors use the same keys. This crate has the parts around the derived code:
//!
//! - [`read_text`]: a text in TOML read into a type, with errors that name line, column, key, the
//!   value found, the allowed ones and the nearest;
//! - [`Mistake`]: an error of meaning that a check finds, whose line [`Places`] find in the text
//!   that [`read_placed`] has read;
//! - [`Words`]: `KEY=VALUE,...` of a command line, read in the same way;
//! - [`read_table`]: a table of a program's, read in the same way; [`read`], for a part of one,
//!   without the ranges of a schema;
//! - [`Erased`]: parameters of one of several types, which a word selects;
//! - [`schema`]: the JSON Schema (draft 2020-12) of a type, in words of the configuration.
//!
//! Promise: no text and no table makes any of it panic.

mod erased;
mod error;
mod limits;
mod mistake;
mod places;
mod reader;
mod schema;
mod text;
mod tree;
mod words;

pub use erased::{AnyParameters, Erased};
pub use error::{guess, listed, nearest, Problem, ReadError, Step};
pub use limits::read_table;
pub use mistake::Mistake;
pub use places::{read_placed, read_text, Places};
pub use reader::read;
pub use schema::{keys, keys_agree, keys_read, older_name, schema, tagged, Tag};
pub use text::TextError;
pub use words::{Key, Words, WordsError, WordsProblem};
