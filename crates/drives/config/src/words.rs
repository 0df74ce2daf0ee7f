//! `KEY=VALUE,...` of a command line, as a schema has its keys.
//!
//! A key of a table in the table is `TABLE.KEY`; one whose schema has the keyword `x-word` has that
//! name as well, for example `zone-size` for `zones.size`.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::reader::read_words;
use crate::schema::OLDER;
use crate::{nearest, Problem, ReadError};

/// The name that a key of a table in the table has among words.
const NAME: &str = "x-word";
/// Tables in tables at most: schemas refer to one another, and may do so in a circle.
const DEPTH: usize = 4;

/// A key that can be given as a word.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// The key, written before `=`.
    pub name: String,
    /// Meaning of the key: the first sentence of its description.
    pub summary: String,
    /// An example of its value, where the schema has one.
    pub example: Option<String>,
    /// Whether it has to be there.
    pub required: bool,
    // Keys from the outermost table on.
    path: Vec<String>,
    // Minimum and maximum of its value, where the schema has them.
    range: Option<(u64, u64)>,
    // Whether it is a former name of another key.
    older: bool,
}

/// The keys that words can have.
#[derive(Debug, Clone)]
pub struct Words {
    keys: Vec<Key>,
    // Former names of keys: read, and neither listed nor suggested.
    older: Vec<Key>,
    expand: fn(&str, &str) -> Option<(String, String)>,
}

impl Words {
    /// The keys of a [`schema`](crate::schema) of a table.
    ///
    /// `expand` receives a key and its word where the words may mean another key of the same table,
    /// and returns the key in that table and its value: `file` and `a.img` for `medium=file:a.img`
    /// beside `medium.size=1GiB`.
    pub fn new(schema: &Value, expand: fn(&str, &str) -> Option<(String, String)>) -> Self {
        let mut keys = Vec::new();
        collect(schema, schema, &TablePath::default(), &mut keys);
        keys.sort_by(|a, b| (!a.required, &a.name).cmp(&(!b.required, &b.name)));
        let (older, keys) = keys.into_iter().partition(|key| key.older);
        Self { keys, older, expand }
    }

    /// Every key but for former names: those that are required first, then in alphabetical order.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Reads `KEY=VALUE,...` into `T`; of a key that is given twice the last counts. `example`
    /// shows how such words are written.
    ///
    /// # Errors
    /// A sentence that names the key, the fault, and the nearest valid key or value.
    pub fn read<T: DeserializeOwned>(&self, text: &str, example: &str) -> Result<T, String> {
        let mut words = BTreeMap::new();
        for pair in text.split(',') {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(format!("`{pair}` is not KEY=VALUE; for example {example}"));
            };
            let key = self.named(name).ok_or_else(|| {
                let nearest = nearest(name, self.keys.iter().map(|key| key.name.as_str()));
                let guess = nearest.map(|nearest| format!("; did you mean `{nearest}`?"));
                format!("unknown key `{name}`{}", guess.unwrap_or_default())
            })?;
            words.insert(key.path.as_slice(), value);
        }
        let mut table = Map::new();
        // A table's own word, if it has one, comes before its keys.
        for (path, value) in words {
            self.insert(&mut table, path, path, value)?;
        }
        read_words(table.into()).map_err(|error| self.describe(&error))
    }

    fn named(&self, name: &str) -> Option<&Key> {
        let dotted = |key: &&Key| key.path.join(".") == name;
        let mut all = self.keys.iter().chain(&self.older);
        all.clone().find(|key| key.name == name).or_else(|| all.find(dotted))
    }

    fn insert(
        &self,
        table: &mut Map<String, Value>,
        whole: &[String],
        path: &[String],
        value: &str,
    ) -> Result<(), String> {
        let [key, rest @ ..] = path else { return Ok(()) };
        if rest.is_empty() {
            table.insert(key.clone(), value.into());
            return Ok(());
        }
        let inner = table.entry(key.clone()).or_insert_with(|| Map::new().into());
        if let Value::String(word) = inner {
            let Some((inside, value)) = (self.expand)(key, word) else {
                let name = self.name(whole.iter().map(String::as_str));
                return Err(format!("`{key}={word}` says it all: leave `{name}` out"));
            };
            *inner = Map::from_iter([(inside, value.into())]).into();
        }
        match inner {
            Value::Object(inner) => self.insert(inner, whole, rest, value),
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

    /// An error in the words that the schema has for it.
    fn describe(&self, error: &ReadError) -> String {
        let path: Vec<&str> = error.path().collect();
        if let Problem::Missing { key } = error.problem {
            let path = path.iter().copied().chain([key]);
            let name = self.name(path.clone());
            let example = self.at(path).and_then(|key| key.example.as_deref());
            let example = example.map(|example| format!("; for example {name}={example}"));
            return format!("{name} is missing{}", example.unwrap_or_default());
        }
        let name = self.name(path.iter().copied());
        let range = self.at(path.iter().copied()).and_then(|key| key.range);
        let mut problem = error.problem.to_string();
        if let (Some(begin), Some((least, most))) = (problem.strip_suffix("a whole number"), range)
        {
            problem = format!("{begin}a number from {least} to {most}");
        }
        // The text of most problems names the key already.
        if name.is_empty() || problem.contains(&name) {
            problem
        } else {
            format!("{name}: {problem}")
        }
    }
}

/// The schema that a schema refers to.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..DEPTH {
        let Some(path) = schema.get("$ref").and_then(Value::as_str) else { break };
        let Some(target) = path.strip_prefix('#').and_then(|path| root.pointer(path)) else {
            break;
        };
        schema = target;
    }
    schema
}

