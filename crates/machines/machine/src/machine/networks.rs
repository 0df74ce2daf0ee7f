//! Networks between the machines of a run: frames from a machine's device to its network, and from
//! a network to the devices. Owns the networks, the way outside, and packets that were not sent to the
//! event stream.

use std::io;

use stasis_block::clock::Nanos;
use stasis_network::{Frames, Network, NetworkFault, Outside};
use stasis_run_events::{FaultRecord, NetworkOutcome, PacketRecord};

use crate::devices::{NetworkDevice, PortConfig};
use crate::memory::GuestMemory;

/// Limit on the bytes of a frame from outside, which has passed a wire of a transfer unit of at most
/// 9216.
const MAX_FRAME: usize = 16 << 10;
/// Limit on the bytes of packets that go to the event stream together.
const BATCH_BYTES: usize = 256 << 10;

/// Interval in which frames cross to and from the world outside (ns of virtual time).
const CROSSING: Nanos = 1_000_000;

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
    /// The world outside, if a network leads there.
    outside: Option<Box<dyn Outside>>,
    /// Times at which frames cross next (ns), and at which the last that came did.
    crossing: Nanos,
    came: Option<Nanos>,
}

impl Networks {
    pub(super) fn new(networks: Vec<NetworkConfig>, outside: Option<Box<dyn Outside>>) -> Self {
        Self { networks, packets: Vec::new(), bytes: 0, outside, crossing: 0, came: None }
    }

    /// Returns the time at which frames cross to and from outside next (ns), if a network leads
    /// there.
    pub(super) fn next_crossing(&self) -> Option<Nanos> {
        self.outside.as_ref().map(|_| self.crossing)
    }

    /// Lets frames cross to and from outside at `now` (ns), and waits at most `limit` of the wall
    /// clock (ns) for some. Returns whether any have come.
    pub(super) fn cross(&mut self, now: Nanos, limit: u64) -> io::Result<bool> {
        let Self { networks, packets, bytes, outside, .. } = self;
        let Some(outside) = outside else { return Ok(false) };
        // Frames that have come must get on before others do.
        let limit = if self.came == Some(now) { 0 } else { limit };
        let mut leaving = Frames::default();
        for (number, NetworkConfig { network, capture }) in networks.iter_mut().enumerate() {
            for port in network.outside() {
                while leaving.has_room(MAX_FRAME) {
                    let Some(delivery) = network.advance(port, now) else { break };
                    // It has arrived when the network says, however late it is taken.
                    network.arrived(&delivery, delivery.at);
                    let taken = PacketRecord { at: delivery.at, ..packet(number, port) };
                    record(packets, bytes, *capture, taken, &delivery.frame);
                    leaving.push(number, port, &delivery.frame);
                }
            }
        }
        let coming = outside.exchange(leaving.bytes(), limit)?;
        self.crossing = now.saturating_add(CROSSING);
        let mut any = false;
        for (number, port, frame) in Frames::read(&coming) {
            let Some(NetworkConfig { network, capture }) = networks.get_mut(number) else {
                continue;
            };
            if network.outside().contains(&port) && frame.len() <= MAX_FRAME {
                let (first, _) = network.send(port, frame, now);
                let sent = PacketRecord { outgoing: true, at: first, ..packet(number, port) };
                record(packets, bytes, *capture, sent, frame);
                any = true;
            }
        }
        self.came = any.then_some(now);
        Ok(any)
    }

    /// Returns the distance by which machines may be ahead of each other (ns), if they have
    /// networks.
    pub(super) fn lookahead(&self) -> Option<u64> {
        self.networks.iter().map(|config| config.network.lookahead()).min()
    }

    /// The networks draw by `seed`, and have other faults, from now on, where these are given.
    pub(super) fn change(&mut self, seed: Option<u64>, faults: Option<Vec<Vec<NetworkFault>>>) {
        if let Some(seed) = seed {
            self.networks.iter_mut().for_each(|config| config.network.reseed(seed));
        }
        for (config, faults) in self.networks.iter_mut().zip(faults.into_iter().flatten()) {
            config.network.change_faults(faults);
        }
    }

    /// Starts fault `number` at `now` (ns) if it is one of a network.
    pub(super) fn trigger(&mut self, number: u16, now: Nanos) {
        self.networks.iter_mut().for_each(|config| config.network.trigger(number, now));
    }

    /// Returns the number of frames that machines have sent over each network since their commands
    /// began.
    pub(super) fn sent(&self) -> impl Iterator<Item = u64> + '_ {
        self.networks.iter().map(|config| config.network.sent())
    }

    /// The frames that faults have befallen since the last call.
    pub(super) fn take_befallen(&mut self) -> impl Iterator<Item = FaultRecord> + '_ {
        self.networks.iter_mut().flat_map(|config| config.network.take_befallen())
    }

    /// The machines' commands begin.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.networks.iter_mut().for_each(|config| config.network.begin(now));
    }

    /// Returns the time at which the next frame arrives at a port, if one is under way (ns).
    pub(super) fn next_arrival(&self, place: PortConfig) -> Option<u64> {
        self.networks.get(place.network)?.network.next_event(place.port)
    }

    /// The figures so far.
    pub(super) fn outcome(&self) -> Vec<NetworkOutcome> {
        self.networks.iter().map(|config| config.network.outcome()).collect()
    }

    /// Returns whether the recorded packets are enough for an event.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES
    }

    /// The recorded packets so far.
    pub(super) fn take_packets(&mut self) -> Vec<PacketRecord> {
        self.bytes = 0;
        std::mem::take(&mut self.packets)
    }

    /// Sends what the guest has announced to its device.
    pub(super) fn transmit(
        &mut self,
        device: &mut NetworkDevice,
        memory: &GuestMemory,
        now: Nanos,
    ) {
        let place = device.place;
        let Self { networks, packets, bytes, .. } = self;
        let Some(NetworkConfig { network, capture }) = networks.get_mut(place.network) else {
            return;
        };
        device.send(memory, network, now, |at, frame| {
            let packet = PacketRecord { outgoing: true, at, ..packet(place.network, place.port) };
            record(packets, bytes, *capture, packet, frame);
        });
    }

    /// Gives a device the frames that have arrived for it. Returns whether there were any.
    pub(super) fn receive(
        &mut self,
        device: &mut NetworkDevice,
        memory: &GuestMemory,
        now: Nanos,
    ) -> bool {
        let place = device.place;
        let Self { networks, packets, bytes, .. } = self;
        let Some(NetworkConfig { network, capture }) = networks.get_mut(place.network) else {
            return false;
        };
        let mut received = false;
        while let Some(delivery) = network.advance(place.port, now) {
            received = true;
            if !device.receive(memory, &delivery.frame) {
                network.missed(&delivery);
                continue;
            }
            network.arrived(&delivery, now);
            let packet =
                PacketRecord { outgoing: false, at: now, ..packet(place.network, place.port) };
            record(packets, bytes, *capture, packet, &delivery.frame);
        }
        received
    }

    /// Throws away the frames that have arrived for a device whose machine has ended.
    pub(super) fn discard(&mut self, place: PortConfig, now: Nanos) {
        let Some(NetworkConfig { network, .. }) = self.networks.get_mut(place.network) else {
            return;
        };
        while let Some(delivery) = network.advance(place.port, now) {
            network.missed(&delivery);
        }
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
fn packet(network: usize, port: usize) -> PacketRecord {
    PacketRecord {
        network: network as u16,
        port: port as u16,
        outgoing: false,
        at: 0,
        length: 0,
        bytes: Vec::new(),
    }
}
