//! `KEY=VALUE,...` of a command line, as a schema has its keys.
//!
//! A key of a table in the table is `TABLE.KEY`; one whose schema has the keyword `x-word` has that
//! name as well, for example `zone-size` for `zones.size`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::limits::read_within;
use crate::schema::{alternatives, resolve, DEPTH, OLDER};
use crate::tree::{Entry, Tree, Value};
use crate::{nearest, Problem, ReadError, Step};

/// The name that a key of a table in the table has among words.
const NAME: &str = "x-word";

/// A key that can be given as a word.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// The key, written before `=`.
    pub name: String,
    /// Meaning of the key: the first sentence of its description.
    pub summary: String,
    /// An example of its value, where the schema has one.
    pub example: Option<String>,
    /// True if it has to be there.
    pub required: bool,
    // Keys from the outermost table on.
    path: Vec<String>,
    // True if it is a former name of another key.
    older: bool,
}

/// The keys that words can have.
#[derive(Debug, Clone)]
pub struct Words {
    schema: Json,
    keys: Vec<Key>,
    // Former names of keys: read, and neither listed nor suggested.
    older: Vec<Key>,
    expand: fn(&str, &str) -> Option<(String, String)>,
}

/// Error in words, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordsError {
    /// Column of the key or value at fault, from 1: characters.
    pub column: usize,
    // The key as words have it; empty where the problem has it.
    key: String,
    /// The problem, with the value found, the allowed ones, and the nearest.
    pub problem: WordsProblem,
}

/// Problem with words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WordsProblem {
    /// A part that is no pair.
    #[error("`{part}` is not KEY=VALUE; for example {example}")]
    Pair {
        /// The part.
        part: String,
        /// Form of the words.
        example: String,
    },
    /// An unknown key.
    #[error("unknown key `{key}`{}", .nearest.as_ref().map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default())]
    Unknown {
        /// The key as written.
        key: String,
        /// The nearest known key.
        nearest: Option<String>,
    },
    /// A required key is missing.
    #[error("{key} is missing{}", .example.as_ref().map(|example| format!("; for example {key}={example}")).unwrap_or_default())]
    Missing {
        /// The key.
        key: String,
        /// One of its values.
        example: Option<String>,
    },
    /// A key beside a word that stands for the whole table.
    #[error("`{whole}` says it all: leave `{key}` out")]
    Twice {
        /// The key and its word.
        whole: String,
        /// The further key.
        key: String,
    },
    /// Any other, which a table can have as well.
    #[error(transparent)]
    Value(Problem),
}

impl fmt::Display for WordsError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        self.problem.fmt(f)
    }
}

impl std::error::Error for WordsError {}

/// A word, with its place among the words.
#[derive(Clone)]
struct Word<'a> {
    text: &'a str,
    // Bytes of the words.
    key: Range<usize>,
    value: Range<usize>,
}

impl Words {
    /// The keys of a [`schema`](crate::schema) of a table.
    ///
    /// `expand` receives a key and its word where the words may mean another key of the same table,
    /// and returns the key in that table and its value: `file` and `a.img` for `medium=file:a.img`
    /// beside `medium.size=1GiB`.
    pub fn new(schema: Json, expand: fn(&str, &str) -> Option<(String, String)>) -> Self {
        let mut keys = Vec::new();
        collect(&schema, &schema, &TablePath::default(), &mut keys);
        keys.sort_by(|a, b| (!a.required, &a.name).cmp(&(!b.required, &b.name)));
        let (older, keys) = keys.into_iter().partition(|key| key.older);
        Self { schema, keys, older, expand }
    }

    /// Every key but for former names: those that are required first, then in alphabetical order.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Reads `KEY=VALUE,...` into `T`; of a key that is given twice the last counts. `example`
    /// shows how such words are written.
    ///
    /// # Errors
    /// [`WordsError`], which names the key, the value found, the allowed ones, and the nearest.
    pub fn read<T: DeserializeOwned>(&self, text: &str, example: &str) -> Result<T, WordsError> {
        let error = |at: usize, problem| WordsError {
            column: text[..at].chars().count() + 1,
            key: String::new(),
            problem,
        };
        let mut words = BTreeMap::new();
        let mut start = 0;
        for pair in text.split(',') {
            let Some((name, value)) = pair.split_once('=') else {
                let (part, example) = (pair.to_owned(), example.to_owned());
                return Err(error(start, WordsProblem::Pair { part, example }));
            };
            let key = self.named(name).ok_or_else(|| {
                let nearest = nearest(name, self.keys.iter().map(|key| key.name.as_str()));
                let (key, nearest) = (name.to_owned(), nearest.map(str::to_owned));
                error(start, WordsProblem::Unknown { key, nearest })
            })?;
            let (middle, end) = (start + name.len(), start + pair.len());
            let word = Word { text: value, key: start..middle, value: middle + 1..end };
            words.insert(key.path.as_slice(), word);
            start = end + 1;
        }
        let mut table = Vec::new();
        // A table's own word, if it has one, comes before its keys.
        for (path, word) in words {
            self.insert(&mut table, path, path, &word)
                .map_err(|problem| error(word.key.start, problem))?;
        }
        let tree = Tree { value: Value::Table(table), span: Some(0..text.len()) };
        read_within(&self.schema, &tree).map_err(|found: ReadError| {
            let at = found.span().map_or(0, |span| span.start);
            WordsError { key: self.key_of(&found), ..error(at, self.problem(found)) }
        })
    }

