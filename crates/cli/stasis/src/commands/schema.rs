//! `stasis schema`: the keys of experiments and of storage functions, for editors, and the columns
//! of results.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::{json, Value};
use stasis_experiment::Experiment;
use stasis_program::beside;
use stasis_run_events::{IoRecord, Kind};

/// Which files a schema is of.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub enum Files {
    /// Experiments
    #[default]
    Experiment,
    /// Definitions of storage functions
    Function,
    /// The columns of a run's I/Os, and the fields of its summary that do not repeat
    Results,
}

/// The text of `--help` below the options.
pub const HELP: &str = "Editors complete keys, show what they mean, and mark what is wrong. Write the schema to a file once, with a
name that ends in .schema.json. taplo, and VS Code with the extension `Even Better TOML`, which is made of it, take the schema from the first line
of an experiment:
  #:schema /home/NAME/.config/stasis.schema.json

or for all of a folder from its .taplo.toml:
  [[rule]]
  include = [\"experiments/*.toml\"]
  schema  = { path = \"/home/NAME/.config/stasis.schema.json\" }

A storage function's definition has a schema of its own. taplo checks without an editor, too.

Examples:
  stasis schema > ~/.config/stasis.schema.json
  stasis schema function > ~/.config/stasis-function.schema.json
  stasis schema results
  taplo check --schema file://$HOME/.config/stasis.schema.json experiment.toml";

/// The type of a column as Parquet and Arrow name it; words are in few different values.
fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Drive | Kind::Word(_) => "word",
        Kind::Long => "uint64",
        Kind::Short | Kind::Code => "uint16",
        Kind::Flag => "bool",
    }
}

fn results() -> Value {
    let columns = IoRecord::COLUMNS.map(|column| {
        json!({
            "name": column.name,
            "type": type_of(column.kind),
            "unit": column.unit,
            "meaning": column.meaning.trim(),
        })
    });
    json!({ "columns": columns, "incidental_fields": stasis_results::INCIDENTAL_FIELDS })
}

/// Prints the schema.
pub fn main(files: Files) -> Result<ExitCode> {
    let (mut schema, title) = match files {
        Files::Experiment => (stasis_config::schema::<Experiment>(), "An experiment of Stasis"),
        Files::Function => return beside::become_with("stasis-function", &["schema"]),
        Files::Results => (results(), "The results of Stasis"),
    };
    schema["title"] = title.into();
    stasis_terminal::answer::document(&(serde_json::to_string_pretty(&schema)? + "\n"))?;
    Ok(ExitCode::SUCCESS)
}
