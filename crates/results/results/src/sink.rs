//! Destinations of a run's records. A file of records is a [`Sink`], and [`Sinks`] are those that a
//! run has: whoever writes results adds one in one place, and need not know it further.

use std::any::Any;

use serde_json::{Map, Value};
use stasis_block::clock::Nanos;
use stasis_block::timeline::{Span, Track};
use stasis_run_events::{FaultRecord, GuestIo, IoRecord, Outcome, PacketRecord, Sample, Wait};

use crate::{Drive, ResultsError};

/// Fields that a file can add about its run when the run is over.
pub type Footer = Map<String, Value>;

/// Records of a run: many at once, so that an I/O costs only those sinks that take it.
#[derive(Debug, Clone, Copy)]
pub enum Records<'a> {
    /// One more drive; I/Os count them.
    Drive(&'a Drive),
    /// I/Os of drives that are there.
    Ios(&'a [IoRecord]),
    /// I/Os in the guest.
    GuestIos(&'a [GuestIo]),
    /// Waits of guests' threads.
    Waits(&'a [Wait]),
    /// More tracks, which spans name by their place among all.
    Tracks(&'a [Track]),
    /// What tracks did.
    Spans(&'a [Span]),
    /// Samples of processors.
    Samples(&'a [Sample]),
    /// Further names of programs and modules in samples and I/Os in the guest.
    Names(&'a [String]),
    /// Frames of networks.
    Packets(&'a [PacketRecord]),
    /// Faults that have happened.
    Faults(&'a [FaultRecord]),
    /// Whole lines that the command of a machine has written by a time (ns), to its standard error if
    /// the flag is set.
    Output(usize, Nanos, bool, &'a [u8]),
}

/// A field of the summary, where a file has one.
pub type Entry = Option<(String, Value)>;

/// A destination of records.
pub trait Sink: Any + Send {
    /// Takes records of its kinds, and passes over others.
    ///
    /// # Errors
    /// Where the file cannot be written, or a record names something that is not there; records
    /// before it are kept.
    fn take(&mut self, records: Records) -> Result<(), ResultsError>;

    /// Ends the file with `footer`, and returns its entry in the summary; without an outcome of a run
    /// that has failed. Nothing more comes, but its figures stay.
    ///
    /// # Errors
    /// Where the file cannot be written.
    fn end(&mut self, footer: &Footer, outcome: Option<&Outcome>) -> Result<Entry, ResultsError>;
}

/// The sinks of a run.
#[derive(Default)]
pub struct Sinks(Vec<Box<dyn Sink>>);

impl Sinks {
    /// Adds one.
    pub fn add(&mut self, sink: Box<dyn Sink>) {
        self.0.push(sink);
    }

    /// The first sink of a type, where the run has it.
    pub fn get<T: Sink>(&self) -> Option<&T> {
        self.0.iter().find_map(|sink| (&**sink as &dyn Any).downcast_ref())
    }

    /// Likewise, to be changed.
    pub fn get_mut<T: Sink>(&mut self) -> Option<&mut T> {
        self.0.iter_mut().find_map(|sink| (&mut **sink as &mut dyn Any).downcast_mut())
    }

    /// Hands records to all, up to the first that fails.
    pub fn take(&mut self, records: Records) -> Result<(), ResultsError> {
        self.0.iter_mut().try_for_each(|sink| sink.take(records))
    }

    /// Ends all, and returns their entries, or the first error: one that cannot be written keeps none
    /// of the others from its end.
    pub fn end(
        &mut self,
        footer: &Footer,
        outcome: Option<&Outcome>,
    ) -> Result<Vec<(String, Value)>, ResultsError> {
        let ended: Vec<_> = self.0.iter_mut().map(|sink| sink.end(footer, outcome)).collect();
        ended.into_iter().filter_map(Result::transpose).collect()
    }
}
