//! Translation layers: which operations of the array a host's command becomes.
//!
//! A new one is a file here that implements [`Ftl`], and a line in [`FTLS`].

pub(crate) mod context;
pub(crate) mod dftl;
mod hybrid;
pub mod page;
pub(crate) mod request;
mod shape;
mod zones;

use stasis_block::clock::Nanos;
use stasis_block::{Health, PowerLoss};
use stasis_nand::OpDone;
use std::fmt::Debug;

pub use self::context::{Context, Dropped, PowerCut};
use self::context::{PageRead, PageRun};
pub use self::request::{fate_of, Request, RequestId};
pub use self::shape::Shape;
use crate::kept::{KeptError, Reader, Writer};
use crate::spec::{Spec, SpecError};

/// Fill level of a translation layer's flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Bytes of the units that lie in flash, a map in flash included: what collections must keep.
    pub valid_bytes: u64,
    /// Bytes of the units that the blocks which were not given up have room for.
    pub usable_bytes: u64,
}

impl Occupancy {
    /// Counts the bytes of `valid` units, and of the `room` units that there is room for; `unit`:
    /// bytes of each.
    pub(crate) fn new(unit: u32, valid: u64, room: u64) -> Self {
        let unit = u64::from(unit);
        Self { valid_bytes: valid * unit, usable_bytes: room * unit }
    }
}

/// The blocks in SLC mode at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlcState {
    /// Number of blocks.
    pub blocks: u32,
    /// Bytes of the units that lie in them.
    pub valid_bytes: u64,
}

/// A translation layer: it makes the decisions, and the array models the time.
///
/// Every call has the time; times never decrease. A request is complete when
/// every piece of it is: a layer that makes a request wait calls [`Context::open`] for each piece
/// that the request waits for, and [`Context::finish`] when the piece is done. The drive itself
/// holds one piece during each call, so that a request that waits for nothing completes at once.
pub trait Ftl: Debug + Send {
    /// The host's request is on its way, and will be asked for by one of the calls below. A
    /// hint, which changes nothing: what the call will need can be brought into the
    /// processor's caches meanwhile.
    fn expect(&self, _request: &Request) {}

    /// The host wants the request's bytes (or, of a verify or copy, that they
    /// are read).
    fn read(&mut self, now: Nanos, request: &Request, context: &mut Context);

    /// The host writes the request's bytes.
    fn write(&mut self, now: Nanos, request: &Request, context: &mut Context);

    /// The host no longer needs the request's bytes.
    fn trim(&mut self, now: Nanos, request: &Request, context: &mut Context);

    /// Everything acknowledged so far becomes durable.
    fn flush(&mut self, now: Nanos, request: &Request, context: &mut Context);

    /// Everything written so far becomes durable before all later writes; no request waits for it.
    fn barrier(&mut self, now: Nanos, context: &mut Context);

    /// An operation that was submitted has ended.
    fn done(&mut self, now: Nanos, done: &OpDone, context: &mut Context);

    /// Returns the time at which it wants to be woken, whatever else happens.
    fn next_event(&self) -> Option<Nanos> {
        None
    }

    /// The time of [`Ftl::next_event`] has come.
    fn wake(&mut self, _now: Nanos, _context: &mut Context) {}

    /// Returns the time at which it would do what can wait until the drive is awake: while nothing
    /// is under way and nothing else is to come, nobody is woken for it, and it is made up for at
    /// the next command.
    fn next_visit(&self) -> Option<Nanos> {
        None
    }

    /// The time of [`Ftl::next_visit`] has come.
    fn visit(&mut self, _now: Nanos, _context: &mut Context) {}

    /// The power comes at `now`: visits go on from `next`, which [`Ftl::visits`] had, or from where
    /// they are.
    fn resume_visits(&mut self, _now: Nanos, _next: Option<u64>) {}

    /// The visits so far; none where there are none.
    fn visits(&self) -> Option<u64> {
        None
    }

    /// The host has its first command in flight, or has none any more.
    fn host_active(&mut self, _now: Nanos, _active: bool, _context: &mut Context) {}

