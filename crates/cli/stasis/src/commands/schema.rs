//! `stasis schema`: what the files of experiments and of storage functions can say, for editors.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use stasis_experiment::Experiment;
use stasis_storage_function::Definition;

/// Which files a schema is of.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub enum Files {
    /// Experiments
    #[default]
    Experiment,
    /// Definitions of storage functions
    Function,
}

/// What `--help` says below the options.
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
  taplo check --schema file://$HOME/.config/stasis.schema.json experiment.toml";

/// Prints the schema.
pub fn main(of: Files) -> Result<ExitCode> {
    let (mut schema, title) = match of {
        Files::Experiment => (stasis_config::schema::<Experiment>(), "An experiment of Stasis"),
        Files::Function => (stasis_config::schema::<Definition>(), "A storage function of Stasis"),
    };
    schema["title"] = title.into();
    let text = serde_json::to_string_pretty(&schema)?;
    writeln!(std::io::stdout(), "{text}").context("cannot print the schema")?;
    Ok(ExitCode::SUCCESS)
}
