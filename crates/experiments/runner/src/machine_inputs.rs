//! Inputs of a machine: files by name, and the commands of its guests.

use anyhow::{anyhow, Result};
use stasis_channel::{Branch, Job, Keyboard};
use stasis_machine::ProgramSource;
use stasis_network::Outside;
use stasis_run_events::{DebugJob, Debugger, Instant, ProfileJob, SnapshotJob};

use crate::begins::Begins;
use crate::plan::PlannedChange;
use crate::root::Source;

/// The files that a machine reads, by name.
pub trait Inputs {
    /// Returns the input's length in bytes; `None` if there is none of that name.
    fn length(&self, name: &str) -> Option<u64>;
    /// Fills `into` from the file's start.
    fn read(&mut self, name: &str, into: &mut [u8]) -> Result<()>;
    /// Returns the reader of a root that is read in place, if there is one.
    fn source(&mut self) -> Option<Source>;
    /// The keyboard, if a command runs on a terminal.
    fn keyboard(&mut self) -> Option<Box<dyn Keyboard>>;
    /// The world outside, if a network leads there.
    fn outside(&mut self) -> Option<Box<dyn Outside>>;
    /// Returns the knowledge of guests' programs, if there is any.
    fn programs(&mut self) -> Option<ProgramSource>;
    /// The wire to the debugger, if one takes hold of the run.
    fn debugger(&mut self) -> Option<Box<dyn Debugger>>;
    /// A function that takes a snapshot of this program at an instant, where that can be. It returns
    /// the commands of the run that continues from there, in the program that does.
    fn snapshots(&mut self) -> Option<Take>;
    /// A function that returns the machines' commands, called when the first machine requests its
    /// command.
    fn commands(&mut self) -> Box<dyn FnOnce() -> Result<Commands> + Send>;
}

/// Takes a snapshot.
pub type Take = Box<dyn FnMut(&Instant) -> Result<Option<Commands>>>;

/// The commands that run in the guests.
#[derive(Debug, Default)]
pub struct Commands {
    /// Each machine's job, with its command.
    pub jobs: Vec<Job>,
    /// Files for the guests.
    pub files: crate::input::Input,
    /// The part of the run that begins with them.
    pub begins: Begins,
    /// The wishes of a debugger, if one takes hold of the run.
    pub debug: Option<DebugJob>,
    /// The branch that begins at the debugger's moment in its place, if one does.
    pub branch: Option<Branch>,
    /// The samples to take of the run, if any are.
    pub profile: Option<ProfileJob>,
    /// The snapshots to take, if any are.
    pub snapshots: Option<SnapshotJob>,
    /// The run that this one becomes, if it does.
    pub change: Option<Box<PlannedChange>>,
}

/// Reads the whole input `name`.
pub fn whole(inputs: &mut dyn Inputs, name: &str) -> Result<Vec<u8>> {
    let length = inputs.length(name).ok_or_else(|| anyhow!("the input {name} is missing"))?;
    let mut bytes = vec![0; usize::try_from(length)?];
    inputs.read(name, &mut bytes)?;
    Ok(bytes)
}
