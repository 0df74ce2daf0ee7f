//! `stasis schema`: what an experiment file can say, for editors.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use stasis_experiment::Experiment;

/// What `--help` says below the options.
pub const HELP: &str = "Editors complete keys, show what they mean, and mark what is wrong. Write the schema to a file once:
  stasis schema > ~/.config/stasis.schema.json

taplo, and VS Code with the extension `Even Better TOML`, which is made of it, take the schema from the first line
of an experiment:
  #:schema /home/NAME/.config/stasis.schema.json

or for all of a folder from its .taplo.toml:
  [[rule]]
  include = [\"experiments/*.toml\"]
  schema  = { path = \"/home/NAME/.config/stasis.schema.json\" }

Without an editor:
  taplo check --schema file://$HOME/.config/stasis.schema.json experiment.toml";

/// Prints the schema.
pub fn main() -> Result<ExitCode> {
    let mut schema = stasis_config::schema::<Experiment>();
    schema["title"] = "An experiment of Stasis".into();
    let text = serde_json::to_string_pretty(&schema)?;
    writeln!(std::io::stdout(), "{text}").context("cannot print the schema")?;
    Ok(ExitCode::SUCCESS)
}
