//! Messages of a guest's agent: what each asks of the part of the machine that owns the answer.

use stasis_block::clock::Nanos;
use stasis_channel::application_hint;
use stasis_run_events::RunEvent;

use super::common::Common;
use super::vm::{After, Machine};
use crate::devices::AgentEvent;
use crate::error::Error;
use crate::exit::Exit;
use crate::vcpu::ProcessorState;

impl Machine {
    /// The agent rang the channel's doorbell, on processor `index`.
    pub(super) fn ring(
        &mut self,
        common: &mut Common,
        index: usize,
        (address, data): (u64, &[u8]),
    ) -> Result<After, Error> {
        if self.kept_boot.is_recorded() {
            let mut bytes = [0; 8];
            let length = data.len().min(bytes.len());
            bytes[..length].copy_from_slice(&data[..length]);
            self.keep_boot(&Exit::MmioWrite { address, data: (bytes, length) });
            if self.kept_boot.ends_at_greeting() {
                return Ok(After::Greeted);
            }
        }
        self.bus.show();
        common.flush_records()?;
        common.stream.set_source(self.number)?;
        // The guest's message has a time.
        common.stream.emit(RunEvent::Progress(common.clock.now_ns()))?;
        let memory = &self.memory;
        let is_memory = |address: u64| {
            address.is_multiple_of(application_hint::PAGE as u64)
                && memory.read(address, &mut [0; application_hint::PAGE]).is_ok()
        };
        let (now, skipped) = (common.clock.now(), common.statistics.skipped);
        let works = self.is_at_a_drive();
        let typing = &mut common.typing;
        let typed = &mut || typing.take(now, skipped, works);
        let now_ns = common.clock.now_ns();
        let event = self.channel.doorbell(now_ns, common.stream.sink(), is_memory, typed)?;
        for (stream, bytes) in self.channel.take_heard() {
            common.triggers.output(self.number, stream, &bytes, now_ns);
        }
        Ok(match event {
            AgentEvent::Nothing => After::Continue,
            AgentEvent::Ready => {
                let others = common.preparing - usize::from(!self.progress.is_prepared());
                self.prepare(common);
                let start = match others {
                    0 => common.dependencies.are_met(usize::from(self.number), now_ns),
                    _ => Ok(false),
                };
                self.channel.start(start);
                After::Continue
            }
            AgentEvent::Health(healthy) => {
                common.dependencies.health(usize::from(self.number), healthy, now_ns);
                After::Continue
            }
            AgentEvent::HelpPage(address) => {
                self.help.begin(address);
                After::Continue
            }
            AgentEvent::Help(on) => {
                self.help.want(&mut self.drives, now_ns, on);
                After::Continue
            }
            AgentEvent::WantsCommand => {
                // It stands still at that instruction until all guests are set up.
                self.progress.want_command(index);
                self.processors[index].state = ProcessorState::Paused;
                After::Agent(AgentEvent::WantsCommand)
            }
            AgentEvent::Asks(text) => {
                let answer = common.triggers.asked(&text, now_ns);
                self.channel.answer(answer.err().unwrap_or_default().as_bytes());
                After::Continue
            }
            AgentEvent::WantsOrders => {
                let orders = self.faults.orders.take(now_ns);
                // Numbers and words: there is nothing that could not be written.
                self.channel.answer(&serde_json::to_vec(&orders).unwrap_or_default());
                After::Continue
            }
            AgentEvent::Callable(call) => {
                let callable = self.point(call).is_some();
                self.faults.orders.be_callable(callable);
                After::Continue
            }
            AgentEvent::Ordered(fault) => {
                if self.faults.orders.come(fault) {
                    common.stream.add_fault(fault, now_ns);
                }
                After::Continue
            }
            event => After::Agent(event),
        })
    }

    /// Looks into the page by which the guest asks for help, at `now` (ns).
    pub(super) fn look_at_help(&mut self, now: Nanos) {
        self.help.look(&self.memory, &mut self.drives, now);
    }

    /// Gives its guest the command that it asks for, at `now` (ticks), if it does.
    pub(super) fn give_command(&mut self, now: u64) -> Result<(), Error> {
        let Some(index) = self.progress.take_command() else { return Ok(()) };
        self.channel.give_command()?;
        let processor = &mut self.processors[index];
        processor.state = ProcessorState::Runnable;
        processor.time = processor.time.max(now);
        Ok(())
    }

    /// Marks the machine as ready: its command begins as soon as those of all machines can.
    pub(super) fn prepare(&mut self, common: &mut Common) {
        common.preparing -= usize::from(self.progress.prepare());
    }
}
