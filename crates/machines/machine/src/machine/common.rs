//! The state that the machines of a run have in common, and that each is handed for its turn. Each part
//! owns its own: the clock, the pace, the event stream, triggers, networks, figures, and what looks on.

use stasis_run_events::RunEvent;

use super::dependencies::Dependencies;
use super::event_stream::EventStream;
use super::networks::Networks;
use super::pace::Pace;
use super::sampling::view::View;
use super::triggers::Triggers;
use super::typing::Typing;
use super::watch::Watch;
use crate::error::Error;
use crate::freeze::Clock;
use crate::statistics::Statistics;

/// The common state.
pub(super) struct Common<'j> {
    pub(super) clock: Clock,
    pub(super) pace: Pace,
    /// Machines that are still preparing.
    pub(super) preparing: usize,
    pub(super) dependencies: Dependencies,
    pub(super) stream: EventStream<'j>,
    pub(super) triggers: Triggers,
    pub(super) networks: Networks,
    pub(super) statistics: Statistics,
    /// Recorder of the events inside the run, if they are recorded.
    pub(super) watch: Option<Box<Watch>>,
    /// The view into guests, while they are looked into.
    pub(super) view: View,
    /// Input of the terminal of a guest's command.
    pub(super) typing: Typing,
    /// True while something looks into guests from outside: a debugger, samples, snapshots.
    pub(super) is_observed: bool,
}

impl Common<'_> {
    /// Sends all that waits to be sent together.
    pub(super) fn flush_records(&mut self) -> Result<(), Error> {
        if let Some(watch) = &mut self.watch {
            let spans = watch.take();
            if !spans.is_empty() {
                self.stream.emit(RunEvent::Spans(spans))?;
            }
        }
        self.flush_packets()?;
        self.stream.flush_faults(1)?;
        self.stream.flush_ios()
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
            false => self.stream.emit(RunEvent::Packets(packets)),
        }
    }
}
