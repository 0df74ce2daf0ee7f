//! The events of a job that is done several times over, as if it were done once.
//!
//! A debugger that goes back in time has the job repeated up to an earlier moment. All that the
//! repetition reports up to where the job has come before has been handed on already. Entries that
//! are about the same thing come in the same order each time; where the stream is cut into entries
//! may differ.

use std::collections::HashMap;
use std::io;

use stasis_run_events::{EventSink, RunEvent, Stage};

/// The subject of a part of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Output(u16),
    ErrorOutput(u16),
    Console(u16),
    Results(u16),
    Trace,
    DriveStates,
    Ios,
    Packets,
    Faults,
    Tracks,
    Spans,
    Samples,
    GuestIos,
    Waits,
    SampleNames,
}

/// A sink that hands on what it has not handed on before.
pub(crate) struct Repeats<'a> {
    events: &'a mut dyn EventSink,
    /// Number of entries of each part that have been handed on, and that have come this time.
    handed_on: HashMap<Part, usize>,
    came: HashMap<Part, usize>,
    stage: Option<Stage>,
    progress: u64,
    /// The machine whose entries come, and the one whose entries were handed on last.
    from: u16,
    told_from: u16,
}

impl<'a> Repeats<'a> {
    pub(crate) fn new(events: &'a mut dyn EventSink) -> Self {
        Self {
            events,
            handed_on: HashMap::new(),
            came: HashMap::new(),
            stage: None,
            progress: 0,
            from: 0,
            told_from: 0,
        }
    }

    /// The job begins once more.
    pub(crate) fn again(&mut self) {
        self.came.clear();
        self.from = 0;
    }

    /// Removes from `items` those that have been handed on.
    fn new_of<T>(&mut self, part: Part, mut items: Vec<T>) -> Vec<T> {
        let came = self.came.entry(part).or_default();
        let before = *came;
        *came += items.len();
        let handed_on = self.handed_on.entry(part).or_default();
        let known = handed_on.saturating_sub(before).min(items.len());
        *handed_on = (*handed_on).max(*came);
        items.drain(..known);
        items
    }

    /// Hands on those of `items` that are new.
    fn part<T>(
        &mut self,
        part: Part,
        items: Vec<T>,
        event: fn(Vec<T>) -> RunEvent,
    ) -> io::Result<()> {
        let is_empty = items.is_empty();
        let new = self.new_of(part, items);
        match new.is_empty() && !is_empty {
            true => Ok(()),
            false => self.events.event(event(new)),
        }
    }

    /// Like `part`, but for bytes of the machine whose entries come.
    fn of_machine(
        &mut self,
        part: fn(u16) -> Part,
        bytes: Vec<u8>,
        event: fn(Vec<u8>) -> RunEvent,
    ) -> io::Result<()> {
        let is_empty = bytes.is_empty();
        let new = self.new_of(part(self.from), bytes);
        if new.is_empty() && !is_empty {
            return Ok(());
        }
        if self.told_from != self.from {
            self.told_from = self.from;
            self.events.event(RunEvent::From(self.from))?;
        }
        self.events.event(event(new))
    }
}