    fn named(&self, name: &str) -> Option<&Key> {
        let dotted = |key: &&Key| key.path.join(".") == name;
        let mut all = self.keys.iter().chain(&self.older);
        all.clone().find(|key| key.name == name).or_else(|| all.find(dotted))
    }

    fn insert(
        &self,
        table: &mut Vec<Entry>,
        whole: &[String],
        path: &[String],
        word: &Word,
    ) -> Result<(), WordsProblem> {
        let [key, rest @ ..] = path else { return Ok(()) };
        let entry = |key: &str, value, span: &Range<usize>| Entry {
            key: key.to_owned(),
            span: Some(word.key.clone()),
            tree: Tree { value, span: Some(span.clone()) },
        };
        if rest.is_empty() {
            table.push(entry(key, Value::Word(word.text.to_owned()), &word.value));
            return Ok(());
        }
        let place = table.iter().position(|entry| entry.key == *key).unwrap_or(table.len());
        if place == table.len() {
            table.push(entry(key, Value::Table(Vec::new()), &word.value));
        }
        let inner = &mut table[place].tree;
        if let Value::Word(own) = &inner.value {
            let Some((inside, value)) = (self.expand)(key, own) else {
                let key = self.name(whole.iter().map(String::as_str));
                let whole = format!("{}={own}", whole[..whole.len() - rest.len()].join("."));
                return Err(WordsProblem::Twice { whole, key });
            };
            let tree = Tree { value: Value::Word(value), span: inner.span.clone() };
            inner.value = Value::Table(vec![Entry { key: inside, span: None, tree }]);
        }
        match &mut inner.value {
            Value::Table(inner) => self.insert(inner, whole, rest, word),
            _ => Ok(()),
        }
    }

    fn at<'a>(&self, path: impl Iterator<Item = &'a str> + Clone) -> Option<&Key> {
        let mut all = self.keys.iter().chain(&self.older);
        all.find(|key| key.path.iter().map(String::as_str).eq(path.clone()))
    }

    /// The key at a place, as it is written.
    fn name<'a>(&self, path: impl Iterator<Item = &'a str> + Clone) -> String {
        let dotted = || path.clone().collect::<Vec<_>>().join(".");
        self.at(path.clone()).map_or_else(dotted, |key| key.name.clone())
    }

    /// The key before an error; an error that is of a missing key names it.
    fn key_of(&self, error: &ReadError) -> String {
        match error.problem {
            Problem::Missing { .. } => String::new(),
            _ => self.name(keys_of(error)),
        }
    }

    fn problem(&self, error: ReadError) -> WordsProblem {
        match error.problem {
            Problem::Missing { key } => {
                let path = keys_of(&error).chain([key]);
                let example = self.at(path.clone()).and_then(|key| key.example.clone());
                WordsProblem::Missing { key: self.name(path), example }
            }
            problem => WordsProblem::Value(problem),
        }
    }
}

/// The keys of an error's place: words have no lists.
fn keys_of(error: &ReadError) -> impl Iterator<Item = &str> + Clone {
    error.path().filter_map(|step| match step {
        Step::Key(key) => Some(key.as_str()),
        Step::Index(_) => None,
    })
}

/// Place of a table in the schema.
#[derive(Default)]
struct TablePath {
    path: Vec<String>,
    // True if a key on the way to it is a former name.
    older: bool,
}

