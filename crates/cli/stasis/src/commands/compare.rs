//! `stasis compare`: results side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{ensure, Context, Result};
use stasis_comparison::{Candidate, Comparison, Slower};
use stasis_results::{units, ResultsFolder};
use stasis_runner::provenance::Provenance;
use stasis_terminal::answer;

/// The page's file.
const PAGE: &str = stasis_results::COMPARISON_PAGE;
/// The differences' file.
const FILE: &str = stasis_results::COMPARISON_FILE;

/// Arguments of `stasis compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stasis compare before after
  stasis compare greedy cost-benefit --results comparison
  stasis compare main branch --fail-above 5% --junit compare.xml
  stasis compare main branch --least 0.1%

Each of A, B, ... is a folder of results, or a folder of such folders, such as one for each
seed. The command's own time comes first, then what it printed. Latencies are compared where
both did the same I/Os. Intervals of 95 % are told with each figure; a difference is
significant where they do not overlap and it is not below --least.

Exit status: 0; 1 if --fail-above finds that B, ... is slower.")]
pub struct Arguments {
    /// Results to compare; the first one is the base
    #[arg(value_name = "RESULTS", required = true, num_args = 2..)]
    results: Vec<PathBuf>,
    /// Folder for the page and comparison.json [default: comparison]
    #[arg(
        long = "results",
        value_name = "DIR",
        default_value = "comparison",
        hide_default_value = true
    )]
    folder: PathBuf,
    /// The smallest difference that matters
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percent)]
    least: f64,
    /// Exit with 1 if a command takes longer than the base's by more than this, or of the same I/Os
    /// a latency is significantly greater
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,
    /// Write the figures as tests in JUnit's XML to this file: those that --fail-above finds fail
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

fn percent(word: &str) -> Result<f64, String> {
    let number = word.strip_suffix('%').unwrap_or(word).trim().parse::<f64>();
    let wrong = || "must be a share such as 5%".to_owned();
    number.ok().filter(|number| number.is_finite() && *number >= 0.0).ok_or_else(wrong)
}

/// `stasis compare`.
pub fn main(arguments: &Arguments, quiet: bool) -> Result<ExitCode> {
    let inputs: Vec<_> =
        arguments.results.iter().flat_map(|path| Candidate::inputs(path)).collect();
    let files: Vec<_> = arguments.results.iter().flat_map(|path| Candidate::files(path)).collect();
    let candidates = arguments.results.iter().map(|path| Candidate::read(path));
    let candidates = candidates.collect::<Result<Vec<_>, _>>()?;
    let comparison = Comparison::of(candidates, arguments.least)
        .context("nothing to compare: name two results")?;
    if comparison.differences.is_empty() {
        let drives = comparison.candidates.iter().map(|candidate| {
            let has: Vec<_> = candidate
                .subjects()
                .map(|(drive, op)| format!("{drive} ({})", op.name()))
                .collect();
            let has = if has.is_empty() { "no I/O".to_owned() } else { has.join(", ") };
            format!("{} has {has}", candidate.name)
        });
        let drives = drives.collect::<Vec<_>>().join("; ");
        let why = format!(
            "the results have no drive and operation in common: {drives}; drives of several are \
             compared by their names, which `name` of a drive sets"
        );
        // Commands have times, though no I/O be in all.
        ensure!(comparison.is_timed(), "nothing to compare: {why}");
        eprintln!("Only times are compared: {why}");
    }
    let base = &comparison.candidates[0];
    let drive = base.drives().into_iter().next().unwrap_or_default();
    for (candidate, name) in &comparison.renamed {
        eprintln!("{candidate}: its only drive, {name}, is compared with {drive} of {}", base.name);
    }
    if let Some(path) = &arguments.junit {
        stasis_runner::check_output(path, &arguments.folder, &inputs)?;
    }
    let provenance = Provenance::begin(false).reading(&files);
    let repeat = provenance.repeat();
    let mut folder = ResultsFolder::claim(&arguments.folder, &inputs)?;
    let (file, page) = (folder.file(FILE)?, folder.file(PAGE)?);
    let json = comparison.to_json()?;
    std::fs::write(&file, json).with_context(|| format!("cannot write {}", file.display()))?;
    let html = comparison.to_html(Some(&repeat), provenance.section().as_ref());
    stasis_report::page::write(&arguments.folder, PAGE, &html)?;
    folder.finished()?;
    answer::put("results", &arguments.folder)?;
    answer::put("differences", &comparison.differences)?;
    if let Some(path) = &arguments.junit {
        comparison.to_junit(arguments.fail_above).write(path)?;
    }
    if !quiet {
        answer::text(&format!("{}\n", comparison.verdict().sentence))?;
        let table = comparison.table(false);
        if !table.rows.is_empty() {
            answer::text(&format!("\n{}", table.to_text()))?;
        }
        let least = units::significant(comparison.least, 3);
        stasis_terminal::say!("Differences below {least} % do not count (--least).");
        eprintln!("comparison: {}", page.display());
    }
    let Some(limit) = arguments.fail_above else { return Ok(ExitCode::SUCCESS) };
    let slower = comparison.slower_by(limit);
    if slower.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut latencies = 0;
    for one in slower {
        match one {
            Slower::Failed(one, why) => eprintln!("stasis: {}: the command {why}", one.name),
            Slower::Time(one, more) => {
                let (more, limit) = (units::significant(more, 3), units::significant(limit, 3));
                eprintln!(
                    "stasis: {}: it takes {more} % longer than {}, more than {limit} %",
                    one.name, comparison.candidates[0].name
                );
            }
            Slower::Latency(_) => latencies += 1,
        }
    }
    if latencies > 0 {
        let are = if latencies == 1 { "latency is" } else { "latencies are" };
        eprintln!("stasis: {latencies} {are} greater than the base's by more than {limit} %");
    }
    Ok(ExitCode::from(1))
}
