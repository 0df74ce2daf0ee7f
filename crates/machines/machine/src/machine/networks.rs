//! Networks between the machines of a run: frames from a machine's device to its network, and from
//! a network to the machines.

use stasis_network::{Delivery, Network};
use stasis_run_events::{NetworkOutcome, PacketRecord, RunEvent};

use super::run::Run;
use super::timeline::Timeline;
use super::vm::Machine;
use crate::error::Error;
use crate::layout::FIRST_DRIVE_SLOT;

/// Limit on the bytes of packets that go to the event stream together.
const BATCH_BYTES: usize = 256 << 10;

/// A network of a run.
pub struct NetworkConfig {
    /// The network.
    pub network: Network,
    /// Limit on the recorded bytes of each frame; 0: no frame is recorded.
    pub capture: usize,
}

/// The networks of a run, and what has passed over them.
pub(super) struct Networks {
    networks: Vec<NetworkConfig>,
    packets: Vec<PacketRecord>,
    bytes: usize,
}

impl Networks {
    pub(super) fn new(networks: Vec<NetworkConfig>) -> Self {
        Self { networks, packets: Vec::new(), bytes: 0 }
    }

    /// How far machines may be ahead of each other (ns), if they have networks.
    pub(super) fn lookahead(&self) -> Option<u64> {
        self.networks.iter().map(|config| config.network.lookahead()).min()
    }

    /// The next event of any network (ns).
    pub(super) fn next_event(&self) -> Option<u64> {
        self.networks.iter().filter_map(|config| config.network.next_event()).min()
    }

    /// The figures so far.
    pub(super) fn outcome(&self) -> Vec<NetworkOutcome> {
        self.networks.iter().map(|config| config.network.outcome()).collect()
    }

    /// Whether the recorded packets are enough for an event.
    fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES
    }
}

/// Records a frame, as far as `capture` allows.
fn record(
    packets: &mut Vec<PacketRecord>,
    bytes: &mut usize,
    capture: usize,
    packet: PacketRecord,
    frame: &[u8],
) {
    if capture > 0 {
        let kept = &frame[..frame.len().min(capture)];
        let packet = PacketRecord { length: frame.len() as u32, bytes: kept.to_vec(), ..packet };
        *bytes += packet.encoded();
        packets.push(packet);
    }
}

impl Timeline<'_> {
    /// Sends the recorded packets to the event stream.
    pub(super) fn flush_packets(&mut self) -> Result<(), Error> {
        if self.networks.packets.is_empty() {
            return Ok(());
        }
        self.networks.bytes = 0;
        let packets = std::mem::take(&mut self.networks.packets);
        self.emit(RunEvent::Packets(packets))
    }
}

impl Run<'_> {
    /// Gives the machines the frames that have arrived by now.
    pub(super) fn receive(&mut self) -> Result<(), Error> {
        let now = self.timeline.clock.now_ns();
        for index in 0..self.timeline.networks.networks.len() {
            while let Some(delivery) = self.timeline.networks.networks[index].network.advance(now) {
                let place = self.ports[index].get(delivery.to).copied();
                let (number, device) = place.ok_or(Error::Internal("a frame for no port"))?;
                self.machines[number].receive(&mut self.timeline, device, index, &delivery)?;
            }
        }
        if self.timeline.networks.is_full() {
            self.timeline.flush_packets()?;
        }
        Ok(())
    }
}

impl Machine {
    /// Takes a frame of network `network` in its device `index`.
    fn receive(
        &mut self,
        timeline: &mut Timeline,
        index: usize,
        network: usize,
        delivery: &Delivery,
    ) -> Result<(), Error> {
        let now = timeline.clock.now_ns();
        let networks = &mut timeline.networks;
        let on = &mut networks.networks[network];
        if self.finished || !self.ports[index].receive(&self.memory, &delivery.frame) {
            on.network.missed(delivery);
            return Ok(());
        }
        on.network.arrived(delivery, now);
        let packet = PacketRecord {
            network: network as u16,
            port: delivery.to as u16,
            outgoing: false,
            at: now,
            length: 0,
            bytes: Vec::new(),
        };
        let Networks { packets, bytes, .. } = networks;
        record(packets, bytes, on.capture, packet, &delivery.frame);
        self.port_interrupts(timeline, index)
    }

    /// Sends what the guest has announced to its device `index`.
    pub(super) fn transmit(&mut self, timeline: &mut Timeline, index: usize) -> Result<(), Error> {
        let now = timeline.clock.now_ns();
        let device = &mut self.ports[index];
        let place = device.place;
        let Networks { networks, packets, bytes } = &mut timeline.networks;
        let Some(NetworkConfig { network, capture }) = networks.get_mut(place.network) else {
            return Ok(());
        };
        device.send(&self.memory, network, now, |at, frame| {
            let packet = PacketRecord {
                network: place.network as u16,
                port: place.port as u16,
                outgoing: true,
                at,
                length: 0,
                bytes: Vec::new(),
            };
            record(packets, bytes, *capture, packet, frame);
        });
        self.port_interrupts(timeline, index)
    }

    /// Gives back the buffers of frames that have left its devices.
    pub(super) fn advance_ports(&mut self, timeline: &mut Timeline) -> Result<(), Error> {
        let now = timeline.clock.now_ns();
        for index in 0..self.ports.len() {
            if self.ports[index].next_event().is_some_and(|at| at <= now) {
                self.ports[index].advance(&self.memory, now);
                self.port_interrupts(timeline, index)?;
            }
        }
        Ok(())
    }

    pub(super) fn port_interrupts(
        &mut self,
        timeline: &mut Timeline,
        index: usize,
    ) -> Result<(), Error> {
        let slot = FIRST_DRIVE_SLOT + self.drives.len() + index;
        while let Some(vector) = self.ports[index].pop_interrupt() {
            let message = self.bus.function(slot).msix().and_then(|msix| msix.signal(vector));
            if let Some(message) = message {
                self.send(timeline, None, message)?;
            }
        }
        Ok(())
    }
}
