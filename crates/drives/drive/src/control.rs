//! The management of a layer, beside the way of the data.

use std::any::Any;
use std::time::Duration;

use stasis_block::clock::Nanos;
use stasis_block::inside::Inside;
use stasis_block::medium::MediumError;
use stasis_block::timeline::{Spans, Tracks};
use stasis_block::{BlockLayout, Health, VendorCommand, VendorError};
use stasis_models::Model;
use stasis_run_events::FaultRecord;

use crate::{FaultChange, InFlight, Sampling, WritePointers};

/// A part of a drive that a person looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Place of the byte at this offset.
    Entry(u64),
    /// The contents of the write cache or buffer.
    Cache,
    /// The loss that a power cut at this instant can cause.
    PowerCut,
}

/// Health, a vendor's commands, and reports of internal activity. Every method is by default that
/// of the layer below; below a drive there is nothing to ask.
pub trait Control {
    /// Returns the control of the layer below; `None` of a drive.
    fn lower(&mut self) -> Option<&mut dyn Control>;

    /// Content of the drive's SMART log.
    fn health(&mut self) -> Health {
        self.lower().map(Control::health).unwrap_or_default()
    }

    /// The health of each part with flash of its own ([`Model::parts_health`]).
    fn parts_health(&mut self) -> Vec<Health> {
        self.lower().map(Control::parts_health).unwrap_or_default()
    }

    /// Carries out a vendor's admin command at `now` (ns).
    ///
    /// # Errors
    /// [`VendorError`] if the drive does not support it, or it is not possible.
    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        self.lower().map_or(Err(VendorError::Opcode), |lower| lower.vendor(now, command))
    }

    /// Begins the measurement at `now` (ns): [`Control::inside`] counts from here on.
    fn start(&mut self, now: Nanos) {
        if let Some(lower) = self.lower() {
            lower.start(now);
        }
    }

    /// Internal activity from [`Control::start`] until `now` (ns).
    fn inside(&mut self, now: Nanos) -> Option<Inside> {
        self.lower()?.inside(now)
    }

    /// The commands in flight at the drive, in the order of their submission.
    fn commands(&mut self) -> Vec<InFlight> {
        self.lower().map(Control::commands).unwrap_or_default()
    }

    /// Returns a human-readable description of the part `at` of the drive at `now` (ns). None where
    /// nothing is known of the part.
    fn look(&mut self, now: Nanos, at: Look) -> Option<String> {
        self.lower()?.look(now, at)
    }

    /// Keeps spans of internal activity from now on for [`Control::take_spans`], and announces
    /// their tracks. The results of the layer do not change.
    fn watch(&mut self, tracks: &mut Tracks) {
        if let Some(lower) = self.lower() {
            lower.watch(tracks);
        }
    }

    /// Hands over the spans, of each track in the order of time. Called now and then: a bounded
    /// number waits, and the rest is counted.
    fn take_spans(&mut self, spans: &mut Spans) {
        if let Some(lower) = self.lower() {
            lower.take_spans(spans);
        }
    }

    /// Hands over the faults that have happened since the last call, in the order of time.
    fn take_faults(&mut self, faults: &mut Vec<FaultRecord>) {
        if let Some(lower) = self.lower() {
            lower.take_faults(faults);
        }
    }

    /// The drive draws by `seed` from now on ([`Model::reseed`]).
    fn reseed(&mut self, seed: u64) {
        if let Some(lower) = self.lower() {
            lower.reseed(seed);
        }
    }

    /// Has the drive's model take over the values that can change from `parameters` at `now` (ns).
    /// Returns whether the model can do so ([`Model::adapt`]).
    fn adapt(&mut self, now: Nanos, parameters: &dyn Any) -> bool {
        self.lower().is_some_and(|lower| lower.adapt(now, parameters))
    }

    /// Replaces the drive's model by `model` for commands submitted from `now` (ns) on; commands in
    /// flight end as they would have. Returns whether there is a drive.
    fn set_model(&mut self, now: Nanos, model: Box<dyn Model>) -> bool {
        self.lower().is_some_and(|lower| lower.set_model(now, model))
    }

    /// Replaces the faults of the drive.
    ///
    /// # Errors
    /// Gives them back where no layer brings faults about.
    fn set_faults(&mut self, change: FaultChange) -> Result<(), FaultChange> {
        match self.lower() {
            Some(lower) => lower.set_faults(change),
            None => Err(change),
        }
    }

    /// Fault `number` of the experiment begins at `now` (ns), if it is one of this drive that waits
    /// for that.
    fn begin_fault(&mut self, number: u16, now: Nanos) {
        if let Some(lower) = self.lower() {
            lower.begin_fault(number, now);
        }
    }

    /// Fault `number` of the experiment ends at `now` (ns) and does not come again; commands that it
    /// holds up are let go. Sectors that have rotted stay so. Returns how often it has happened; `None`
    /// if the drive has no such fault.
    fn end_fault(&mut self, number: u16, now: Nanos) -> Option<u64> {
        self.lower()?.end_fault(number, now)
    }

    /// The drive's power is cut at `now` (ns): what it holds from now on is one of the states that a
    /// power cut can leave, chosen by `sampling`, and its model has lost what a power cut destroys
    /// ([`stasis_models::Model::cut_power`]). Commands in flight end as any, and their ends mean
    /// nothing. Returns where the zones of a drive with zones end from now on. A drive that was not
    /// made for it ([`crate::PowerCuts`]) loses none of its bytes, and returns nothing.
    fn cut_power(&mut self, now: Nanos, sampling: Sampling) -> Option<WritePointers> {
        self.lower()?.cut_power(now, sampling)
    }

    /// The logical blocks by which the host now addresses the drive lie so: a power cut tears none.
    /// They change with formats.
    fn set_layout(&mut self, layout: &BlockLayout) {
        if let Some(lower) = self.lower() {
            lower.set_layout(layout);
        }
    }

    /// The power is turned off at `now` (ns), in good order: returns the state of the drive's model,
    /// if that is to be kept ([`stasis_models::Model::shut_down`]). Nothing is asked of the drive
    /// afterwards.
    fn shut_down(&mut self, now: Nanos) -> Option<String> {
        self.lower()?.shut_down(now)
    }

    /// The real time that the medium has kept the guest waiting.
    fn frozen(&mut self) -> Duration {
        self.lower().map(Control::frozen).unwrap_or_default()
    }

    /// The first error of the medium since the last call: the guest sees only a status.
    fn take_error(&mut self) -> Option<MediumError> {
        self.lower()?.take_error()
    }
}
