//! A YAML text as a tree, whose nodes know their lines. Bounded: neither depth nor aliases make it larger than a
//! user means.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle};

/// Limit on nodes, those of aliases counted again each time.
const MAX_NODES: usize = 100_000;
/// Limit on collections within each other.
const MAX_DEPTH: usize = 64;

/// A value with its line, from 1 on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// A text, and whether it stands without quotes.
    Text(String, bool),
    List(Vec<Node>),
    /// Keys in their order.
    Map(Vec<(String, Node)>),
}

/// A collection that is not whole.
struct Open {
    line: usize,
    anchor: usize,
    /// None for a list.
    key: Option<Option<String>>,
    list: Vec<Node>,
    map: Vec<(String, Node)>,
}

/// Reads a text with one document.
///
/// # Errors
/// The first fault, with its line.
pub(crate) fn read(text: &str) -> Result<Node, String> {
    let mut open: Vec<Open> = Vec::new();
    let mut anchors: BTreeMap<usize, (Node, usize)> = BTreeMap::new();
    let (mut root, mut nodes, mut documents) = (None, 0, 0);
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| format!("it is no YAML: {error}"))?;
        let line = span.start.line();
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain && tag.is_none();
                nodes += 1;
                (Node { line, value: Value::Text(text.into_owned(), is_plain) }, anchor)
            }
            Event::Alias(anchor) => {
                let (node, count) = anchors.get(&anchor).ok_or_else(|| {
                    format!("line {line}: an alias stands before its anchor's end")
                })?;
                nodes += count;
                (Node { line, ..node.clone() }, 0)
            }
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => {
                let is_map = matches!(event, Event::MappingStart(..));
                if open.len() >= MAX_DEPTH {
                    return Err(format!("line {line}: it is deeper than {MAX_DEPTH}"));
                }
                nodes += 1;
                let key = is_map.then_some(None);
                open.push(Open { line, anchor, key, list: Vec::new(), map: Vec::new() });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(ended) = open.pop() else { continue };
                let value = match ended.key {
                    None => Value::List(ended.list),
                    Some(_) => Value::Map(merged(ended.map)?),
                };
                (Node { line: ended.line, value }, ended.anchor)
            }
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(format!("line {line}: it has more than one document"));
                }
                continue;
            }
            _ => continue,
        };
        if nodes > MAX_NODES {
            return Err(format!("line {line}: it has more than {MAX_NODES} values"));
        }
        if anchor > 0 {
            anchors.insert(anchor, (node.clone(), count(&node)));
        }
        match open.last_mut() {
            None => root = Some(node),
            Some(Open { key: None, list, .. }) => list.push(node),
            Some(Open { key: Some(key), map, .. }) => match key.take() {
                Some(key) => {
                    if key != MERGE && map.iter().any(|(other, _)| *other == key) {
                        return Err(format!("line {}: `{key}` is there already", node.line));
                    }
                    map.push((key, node));
                }
                None => match node.value {
                    Value::Text(text, _) => *key = Some(text),
                    _ => return Err(format!("line {line}: a key is no text")),
                },
            },
        }
    }
    Ok(root.unwrap_or(Node { line: 1, value: Value::Text(String::new(), true) }))
}

/// The key whose value's entries are the map's own where it has none of their names (yaml.org/type/merge.html).
const MERGE: &str = "<<";

fn merged(map: Vec<(String, Node)>) -> Result<Vec<(String, Node)>, String> {
    let (merges, mut own): (Vec<_>, Vec<_>) = map.into_iter().partition(|(key, _)| key == MERGE);
    for (_, node) in merges {
        let line = node.line;
        let maps = match node.value {
            Value::List(list) => list,
            _ => vec![node],
        };
        for node in maps {
            let Value::Map(entries) = node.value else {
                return Err(format!("line {line}: `<<` merges maps only"));
            };
            for (key, value) in entries {
                if own.iter().all(|(other, _)| *other != key) {
                    own.push((key, value));
                }
            }
        }
    }
    Ok(own)
}

fn count(node: &Node) -> usize {
    1 + match &node.value {
        Value::Text(..) => 0,
        Value::List(list) => list.iter().map(count).sum(),
        Value::Map(map) => map.iter().map(|(_, value)| count(value)).sum(),
    }
}

impl Node {
    /// Returns whether nothing is there.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Text(text, true) if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// The text; None for a collection and for nothing.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text, _) if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// The entries of a map; none of anything else.
    pub(crate) fn entries(&self) -> &[(String, Node)] {
        match &self.value {
            Value::Map(map) => map,
            _ => &[],
        }
    }

    /// The value of a key in a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// Its kind, for a message.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            _ if self.is_null() => "nothing",
            Value::Text(..) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// It as a value of TOML, plain words by YAML's core schema (YAML 1.2.2, 10.3.2).
    ///
    /// # Errors
    /// Names what TOML has not.
    pub(crate) fn to_toml(&self) -> Result<toml::Value, String> {
        Ok(match &self.value {
            _ if self.is_null() => return Err(format!("line {}: there is no value", self.line)),
            Value::Text(text, true) => match text.as_str() {
                "true" | "True" | "TRUE" => true.into(),
                "false" | "False" | "FALSE" => false.into(),
                text => match (text.parse::<i64>(), text.parse::<f64>()) {
                    (Ok(number), _) => number.into(),
                    (_, Ok(number))
                        if text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) =>
                    {
                        number.into()
                    }
                    _ => text.into(),
                },
            },
            Value::Text(text, false) => text.as_str().into(),
            Value::List(list) => {
                toml::Value::Array(list.iter().map(Node::to_toml).collect::<Result<_, _>>()?)
            }
            Value::Map(map) => {
                let entry = |(key, node): &(String, Node)| Ok((key.clone(), node.to_toml()?));
                toml::Value::Table(map.iter().map(entry).collect::<Result<_, String>>()?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_tree_with_lines() {
        let text =
            "a: &x\n  one: 1\n  two: [b, 'c']\nd:\n  <<: *x\n  one: 2\ne: *x\nf: |\n  line\n";
        let root = read(text).unwrap();
        assert_eq!(root.get("d").unwrap().get("one").unwrap().text(), Some("2"));
        assert_eq!(
            root.get("e").unwrap().get("two").unwrap().to_toml().unwrap().to_string(),
            "[\"b\", \"c\"]"
        );
        assert_eq!(root.get("f").unwrap().text(), Some("line\n"));
        assert_eq!(root.get("d").unwrap().get("one").unwrap().line, 6);
        assert!(read("").unwrap().is_null());
        for (text, value) in [
            ("1", "1"),
            ("'1'", "\"1\""),
            ("1.5", "1.5"),
            ("true", "true"),
            ("inf", "\"inf\""),
            ("1s", "\"1s\""),
        ] {
            assert_eq!(read(text).unwrap().to_toml().unwrap().to_string(), value, "{text}");
        }
    }

    #[test]
    fn what_is_too_much_or_no_yaml_is_refused() {
        let deep = "[".repeat(100);
        let laughs = (1..20).fold("a0: &a0 [x, x]\n".to_owned(), |text, n| {
            text + &format!("a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1)
        });
        for (text, expected) in [
            (deep.as_str(), "deeper than"),
            (&laughs, "more than 100000 values"),
            ("a: [", "no YAML"),
            ("a: 1\na: 2", "`a` is there already"),
            ("? [a]\n: b", "a key is no text"),
            ("a: 1\n---\nb: 2", "more than one document"),
            ("a: &a [*a]", "anchor"),
            ("<<: 1", "merges maps only"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text:.40}: {error}");
        }
    }
}
