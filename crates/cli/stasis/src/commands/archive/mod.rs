//! `stasis archive` and `stasis repeat`: results as one file, and the same on another computer.
//!
//! An archive is a tar in zstd: `archive.json`, the files that the command read below `files`,
//! where they lay to each other, and its results below `results`.

mod again;
mod command;
mod container;
mod differences;
mod inputs;
mod whole;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{ensure, Context, Result};
use stasis_results::keep_inputs;
use stasis_terminal::answer;

pub use self::again::{Origin, RunAgain};
pub use self::command::{Made, Parse};
use self::container::{inside, unpack, write, Manifest, FILES, FORM, MANIFEST, RESULTS};
use self::inputs::{levels, unchanged};
use self::whole::Whole;

/// Differences that are told one by one.
const SHOWN: usize = 10;
/// Arguments of `stasis archive`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The archive has the command line, the files that the command read, its results, and of the guest
the recipe. It is called in the folder in which the results were made. Files that have changed
since, media that a run has written, and unfinished studies are refused.

Examples:
  stasis archive results -o run.tar.zst
  stasis repeat run.tar.zst --results again
  stasis archive seeds-study -o study.tar.zst"
)]
pub struct Arguments {
    /// A folder of results of `stasis run`, `sim`, `on`, `sweep`, `crash-test` or `reproduce`
    #[arg(value_name = "RESULTS")]
    results: PathBuf,
    /// The archive
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// Arguments of `stasis repeat`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Under exact, and of a simulation, every figure and every I/O is to be the same.

Example:
  stasis archive results -o run.tar.zst && stasis repeat run.tar.zst --results again

Exit status: 0 if the results are the same, 1 if they differ, 125 if the command could not be
repeated."
)]
pub struct RepeatArguments {
    /// An archive of `stasis archive`
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
}

/// `stasis archive`; `parse` reads command lines.
pub fn main(arguments: &Arguments, parse: Parse, quiet: bool) -> Result<ExitCode> {
    let Arguments { results, output } = arguments;
    let whole = Whole::read(results)?;
    let inputs = whole.inputs(parse)?;
    let here = std::env::current_dir().context("there is no current folder")?;
    let up = inputs.iter().map(|path| levels(path)).max().unwrap_or(0);
    let root = here.ancestors().nth(up).context("a path leads above the root folder")?;
    let folder = here.strip_prefix(root).unwrap_or(Path::new("")).to_owned();
    for path in &inputs {
        unchanged(path, whole.started, results)?;
    }
    let mut read: Vec<_> = inputs.iter().cloned().collect();
    read.push(results.clone());
    keep_inputs(output, &read)?;
    let manifest = Manifest {
        form: FORM,
        stasis_version: whole.version.clone(),
        words: whole.words.clone(),
        folder,
    };
    write(output, &manifest, &inputs, results, &whole)
        .with_context(|| format!("cannot write {}", output.display()))?;
    answer::put("archive", output)?;
    answer::put("inputs", &inputs)?;
    answer::put("runs", &whole.runs.len())?;
    if !quiet {
        let noun = if inputs.len() == 1 { "input" } else { "inputs" };
        let runs = match whole.runs.len() {
            1 => String::new(),
            several => format!(" of {} runs", stasis_results::units::count(several as u64)),
        };
        eprintln!("{}: {} {noun} and the results{runs}", output.display(), inputs.len());
        if let Some(engine) = whole.real_time() {
            eprintln!("a run under {engine} does not repeat to the byte; one under exact does");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `stasis repeat`; `parse` reads command lines.
pub fn repeat(arguments: &RepeatArguments, parse: Parse, quiet: bool) -> Result<ExitCode> {
    let results = std::path::absolute(&arguments.results).context("--results")?;
    let unpacked = tempfile::tempdir().context("there is no room for the archive")?;
    let shown = arguments.archive.display();
    unpack(&arguments.archive, unpacked.path()).with_context(|| format!("the archive {shown}"))?;
    let manifest = std::fs::read(unpacked.path().join(MANIFEST));
    let manifest = manifest
        .map_err(anyhow::Error::from)
        .and_then(|json| serde_json::from_slice::<Manifest>(&json).map_err(anyhow::Error::from));
    let manifest = manifest.with_context(|| format!("{shown} is no archive of a run"))?;
    ensure!(
        manifest.form == FORM,
        "{shown} has the form {}, and this version reads {FORM}",
        manifest.form
    );
    let before = unpacked.path().join(RESULTS);
    let first = Whole::read(&before)?;
    let folder = unpacked.path().join(FILES).join(inside(&manifest.folder)?);
    std::fs::create_dir_all(&folder).context("cannot make its folder")?;
    std::env::set_current_dir(&folder).context("cannot enter its folder")?;
    let tree = unpacked.path().join(FILES).canonicalize().context("its files")?;
    if manifest.stasis_version != env!("CARGO_PKG_VERSION") {
        let (own, theirs) = (env!("CARGO_PKG_VERSION"), &manifest.stasis_version);
        eprintln!("stasis: the results were made by version {theirs}; this is {own}");
    }
    again::make(&manifest.words, parse, &first, &tree, &results, quiet)
        .with_context(|| format!("the archive {shown}"))?;
    let second = Whole::read(&results)?;
    let differences::Compared { differences, ios } = differences::compared(&first, &second)?;
    answer::put("results", &results)?;
    answer::put("same", &differences.is_empty())?;
    answer::put("differences", &differences)?;
    answer::put("ios", &ios)?;
    if differences.is_empty() {
        let scope = match first.runs.len() {
            1 => String::new(),
            several => format!(" of {} runs", stasis_results::units::count(several as u64)),
        };
        eprintln!("the same: every figure, and {} I/Os{scope}", stasis_results::units::count(ios));
        return Ok(ExitCode::SUCCESS);
    }
    for difference in differences.iter().take(SHOWN) {
        eprintln!("stasis: different: {difference}");
    }
    if differences.len() > SHOWN {
        eprintln!("stasis: and {} more", differences.len() - SHOWN);
    }
    Ok(ExitCode::from(1))
}
