//! The changes by which a run becomes another.

use std::any::Any;
use std::sync::Arc;

use stasis_block::clock::Nanos;
use stasis_block::Model;
use stasis_channel::{Branch, ScheduledGuestFault};
use stasis_drive::{Control, DriveFault, FaultChange, Schedule};
use stasis_network::NetworkFault;
use stasis_run_events::Moment;

use super::super::failures::Failure;
use super::super::path_faults::PathFault;
use super::super::pauses::Pause;
use super::super::triggers::TriggerConfig;
use crate::error::Error;

/// Changes of a run from a moment on.
pub struct ChangeConfig {
    /// The moment; None for this one.
    pub moment: Option<Moment>,
    /// The changes.
    pub change: Change,
}

/// Called when the commands begin: the changes, if the run becomes another.
pub type ChangeSource = Box<dyn FnOnce() -> Option<ChangeConfig>>;

/// Called once, when all guests are set up and before they are given their commands: the parts of the
/// run that begin with the commands. Where booted machines are kept, this is the moment.
pub type BeginSource = Box<dyn FnOnce() -> std::io::Result<Change>>;

/// Parts of a run that are others from a moment on. Where nothing is given, all stays.
#[derive(Default)]
pub struct Change {
    /// The seed of the run.
    pub seed: Option<u64>,
    /// The schedule of the processors: in turn, or on purpose, by this seed.
    pub interleaving: Option<Option<u64>>,
    /// The limit on the commands' virtual time (ns): none, or this.
    pub virtual_limit: Option<Option<Nanos>>,
    /// Each machine's.
    pub machines: Vec<MachineChange>,
    /// Commands that run from then on in guests, beside those that run there.
    pub commands: Vec<Branch>,
    /// Each shared drive's.
    pub shared: Vec<DriveChange>,
    /// The scheduling of each shared drive: as it was, and as it becomes, where that differs.
    pub schedules: Vec<Option<(Schedule, Schedule)>>,
    /// The faults' triggers.
    pub triggers: Option<Vec<TriggerConfig>>,
    /// Each network's faults.
    pub network_faults: Option<Vec<Vec<NetworkFault>>>,
    /// Numbers of the faults that the run had before: those of them whose time is over do not come.
    pub known: Vec<u16>,
}

/// Changes of a machine.
#[derive(Default)]
pub struct MachineChange {
    /// Its failures, pauses and faults inside its guest.
    pub faults: Option<MachineFaults>,
    /// Each of its drives'.
    pub drives: Vec<DriveChange>,
}

/// The faults of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineFaults {
    /// Its failures.
    pub failures: Vec<Failure>,
    /// Times at which its processors stand still.
    pub pauses: Vec<Pause>,
    /// Faults that its agent brings about.
    pub orders: Vec<ScheduledGuestFault>,
}

/// Changes of a drive.
#[derive(Default)]
pub struct DriveChange {
    /// The seed that its model draws by.
    pub seed: Option<u64>,
    /// Its model.
    pub model: Option<ModelChange>,
    /// Its faults, and the seed that they draw by.
    pub faults: Option<(Vec<DriveFault>, u64)>,
    /// The faults of each of its paths.
    pub paths: Option<Vec<Vec<(PathFault, Pause)>>>,
}

/// A change of a drive's model into another.
pub enum ModelChange {
    /// The model takes over the parameters that can change ([`Model::adapt`]).
    Adapts(Arc<dyn Any + Send + Sync>),
    /// This one takes its place.
    Replaces(Box<dyn Model>),
}

impl DriveChange {
    /// Makes the changes of a drive's model, and of faults that a layer brings about already.
    ///
    /// # Errors
    /// The drive cannot change so.
    pub(in super::super) fn make(self, control: &mut dyn Control, now: Nanos) -> Result<(), Error> {
        let Self { seed, model, faults, .. } = self;
        if let Some(seed) = seed {
            control.reseed(seed);
        }
        let made = match model {
            None => true,
            Some(ModelChange::Adapts(parameters)) => control.adapt(now, &*parameters),
            Some(ModelChange::Replaces(model)) => control.set_model(now, model),
        };
        let had = faults.is_none_or(|(faults, seed)| {
            // Its layer knows when the commands began.
            control.set_faults(FaultChange { faults, seed, begun: None }).is_ok()
        });
        match made && had {
            true => Ok(()),
            // The plan of the changes has looked before.
            false => Err(Error::Internal("a drive that cannot change was asked to")),
        }
    }
}
