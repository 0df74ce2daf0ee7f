//! The inner side of the software KVM host: runs the machine there.

use anyhow::{Context, Result};
use stasis_emulated_host::inside::{snapshot, Inside, Later, StopReason};
use stasis_emulated_host::Input;
use stasis_machine::{FirstBoot, ProgramSource, Stop};
use stasis_media::MediumSpec;
use stasis_run_events::{DebugJob, Debugger, Ending, EventSink, Instant, RunEvent};

use crate::failure;
use crate::first_boot;
use crate::local;
use crate::machine_inputs::{Commands, Inputs, Take};
use crate::plan::input;
use crate::software_host::{InnerJob, LaterJob};

/// Runs the job and reports its end.
pub fn run(inside: &mut Inside, job: Vec<u8>) {
    let mut events = inside.event_sink();
    let event = match execute(inside, &job) {
        Ok(event) => event,
        Err(error) => RunEvent::Failed(failure::told(&error)),
    };
    // A port write: it cannot fail.
    let _ = events.event(event);
}

fn execute(inside: &mut Inside, job: &[u8]) -> Result<RunEvent> {
    if !inside.is_first() {
        return execute_from(inside, job, None);
    }
    let first = first_boot::make(job, &mut Items(inside))?;
    let job = inside.end_first()?;
    execute_from(inside, &job, Some(first))
}

fn execute_from(inside: &mut Inside, job: &[u8], first: Option<FirstBoot>) -> Result<RunEvent> {
    let InnerJob { mut plan, passed } =
        serde_json::from_slice(job).context("cannot read the job")?;
    for (drive, places) in plan.media_mut().zip(passed) {
        let path = |index| inside.drive_path(index).context("a passed drive is missing");
        for (link, &index) in drive.links.iter_mut().zip(&places) {
            link.path = path(index)?;
        }
        if let (true, Some(&index)) = (drive.links.is_empty(), places.first()) {
            drive.spec.medium = MediumSpec::Device { path: path(index)?, direct: true };
        }
    }
    let stop = Stop { flag: inside.stop_flag(), poll: inside.stop_poll(), deadline: None };
    let mut events = inside.event_sink();
    let mut outcome = local::run(plan, first, &mut Items(inside), &mut events, stop)?;
    if outcome.ending == Ending::Cancelled && inside.stop_reason() == Some(StopReason::WallLimit) {
        outcome.ending = Ending::WallLimit;
    }
    Ok(RunEvent::Outcome(Box::new(outcome)))
}

struct Items<'a>(&'a mut Inside);

impl Inputs for Items<'_> {
    fn length(&self, name: &str) -> Option<u64> {
        self.0.input_length(name)
    }

    fn read(&mut self, name: &str, into: &mut [u8]) -> Result<()> {
        Ok(self.0.read_input(name, 0, into)?)
    }

    fn source(&mut self) -> Option<stasis_emulated_host::Source> {
        Some(self.0.source())
    }

    fn keyboard(&mut self) -> Option<Box<dyn stasis_channel::Keyboard>> {
        Some(self.0.keyboard())
    }

    fn outside(&mut self) -> Option<Box<dyn stasis_network::Outside>> {
        Some(self.0.outside())
    }

    fn programs(&mut self) -> Option<ProgramSource> {
        Some(self.0.programs())
    }

    fn debugger(&mut self) -> Option<Box<dyn Debugger>> {
        Some(self.0.debugger())
    }

    fn snapshots(&mut self) -> Option<Take> {
        Some(Box::new(|instant: &Instant| snapshot(instant)?.map(commands).transpose()))
    }

    fn commands(&mut self) -> Box<dyn FnOnce() -> Result<Commands> + Send> {
        Box::new(|| commands(Later::take()?))
    }
}

/// The commands in what belongs to a run and not to its machine.
fn commands(mut later: Later) -> Result<Commands> {
    let LaterJob { jobs, own, begins, debug, branch, profile, snapshots, change } =
        serde_json::from_slice(&later.job).context("cannot read the commands")?;
    let bytes = later.input(input::FILES)?.unwrap_or_default();
    let files = crate::input::Input { bytes, own, left_out: Vec::new() };
    let again = later.input(Input::AGAIN)?;
    let debug = debug.map(|debug| DebugJob { again, ..debug });
    Ok(Commands { jobs, files, begins, debug, branch, profile, snapshots, change })
}
