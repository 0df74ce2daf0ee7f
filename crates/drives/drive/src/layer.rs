//! The interface common to a drive and every layer above one: it accepts commands and completes
//! them later.

use stasis_block::clock::Nanos;
use stasis_block::{Command, PowerLoss, Request, Status};

use crate::{Control, Done};

/// Properties of a drive for its user; a layer may change those of the drive below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// Its place in the experiment.
    pub index: u16,
    /// Its name in the experiment.
    pub name: String,
    /// Its size in bytes.
    pub capacity: u64,
    /// True if a discarded range reads as zeroes afterwards; otherwise a discard changes nothing.
    pub discard_zeroes: bool,
    /// Cost of a barrier (ns); `None` where it is not offered and ends with an error.
    pub barrier: Option<Nanos>,
    /// Acknowledged data that a power cut can take from the drive at the bottom.
    pub power_loss: PowerLoss,
}

/// A drive, or a layer on top of one, such as a disk image or a scheduler. A layer that changes
/// only a little of the one below is a [`Decorator`].
///
/// The caller submits commands in the order of time and calls
/// [`Layer::advance`] at (or after) each [`Layer::next_event`]. Target times do
/// not depend on how late that call is.
pub trait Layer {
    /// The drive's properties, which do not change while commands are in flight.
    fn properties(&self) -> &Properties;

    /// Takes a command at `now` (ns), which is not before any earlier call's.
    fn submit(&mut self, now: Nanos, request: Request);

    /// Returns the time (ns) at which to call [`Layer::advance`], as something next happens. May be
    /// in the past.
    fn next_event(&self) -> Option<Nanos>;

    /// Appends the commands that complete by `now` (ns), in the order of their
    /// target times.
    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>);

    /// Number of commands in flight.
    fn in_flight(&self) -> usize;

    /// Carries a command out at once, outside of time: before a run begins and
    /// after it has ended. Nothing may be in flight, but at a drive itself and a tap on it: there
    /// the command comes after everything that was submitted.
    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>);

    /// Returns the layer's management, beside the way of the data.
    fn control(&mut self) -> &mut dyn Control;
}

/// Puts a layer that `make` makes before a working one.
pub fn put_before(layer: &mut Box<dyn Layer>, make: impl FnOnce(Box<dyn Layer>) -> Box<dyn Layer>) {
    let properties = layer.properties().clone();
    let lower = std::mem::replace(layer, Box::new(Absent(properties)));
    *layer = make(lower);
}

/// Stands in the place of a layer while another is put before it.
struct Absent(Properties);

impl Layer for Absent {
    fn properties(&self) -> &Properties {
        &self.0
    }

    fn submit(&mut self, _: Nanos, _: Request) {}

    fn next_event(&self) -> Option<Nanos> {
        None
    }

    fn advance(&mut self, _: Nanos, _: &mut Vec<Done>) {}

    fn in_flight(&self) -> usize {
        0
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        (command.operation.failure(), data)
    }

    fn control(&mut self) -> &mut dyn Control {
        self
    }
}

impl Control for Absent {
    fn lower(&mut self) -> Option<&mut dyn Control> {
        None
    }
}

/// A layer that changes a little of the one below, to which it forwards every method that it does
/// not define itself. So no part of a layer gets lost on the way through one that only observes or
/// disturbs.
#[allow(missing_docs)] // each method is that of `Layer`
pub trait Decorator {
    /// The layer below.
    fn lower(&self) -> &dyn Layer;

    /// The layer below, to be changed.
    fn lower_mut(&mut self) -> &mut dyn Layer;

    fn properties(&self) -> &Properties {
        self.lower().properties()
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        self.lower_mut().submit(now, request);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.lower().next_event()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.lower_mut().advance(now, done);
    }

    fn in_flight(&self) -> usize {
        self.lower().in_flight()
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        self.lower_mut().instant(command, data)
    }

    fn control(&mut self) -> &mut dyn Control {
        self.lower_mut().control()
    }
}

impl<D: Decorator> Layer for D {
    fn properties(&self) -> &Properties {
        Decorator::properties(self)
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        Decorator::submit(self, now, request);
    }

    fn next_event(&self) -> Option<Nanos> {
        Decorator::next_event(self)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        Decorator::advance(self, now, done);
    }

    fn in_flight(&self) -> usize {
        Decorator::in_flight(self)
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        Decorator::instant(self, command, data)
    }

    fn control(&mut self) -> &mut dyn Control {
        Decorator::control(self)
    }
}
