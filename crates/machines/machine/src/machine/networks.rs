//! Networks between the machines of a run: frames from a machine's device to its network, and from
//! a network to the machines.

use stasis_network::Network;
use stasis_run_events::{NetworkOutcome, PacketRecord, RunEvent};

use super::run::Run;
use super::timeline::Timeline;
use super::vm::Machine;
use crate::devices::{NetworkDevice, PortConfig};
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

    /// When the next frame arrives at a port, if one is under way (ns).
    pub(super) fn next_arrival(&self, place: PortConfig) -> Option<u64> {
        self.networks.get(place.network)?.network.next_event(place.port)
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

/// A record of a frame at a port.
fn packet(place: PortConfig) -> PacketRecord {
    PacketRecord {
        network: place.network as u16,
        port: place.port as u16,
        outgoing: false,
        at: 0,
        length: 0,
        bytes: Vec::new(),
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
    /// Throws away the frames for machines that have ended.
    pub(super) fn drop_frames(&mut self) {
        let now = self.timeline.clock.now_ns();
        for machine in self.machines.iter().filter(|machine| machine.finished) {
            for place in machine.ports.iter().map(|device| device.place) {
                let networks = &mut self.timeline.networks.networks;
                let Some(NetworkConfig { network, .. }) = networks.get_mut(place.network) else {
                    continue;
                };
                while let Some(delivery) = network.advance(place.port, now) {
                    network.missed(&delivery);
                }
            }
        }
    }
}

impl Machine {
    /// Takes the frames that have arrived for its device `index`; whether there were any.
    fn receive(&mut self, timeline: &mut Timeline, index: usize) -> bool {
        let now = timeline.clock.now_ns();
        let device = &mut self.ports[index];
        let place = device.place;
        let Networks { networks, packets, bytes } = &mut timeline.networks;
        let Some(NetworkConfig { network, capture }) = networks.get_mut(place.network) else {
            return false;
        };
        let mut received = false;
        while let Some(delivery) = network.advance(place.port, now) {
            received = true;
            if !device.receive(&self.memory, &delivery.frame) {
                network.missed(&delivery);
                continue;
            }
            network.arrived(&delivery, now);
            let packet = PacketRecord { outgoing: false, at: now, ..packet(place) };
            record(packets, bytes, *capture, packet, &delivery.frame);
        }
        received
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
            let packet = PacketRecord { outgoing: true, at, ..packet(place) };
            record(packets, bytes, *capture, packet, frame);
        });
        self.port_interrupts(timeline, index)
    }

    /// Takes the frames that have arrived, and the buffers of those that have left.
    pub(super) fn advance_ports(&mut self, timeline: &mut Timeline) -> Result<(), Error> {
        let now = timeline.clock.now_ns();
        for index in 0..self.ports.len() {
            let left = self.ports[index].next_event().is_some_and(|at| at <= now);
            if left {
                self.ports[index].advance(&self.memory, now);
            }
            if self.receive(timeline, index) || left {
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