impl EventSink for Repeats<'_> {
    fn event(&mut self, event: RunEvent) -> io::Result<()> {
        match event {
            RunEvent::From(machine) => {
                self.from = machine;
                Ok(())
            }
            RunEvent::Output(bytes) => self.of_machine(Part::Output, bytes, RunEvent::Output),
            RunEvent::ErrorOutput(bytes) => {
                self.of_machine(Part::ErrorOutput, bytes, RunEvent::ErrorOutput)
            }
            RunEvent::Console(bytes) => self.of_machine(Part::Console, bytes, RunEvent::Console),
            RunEvent::Results(bytes) => self.of_machine(Part::Results, bytes, RunEvent::Results),
            RunEvent::Trace(bytes) => self.part(Part::Trace, bytes, RunEvent::Trace),
            RunEvent::DriveStates(bytes) => {
                self.part(Part::DriveStates, bytes, RunEvent::DriveStates)
            }
            RunEvent::Ios(records) => self.part(Part::Ios, records, RunEvent::Ios),
            RunEvent::Packets(records) => self.part(Part::Packets, records, RunEvent::Packets),
            RunEvent::Faults(records) => self.part(Part::Faults, records, RunEvent::Faults),
            RunEvent::Tracks(tracks) => self.part(Part::Tracks, tracks, RunEvent::Tracks),
            RunEvent::Spans(spans) => self.part(Part::Spans, spans, RunEvent::Spans),
            RunEvent::Samples(samples) => self.part(Part::Samples, samples, RunEvent::Samples),
            RunEvent::SampleNames(names) => {
                self.part(Part::SampleNames, names, RunEvent::SampleNames)
            }
            RunEvent::GuestIos(ios) => self.part(Part::GuestIos, ios, RunEvent::GuestIos),
            RunEvent::Waits(waits) => self.part(Part::Waits, waits, RunEvent::Waits),
            RunEvent::Stage(stage) => {
                if self.stage.is_some_and(|last| stage <= last) {
                    return Ok(());
                }
                self.stage = Some(stage);
                self.events.event(RunEvent::Stage(stage))
            }
            RunEvent::Progress(now) => {
                if now < self.progress {
                    return Ok(());
                }
                self.progress = now;
                self.events.event(RunEvent::Progress(now))
            }
            // A run that goes back becomes no other.
            RunEvent::Changed(at) => self.events.event(RunEvent::Changed(at)),
            end @ (RunEvent::Outcome(_) | RunEvent::Failed(_)) => self.events.event(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stasis_run_events::{IoRecord, COLUMN_COUNT};

    type Output = HashMap<(u16, bool), Vec<u8>>;

    /// The contents of a stream to its reader: each machine's output, the drives' I/Os, stages.
    fn read(events: &[RunEvent]) -> (Output, Vec<u64>, Vec<Stage>) {
        let (mut from, mut output) = (0, Output::new());
        let (mut ios, mut stages) = (Vec::new(), Vec::new());
        for event in events {
            match event {
                RunEvent::From(machine) => from = *machine,
                RunEvent::Output(bytes) => output.entry((from, false)).or_default().extend(bytes),
                RunEvent::ErrorOutput(bytes) => {
                    output.entry((from, true)).or_default().extend(bytes);
                }
                RunEvent::Ios(records) => ios.extend(records.iter().map(|record| record.order)),
                RunEvent::Stage(stage) => stages.push(*stage),
                _ => {}
            }
        }
        (output, ios, stages)
    }

    #[derive(Debug, Clone)]
    enum One {
        Output(u16, bool, u8),
        Io(u64),
        Stage(Stage),
    }

    /// The things as events, where a cut of each flag ends an entry.
    fn events(things: &[One], cuts: &[bool]) -> Vec<RunEvent> {
        let (mut all, mut from) = (Vec::new(), 0);
        for (number, thing) in things.iter().enumerate() {
            let cut = cuts.get(number).copied().unwrap_or(true);
            match thing {
                &One::Output(machine, error, byte) => {
                    if machine != from {
                        from = machine;
                        all.push(RunEvent::From(machine));
                    }
                    match (all.last_mut(), error) {
                        (Some(RunEvent::Output(bytes)), false) if !cut => bytes.push(byte),
                        (Some(RunEvent::ErrorOutput(bytes)), true) if !cut => bytes.push(byte),
                        (_, false) => all.push(RunEvent::Output(vec![byte])),
                        (_, true) => all.push(RunEvent::ErrorOutput(vec![byte])),
                    }
                }
                &One::Io(order) => {
                    let zero = IoRecord::from_numbers(&[0; COLUMN_COUNT]).unwrap();
                    let io = IoRecord { order, ..zero };
                    match all.last_mut() {
                        Some(RunEvent::Ios(records)) if !cut => records.push(io),
                        _ => all.push(RunEvent::Ios(vec![io])),
                    }
                }
                One::Stage(stage) => all.push(RunEvent::Stage(*stage)),
            }
        }
        all
    }

    proptest! {
        /// However often a job begins anew, and wherever its entries are cut, a reader sees it once.
        #[test]
        fn a_repeated_job_is_told_once(
            things in prop::collection::vec(
                prop_oneof![
                    (0u16..3, any::<bool>(), any::<u8>())
                        .prop_map(|(machine, error, byte)| One::Output(machine, error, byte)),
                    (0u64..1000).prop_map(One::Io),
                ],
                0..60,
            ),
            tries in prop::collection::vec((0usize..60, prop::collection::vec(any::<bool>(), 60)), 0..5),
            cuts in prop::collection::vec(any::<bool>(), 60),
        ) {
            let mut things = things;
            things.insert(0, One::Stage(Stage::Booting));
            things.push(One::Stage(Stage::Collecting));
            let mut events_read = Vec::new();
            let mut repeats = Repeats::new(&mut events_read);
            for (length, cuts) in &tries {
                for event in events(&things[..things.len().min(*length)], cuts) {
                    repeats.event(event).unwrap();
                }
                repeats.again();
            }
            for event in events(&things, &cuts) {
                repeats.event(event).unwrap();
            }
            prop_assert_eq!(read(&events_read), read(&events(&things, &[])));
        }
    }
}
