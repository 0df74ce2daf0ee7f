//! What a run tells while it goes on.

use std::cell::RefCell;
use std::io;

use stasis_clock::Nanos;
use stasis_run_events::Stage;

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// Work before the machine is there, such as making the guest.
    Step {
        /// What is done.
        what: &'a str,
        /// How far all such steps are, from 0 to 1, where that is known.
        fraction: Option<f64>,
    },
    /// How many of some things are done, such as power cuts.
    Counted {
        /// What they are.
        what: &'a str,
        /// How many are done.
        done: u64,
        /// How many there are.
        total: u64,
    },
    /// The work before the machine is done.
    Prepared,
    /// The run reaches a stage.
    Stage(Stage),
    /// Virtual time is at least so far (ns).
    VirtualTime(Nanos),
    /// What the command wrote to its standard output.
    Output(&'a [u8]),
    /// What the command wrote to its standard error.
    ErrorOutput(&'a [u8]),
    /// What the guest's kernel wrote to its console.
    Console(&'a [u8]),
    /// The machine has ended, and its results are being written.
    Ended,
    /// Something that the user should know, which does not end the run.
    Warning(&'a str),
}

/// Who hears of a run.
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

/// The observer of a run, for those parts of it that tell events in turn.
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

    /// Tells a step of the work before the machine is there.
    pub fn step(&self, what: &str, fraction: Option<f64>) -> io::Result<()> {
        self.event(Event::Step { what, fraction })
    }

    /// Tells what does not end the run.
    pub fn warning(&self, text: &str) -> io::Result<()> {
        self.event(Event::Warning(text))
    }
}
