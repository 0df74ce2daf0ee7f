//! The way of a run's events to whoever watches it. Owns the sink, the machine of which it tells now,
//! and what goes there many at a time: records of I/Os, and faults that have happened.

use stasis_drive::Control;
use stasis_run_events::{EventSink, FaultRecord, IoRecord, RunEvent};

use crate::error::Error;

/// Records that go to the sink together.
pub(super) const BATCH: usize = 512;
/// Limit on the bytes that the I/Os of a batch move: a sink may want to know of it.
const BATCH_BYTES: u64 = 4 << 20;

/// The stream.
pub(super) struct EventStream<'j> {
    sink: &'j mut dyn EventSink,
    /// The machine whose events are emitted now, where there are several.
    from: Option<u16>,
    records: Vec<IoRecord>,
    recorded_bytes: u64,
    /// True if any drive has faults.
    drives_fail: bool,
    faults: Vec<FaultRecord>,
}

impl<'j> EventStream<'j> {
    /// Into `sink`, of one machine or of several; `drives_fail` if any drive has faults.
    pub(super) fn new(sink: &'j mut dyn EventSink, is_one: bool, drives_fail: bool) -> Self {
        Self {
            sink,
            from: (!is_one).then_some(0),
            records: Vec::with_capacity(BATCH),
            recorded_bytes: 0,
            drives_fail,
            faults: Vec::new(),
        }
    }

    /// The sink, for events that others make.
    pub(super) fn sink(&mut self) -> &mut dyn EventSink {
        self.sink
    }

    pub(super) fn emit(&mut self, event: RunEvent) -> Result<(), Error> {
        self.sink.event(event).map_err(Error::EventSink)
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

    /// Adds an I/O to those that wait.
    pub(super) fn record(&mut self, io: IoRecord) {
        self.recorded_bytes += io.bytes;
        self.records.push(io);
    }

    /// The I/Os that wait.
    pub(super) fn records(&self) -> &[IoRecord] {
        &self.records
    }

    /// Returns whether so many I/Os wait that they are to be sent.
    pub(super) fn is_full(&self) -> bool {
        self.records.len() >= BATCH || self.recorded_bytes >= BATCH_BYTES
    }

    /// Sends the I/Os that wait.
    pub(super) fn flush_ios(&mut self) -> Result<(), Error> {
        if self.records.is_empty() {
            return Ok(());
        }
        self.recorded_bytes = 0;
        let records = std::mem::replace(&mut self.records, Vec::with_capacity(BATCH));
        self.emit(RunEvent::Ios(records))
    }

    /// Drives have faults from now on.
    pub(super) fn drives_fail(&mut self) {
        self.drives_fail = true;
    }

    /// Adds the faults that have happened at drives, if any drive has some.
    pub(super) fn take_faults_of<'d>(&mut self, drives: impl Iterator<Item = &'d mut dyn Control>) {
        if self.drives_fail {
            drives.for_each(|drive| drive.take_faults(&mut self.faults));
        }
    }

    /// Adds faults that have happened.
    pub(super) fn add_faults(&mut self, faults: impl IntoIterator<Item = FaultRecord>) {
        self.faults.extend(faults);
    }

    /// Adds a fault of this number that has happened at `at` (ns), to no I/O.
    pub(super) fn add_fault(&mut self, fault: u16, at: u64) {
        self.faults.push(FaultRecord { fault, at, order: None, offset: 0, length: 0 });
    }

    /// Sends the faults, if they are at least so many.
    pub(super) fn flush_faults(&mut self, least: usize) -> Result<(), Error> {
        match self.faults.len() >= least {
            true => {
                let faults = std::mem::take(&mut self.faults);
                self.emit(RunEvent::Faults(faults))
            }
            false => Ok(()),
        }
    }
}
