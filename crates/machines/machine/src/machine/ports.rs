//! A machine's ports of networks. Steps of the machine: the devices own frames on the guest's side,
//! and `networks` those under way.

use super::common::Common;
use super::event_stream::BATCH;
use super::vm::Machine;
use crate::error::Error;

impl Machine {
    /// Sends what the guest has announced to its device `index`.
    pub(super) fn transmit(&mut self, common: &mut Common, index: usize) -> Result<(), Error> {
        let now = common.clock.now_ns();
        common.networks.transmit(&mut self.ports[index], &self.memory, now);
        common.stream.add_faults(common.networks.take_befallen());
        common.triggers.packets(common.networks.sent(), now);
        // A partition must not fill the memory where nothing else sends records.
        common.stream.flush_faults(BATCH)?;
        self.port_interrupts(common, index)
    }

    /// Takes the frames that have arrived, and the buffers of those that have left.
    pub(super) fn advance_ports(&mut self, common: &mut Common) -> Result<(), Error> {
        let now = common.clock.now_ns();
        for index in 0..self.ports.len() {
            let device = &mut self.ports[index];
            let has_sent = device.next_event().is_some_and(|at| at <= now);
            if has_sent {
                device.advance(&self.memory, now);
            }
            if common.networks.receive(device, &self.memory, now) || has_sent {
                self.port_interrupts(common, index)?;
            }
        }
        match common.networks.is_full() {
            true => common.flush_packets(),
            false => Ok(()),
        }
    }

    /// Throws away the frames for a machine that has ended.
    pub(super) fn discard_frames(&self, common: &mut Common) {
        let now = common.clock.now_ns();
        for device in &self.ports {
            common.networks.discard(device.place, now);
        }
    }

    fn port_interrupts(&mut self, common: &mut Common, index: usize) -> Result<(), Error> {
        let slot = self.slots.of_port(index);
        while let Some(vector) = self.ports[index].pop_interrupt() {
            let message = self.bus.function(slot).msix().and_then(|msix| msix.signal(vector));
            if let Some(message) = message {
                self.send(common, None, message)?;
            }
        }
        Ok(())
    }
}
