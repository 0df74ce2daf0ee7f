//! State that all machines of a run share: the clock, the host's processor, the event stream.

use stasis_run_events::{EventSink, FaultRecord, IoRecord, RunEvent};

use super::guest_io::GuestIos;
use super::networks::Networks;
use super::sampling::stacks::Stacks;
use super::triggers::Triggers;
use super::typing::Typing;
use super::watch::Watch;
use crate::error::Error;
use crate::freeze::Clock;
use crate::statistics::Statistics;

/// I/O records that go to the event stream together.
pub(super) const BATCH: usize = 512;
/// Limit on the bytes that the I/Os of a batch move: an event stream may want to know of it.
pub(super) const BATCH_BYTES: u64 = 4 << 20;

/// The timeline.
pub(super) struct Timeline<'j> {
    pub(super) clock: Clock,
    /// Distance that a processor may be from the others (ticks).
    pub(super) quantum: u64,
    /// Distance by which machines may be ahead of each other, where they share nothing but networks
    /// (ticks): the shortest time that a frame needs.
    pub(super) lookahead: Option<u64>,
    /// By how much a slice can end late (ticks).
    pub(super) lateness: u64,
    /// Machines that are still preparing.
    pub(super) preparing: usize,
    pub(super) events: &'j mut dyn EventSink,
    /// The machine whose events are emitted now, where there are several.
    pub(super) from: Option<u16>,
    pub(super) records: Vec<IoRecord>,
    pub(super) recorded_bytes: u64,
    /// True if any drive has faults.
    pub(super) has_faults: bool,
    /// Faults that have happened and are not emitted yet.
    pub(super) faults: Vec<FaultRecord>,
    pub(super) triggers: Triggers,
    pub(super) networks: Networks,
    pub(super) statistics: Statistics,
    /// Recorder of the events inside the run, if they are recorded.
    pub(super) watch: Option<Box<Watch>>,
    /// The time of I/Os in the guest, if it is kept.
    pub(super) guest_ios: Option<Box<GuestIos>>,
    /// Finds and names the frames of stacks, while they are asked for.
    pub(super) stacks: Option<Box<Stacks>>,
    /// Input of the terminal of a guest's command.
    pub(super) typing: Typing,
    /// True while something looks into guests from outside: a debugger, samples, snapshots.
    pub(super) is_observed: bool,
}

impl Timeline<'_> {
    /// Sends the names that frames of later events have.
    pub(super) fn emit_names(&mut self) -> Result<(), Error> {
        let names = self.stacks.as_mut().map(|stacks| stacks.take_names()).unwrap_or_default();
        match names.is_empty() {
            true => Ok(()),
            false => self.emit(RunEvent::SampleNames(names)),
        }
    }

    pub(super) fn flush_records(&mut self) -> Result<(), Error> {
        if let Some(watch) = &mut self.watch {
            let spans = watch.take();
            if !spans.is_empty() {
                self.emit(RunEvent::Spans(spans))?;
            }
        }
        self.flush_packets()?;
        self.flush_faults(1)?;
        if self.records.is_empty() {
            return Ok(());
        }
        self.recorded_bytes = 0;
        let records = std::mem::replace(&mut self.records, Vec::with_capacity(BATCH));
        self.emit(RunEvent::Ios(records))
    }

    /// Sends the faults to the event stream, if they are at least so many.
    pub(super) fn flush_faults(&mut self, least: usize) -> Result<(), Error> {
        match self.faults.len() >= least {
            true => {
                let faults = std::mem::take(&mut self.faults);
                self.emit(RunEvent::Faults(faults))
            }
            false => Ok(()),
        }
    }

    /// Returns the time at which frames cross to and from outside next (ticks), if a network leads
    /// there.
    pub(super) fn next_crossing(&self) -> Option<u64> {
        Some(self.clock.scale().to_ticks(self.networks.next_crossing()?))
    }

    /// Sends the recorded packets to the event stream.
    pub(super) fn flush_packets(&mut self) -> Result<(), Error> {
        let packets = self.networks.take_packets();
        match packets.is_empty() {
            true => Ok(()),
            false => self.emit(RunEvent::Packets(packets)),
        }
    }

    pub(super) fn emit(&mut self, event: RunEvent) -> Result<(), Error> {
        self.events.event(event).map_err(Error::EventSink)
    }

    /// Emits the machine whose events follow, unless it is the present one.
    pub(super) fn set_source(&mut self, machine: u16) -> Result<(), Error> {
        if self.from.is_some_and(|from| from != machine) {
            self.from = Some(machine);
            self.emit(RunEvent::From(machine))?;
        }
        Ok(())
    }

    pub(super) fn emit_from(&mut self, machine: u16, event: RunEvent) -> Result<(), Error> {
        self.set_source(machine)?;
        self.emit(event)
    }
}
