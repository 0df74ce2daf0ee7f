//! `stasis models`: the named drives, and any model as a table.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use serde_json::{json, Value};
use stasis_models::{find, Figures, ModelSpec, NamedModel, Sheet, NAMED};
use stasis_program::help::text::wrapped;
use stasis_report::{Column, Table};
use stasis_results::units;
use stasis_terminal::answer;

/// Columns of a line.
const WIDTH: usize = 100;

/// `stasis models [MODEL]`.
pub fn main(model: Option<&str>, json: bool) -> Result<ExitCode> {
    let text = match (model, json) {
        (None, false) => list()?,
        (None, true) => {
            let models: Vec<Value> = NAMED
                .iter()
                .map(|named| description(named, &named.spec()))
                .collect::<Result<_>>()?;
            serde_json::to_string_pretty(&models)? + "\n"
        }
        (Some(word), false) => detail(word)?,
        (Some(word), true) => {
            let spec = ModelSpec::parse(word)?;
            let value = match find(word) {
                Some(named) => description(named, &spec)?,
                None => json!({ "name": word, "model": spec }),
            };
            serde_json::to_string_pretty(&value)? + "\n"
        }
    };
    match json {
        true => answer::document(&text)?,
        false => answer::text(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn description(named: &NamedModel, spec: &ModelSpec) -> Result<Value> {
    let sheet = Sheet::of(spec)?;
    let figures: Vec<_> =
        named.sheet().map(|(label, much)| json!({ "what": label, "value": much })).collect();
    let delivers = |figures: Figures| {
        json!({
            "latency_ns": figures.latency,
            "iops": figures.iops,
            "bandwidth": figures.bandwidth,
        })
    };
    Ok(json!({
        "name": named.name,
        "summary": named.summary,
        "kind": named.kind().name(),
        "capacity": spec.capacity(),
        "year": named.year,
        "figures": figures,
        "delivers": { "read": delivers(sheet.read), "write": delivers(sheet.write) },
        "source": named.source,
        "assumptions": named.assumptions,
        "ends": named.ends,
        "model": spec,
    }))
}

fn list() -> Result<String> {
    let mut table = Table::new(
        ["model", "kind"]
            .map(Column::left)
            .into_iter()
            .chain(
                ["size", "read", "write", "reads/s", "writes/s", "read", "write", "year"]
                    .map(Column::right),
            )
            .collect(),
    );
    for named in NAMED {
        let spec = named.spec();
        let Sheet { read, write } = Sheet::of(&spec)?;
        let size = spec.capacity().map_or("any".into(), decimal);
        let latencies = [read, write].map(|figures| units::short(figures.latency as f64));
        let rates = [read, write].map(|figures| figures.iops.map_or("–".into(), thousands));
        let bandwidths = [read, write].map(|figures| {
            figures.bandwidth.map_or("–".into(), |bytes| format!("{}/s", decimal(bytes)))
        });
        let year = named.year.map(|year| year.to_string()).unwrap_or_default();
        let mut row = vec![named.name.to_owned(), named.kind().name().to_owned(), size];
        row.extend(latencies.into_iter().chain(rates).chain(bandwidths).chain([year]));
        table.push(row);
    }
    Ok(table.to_text()
        + "\n4 KiB at random places: median latency at queue depth 1, I/Os a second at depth 128; 128 KiB in order.\n\
           As each model delivers them when it is driven. `stasis models NAME` has its data sheet, its source, and the\n\
           model as TOML to start from. Others in a word: fixed:100us, uniform:200us-400us, profile:FILE (see\n\
           `stasis calibrate`).\n")
}

/// An amount of bytes as drives are sold: 1 TB, 256 GB, 7 GB.
fn decimal(bytes: u64) -> String {
    let (value, unit) = match bytes {
        1_000_000_000_000.. => (1e12, "TB"),
        1_000_000_000.. => (1e9, "GB"),
        _ => (1e6, "MB"),
    };
    format!("{} {unit}", units::significant(bytes as f64 / value, 2))
}

/// A rate with two digits that count.
fn thousands(rate: u64) -> String {
    match rate {
        1_000_000.. => format!("{} M", units::significant(rate as f64 / 1e6, 2)),
        1_000.. => format!("{} k", units::significant(rate as f64 / 1e3, 2)),
        _ => rate.to_string(),
    }
}

/// A drive with the model, as an experiment file has it.
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
        for (label, much) in named.sheet() {
            let _ = writeln!(text, "#   {label}: {much}");
        }
        for (title, words) in [
            ("source", named.source),
            ("assumptions", named.assumptions),
            ("the figures hold", named.ends),
        ] {
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
        let text = list().unwrap();
        for named in NAMED {
            assert!(text.lines().any(|line| line.starts_with(&format!("{} ", named.name))));
        }
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    }
}
