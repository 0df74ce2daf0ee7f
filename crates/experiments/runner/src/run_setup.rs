//! Everything a run is made from.

use std::path::Path;

use stasis_experiment::{Engine, Experiment};
use stasis_guest_image::Guest;

use crate::attended::Attended;
use crate::branched::Branched;
use crate::changed::Changed;
use crate::debugged::Debugged;
use crate::event::SharedObserver;
use crate::input::Input;
use crate::profiled::Profiled;
use crate::snapshotted::Snapshotted;
use crate::trace::TraceOptions;
/// Everything a run is made from.
#[derive(Clone, Copy)]
pub struct RunSetup<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Folder at which the experiment's relative paths start.
    pub base: &'a Path,
    /// The guest's files.
    pub guest: &'a Guest,
    /// Files for the guests.
    pub input: &'a Input,
    /// Engine that runs the machine; not `auto`.
    pub engine: Engine,
    /// The terminal that the command runs on, if it does.
    pub terminal: Option<&'a Attended>,
    /// The debugger, if one takes hold of the run.
    pub debugged: Option<&'a Debugged>,
    /// The branch of the run, if it becomes another.
    pub branched: Option<&'a Branched>,
    /// The run that this one is up to a moment, if it is a branch of one.
    pub changed: Option<&'a Changed<'a>>,
    /// The profile of the run, if its processors are sampled.
    pub profiled: Option<&'a Profiled>,
    /// The use that the run makes of snapshots, if any.
    pub snapshots: Option<&'a Snapshotted>,
    /// Places at which the drives are traced, if they are.
    pub trace: Option<&'a TraceOptions>,
    /// True if the run reports the timeline of the machine's inside.
    pub timeline: bool,
    /// True if many runs differ from it in their machines.
    pub is_one_of_many: bool,
    /// Receiver of warnings about the media.
    pub observer: &'a SharedObserver<'a>,
}
