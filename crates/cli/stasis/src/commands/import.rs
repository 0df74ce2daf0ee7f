//! `stasis import`: a Compose file as an experiment's.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{ensure, Context, Result};
use serde_json::json;
use stasis_experiment::{compose, Experiment};
use stasis_terminal::answer;

/// Arguments of `stasis import`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each thing that the experiment has not, or has in another way, is said with its line. What would change
what a service does is an error. `stasis run compose.yaml` runs the same.

Examples:
  stasis import compose.yaml -o experiment.toml
  stasis import compose.yaml"
)]
pub struct Arguments {
    /// The Compose file
    #[arg(value_name = "COMPOSE.yaml")]
    pub compose: PathBuf,
    /// Write the experiment to this file beside the Compose file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `stasis import`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { compose: path, output } = arguments;
    let imported = compose::read(path)?;
    // A mistake in the experiment is known now, and not at its run.
    Experiment::read(path)?.finish()?;
    if let Some(output) = output {
        let folder = |path: &Path| {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            folder.unwrap_or(Path::new(".")).canonicalize()
        };
        let is_beside =
            matches!((folder(path), folder(output)), (Ok(one), Ok(other)) if one == other);
        ensure!(
            is_beside,
            "{}: relative paths of the experiment begin where {} is: write it there",
            output.display(),
            path.display()
        );
        ensure!(
            !output.exists(),
            "{} is there already: remove it, or name another",
            output.display()
        );
        std::fs::write(output, &imported.experiment)
            .with_context(|| format!("cannot write {}", output.display()))?;
    }
    answer::put("experiment", &imported.experiment)?;
    answer::put("notes", &json!(imported.notes))?;
    for note in &imported.notes {
        stasis_terminal::say!("{}: {note}", path.display());
    }
    if output.is_none() {
        answer::text(&imported.experiment)?;
    }
    Ok(ExitCode::SUCCESS)
}
