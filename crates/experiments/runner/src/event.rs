//! Events of a run, for an observer.

use std::cell::RefCell;
use std::io;

use stasis_block::clock::Nanos;
use stasis_results::SoFar;
use stasis_run_events::Stage;

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// Work before the machine is there, such as making the guest.
    Step {
        /// Name of the step.
        name: &'a str,
        /// Progress of all such steps, from 0 to 1, if it is known.
        fraction: Option<f64>,
    },
    /// Progress of work that is counted in items, such as power cuts.
    Counted {
        /// Name of the items.
        units: &'a str,
        /// Number of finished items.
        done: u64,
        /// Number of all items.
        total: u64,
    },
    /// The work before the machine is done.
    Prepared,
    /// The run reaches a stage.
    Stage(Stage),
    /// A lower bound of virtual time (ns).
    VirtualTime(Nanos),
    /// The run so far, of one with a [`crate::LivePage`].
    SoFar(&'a SoFar),
    /// Bytes that the command wrote to its standard output.
    Output(&'a [u8]),
    /// Bytes that the command wrote to its standard error.
    ErrorOutput(&'a [u8]),
    /// Bytes that the guest's kernel wrote to its console.
    Console(&'a [u8]),
    /// The machine has ended, and its results are being written.
    Ended,
    /// A warning for the user, which does not end the run.
    Warning(&'a str),
}

/// A receiver of a run's events.
pub trait Observer {
    /// Takes an event.
    ///
    /// # Errors
    /// End the run.
    fn event(&mut self, event: Event<'_>) -> io::Result<()>;
}

impl<F: FnMut(Event<'_>) -> io::Result<()>> Observer for F {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        self(event)
    }
}

/// The observer of a run, shared by parts of the run that report events in turn.
pub struct SharedObserver<'a>(RefCell<&'a mut dyn Observer>);

impl<'a> SharedObserver<'a> {
    /// Tells `observer`.
    pub fn new(observer: &'a mut dyn Observer) -> Self {
        Self(RefCell::new(observer))
    }

    /// Tells an event.
    pub fn event(&self, event: Event<'_>) -> io::Result<()> {
        // An observer does not run experiments in the middle of an event.
        self.0.borrow_mut().event(event)
    }

    /// Reports a step of the work before the machine exists.
    pub fn step(&self, name: &str, fraction: Option<f64>) -> io::Result<()> {
        self.event(Event::Step { name, fraction })
    }

    /// Reports a warning, which does not end the run.
    pub fn warning(&self, text: &str) -> io::Result<()> {
        self.event(Event::Warning(text))
    }
}
