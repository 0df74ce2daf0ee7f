//! JSON Schema of the configuration's types, in words of the configuration.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{json, Map, Value};

use crate::{read, Problem};

/// The JSON Schema (draft 2020-12) of the input for a `T`.
///
/// Descriptions are the fields' comments, without the parts for Rust only: links between items, and
/// the unit of a field.
pub fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    for_readers(&mut schema);
    schema
}

/// The keys of a table that `T` is read from, in alphabetical order.
pub fn keys<T: JsonSchema>() -> Vec<String> {
    let schema = schema::<T>();
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
}

/// The keys that `T`'s deserializer takes, other names of a key among them; none where it is no
/// table that refuses unknown keys. A test compares them with [`keys`].
pub fn keys_read<T: DeserializeOwned>() -> Vec<String> {
    let table = Map::from_iter([("?".to_owned(), Value::Null)]);
    match read::<T>(table.into()).map_err(|error| error.problem) {
        Err(Problem::Unknown { keys, .. }) => {
            let mut keys: Vec<_> = keys.into_iter().map(str::to_owned).collect();
            keys.sort_unstable();
            keys
        }
        _ => Vec::new(),
    }
}

/// Checks that the keys of `T`'s deserializer are those of its schema, for tests.
///
/// # Errors
/// Both lists, where they differ or where `T` is no table that refuses unknown keys.
pub fn keys_agree<T: JsonSchema + DeserializeOwned>() -> Result<(), String> {
    match (keys_read::<T>(), keys::<T>()) {
        (read, schema) if !read.is_empty() && read == schema => Ok(()),
        (read, schema) => {
            Err(format!("{} reads {read:?}, its schema has {schema:?}", std::any::type_name::<T>()))
        }
    }
}

/// The keyword of a key's older name: read, and neither listed nor suggested.
pub(crate) const OLDER: &str = "deprecated";
/// Tables in tables at most: schemas refer to one another, and may do so in a circle.
pub(crate) const DEPTH: usize = 4;

/// Adds `older`, a former name of `key`, to the schema of a table: serde's `alias` is no part of the
/// schema that is derived.
pub fn older_name(schema: &mut Schema, key: &str, older: &str) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    let Some(Value::Object(mut copy)) = properties.get(key).cloned() else { return };
    copy.insert(OLDER.into(), true.into());
    copy.insert("description".into(), format!("The older name of `{key}`.").into());
    properties.insert(older.into(), copy.into());
}

/// A key whose word selects the type that the rest of its table is read into, such as `kind`.
#[derive(Debug, Clone, Copy)]
pub struct Tag<'a> {
    /// The key.
    pub key: &'a str,
    /// The words that it has for this type.
    pub words: &'a [&'a str],
    /// True if keys that `T` requires may be left out, because the word stands for a table that has
    /// them.
    pub partial: bool,
}

/// The schema of a table with a [`Tag`], the keys of `common`, and those of `T`.
pub fn tagged<T: JsonSchema>(
    generator: &mut SchemaGenerator,
    tag: &Tag,
    common: &Map<String, Value>,
) -> Schema {
    let mut schema = T::json_schema(generator);
    let mut properties = common.clone();
    if let Some(Value::Object(own)) = schema.remove("properties") {
        properties.extend(own);
    }
    let words = match tag.words {
        [word] => json!({ "const": word }),
        words => json!({ "enum": words }),
    };
    properties.insert(tag.key.into(), words);
    let mut required = vec![Value::from(tag.key)];
    if let Some(Value::Array(own)) = schema.remove("required") {
        required.extend(own.into_iter().filter(|_| !tag.partial));
    }
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), properties.into());
    schema.insert("required".into(), required.into());
    schema.insert("additionalProperties".into(), false.into());
    schema
}

/// The schema that a schema refers to.
pub(crate) fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
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
pub(crate) fn alternatives<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
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

/// Puts every description into words of the configuration.
fn for_readers(schema: &mut Value) {
    match schema {
        Value::Object(table) => {
            for (key, value) in table {
                match value {
                    Value::String(text) if key == "description" => *text = in_plain_words(text),
                    value => for_readers(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(for_readers),
        _ => {}
    }
}

/// A comment of Rust's as one line of text: links are their words, and a note such as `(ns)` goes,
/// since a value of the configuration has its unit with it.
fn in_plain_words(comment: &str) -> String {
    let mut plain = String::with_capacity(comment.len());
    let mut rest = comment;
    while let Some(start) = rest.find('[') {
        let Some(length) = rest[start..].find(']') else { break };
        let (words, after) = (&rest[start + 1..start + length], &rest[start + length + 1..]);
        let target = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        // A table of TOML's, such as `[machine]`, is no link.
        if !words.starts_with('`') && target.is_none() {
            plain.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        }
        plain.push_str(&rest[..start]);
        plain.push_str(words);
        rest = target.map_or(after, |(_, after)| after);
    }
    plain.push_str(rest);
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    [" (ns)", " (bytes)", " (ns of virtual time)"]
        .iter()
        .fold(line, |line, note| line.replace(note, ""))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// A part; see [`Tag`].
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    #[expect(dead_code, reason = "only its schema is asked for")]
    struct Part {
        /// How many ([`u32`](std::primitive) of them),
        /// in `[part]`.
        how_many: u32,
        /// How long (ns).
        #[serde(default)]
        wait: u64,
    }

    #[test]
    fn descriptions_are_the_comments_in_plain_words() {
        let schema = schema::<Part>();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema["description"], "A part; see `Tag`.");
        let description = |key: &str| schema["properties"][key]["description"].as_str();
        assert_eq!(description("how-many"), Some("How many (`u32` of them), in `[part]`."));
        assert_eq!(description("wait"), Some("How long."));
        assert_eq!(schema["required"], json!(["how-many"]));
        assert_eq!(keys::<Part>(), ["how-many", "wait"]);
        assert_eq!(keys_agree::<Part>(), Ok(()));
        assert!(keys_agree::<u64>().is_err(), "no table");
    }

    #[test]
    fn an_older_name_is_a_deprecated_copy_of_its_key() {
        let mut schema = Part::json_schema(&mut SchemaGenerator::default());
        older_name(&mut schema, "wait", "delay");
        older_name(&mut schema, "missing", "lost");
        let (old, new) =
            (&schema.as_value()["properties"]["delay"], &schema.as_value()["properties"]["wait"]);
        assert_eq!((&old["type"], &old["deprecated"]), (&new["type"], &json!(true)));
        assert_eq!(schema.as_value()["properties"].as_object().unwrap().len(), 3);
    }

    #[test]
    fn a_tag_stands_before_the_keys_of_its_type() {
        let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
        let common = Map::from_iter([("label".to_owned(), json!({ "type": "string" }))]);
        let tag = Tag { key: "kind", words: &["part"], partial: false };
        let whole = tagged::<Part>(&mut generator, &tag, &common).to_value();
        assert_eq!(whole["required"], json!(["kind", "how-many"]));
        assert_eq!(whole["properties"]["kind"], json!({ "const": "part" }));
        let names: Vec<_> = whole["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["how-many", "kind", "label", "wait"]);
        let tag = Tag { key: "base", words: &["one", "two"], partial: true };
        let part = tagged::<Part>(&mut generator, &tag, &common).to_value();
        assert_eq!(part["required"], json!(["base"]));
    }
}
