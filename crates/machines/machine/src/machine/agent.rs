//! Messages of a guest's agent, and its page by which it asks for help.

use stasis_channel::application_hint;
use stasis_layout::{IntoBytes, U64};
use stasis_run_events::{FaultRecord, RunEvent};

use super::timeline::Timeline;
use super::vm::{After, Machine};
use crate::devices::AgentEvent;
use crate::error::Error;
use crate::exit::Exit;
use crate::vcpu::ProcessorState;

/// Place of the page's ring.
const RING: u64 = application_hint::RING_OFFSET as u64;

impl Machine {
    /// The agent rang the channel's doorbell, on processor `index`.
    pub(super) fn ring(
        &mut self,
        timeline: &mut Timeline,
        index: usize,
        (address, data): (u64, &[u8]),
    ) -> Result<After, Error> {
        if self.kept_boot.is_recorded() {
            let mut bytes = [0; 8];
            let length = data.len().min(bytes.len());
            bytes[..length].copy_from_slice(&data[..length]);
            self.keep_boot(&Exit::MmioWrite { address, data: (bytes, length) });
        }
        self.bus.show();
        timeline.flush_records()?;
        timeline.set_source(self.number)?;
        // The guest's message has a time.
        timeline.emit(RunEvent::Progress(timeline.clock.now_ns()))?;
        let others = timeline.preparing - usize::from(!self.prepared);
        let memory = &self.memory;
        let is_memory = |address: u64| {
            address.is_multiple_of(application_hint::PAGE as u64)
                && memory.read(address, &mut [0; application_hint::PAGE]).is_ok()
        };
        let (now, skipped) = (timeline.clock.now(), timeline.statistics.skipped);
        let works = self.is_at_a_drive();
        let typing = &mut timeline.typing;
        let typed = &mut || typing.take(now, skipped, works);
        let now_ns = timeline.clock.now_ns();
        let event =
            self.channel.doorbell(now_ns, timeline.events, others == 0, is_memory, typed)?;
        for (stream, bytes) in self.channel.take_heard() {
            timeline.triggers.output(self.number, stream, &bytes, now_ns);
        }
        Ok(match event {
            AgentEvent::Nothing => After::Continue,
            AgentEvent::Ready => {
                self.prepare(timeline);
                After::Continue
            }
            AgentEvent::HelpPage(address) => {
                self.help_page = Some(address);
                After::Continue
            }
            AgentEvent::Help(on) => {
                self.help(timeline, on);
                After::Continue
            }
            AgentEvent::WantsCommand => {
                // It stands still at that instruction until all guests are set up.
                self.wanting = Some(index);
                self.processors[index].state = ProcessorState::Paused;
                After::Agent(AgentEvent::WantsCommand)
            }
            AgentEvent::Asks(text) => {
                let answer = timeline.triggers.asked(&text, now_ns);
                self.channel.answer(answer.err().unwrap_or_default().as_bytes());
                After::Continue
            }
            AgentEvent::WantsOrders => {
                let orders = self.orders.take(now_ns);
                // Numbers and words: there is nothing that could not be written.
                self.channel.answer(&serde_json::to_vec(&orders).unwrap_or_default());
                After::Continue
            }
            AgentEvent::Callable(call) => {
                let callable = self.point(call).is_some();
                self.orders.be_callable(callable);
                After::Continue
            }
            AgentEvent::Ordered(fault) => {
                if self.orders.come(fault) {
                    timeline.faults.push(FaultRecord {
                        fault,
                        at: now_ns,
                        order: None,
                        offset: 0,
                        length: 0,
                    });
                }
                After::Continue
            }
            event => After::Agent(event),
        })
    }

    /// Looks into the page by which the guest asks for help.
    pub(super) fn read_help_page(&mut self, timeline: &mut Timeline) {
        let Some(address) = self.help_page else { return };
        let mut page = application_hint::Page::default();
        let read = self.memory.read(address, page.as_mut_bytes()).is_ok();
        let Some(on) = page.wants_help().filter(|_| read) else {
            // The guest has written something else than it announced: its help page is no longer
            // read.
            self.help_page = None;
            self.refused_help += 1;
            self.help(timeline, false);
            return;
        };
        self.help(timeline, on);
        self.read_urgent(address, page.count.get());
    }

    /// Passes on the requests that the guest's bfq has handed out for interactive queues since the
    /// last look, and that are on their way to one of the guest's drives.
    fn read_urgent(&mut self, page: u64, count: u32) {
        let mut ring = [U64::ZERO; application_hint::RING];
        if count == self.urgent || self.memory.read(page + RING, ring.as_mut_bytes()).is_err() {
            return;
        }
        let previous = std::mem::replace(&mut self.urgent, count);
        for drive in &mut self.drives {
            drive.urge(&mut application_hint::since(&ring, previous, count));
        }
    }

    fn help(&mut self, timeline: &mut Timeline, on: bool) {
        if self.wants_help == on {
            return;
        }
        self.wants_help = on;
        let now = timeline.clock.now_ns();
        self.drives.iter_mut().for_each(|drive| drive.help(now, on));
    }

    /// Its guest, which may have asked for help, is no more.
    pub(super) fn stop_helping(&mut self, timeline: &mut Timeline) {
        (self.help_page, self.urgent) = (None, 0);
        self.help(timeline, false);
    }

    /// Returns whether its guest is not set up yet, so that it is waited for.
    pub(super) fn is_setting_up(&self) -> bool {
        let ended = self.finished || self.ended.is_some();
        !self.commanded && self.wanting.is_none() && !ended
    }

    /// Gives its guest the command that it asks for, at `now` (ticks), if it does.
    pub(super) fn give_command(&mut self, now: u64) -> Result<(), Error> {
        let Some(index) = self.wanting.take() else { return Ok(()) };
        self.commanded = true;
        self.channel.give_command()?;
        let processor = &mut self.processors[index];
        processor.state = ProcessorState::Runnable;
        processor.time = processor.time.max(now);
        Ok(())
    }

    /// Its command begins as soon as all others' can.
    pub(super) fn prepare(&mut self, timeline: &mut Timeline) {
        timeline.preparing -= usize::from(!self.prepared);
        self.prepared = true;
    }
}
