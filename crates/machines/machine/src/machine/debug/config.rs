//! The debugger that a run is to have.

use stasis_channel::Branch;
use stasis_run_events::{DebugJob, Debugger, Moment};

use super::super::triggers::{Trigger, TriggerConfig};

/// A debugger that takes hold of the run at a moment.
#[derive(Debug)]
pub struct DebugConfig {
    /// The wishes of the debugger.
    pub job: DebugJob,
    /// The branch that begins at that moment in place of a debugger, if one does.
    pub branch: Option<Branch>,
    /// The wire to the debugger.
    pub wire: Box<dyn Debugger>,
}

/// Called when the commands begin: the debugger, if one takes hold of the run.
pub type DebugSource = Box<dyn FnOnce() -> Option<DebugConfig>>;

/// The trigger of this number of the moment, if it has one.
pub(in super::super) fn trigger(moment: &Moment, number: u16) -> Option<TriggerConfig> {
    let on = match moment {
        Moment::Output(pattern) => Trigger::Output { machine: None, pattern: pattern.clone() },
        &Moment::Io { drive, order } => Trigger::Delivered { drive, order },
        _ => return None,
    };
    Some(TriggerConfig { number, on, times: 1 })
}
