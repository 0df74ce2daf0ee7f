//! Outcome of a run, and its cost.

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::inside::Inside;

use crate::{NetworkOutcome, SharedOutcome};

/// Reason for a run's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The command ended with this status (128 + the signal's number where a signal ended it, as
    /// shells report it).
    Exited(i32),
    /// The command could not be started: a message for the user. Shells give
    /// such a command 127 (not found) or 126 (not executable).
    NotStarted {
        /// 127 or 126.
        status: i32,
        /// The guest's message.
        message: String,
    },
    /// The guest's kernel panicked or its processor shut down.
    Panicked,
    /// All processors halted and nothing is left that could wake one.
    Hung,
    /// The limit on virtual time was reached.
    VirtualLimit,
    /// The limit on wall-clock time was reached.
    WallLimit,
    /// The user stopped it.
    Cancelled,
}

/// Number of exits from guest mode, by reason. Guest-caused exits only: a run repeats them under
/// `exact`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exits {
    /// All of those below.
    pub total: u64,
    /// Port I/O.
    pub io: u64,
    /// Memory-mapped I/O.
    pub mmio: u64,
    /// Doorbell writes among them.
    pub doorbell: u64,
    /// Model-specific registers (local APIC, timer).
    pub msr: u64,
    /// HLT.
    pub halt: u64,
    /// The guest became able to take an interrupt.
    pub interrupt_window: u64,
    /// Slices ended by their timer for an event of virtual time.
    pub kick: u64,
    /// Anything else.
    pub other: u64,
}

/// Lateness of slices at their end (ns).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overshoot {
    /// Median.
    pub p50: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// The worst.
    pub max: Nanos,
}

/// Outcome of a run and its cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Reason for the end.
    pub ending: Ending,
    /// Virtual time from the start of the command to its end (ns).
    pub virtual_ns: Nanos,
    /// Virtual time the guest took to boot to the command (ns).
    pub boot_virtual_ns: Nanos,
    /// Wall-clock time from the machine's creation to the command (ns), on the
    /// clock of the host that the machine runs on.
    pub boot_wall_ns: u64,
    /// Wall-clock time of the command (ns), likewise.
    pub wall_ns: u64,
    /// Wall-clock time during which guest time stood still for a medium (ns).
    pub frozen_ns: u64,
    /// Virtual time that was skipped because every processor was idle (ns).
    pub skipped_ns: Nanos,
    /// Exits while the command ran.
    pub exits: Exits,
    /// Lateness of slices at their end.
    pub overshoot: Overshoot,
    /// Entry + exit cost that is taken off each slice (TSC ticks), by kind.
    pub calibration: Vec<(String, i64)>,
    /// Frequency of the guest's TSC as declared to it (kHz).
    pub tsc_khz: u64,
    /// Internal activity of each drive, where it reports any.
    #[serde(default)]
    pub inside: Vec<Option<Inside>>,
    /// First failure of each drive's medium, and its cause, where there was one.
    #[serde(default)]
    pub medium_errors: Vec<Option<String>>,
    /// I/Os of each drive that were under way when their machine failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut_ios: Vec<u64>,
    /// Outcome of each of several machines.
    #[serde(default)]
    pub machines: Vec<MachineOutcome>,
    /// Activity of the processors.
    #[serde(default)]
    pub processors: Processors,
    /// Figures of each network between the machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkOutcome>,
    /// Restarts of each machine, in the order of machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<RestartOutcome>,
    /// Times at which the command of each machine began again after a failure (ns), in the order of
    /// machines; the first ones of many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returns: Vec<Vec<Nanos>>,
    /// Service that each tenant of a shared drive received, for each such drive.
    #[serde(default)]
    pub shared: Vec<SharedOutcome>,
    /// Number of spans left out because too many came at once.
    #[serde(default)]
    pub lost_spans: u64,
}

impl Outcome {
    /// Outcome of a run that ended so before anything was counted.
    pub fn of(ending: Ending) -> Self {
        Self {
            ending,
            virtual_ns: 0,
            boot_virtual_ns: 0,
            boot_wall_ns: 0,
            wall_ns: 0,
            frozen_ns: 0,
            skipped_ns: 0,
            exits: Exits::default(),
            overshoot: Overshoot::default(),
            calibration: Vec::new(),
            tsc_khz: 0,
            inside: Vec::new(),
            medium_errors: Vec::new(),
            cut_ios: Vec::new(),
            machines: Vec::new(),
            processors: Processors::default(),
            networks: Vec::new(),
            shared: Vec::new(),
            restarts: Vec::new(),
            returns: Vec::new(),
            lost_spans: 0,
        }
    }
}

/// Activity of a run's processors while the command ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Processors {
    /// Number of entries into guest mode, of all processors.
    pub slices: u64,
    /// Time that an interrupt from one to another took (ns).
    pub call: Overshoot,
    /// Maximum by which one was ahead of another (ns of virtual time).
    pub clock_skew_max_ns: Nanos,
    /// Maximum by which their shared clock was ahead of the mean of their times (ns).
    #[serde(default)]
    pub clock_lead_max_ns: Nanos,
    /// On how many of the host's threads they were in guest mode at once.
    #[serde(default)]
    pub threads: u32,
    /// Allowed difference between them (ns): the experiment's quantum, or more where slices
    /// end late.
    #[serde(default)]
    pub quantum_ns: Nanos,
    /// Duration of each of the steps of [`ProcessorOutcome::shares`] (ns).
    pub step_ns: Nanos,
    /// Each of them.
    pub each: Vec<ProcessorOutcome>,
}

/// Activity of one processor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessorOutcome {
    /// The number of its machine.
    pub machine: u16,
    /// Its number there.
    pub number: u32,
    /// Virtual time for which it ran (ns). For the rest it was idle.
    pub running_ns: Nanos,
    /// The share of each step of the command's virtual time for which it ran.
    pub shares: Vec<f64>,
}

/// A machine's returns from its failures. The results do not depend on how it returned.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RestartOutcome {
    /// Number of times at which its kept boot took the place of one.
    pub kept: u64,
    /// Number of times at which its guest booted.
    pub whole: u64,
    /// Reason why it booted, the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Outcome of one of several machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineOutcome {
    /// Its name in the experiment.
    pub name: String,
    /// Reason for its end; none for one that continued until the others had ended.
    pub ending: Option<Ending>,
    /// Time at which its command began (ns of virtual time).
    pub started_ns: Option<Nanos>,
    /// Virtual time of its command (ns).
    pub virtual_ns: Option<Nanos>,
    /// Number of its calls for help that were invalid.
    #[serde(default)]
    pub refused_help: u64,
    /// Number of its requests over the channel that were refused.
    #[serde(default)]
    pub refused_calls: u64,
}
