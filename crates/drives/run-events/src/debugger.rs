//! A debugger beside a run: the wire to it, and the moment at which it takes hold; instants of a run.

use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;

use crate::{Modules, Tasks};

/// A wire to a debugger, which carries gdb's remote protocol.
pub trait Debugger: Debug + Send {
    /// Sends `bytes` and returns those that have come; where it is to `wait`, at least one. `None`
    /// once the debugger is gone.
    ///
    /// # Errors
    /// If the wire fails: the debugger is gone.
    fn exchange(&mut self, bytes: &[u8], wait: bool) -> io::Result<Option<Vec<u8>>>;

    /// Asks for the run once more from its beginning, or from a snapshot before `turn`, where
    /// [`DebugJob::again`] is `plan`. Does not return where that is granted: this run is over. Returns
    /// why it is not.
    fn again(&mut self, plan: &[u8], turn: u64) -> io::Error {
        let _ = (plan, turn);
        io::ErrorKind::Unsupported.into()
    }
}

/// The wishes of a debugger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DebugJob {
    /// Moment at which the run stops for the first time.
    pub moment: Moment,
    /// The tasks of the guests' kernels, where their places are known.
    #[serde(default)]
    pub tasks: Option<Tasks>,
    /// The modules of the guests' kernels likewise.
    #[serde(default)]
    pub modules: Option<Modules>,
    /// The kernel's entries by which programs write: the moment of a line is its program's then, and not
    /// that of its arrival.
    #[serde(default)]
    pub writes: Vec<WriteEntry>,
    /// The plan of a run that repeats one ([`Debugger::again`]); the moment is that plan's then.
    #[serde(default)]
    pub again: Option<Vec<u8>>,
}

/// A kernel's entry of a system call that writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteEntry {
    /// Linear address of the function, whose argument is the program's registers.
    pub address: u64,
    /// True for writev(2).
    pub is_vector: bool,
    /// True if programs of 32 bits call it.
    pub is_compat: bool,
}

/// The snapshots to take of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotJob {
    /// Virtual time between two (ns), where they are taken by time.
    pub every: Option<Nanos>,
    /// Moments of others: I/Os and lines of output.
    pub moments: Vec<Moment>,
}

/// An instant of a run, between two turns of its processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instant {
    /// The time that everything has reached (ns since the commands have begun).
    pub at: Nanos,
    /// The time of the processor that is furthest ahead (likewise).
    pub ahead: Nanos,
    /// The turn, counted since then.
    pub turn: u64,
}

/// One that several hold.
pub type SharedDebugger = Arc<Mutex<dyn Debugger>>;

/// A moment of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// The commands begin.
    Begin,
    /// So long after the commands have begun (ns).
    At(Nanos),
    /// A drive has delivered the I/O of this number among the submissions to it.
    Io {
        /// The drive's number among those of all machines.
        drive: u16,
        /// The I/O's number.
        order: u64,
    },
    /// A line of the commands' output matches this regular expression.
    Output(String),
    /// A processor is about to run the instruction at this linear address, after the commands have
    /// begun.
    Instruction(u64),
    /// The run has ended.
    End,
}
