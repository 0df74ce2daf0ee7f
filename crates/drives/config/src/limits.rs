//! Ranges and words that a schema allows: for values that `Deserialize` takes, and for its errors.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::reader::read_tree;
use crate::schema::{alternatives, resolve, schema};
use crate::tree::{Tree, Value};
use crate::{Problem, ReadError, Step};

/// Reads a table of a program's into `T`, as [`crate::read_text`] reads one of a text: with the
/// ranges and words of the schema.
///
/// # Errors
/// [`ReadError`], which names the place, the fault, and the right value.
pub fn read_table<T: DeserializeOwned + JsonSchema>(value: Json) -> Result<T, ReadError> {
    read_within(&schema::<T>(), &value.into())
}

/// Reads a tree into the type of a schema, and checks it against the schema.
pub(crate) fn read_within<T: DeserializeOwned>(schema: &Json, tree: &Tree) -> Result<T, ReadError> {
    let value = read_tree(tree).map_err(|error| refine(schema, tree, error))?;
    check(schema, tree).map(|()| value)
}

/// Checks numbers and words against the ranges and the lists of a schema.
///
/// # Errors
/// The first value that is not allowed.
fn check(schema: &Json, tree: &Tree) -> Result<(), ReadError> {
    check_at(schema, schema, tree)
}

/// The error with the range, or an example, that the schema has at its place.
fn refine(schema: &Json, tree: &Tree, mut error: ReadError) -> ReadError {
    let Some(place) = at(schema, tree, error.path()) else { return error };
    let Problem::Type { found, expected } = &mut error.problem else { return error };
    if let Some((least, most)) = range(schema, place) {
        error.problem = Problem::Range { found: std::mem::take(found), least, most };
    } else if let (Some(example), "a string") = (example(schema, place), expected.as_str()) {
        *expected = format!("a string such as \"{example}\"");
    }
    error
}

/// The schema of the value at a place.
fn at<'a, 's>(
    root: &'a Json,
    tree: &Tree,
    path: impl Iterator<Item = &'s Step>,
) -> Option<&'a Json> {
    let (mut schema, mut tree) = (root, Some(tree));
    for step in path {
        schema = inner(root, schema, tree, step)?;
        tree = tree.and_then(|tree| match (step, &tree.value) {
            (Step::Key(key), _) => tree.get(key),
            (Step::Index(index), Value::List(values)) => values.get(*index),
            _ => None,
        });
    }
    Some(schema)
}

/// The schema of the value of a key or of an element.
fn inner<'a>(
    root: &'a Json,
    schema: &'a Json,
    tree: Option<&Tree>,
    step: &Step,
) -> Option<&'a Json> {
    let all = alternatives(root, schema);
    match step {
        Step::Index(_) => all.iter().find_map(|schema| schema.get("items")),
        Step::Key(key) => all
            .iter()
            .filter(|schema| tree.is_none_or(|tree| is_of_kind(schema, tree)))
            .find_map(|schema| schema.get("properties")?.get(key)),
    }
}

/// Returns whether a table's words that select a schema, such as `kind`, are those of this one.
fn is_of_kind(schema: &Json, tree: &Tree) -> bool {
    let Some(properties) = schema.get("properties").and_then(Json::as_object) else { return false };
    properties.iter().all(|(key, schema)| {
        let Some(Value::String(word) | Value::Word(word)) = tree.get(key).map(|tree| &tree.value)
        else {
            return schema.get("const").is_none();
        };
        let word = Json::from(word.as_str());
        schema.get("const").is_none_or(|one| *one == word)
    })
}

/// The range of a whole number.
pub(crate) fn range(root: &Json, schema: &Json) -> Option<(u64, u64)> {
    let bound = |schema: &Json, word| schema.get(word).and_then(Json::as_u64);
    let mut whole = alternatives(root, schema).into_iter().filter(|one| is_type(one, "null", true));
    let (one, None) = (whole.next()?, whole.next()) else { return None };
    if !is_type(one, "integer", false) {
        return None;
    }
    let most = || (one.get("format")? == "uint32").then_some(u64::from(u32::MAX));
    Some((bound(one, "minimum")?, bound(one, "maximum").or_else(most)?))
}

/// An example of a value.
fn example<'a>(root: &'a Json, schema: &'a Json) -> Option<&'a str> {
    let all = alternatives(root, schema);
    all.into_iter().find_map(|schema| schema.get("examples")?.get(0)?.as_str())
}

/// Returns whether a schema allows a type; `not` inverts it for schemas of one type.
fn is_type(schema: &Json, word: &str, not: bool) -> bool {
    match schema.get("type") {
        Some(Json::String(one)) => (one == word) != not,
        Some(Json::Array(all)) => not || all.iter().any(|one| one == word),
        _ => not,
    }
}

/// The words of a string that can have no others.
fn words(root: &Json, schema: &Json) -> Option<Vec<String>> {
    let schema = resolve(root, schema);
    let all = schema.get("enum")?.as_array()?;
    Some(all.iter().filter_map(Json::as_str).map(str::to_owned).collect())
}

fn check_at(root: &Json, schema: &Json, tree: &Tree) -> Result<(), ReadError> {
    let typed = tree.value.typed();
    match typed.as_ref().unwrap_or(&tree.value) {
        Value::Unsigned(number) => match range(root, schema) {
            Some((least, most)) if !(least..=most).contains(number) => {
                let found = tree.value.to_string();
                Err(ReadError::new(Problem::Range { found, least, most }).at(tree.span.as_ref()))
            }
            _ => Ok(()),
        },
        Value::String(word) | Value::Word(word) => match words(root, schema) {
            Some(words) if !words.contains(word) => {
                let found = tree.value.to_string();
                Err(ReadError::new(Problem::Word { found, words }).at(tree.span.as_ref()))
            }
            _ => Ok(()),
        },
        Value::List(values) => values.iter().enumerate().try_for_each(|(index, value)| {
            let step = Step::Index(index);
            let Some(schema) = inner(root, schema, Some(tree), &step) else { return Ok(()) };
            check_at(root, schema, value).map_err(|error| error.inside(step))
        }),
        Value::Table(entries) => entries.iter().try_for_each(|entry| {
            let step = Step::Key(entry.key.clone());
            let Some(schema) = inner(root, schema, Some(tree), &step) else { return Ok(()) };
            check_at(root, schema, &entry.tree).map_err(|error| error.inside(step))
        }),
        _ => Ok(()),
    }
}
