//! A machine's ports of networks.

use super::timeline::{Timeline, BATCH};
use super::vm::Machine;
use crate::devices::NetworkDevice;
use crate::error::Error;

impl Machine {
    /// Sends what the guest has announced to its device `index`.
    pub(super) fn transmit(&mut self, timeline: &mut Timeline, index: usize) -> Result<(), Error> {
        let now = timeline.clock.now_ns();
        timeline.networks.transmit(&mut self.ports[index], &self.memory, now);
        timeline.faults.extend(timeline.networks.take_befallen());
        timeline.triggers.packets(timeline.networks.sent(), now);
        // A partition must not fill the memory where nothing else sends records.
        timeline.flush_faults(BATCH)?;
        self.port_interrupts(timeline, index)
    }

    /// Takes the frames that have arrived, and the buffers of those that have left.
    pub(super) fn advance_ports(&mut self, timeline: &mut Timeline) -> Result<(), Error> {
        let now = timeline.clock.now_ns();
        for index in 0..self.ports.len() {
            let device = &mut self.ports[index];
            let has_sent = device.next_event().is_some_and(|at| at <= now);
            if has_sent {
                device.advance(&self.memory, now);
            }
            if timeline.networks.receive(device, &self.memory, now) || has_sent {
                self.port_interrupts(timeline, index)?;
            }
        }
        match timeline.networks.is_full() {
            true => timeline.flush_packets(),
            false => Ok(()),
        }
    }

    /// The next event of its ports (ns).
    pub(super) fn next_port_event(&self, timeline: &Timeline) -> Option<u64> {
        let next = |device: &NetworkDevice| {
            let arrival = timeline.networks.next_arrival(device.place);
            device.next_event().into_iter().chain(arrival).min()
        };
        self.ports.iter().filter_map(next).min()
    }

    /// Throws away the frames for a machine that has ended.
    pub(super) fn discard_frames(&self, timeline: &mut Timeline) {
        let now = timeline.clock.now_ns();
        for device in &self.ports {
            timeline.networks.discard(device.place, now);
        }
    }

    fn port_interrupts(&mut self, timeline: &mut Timeline, index: usize) -> Result<(), Error> {
        let slot = self.slots.of_port(index);
        while let Some(vector) = self.ports[index].pop_interrupt() {
            let message = self.bus.function(slot).msix().and_then(|msix| msix.signal(vector));
            if let Some(message) = message {
                self.send(timeline, None, message)?;
            }
        }
        Ok(())
    }
}
