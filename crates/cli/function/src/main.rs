//! `stasis-function`, which users call as `stasis function`: storage functions in separate virtual
//! machines.

mod command;
mod serving;

use std::process::ExitCode;

use anyhow::{bail, Result};
use stasis_program::{begin, beside, Command};
use stasis_storage_function::Definition;
use stasis_terminal::answer;

/// The commands of the program.
#[derive(clap::Subcommand)]
enum Own {
    #[command(flatten)]
    Beside(Box<Command>),
    /// Print the JSON Schema of definitions, for `stasis schema function`
    #[command(hide = true)]
    Schema,
}

fn main() -> ExitCode {
    stasis_runner::program::guests_run(beside::main_file);
    begin::program("function", &[], &["schema"], |own| match own {
        Own::Beside(beside) => match *beside {
            Command::Function(words) => command::main(&words),
            other => bail!("{} has this command", other.program()),
        },
        Own::Schema => schema(),
    })
}

/// Prints the schema.
fn schema() -> Result<ExitCode> {
    let mut schema = stasis_config::schema::<Definition>();
    schema["title"] = "A storage function of Stasis".into();
    answer::document(&(serde_json::to_string_pretty(&schema)? + "\n"))?;
    Ok(ExitCode::SUCCESS)
}
