//! Events of a run in progress: the guest's output, one record per I/O, progress, and the run's
//! outcome.
//!
//! A machine writes [`RunEvent`]s into a [`EventSink`]. Where the machine runs inside the software
//! KVM host, its events leave as a stream of frames ([`encode`], [`Decoder`]) that the program
//! outside reads back into entries, so the consumer of results need not know where the machine ran.

mod debugger;
mod fault;
mod frame;
mod guest_io;
mod io_columns;
mod network;
mod outcome;
mod packet;
mod profile;
mod shared;
mod span;
mod tasks;
pub mod text;
mod threads;
mod wait;

pub use debugger::{DebugJob, Debugger, Instant, Moment, SharedDebugger, SnapshotJob, WriteEntry};
pub use fault::FaultRecord;
pub use frame::{encode, Decoder, FrameError};
pub use guest_io::{BioPlaces, GuestIo, KernelPlaces, Submitter, THREAD_NAME};
pub use io_columns::{Column, IoRecord, IoStatus, Kind, BLOCK, COLUMN_COUNT};
pub use network::{LinkOutcome, NetworkOutcome};
pub use outcome::{
    Ending, Exits, MachineOutcome, Outcome, Overshoot, ProcessorOutcome, Processors, RestartOutcome,
};
pub use packet::PacketRecord;
pub use profile::{ModuleOrc, ModuleSymbols, Modules, Orc, ProfileJob, Sample, MAX_NAMES, NAMED};
pub use shared::{Limited, Service, SharedOutcome, TenantOutcome, TenantTail, WorkloadOutcome};
pub use tasks::Tasks;
pub use threads::{MapleNode, Maps, Threads};
pub use wait::{name_of, Wait, WaitKind, Waker};

use stasis_block::clock::Nanos;
use stasis_block::timeline::{Span, Track};

/// One event of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunEvent {
    /// Source of the entries that follow, of several machines: output, console and results that
    /// follow are this one's. Before the first, they are machine 0's.
    From(u16),
    /// Bytes the command in the guest wrote to its standard output.
    Output(Vec<u8>),
    /// Bytes the command in the guest wrote to its standard error.
    ErrorOutput(Vec<u8>),
    /// Bytes the guest's kernel wrote to its console.
    Console(Vec<u8>),
    /// The run reached a new stage.
    Stage(Stage),
    /// Virtual time is at least so far (ns).
    Progress(Nanos),
    /// The run becomes another, so long after its commands have begun (ns).
    Changed(Nanos),
    /// I/Os that have completed.
    Ios(Vec<IoRecord>),
    /// Frames that have passed machines' ports.
    Packets(Vec<PacketRecord>),
    /// Faults that have happened, of each part in the order of time.
    Faults(Vec<FaultRecord>),
    /// The tracks of the spans that follow; comes once, where spans are reported.
    Tracks(Vec<Track>),
    /// Spans, of each track in the order of time.
    Spans(Vec<Span>),
    /// Samples of processors, of each in the order of time, where they are taken.
    Samples(Vec<Sample>),
    /// Further names of programs and modules in samples that follow.
    SampleNames(Vec<String>),
    /// The time of I/Os in the guest, where it is kept.
    GuestIos(Vec<GuestIo>),
    /// Waits of guests' threads, where they are kept.
    Waits(Vec<Wait>),
    /// A piece of the tar stream of the guest's `/results`.
    Results(Vec<u8>),
    /// A piece of the trace of the drives' commands, where there is one.
    Trace(Vec<u8>),
    /// A piece of the state that the drives keep when their power is off, as JSON; complete before
    /// the run is over.
    DriveStates(Vec<u8>),
    /// The run is over.
    Outcome(Box<Outcome>),
    /// The run could not start or continue: a message for the user.
    Failed(String),
}

/// The stages of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// The machine is being built, its memory filled.
    Preparing = 0,
    /// The exit costs are being measured.
    Calibrating = 1,
    /// The guest's kernel boots.
    Booting = 2,
    /// The command runs.
    Running = 3,
    /// Another command runs from here on, beside the run's: it is another run now.
    Branching = 4,
    /// The command has ended; its results are being fetched.
    Collecting = 5,
}

/// Destination of a run's entries.
pub trait EventSink {
    /// Takes one event. Errors are the writer's (a full disk, a closed pipe)
    /// and end the run.
    fn event(&mut self, event: RunEvent) -> std::io::Result<()>;
}

impl EventSink for Vec<RunEvent> {
    fn event(&mut self, event: RunEvent) -> std::io::Result<()> {
        self.push(event);
        Ok(())
    }
}
