//! The simulations that a command line asks for: each model with each load and each seed.

use std::path::{Path, PathBuf};

use anyhow::{bail, Result};

use crate::model;
use crate::seeds::MAX_POINTS;
use crate::Arguments;

/// Characters of a folder's name, beside its number.
const NAME: usize = 60;

/// One point of a set of simulations: a model, a load and a seed.
#[derive(Debug, Clone)]
pub struct Point<'a> {
    /// MODEL as the command line has it.
    pub model: &'a str,
    /// The job file or trace.
    pub source: &'a Path,
    /// Seed of the simulation.
    pub seed: u64,
    /// Folder of the results.
    pub results: PathBuf,
}

impl<'a> Point<'a> {
    /// Returns all points of a command line, in the order of models, loads and seeds. A single
    /// point has the folder for the results to itself, several points have a folder in it each.
    ///
    /// # Errors
    /// If there are too many, or a model is none.
    pub fn all(arguments: &'a Arguments) -> Result<Vec<Self>> {
        let sources =
            if arguments.workload.is_empty() { &arguments.trace } else { &arguments.workload };
        let seeds = &arguments.seed.0;
        let count = arguments.model.len().saturating_mul(sources.len()).saturating_mul(seeds.len());
        if count > MAX_POINTS {
            bail!(
                "{count} simulations are more than {MAX_POINTS}: give fewer models, loads or seeds"
            );
        }
        if count > 1 && sources.iter().any(|source| source == Path::new("-")) {
            bail!("--trace -: standard input can be read once, but there are {count} simulations");
        }
        let digits = count.to_string().len();
        let mut points = Vec::with_capacity(count);
        for model in &arguments.model {
            let label = if count > 1 { model::read(model)?.label() } else { String::new() };
            for source in sources {
                for &seed in seeds {
                    let mut results = arguments.results.clone();
                    if count > 1 {
                        let mut name = label.clone();
                        if sources.len() > 1 {
                            let stem = source.file_stem().unwrap_or_default();
                            name.push_str(&format!("-{}", stem.to_string_lossy()));
                        }
                        if seeds.len() > 1 {
                            name.push_str(&format!("-seed-{seed}"));
                        }
                        let number = points.len() + 1;
                        results.push(format!("{number:0digits$}-{}", folder_name(&name)));
                    }
                    points.push(Self { model, source, seed, results });
                }
            }
        }
        Ok(points)
    }

    /// The files that it reads.
    pub(crate) fn inputs(&self) -> Vec<PathBuf> {
        model::file(self.model).into_iter().chain([self.source.to_owned()]).collect()
    }

    /// The words of this program for it alone, where the command asks for others, too.
    pub(crate) fn words(&self, arguments: &Arguments) -> Option<Vec<String>> {
        // One alone has the folder of the results to itself.
        let several = self.results != arguments.results;
        several.then(|| {
            let words = stasis_runner::provenance::words::own();
            arguments.words_of(words, self.model, self.source, self.seed)
        })
    }
}

/// Turns a name into a folder's name that is valid on any system.
fn folder_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    name.chars().map(plain).take(NAME).collect()
}
