//! The run that goes to a moment.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Context, Result};
use stasis_experiment::{Engine, Experiment};
use tempfile::TempDir;

use super::archive::{Made, Origin, Parse, RunAgain};
use super::run::snapshots::SnapshotArguments;
use crate::arguments::RunArguments;

/// The run that goes to a moment: that of the words, or that of results.
pub struct Stopped {
    pub run: RunAgain,
    /// The results of that run, if they were named.
    pub results: Option<PathBuf>,
    /// The folder of results that nobody named.
    _folder: Option<TempDir>,
}

impl Stopped {
    /// Of the words of a run, of which the experiment may be a folder of results; `parse` reads
    /// command lines. `kept`: the results of a run of words have a folder in any case.
    pub fn of(words: &RunArguments, parse: Parse, kept: bool) -> Result<Self> {
        ensure!(
            words.snapshots == SnapshotArguments::default(),
            "--snapshots and --from are for `stasis run`: a moment is reached from the snapshots that \
             such a run has left"
        );
        let results = words.experiment.as_ref().filter(|path| path.is_dir());
        let (mut run, named) = match results {
            Some(results) => (Self::again(words, results, parse)?, false),
            None => {
                let origin = Origin::default();
                (RunAgain { arguments: words.clone(), stdin: None, origin }, kept)
            }
        };
        if let (true, Some(results)) = (run.arguments.snapshots.has_branches(), results) {
            bail!(
                "the run of {} is a branch: what was before its moment is in the run that it is one \
                 of, whose words are the same without --from and --branch",
                results.display()
            );
        }
        let folder = match (&words.results, named) {
            (Some(_), _) | (None, true) => None,
            (None, false) => Some(tempfile::tempdir().context("cannot make a temporary folder")?),
        };
        let own = folder.as_ref().map(|folder| folder.path().join("results"));
        run.arguments.results = words.results.clone().or(own);
        // Changes by gdb or a shell are no part of the run.
        run.arguments.snapshots = SnapshotArguments::default();
        Ok(Self { run, results: results.cloned(), _folder: folder })
    }

    /// The run of a folder of results.
    fn again(words: &RunArguments, results: &Path, parse: Parse) -> Result<RunAgain> {
        let Made::Run(none) = parse(&["run".to_owned()])? else { bail!("there is no run") };
        let own = RunArguments { experiment: None, results: None, ..words.clone() };
        ensure!(
            own == *none,
            "the run of {} has words of its own: leave out all others but --results",
            results.display()
        );
        RunAgain::of(results, parse)
    }

    /// Fills in the parts of the experiment that the words leave open.
    pub fn complete(&self, experiment: &mut Experiment) {
        self.run.origin.apply(experiment);
        if experiment.engine == Engine::Auto {
            experiment.engine = Engine::Exact;
        }
    }
}