    /// The power failed at `now`, and is back. Adds the losses to `cut`.
    fn power_cut(&mut self, now: Nanos, cut: &mut PowerCut<'_>, context: &mut Context);

    /// An upper bound of the loss at [`Ftl::power_cut`], for callers that must allow for it. The
    /// default is a volatile cache without a limit.
    fn power_loss(&self) -> PowerLoss {
        PowerLoss::default()
    }

    /// Puts the drive into this state at its start.
    fn precondition(&mut self, _state: crate::spec::Precondition, _context: &mut Context) {}

    /// The power is to be turned off: what waits in memory, however safe it is there, goes to the
    /// cells.
    fn shut_down(&mut self, _now: Nanos, _context: &mut Context) {}

    /// The power comes back after a shutdown, before which everything under way has ended: what was
    /// in memory only begins anew.
    fn power_on(&mut self) {}

    /// Writes the layer's state, once nothing is under way. Returns whether the layer can do so. A
    /// layer that can has [`Ftl::power_on`] and [`Ftl::restore`] as well.
    fn keep(&self, _out: &mut Writer) -> bool {
        false
    }

    /// Resumes the state that [`Ftl::keep`] wrote, in place of [`Ftl::precondition`].
    ///
    /// # Errors
    /// The state is damaged, or the layer keeps none.
    fn restore(&mut self, _from: &mut Reader, _context: &mut Context) -> Result<(), KeptError> {
        Err(KeptError::Form)
    }

    /// Draws by `seed` from now on. A layer that draws nothing while it works has nothing to do.
    fn reseed(&mut self, _seed: u64) {}

    /// Collects by the policy of `gc` from now on. Returns whether the layer can do so.
    fn set_policy(&mut self, _gc: &crate::spec::GcSpec) -> bool {
        false
    }

    /// Returns the place of the byte at `offset` in words ([`stasis_block::Model::entry`]).
    fn entry(&self, _offset: u64, _context: &Context) -> Option<String> {
        None
    }

    /// The contents of the write buffer, in words ([`stasis_block::Model::waiting`]).
    fn waiting(&self) -> Option<String> {
        None
    }

    /// The health of the SMART log.
    fn health(&self, context: &Context) -> Health;

    /// Number of free blocks; none where blocks are the host's.
    fn free_blocks(&self) -> Option<u64> {
        None
    }

    /// Returns the fill level of its flash; none where it does not know what is valid.
    fn occupancy(&self) -> Option<Occupancy> {
        None
    }

    /// Returns the present state of the SLC cache; None without such a cache.
    fn slc_cache(&self) -> Option<SlcState> {
        None
    }

    /// Figures for the results besides the common statistics.
    fn report(&self, _context: &Context) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Panics if its state is inconsistent; slow, for tests.
    fn check(&self) {}

    /// The page in which a unit lies, for tests.
    #[cfg(test)]
    fn page_of_unit(&self, _unit: u32) -> Option<stasis_nand::PageAddress> {
        None
    }
}

/// Builds a translation layer from a checked description.
pub type Build = fn(&Spec, capacity: u64, seed: u64) -> Result<Box<dyn Ftl>, SpecError>;

/// A translation layer that descriptions can name.
#[derive(Debug, Clone, Copy)]
pub struct Registered {
    /// Its name.
    pub name: &'static str,
    /// Its description, in a line.
    pub about: &'static str,
    /// Builds it.
    pub build: Build,
}

/// Every translation layer.
pub const FTLS: &[Registered] = &[
    Registered { name: "page", about: "each unit anywhere, all in memory", build: page::build },
    Registered { name: "dftl", about: "page mapping, the map in flash", build: dftl::build },
    Registered { name: "hybrid", about: "blocks, behind log blocks", build: hybrid::build },
    Registered { name: "zoned", about: "zones, written in order", build: zones::zoned },
    Registered { name: "ocssd", about: "no mapping: Open-Channel", build: zones::ocssd },
];

/// The translation layer of a checked description.
pub(crate) fn build(spec: &Spec, capacity: u64, seed: u64) -> Result<Box<dyn Ftl>, SpecError> {
    match FTLS.iter().find(|ftl| ftl.name == spec.ftl) {
        Some(ftl) => (ftl.build)(spec, capacity, seed),
        None => {
            let known: Vec<&str> = FTLS.iter().map(|ftl| ftl.name).collect();
            Err(SpecError::word("ftl", &spec.ftl, &known))
        }
    }
}

/// The layer of `docs/guides/ftl.md`, where the guide has it written.
#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
#[path = "../../tests/extending/direct.rs"]
mod direct;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_of_the_guide_is_registered_by_its_line() {
        let registered =
            Registered { name: "direct", about: "each unit in its place", build: direct::build };
        let guide = include_str!("../../../../../docs/guides/ftl.md");
        let line = format!("name: \"{}\", about: \"{}\"", registered.name, registered.about);
        assert!(guide.contains(&line), "{line}");
        let layer = (registered.build)(&Spec::default(), 1 << 30, 1).unwrap();
        assert!(layer.power_loss() == PowerLoss::default());
    }
}
