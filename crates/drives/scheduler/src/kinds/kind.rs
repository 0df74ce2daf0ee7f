//! Parameters of any kind, and the registration of a kind.

use std::sync::Arc;

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value};
use stasis_config::{self as config, tagged, AnyParameters, Erased, ReadError, Tag};

use super::{Parameters, Problem};
use crate::Scheduler;

/// A kind of scheduler with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulerKind(Erased<dyn AnyScheduler>);

impl SchedulerKind {
    /// Reads these parameters.
    pub fn of(parameters: impl Parameters) -> Self {
        Self(Erased::new(Arc::new(parameters)))
    }

    /// Returns the kind's name in experiments.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// The parameters, if they are of type `P`.
    pub fn get<P: Parameters>(&self) -> Option<&P> {
        self.0.get()
    }

    /// Returns whether the parameters are within their ranges.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        self.0.check()
    }

    /// The keys and their values.
    pub(crate) fn table(&self) -> serde_json::Result<Map<String, Value>> {
        self.0.table()
    }

    /// The scheduler, with no queues.
    pub(crate) fn build(&self) -> Box<dyn Scheduler> {
        self.0.build()
    }
}

/// [`Parameters`] whose type is not known any more.
trait AnyScheduler: AnyParameters {
    fn name(&self) -> &'static str;
    fn check(&self) -> Result<(), Problem>;
    fn build(&self) -> Box<dyn Scheduler>;
}

impl<P: Parameters> AnyScheduler for P {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn check(&self) -> Result<(), Problem> {
        Parameters::check(self)
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Parameters::build(self)
    }
}

/// A kind that experiments can name.
#[derive(Debug, Clone, Copy)]
pub struct Registered {
    /// Its name.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    pub(crate) usual: fn() -> SchedulerKind,
    pub(crate) read: fn(Map<String, Value>) -> Result<SchedulerKind, ReadError>,
    pub(crate) schema: fn(&mut SchemaGenerator, &Tag, &Map<String, Value>) -> Schema,
}

impl Registered {
    /// The kind that has these parameters.
    pub const fn of<P: Parameters>() -> Self {
        Self {
            name: P::NAME,
            about: P::ABOUT,
            usual: || SchedulerKind::of(P::default()),
            read: |table| config::read::<P>(table.into()).map(SchedulerKind::of),
            schema: tagged::<P>,
        }
    }
}
