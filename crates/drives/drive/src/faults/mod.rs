//! Faults of a drive: it becomes slow, refuses, loses, tears or misplaces writes, returns wrong or
//! old bytes, and has no room left, within the times, places and shares that an experiment gives.
//!
//! The faults act between a drive and what uses it, so that they are the same for every model, and
//! a layer above (an image, a scheduler, the guest's own checks) meets them as it would in a
//! machine.

mod layer;
mod old_versions;
mod room;

pub use layer::{Faults, MAX_ROTTEN};
pub use old_versions::MAX_OLD_BYTES;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{Command, Delivery, Operation, SECTOR};

/// Kind of a drive's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DriveFaultKind {
    /// A command takes `factor` times its time, and `delay` more.
    Slow,
    /// Completions that are due meanwhile come at the fault's end, or never.
    Stall,
    /// A read ends with an error.
    ReadError,
    /// A change ends with an error and changes nothing.
    WriteError,
    /// A flush ends with an error and makes nothing durable.
    FlushError,
    /// A write ends well and changes nothing.
    LostWrite,
    /// Only a beginning of a write of several sectors reaches the medium; it ends well.
    TornWrite,
    /// A write ends well, and its data is at another place of the drive.
    MisdirectedWrite,
    /// A flush ends well at once and makes nothing durable; nor does forced unit access.
    LostFlush,
    /// One bit of what is read is wrong, this time.
    CorruptRead,
    /// At the fault's beginning one bit goes wrong in each of `times` sectors, until it is written
    /// again.
    BitRot,
    /// A read returns of each sector what was there before its last write.
    StaleRead,
    /// A write that needs more room than `space` leaves ends with an error and changes nothing.
    Full,
    /// The drive is not on its bus.
    Gone,
    /// The controller reports its namespaces as inaccessible (ANA), and refuses commands on them.
    PathInaccessible,
    /// The controller reports that another one reaches the namespaces better (ANA).
    PathNonOptimized,
    /// A namespace is detached from its controllers, and attached again at the fault's end.
    NamespaceDetached,
    /// A namespace has another size, and its own again at the fault's end.
    NamespaceResized,
    /// A command is carried out, and its controller never says so.
    LostCompletion,
    /// A completion comes twice.
    DoubledCompletion,
    /// A completion comes without its interrupt.
    LostInterrupt,
    /// The command's queue stands still from it on, until the host makes the queue anew.
    StuckQueue,
    /// The controller fails with the command, until it is reset.
    ControllerFailure,
}

impl DriveFaultKind {
    /// Every kind.
    pub const ALL: [Self; 23] = [
        Self::Slow,
        Self::Stall,
        Self::ReadError,
        Self::WriteError,
        Self::FlushError,
        Self::LostWrite,
        Self::TornWrite,
        Self::MisdirectedWrite,
        Self::LostFlush,
        Self::CorruptRead,
        Self::BitRot,
        Self::StaleRead,
        Self::Full,
        Self::Gone,
        Self::PathInaccessible,
        Self::PathNonOptimized,
        Self::NamespaceDetached,
        Self::NamespaceResized,
        Self::LostCompletion,
        Self::DoubledCompletion,
        Self::LostInterrupt,
        Self::StuckQueue,
        Self::ControllerFailure,
    ];

    /// Name of the kind in experiments and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Stall => "stall",
            Self::ReadError => "read-error",
            Self::WriteError => "write-error",
            Self::FlushError => "flush-error",
            Self::LostWrite => "lost-write",
            Self::TornWrite => "torn-write",
            Self::MisdirectedWrite => "misdirected-write",
            Self::LostFlush => "lost-flush",
            Self::CorruptRead => "corrupt-read",
            Self::BitRot => "bit-rot",
            Self::StaleRead => "stale-read",
            Self::Full => "full",
            Self::Gone => "gone",
            Self::PathInaccessible => "path-inaccessible",
            Self::PathNonOptimized => "path-non-optimized",
            Self::NamespaceDetached => "namespace-detached",
            Self::NamespaceResized => "namespace-resized",
            Self::LostCompletion => "lost-completion",
            Self::DoubledCompletion => "doubled-completion",
            Self::LostInterrupt => "lost-interrupt",
            Self::StuckQueue => "stuck-queue",
            Self::ControllerFailure => "controller-failure",
        }
    }

    /// Returns the delivery of a command's end to the host, where the fault is one of the
    /// controller.
    pub fn delivery(self) -> Option<Delivery> {
        match self {
            Self::LostCompletion => Some(Delivery::Never),
            Self::DoubledCompletion => Some(Delivery::Twice),
            Self::LostInterrupt => Some(Delivery::WithoutInterrupt),
            Self::StuckQueue => Some(Delivery::StopsQueue),
            Self::ControllerFailure => Some(Delivery::FailsController),
            _ => None,
        }
    }

    /// Returns whether the machine brings it about at a path to the drive, and not the layer of
    /// faults.
    pub fn is_of_path(self) -> bool {
        matches!(self, Self::Gone | Self::PathInaccessible | Self::PathNonOptimized)
            || self.is_of_namespace()
    }

    /// Returns whether a namespace of the drive is befallen.
    pub fn is_of_namespace(self) -> bool {
        matches!(self, Self::NamespaceDetached | Self::NamespaceResized)
    }

    /// Returns whether the fault can befall a command.
    fn concerns(self, command: &Command) -> bool {
        let changes = changes(command.operation);
        match self {
            Self::Slow | Self::Stall => true,
            Self::ReadError => matches!(command.operation, Operation::Read | Operation::Verify),
            Self::WriteError => changes,
            Self::FlushError => command.operation == Operation::Flush,
            Self::LostWrite => changes && command.operation != Operation::Discard,
            // One sector is written whole or not at all.
            Self::TornWrite => command.operation == Operation::Write && command.length > SECTOR,
            Self::MisdirectedWrite => command.operation == Operation::Write,
            Self::LostFlush => command.operation == Operation::Flush || command.fua,
            Self::CorruptRead | Self::StaleRead => command.operation == Operation::Read,
            Self::Full => changes && command.operation != Operation::Discard,
            Self::BitRot
            | Self::Gone
            | Self::PathInaccessible
            | Self::PathNonOptimized
            | Self::NamespaceDetached
            | Self::NamespaceResized => false,
            Self::LostCompletion
            | Self::DoubledCompletion
            | Self::LostInterrupt
            | Self::StuckQueue
            | Self::ControllerFailure => true,
        }
    }
}

