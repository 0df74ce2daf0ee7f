//! Names and labels of the Grafana dashboard, for the programs' tests of what it asks for.

use std::collections::BTreeSet;

use serde_json::Value;

/// The queries of a dashboard for metrics whose names begin with `prefix`, and with none of
/// `others`.
pub fn queries(prefix: &str, others: &[&str]) -> Vec<String> {
    fn within(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| match value {
                Value::String(text) if ["expr", "query"].contains(&name.as_str()) => {
                    found.push(text.clone());
                }
                value => within(value, found),
            }),
            Value::Array(items) => items.iter().for_each(|item| within(item, found)),
            _ => {}
        }
    }
    let text = include_str!("../../../../packaging/grafana/stasis.json");
    let mut found = Vec::new();
    within(&serde_json::from_str(text).unwrap(), &mut found);
    let is_of = |query: &String| {
        query.contains(prefix) && others.iter().all(|other| !query.contains(other))
    };
    found.retain(is_of);
    found
}

/// The names of metrics in a query.
pub fn names(query: &str) -> impl Iterator<Item = &str> {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    query.split(move |c| !is_of_a_name(c)).filter(|word| word.starts_with("stasis_"))
}

/// Returns whether the queries name every metric of `text`, as Prometheus gets it, and no
/// other; and select by labels only that it has.
pub fn check(queries: &[String], text: &str) {
    let known: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .flat_map(|(name, kind)| match kind {
            "summary" => {
                vec![format!("{name}"), format!("{name}_sum"), format!("{name}_count")]
            }
            _ => vec![name.to_owned()],
        })
        .collect();
    let asked: BTreeSet<_> = queries.iter().flat_map(|q| names(q)).map(str::to_owned).collect();
    assert_eq!(asked, known, "the dashboard's metrics, and the program's");
    for query in queries {
        let labels = query.split(['{', '}']).skip(1).step_by(2);
        for label in labels.flat_map(|all| all.split(',')) {
            let (name, value) = label.split_once('=').unwrap();
            let values = value.trim_start_matches('~').trim_matches('"').split('|');
            for value in values.filter(|value| !value.starts_with('$')) {
                let sought = format!("{name}=\"{value}\"");
                assert!(text.contains(&sought), "{query}: {sought}");
            }
            assert!(text.contains(&format!("{name}=\"")), "{query}: {name}");
        }
    }
}