fn collect(root: &Json, table: &Json, place: &TablePath, keys: &mut Vec<Key>) {
    let Some(properties) = table.get("properties").and_then(Json::as_object) else { return };
    let required = |key: &String| {
        let required = table.get("required").and_then(Json::as_array);
        place.path.is_empty() && required.is_some_and(|all| all.iter().any(|other| other == key))
    };
    for (key, schema) in properties {
        let path: Vec<String> = place.path.iter().chain([key]).cloned().collect();
        let older = place.older || schema.get(OLDER) == Some(&true.into());
        let all = alternatives(root, schema);
        let is_table = |schema: &&&Json| schema.get("properties").is_some();
        let tables: Vec<_> = all.iter().filter(is_table).collect();
        let is_word = |schema: &&Json| {
            let types = schema.get("type");
            let no_word = |word: &str| matches!(word, "object" | "array" | "null");
            match types {
                Some(Json::String(one)) => !no_word(one),
                Some(Json::Array(all)) => all.iter().filter_map(Json::as_str).any(|t| !no_word(t)),
                _ => schema.get("const").is_some() || schema.get("enum").is_some(),
            }
        };
        if all.iter().any(is_word) {
            let key = Key::new(schema, resolve(root, schema), path.clone(), required(key));
            keys.push(Key { older, ..key });
        }
        // The keys of a table that can be of several kinds depend on the kind: those keys are for
        // files only.
        if let ([table], true) = (&tables[..], path.len() < DEPTH) {
            collect(root, table, &TablePath { path, older }, keys);
        }
    }
}

impl Key {
    /// Returns the path of keys in the schema, from the outermost table on.
    pub fn path(&self) -> impl Iterator<Item = &str> {
        self.path.iter().map(String::as_str)
    }

    fn new(schema: &Json, resolved: &Json, path: Vec<String>, required: bool) -> Self {
        let lookup = |keyword: &str| schema.get(keyword).or_else(|| resolved.get(keyword));
        let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let name = schema.get(NAME).map_or_else(|| path.join("."), text);
        let description = lookup("description").map(text).unwrap_or_default();
        Self {
            name,
            summary: first_sentence(&description).to_owned(),
            example: lookup("examples").and_then(|all| all.get(0)).map(text),
            required,
            path,
            older: false,
        }
    }
}

/// Up to the first full stop that ends a sentence, and without it.
fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    #[schemars(transform = older_names)]
    struct Shelf {
        /// What it is made of. Wood, say.
        #[schemars(extend("examples" = ["oak"]))]
        made_of: String,
        #[serde(default)]
        #[schemars(range(min = 1, max = 9))]
        boards: Option<u8>,
        #[serde(default)]
        size: Option<Size>,
        #[serde(default)]
        books: Vec<String>,
        #[serde(default, alias = "paint")]
        color: Option<String>,
    }

    fn older_names(schema: &mut schemars::Schema) {
        crate::older_name(schema, "color", "paint");
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    struct Size {
        /// Its width.
        #[schemars(extend("x-word" = "width"))]
        wide: u32,
        #[serde(default)]
        deep: Option<u32>,
    }

    fn words() -> Words {
        Words::new(crate::schema::<Shelf>(), |_, _| None)
    }

    fn read(text: &str) -> Result<Shelf, String> {
        words().read(text, "made-of=oak").map_err(|error| error.to_string())
    }

    #[test]
    fn keys_are_those_of_the_schema() {
        let words = words();
        let names: Vec<_> = words.keys().iter().map(|key| key.name.as_str()).collect();
        assert_eq!(names, ["made-of", "boards", "color", "size.deep", "width"]);
        let first = &words.keys()[0];
        assert_eq!((first.summary.as_str(), first.required), ("What it is made of", true));
    }

    #[test]
    fn words_are_read_by_the_types_own_deserializer() {
        let shelf = read("made-of=7,width=3,size.deep=2,boards=4").unwrap();
        let size = Some(Size { wide: 3, deep: Some(2) });
        let (books, color) = (Vec::new(), None);
        let expected = Shelf { made_of: "7".into(), boards: Some(4), size, books, color };
        assert_eq!(shelf, expected);
        assert_eq!(read("made-of=oak,size.wide=3").unwrap().size.unwrap().wide, 3);
        assert_eq!(read("made-of=oak,made-of=pine").unwrap().made_of, "pine");
        assert_eq!(read("made-of=oak,paint=red").unwrap().color.as_deref(), Some("red"));
    }

    #[test]
    fn errors_name_the_word_and_the_nearest() {
        for (text, expected) in [
            ("made-of", "`made-of` is not KEY=VALUE; for example made-of=oak"),
            ("maed-of=oak", "unknown key `maed-of`; did you mean `made-of`?"),
            ("made-of=oak,widht=1", "did you mean `width`?"),
            ("made-of=oak,painf=red", "unknown key `painf`"),
            ("boards=3", "made-of is missing; for example made-of=oak"),
            ("made-of=oak,size.deep=3", "width is missing"),
            ("made-of=oak,boards=x", "boards: `x` is not a whole number from 1 to 9"),
            ("made-of=oak,width=x", "width: `x` is not a whole number from 0 to 4294967295"),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(text in ".{0,64}", value in ".{0,16}") {
            let _ = read(&text);
            let _ = read(&format!("made-of={value},boards={value},width={value},size.deep={value}"));
        }
    }
}