/// Returns whether an operation changes what a drive holds.
fn changes(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Write | Operation::WriteZeroes | Operation::Copy | Operation::Discard
    )
}

/// Faults of a drive from a moment on.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultChange {
    /// All of them: those that the drive had as well, and that are to stay, are the same here.
    pub faults: Vec<DriveFault>,
    /// Seed of their random numbers.
    pub seed: u64,
    /// Start of the guests' commands (ns), if they have begun.
    pub begun: Option<Nanos>,
}

/// A fault of a drive, resolved. Times count from the start of the guests' commands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriveFault {
    /// Number among the experiment's faults.
    pub number: u16,
    /// Its kind.
    pub kind: DriveFaultKind,
    /// Time at which it begins (ns).
    pub begin: Nanos,
    /// Time at which it ends (ns), if it does.
    pub end: Option<Nanos>,
    /// Share of the commands that it befalls, 0 to 1.
    pub rate: f64,
    /// The first command that it can befall, by its number among the submissions to the drive.
    pub first: u64,
    /// Limit on how often it happens; of [`DriveFaultKind::BitRot`] the number of sectors.
    pub times: Option<u64>,
    /// First byte of the region that it befalls.
    pub offset: u64,
    /// Length of that region in bytes; to the drive's end if none is given.
    pub length: Option<u64>,
    /// Operations that it befalls; empty: all.
    pub operations: Vec<Operation>,
    /// Factor on a command's time, of [`DriveFaultKind::Slow`].
    pub factor: f64,
    /// Addition to a command's time (ns), of [`DriveFaultKind::Slow`].
    pub delay: Nanos,
    /// Bytes that a [`DriveFaultKind::Full`] drive has room for; what is taken as it begins if none
    /// are given.
    #[serde(default)]
    pub space: Option<u64>,
    /// True if something else than time brings it about: its times count from that.
    #[serde(default)]
    pub triggered: bool,
    /// Controller of a path's fault, counted from 1; all if none is named.
    #[serde(default)]
    pub controller: Option<u16>,
    /// NSID of a namespace's fault.
    #[serde(default = "first_namespace")]
    pub namespace: u32,
    /// Size that the namespace has meanwhile, in bytes, of [`DriveFaultKind::NamespaceResized`].
    #[serde(default)]
    pub size: u64,
}

fn first_namespace() -> u32 {
    1
}

impl DriveFault {
    /// One of `kind` that befalls all that it concerns from the commands' start on.
    pub fn new(number: u16, kind: DriveFaultKind) -> Self {
        Self {
            number,
            kind,
            begin: 0,
            end: None,
            rate: 1.0,
            first: 0,
            times: None,
            offset: 0,
            length: None,
            operations: Vec::new(),
            factor: 1.0,
            delay: 0,
            space: None,
            triggered: false,
            controller: None,
            namespace: first_namespace(),
            size: 0,
        }
    }

    /// Returns whether the fault befalls the controller of this number, counted from 1.
    pub fn is_of(&self, controller: u16) -> bool {
        self.controller.is_none_or(|number| number == controller)
    }

    /// Returns whether the fault is there at `at` after the commands' start (ns).
    fn holds(&self, at: Nanos) -> bool {
        at >= self.begin && self.end.is_none_or(|end| at < end)
    }

    /// Returns whether it befalls the place and operation of a command.
    fn concerns(&self, command: &Command) -> bool {
        let end = self.length.map_or(u64::MAX, |length| self.offset.saturating_add(length));
        // A flush has no place.
        let inside = command.length == 0
            || command.offset < end && command.offset.saturating_add(command.length) > self.offset;
        let operation = self.operations.is_empty() || self.operations.contains(&command.operation);
        self.kind.concerns(command) && inside && operation
    }
}
