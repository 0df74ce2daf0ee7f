//! `stasis models`: the drives that have a name, and any model as a table.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use serde_json::{json, Value};
use stasis_models::{find, ModelSpec, NamedModel, NAMED};

use crate::commands;

/// Columns of the list: the names', and the whole.
const NAME_WIDTH: usize = 16;
const WIDTH: usize = 100;

/// `stasis models [MODEL]`.
pub fn main(model: Option<&str>, json: bool) -> Result<ExitCode> {
    let text = match (model, json) {
        (None, false) => list(),
        (None, true) => {
            let models: Vec<_> =
                NAMED.iter().map(|named| description(named, &named.spec())).collect();
            serde_json::to_string_pretty(&models)? + "\n"
        }
        (Some(word), false) => detail(word)?,
        (Some(word), true) => {
            let spec = ModelSpec::parse(word)?;
            let value = match find(word) {
                Some(named) => description(named, &spec),
                None => json!({ "name": word, "model": spec }),
            };
            serde_json::to_string_pretty(&value)? + "\n"
        }
    };
    commands::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn description(named: &NamedModel, spec: &ModelSpec) -> Value {
    let figure = |&(what, much): &(&str, &str)| json!({ "what": what, "value": much });
    json!({
        "name": named.name,
        "summary": named.summary,
        "kind": named.table().kind(),
        "figures": named.figures.iter().map(figure).collect::<Vec<_>>(),
        "source": named.source,
        "assumptions": named.assumptions,
        "model": spec,
    })
}

fn list() -> String {
    let mut text = String::new();
    for named in NAMED {
        let figures: Vec<_> =
            named.figures.iter().map(|(what, much)| format!("{what} {much}")).collect();
        let lines = [
            wrapped(named.summary, WIDTH - NAME_WIDTH),
            wrapped(&figures.join("; "), WIDTH - NAME_WIDTH),
            wrapped(&format!("from {}", named.source), WIDTH - NAME_WIDTH),
        ];
        for (index, line) in lines.iter().flatten().enumerate() {
            let name = if index == 0 { named.name } else { "" };
            let _ = writeln!(text, "{name:<NAME_WIDTH$}{line}");
        }
        text.push('\n');
    }
    text.push_str(
        "Others in a word: fixed:100us, uniform:200us-400us, profile:FILE (see `stasis calibrate`).\n\
         `stasis models NAME` shows one in full, as TOML to start from.\n",
    );
    text
}

/// What an experiment file says of a drive with the model.
#[derive(Serialize)]
struct Sample<'a> {
    drive: [SampleDrive<'a>; 1],
}

#[derive(Serialize)]
struct SampleDrive<'a> {
    name: &'a str,
    medium: &'a str,
    model: &'a ModelSpec,
}

fn detail(word: &str) -> Result<String> {
    let spec = ModelSpec::parse(word)?;
    let mut text = String::new();
    if let Some(named) = find(word) {
        let _ = writeln!(text, "# {}: {}", named.name, named.summary);
        for (what, much) in named.figures {
            let _ = writeln!(text, "#   {what}: {much}");
        }
        for (title, words) in [("source", named.source), ("assumptions", named.assumptions)] {
            let title = if words.is_empty() { String::new() } else { format!("{title}: {words}") };
            for line in wrapped(&title, WIDTH - 2) {
                let _ = writeln!(text, "# {line}");
            }
        }
        let _ = writeln!(text, "# In short: --drive model={},medium=ram:1GiB\n", named.name);
    }
    let name = word.split(':').next().unwrap_or(word);
    let drive = SampleDrive { name, medium: "ram:1GiB", model: &spec };
    text.push_str(&toml::to_string(&Sample { drive: [drive] })?);
    Ok(text)
}

/// `text` in lines of at most `width` characters, but for longer words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use stasis_experiment::Experiment;

    #[test]
    fn every_named_model_can_be_started_from() {
        for named in NAMED {
            let text = detail(named.name).unwrap();
            let experiment: Experiment = toml::from_str(&text).unwrap();
            assert_eq!(experiment.drives[0].model, named.spec(), "{text}");
            assert!(text.contains(named.source.split_whitespace().next().unwrap()));
        }
    }

    #[test]
    fn the_list_has_every_model_within_the_width() {
        let text = list();
        for named in NAMED {
            assert!(text.contains(&format!("{:<NAME_WIDTH$}{}", named.name, &named.summary[..8])));
        }
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn words_are_kept_when_lines_are_wrapped() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible x", 5), ["incomprehensible", "x"]);
        assert!(wrapped("", 5).is_empty());
    }
}