/// Alternatives of a schema: itself, or those that it lists.
fn alternatives<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let schema = resolve(root, schema);
    // Entries beside a table's keys are rules for them.
    if schema.get("properties").is_some() {
        return vec![schema];
    }
    match schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
        Some(all) => all.iter().flat_map(|schema| alternatives(root, schema)).collect(),
        None => vec![schema],
    }
}

/// Place of a table in the schema.
#[derive(Default)]
struct TablePath {
    path: Vec<String>,
    // Whether a key on the way to it is a former name.
    older: bool,
}

fn collect(root: &Value, table: &Value, place: &TablePath, keys: &mut Vec<Key>) {
    let Some(properties) = table.get("properties").and_then(Value::as_object) else { return };
    let required = |key: &String| {
        let required = table.get("required").and_then(Value::as_array);
        place.path.is_empty() && required.is_some_and(|all| all.iter().any(|other| other == key))
    };
    for (key, schema) in properties {
        let path: Vec<String> = place.path.iter().chain([key]).cloned().collect();
        let older = place.older || schema.get(OLDER) == Some(&true.into());
        let all = alternatives(root, schema);
        let is_table = |schema: &&&Value| schema.get("properties").is_some();
        let tables: Vec<_> = all.iter().filter(is_table).collect();
        let is_word = |schema: &&Value| {
            let types = schema.get("type");
            let no_word = |word: &str| matches!(word, "object" | "array" | "null");
            match types {
                Some(Value::String(one)) => !no_word(one),
                Some(Value::Array(all)) => {
                    all.iter().filter_map(Value::as_str).any(|t| !no_word(t))
                }
                _ => schema.get("const").is_some() || schema.get("enum").is_some(),
            }
        };
        if all.iter().any(is_word) {
            let key = Key::new(schema, resolve(root, schema), path.clone(), required(key));
            keys.push(Key { older, ..key });
        }
        // Where a table can be of several kinds, its keys depend on the kind: those keys are for
        // files only.
        if let ([table], true) = (&tables[..], path.len() < DEPTH) {
            collect(root, table, &TablePath { path, older }, keys);
        }
    }
}

impl Key {
    /// Its keys in the schema, from the outermost table on.
    pub fn path(&self) -> impl Iterator<Item = &str> {
        self.path.iter().map(String::as_str)
    }

    fn new(schema: &Value, resolved: &Value, path: Vec<String>, required: bool) -> Self {
        let of = |keyword: &str| schema.get(keyword).or_else(|| resolved.get(keyword));
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let name = schema.get(NAME).map_or_else(|| path.join("."), text);
        let description = of("description").map(text).unwrap_or_default();
        let bound = |keyword| schema.get(keyword).and_then(Value::as_u64);
        Self {
            name,
            summary: first_sentence(&description).to_owned(),
            example: of("examples").and_then(|all| all.get(0)).map(text),
            required,
            path,
            range: bound("minimum").zip(bound("maximum")),
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
        /// How wide it is.
        #[schemars(extend("x-word" = "width"))]
        wide: u32,
        #[serde(default)]
        deep: Option<u32>,
    }

    fn words() -> Words {
        Words::new(&crate::schema::<Shelf>(), |_, _| None)
    }

    fn read(text: &str) -> Result<Shelf, String> {
        words().read(text, "made-of=oak")
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
            ("made-of=oak,boards=x", "boards: `x` is not a number from 1 to 9"),
            ("made-of=oak,width=x", "width: `x` is not a whole number"),
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
