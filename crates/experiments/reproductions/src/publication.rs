//! Interface of a publication to `stasis reproduce`.

use anyhow::Result;

use crate::experiments::{self, Trials};
use crate::reproduction::{Findings, Part, Reproduction};

/// A publication whose experiments can be repeated: a folder of this crate, which has the
/// experiments, the published figures, and the evaluation of ours.
pub trait Publication: Sync {
    /// Name on the command line: one of `stasis_program::reproduce::PUBLICATIONS`.
    fn name(&self) -> &'static str;

    /// Options that it takes beside those that all take.
    fn takes(&self) -> &'static [Extra] {
        &[]
    }

    /// The function that lists the publication's experiments, if each is a run of one guest.
    fn trials(&self) -> Option<Trials> {
        None
    }

    /// The experiments, each of which runs on its own; usually [`Publication::trials`].
    ///
    /// # Errors
    /// If the request's settings make no sense.
    fn parts(&self, request: &Reproduction) -> Result<Vec<Part>> {
        self.trials().map_or(Ok(Vec::new()), |trials| experiments::parts(request, trials))
    }

    /// Runs the parts of [`Publication::parts`] with these names, without an evaluation:
    /// [`Publication::measure`] finds them complete. Returns the failed ones, each with its reason.
    ///
    /// # Errors
    /// The errors of [`Publication::measure`].
    fn run(&self, request: &Reproduction, names: &[String]) -> Result<Vec<(String, String)>> {
        self.trials().map_or(Ok(Vec::new()), |trials| experiments::some(request, trials, names))
    }

    /// Repeats the experiments.
    ///
    /// # Errors
    /// [`Stopped`](stasis_runner::batch::Stopped); and where nothing can be measured at all. The failures
    /// of single experiments are in [`Findings::failed`].
    fn measure(&self, request: &Reproduction) -> Result<Findings>;
}

/// An option that not all publications take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// `--full`: as large as the publication.
    Full,
    /// `--device`: the drives to measure.
    Device,
    /// `--jobs`: experiments at a time.
    Jobs,
}
