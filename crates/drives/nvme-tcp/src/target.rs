//! The target: a subsystem and the connections of its hosts.

use std::net::IpAddr;

use slab::Slab;
use stasis_block::clock::{Nanos, SECOND};
use stasis_block::{Health, Refused, Request, Tag, VendorError};
use stasis_nvme::fabrics::{Connected, DiscoveryEntry};
use stasis_nvme::{AnaState, ControllerId, Ended, KeptState, Subsystem, VendorRequest};
use stasis_nvme_auth::{Computed, Power};

use crate::arena::Arena;
use crate::authentication::{Authentication, PowerId};
use crate::connection::{Connection, Shared, MAX_OUTPUT};
use crate::fault::Fault;
use crate::hosts::Hosts;

/// Limit on connections.
pub const MAX_CONNECTIONS: usize = 256;
/// Time within which a connection has to become a queue, and its host to authenticate.
const CONNECT_TIME: Nanos = 10 * SECOND;

/// Names a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub usize);

/// A subsystem whose hosts come by TCP.
#[derive(Debug)]
pub struct Target {
    subsystem: Subsystem,
    arena: Arena,
    hosts: Hosts,
    connections: Slab<Connection>,
    now: Nanos,
}

impl Target {
    /// The target of a subsystem without controllers. `allowed`: the NQNs of the hosts that may
    /// connect; empty: all.
    pub fn new(subsystem: Subsystem, allowed: Vec<String>) -> Self {
        Self {
            subsystem,
            arena: Arena::default(),
            hosts: Hosts { allowed, ..Hosts::default() },
            connections: Slab::new(),
            now: 0,
        }
    }

    /// The subsystem.
    pub fn subsystem(&self) -> &Subsystem {
        &self.subsystem
    }

    /// The state of the subsystem that outlasts it.
    pub fn kept_state(&self) -> KeptState {
        self.subsystem.kept_state()
    }

    /// Has hosts authenticate on each queue. From now on only they may connect, and those that were
    /// allowed by name.
    pub fn set_authentication(&mut self, authentication: Authentication) {
        self.hosts.authentication = Some(authentication);
    }

    /// Names the subsystems that hosts discover here.
    pub fn set_discovery(&mut self, entries: Vec<DiscoveryEntry>) {
        self.hosts.entries = entries;
    }

    /// As [`Subsystem::set_ana`]; [`Target::collect`] attends to the hosts.
    pub fn set_ana(&mut self, path: u16, state: AnaState) {
        self.subsystem.set_ana(path, state);
    }

    /// As [`Subsystem::set_attached`]; [`Target::collect`] attends to the hosts.
    ///
    /// # Errors
    /// As of [`Subsystem::set_attached`].
    pub fn set_attached(
        &mut self,
        nsid: u32,
        host: Option<&str>,
        attached: bool,
    ) -> Result<(), u32> {
        self.subsystem.set_attached(nsid, host, attached)
    }

    /// Opens a connection on a path; `None` if there are [`MAX_CONNECTIONS`].
    pub fn open(&mut self, path: u16) -> Option<ConnectionId> {
        if self.connections.len() >= MAX_CONNECTIONS {
            return None;
        }
        Some(ConnectionId(self.connections.insert(Connection::new(path, self.now))))
    }

    /// Sets the address of this end by which a host has come: its discovery log has that in place of any
    /// address (0.0.0.0, ::).
    pub fn set_local_address(&mut self, id: ConnectionId, address: IpAddr) {
        if let Some(connection) = self.connections.get_mut(id.0) {
            connection.set_local_address(address);
        }
    }

    /// Closes a connection: its queue ends, and with the admin queue its controller.
    pub fn close(&mut self, id: ConnectionId) {
        if let Some(mut connection) = self.connections.try_remove(id.0) {
            if let Some((authentication, power)) =
                self.hosts.authentication.as_mut().zip(connection.power())
            {
                authentication.forget(power);
            }
            connection.connected().into_iter().for_each(|connected| self.end_queue(connected));
            connection.end(None, &mut self.arena);
        }
    }

    /// Ends a queue whose connection has ended, and with the admin queue its controller.
    fn end_queue(&mut self, connected: Connected) {
        match connected.queue {
            0 => self.remove_controller(connected.controller, None),
            queue => {
                if let Some(mut controller) = self.subsystem.controller(connected.controller) {
                    controller.disconnect(queue);
                }
            }
        }
    }

    /// Removes a controller, and ends its connections.
    fn remove_controller(&mut self, id: ControllerId, fault: Option<Fault>) {
        self.subsystem.remove_controller(id);
        for (_, connection) in &mut self.connections {
            if connection.connected().is_some_and(|connected| connected.controller == id) {
                connection.end(fault.clone(), &mut self.arena);
            }
        }
    }

    /// Returns whether the connection carries an admin queue, before whose commands
    /// [`Target::set_health`] is to be called.
    pub fn is_admin(&self, id: ConnectionId) -> bool {
        let connected = self.connections.get(id.0).and_then(Connection::connected);
        connected.is_some_and(|connected| connected.queue == 0)
    }

    /// Returns whether the connection carries an I/O queue.
    pub fn carries_io(&self, id: ConnectionId) -> bool {
        let connected = self.connections.get(id.0).and_then(Connection::connected);
        connected.is_some_and(|connected| connected.queue != 0)
    }

    /// Returns whether more bytes of the host are to be taken now: not if it does not take ours.
    pub fn wants_input(&self, id: ConnectionId) -> bool {
        self.connections.get(id.0).is_some_and(|connection| connection.output().len() < MAX_OUTPUT)
    }

    /// Takes bytes of a host.
    pub fn receive(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(id.0) else { return };
        let before = connection.connected();
        let Self { subsystem, arena, hosts, .. } = self;
        connection.receive(&mut Shared { subsystem, arena, hosts }, bytes);
        if connection.has_ended() {
            before.into_iter().for_each(|connected| self.end_queue(connected));
        }
        // Only an admin queue resets its controller.
        if before.is_some_and(|connected| connected.queue == 0) {
            self.end_lost_queues();
        }
    }

    /// Ends the connections whose queues a reset of their controller has taken away.
    fn end_lost_queues(&mut self) {
        let Self { subsystem, arena, connections, .. } = self;
        for (_, connection) in connections {
            let Some(connected) = connection.connected() else { continue };
            let controller = subsystem.controller(connected.controller);
            if !controller.is_some_and(|controller| controller.has_queue(connected.queue)) {
                connection.end(None, arena);
            }
        }
    }

    /// Sets the time (ns): hosts that have sent no Keep Alive in time, and connections that have
    /// become no queue, or whose host has not authenticated, end.
    pub fn set_time(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.subsystem.set_time(now);
        while let Some(id) = self.subsystem.expired() {
            self.remove_controller(id, Some(Fault::KeepAlive));
        }
        let Self { arena, connections, .. } = self;
        let mut ended = Vec::new();
        for (_, connection) in connections {
            if connection.idle_since().is_some_and(|since| since + CONNECT_TIME <= now) {
                ended.extend(connection.connected());
                connection.end(Some(Fault::Idle), arena);
            }
        }
        ended.into_iter().for_each(|connected| self.end_queue(connected));
    }

    /// Returns the time at which [`Target::set_time`] is to be called at the latest.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let idle = self.connections.iter().filter_map(|(_, connection)| connection.idle_since());
        let idle = idle.map(|since| since + CONNECT_TIME).min();
        let of_subsystem = [self.subsystem.next_expiry(), self.subsystem.next_deadline()];
        of_subsystem.into_iter().flatten().chain(idle).min()
    }

    /// Turns completions into bytes to send, and goes on with what waits. To be called after any
    /// call that can end a command.
    pub fn collect(&mut self) {
        let Self { subsystem, arena, hosts, connections, .. } = self;
        let mut last = None;
        while let Some(id) = subsystem.waiting(last) {
            last = Some(id);
            if let Some(mut controller) = subsystem.controller(id) {
                controller.attend(&*arena);
            }
        }
        let mut ended = Vec::new();
        for (_, connection) in connections {
            let before = connection.connected();
            connection.collect(&mut Shared { subsystem, arena, hosts });
            ended.extend(before.filter(|_| connection.has_ended()));
        }
        ended.into_iter().for_each(|connected| self.end_queue(connected));
    }

    /// The bytes that a connection has to send.
    pub fn output(&self, id: ConnectionId) -> &[u8] {
        self.connections.get(id.0).map_or(&[], Connection::output)
    }

    /// The first `count` of those bytes are sent.
    pub fn sent(&mut self, id: ConnectionId, count: usize) {
        if let Some(connection) = self.connections.get_mut(id.0) {
            connection.sent(count);
        }
    }

    /// Returns whether the connection is to be closed once its output is sent.
    pub fn has_ended(&self, id: ConnectionId) -> bool {
        self.connections.get(id.0).is_none_or(Connection::has_ended)
    }

    /// Takes the reason why a connection ends.
    pub fn take_fault(&mut self, id: ConnectionId) -> Option<Fault> {
        self.connections.get_mut(id.0)?.take_fault()
    }

    /// Commands of hosts under way.
    pub fn in_flight(&self) -> usize {
        self.connections.iter().map(|(_, connection)| connection.in_flight()).sum()
    }

    /// As [`Subsystem::pop_request`].
    pub fn pop_request(&mut self) -> Option<Request> {
        self.subsystem.pop_request()
    }

    /// As [`Subsystem::pop_refused`].
    pub fn pop_refused(&mut self) -> Option<Refused> {
        self.subsystem.pop_refused()
    }

    /// As [`Subsystem::complete`].
    pub fn complete(&mut self, tag: Tag, ended: impl Into<Ended>, data: Vec<u8>) -> u16 {
        self.subsystem.complete(&self.arena, tag, ended, data)
    }

    /// As [`Subsystem::pop_vendor`].
    pub fn pop_vendor(&mut self) -> Option<VendorRequest> {
        self.subsystem.pop_vendor()
    }

    /// The drive has carried out the vendor specific command `tag`, or refused it.
    pub fn complete_vendor(&mut self, tag: u32, result: Result<u32, VendorError>, data: &[u8]) {
        let Some(id) = self.subsystem.controller_of_vendor(tag) else { return };
        if let Some(mut controller) = self.subsystem.controller(id) {
            controller.complete_vendor(&self.arena, tag, result, data);
        }
    }

    /// The next power that a host's authentication waits for, for [`Target::computed`]: it takes
    /// milliseconds to compute, in which other commands can go on.
    pub fn pop_power(&mut self) -> Option<(PowerId, Power)> {
        self.hosts.authentication.as_mut()?.next_power()
    }

    /// A power is computed; [`Target::collect`] goes on with the host that waits for it. One that
    /// has gone meanwhile is no concern.
    pub fn computed(&mut self, id: PowerId, power: Computed) {
        let Self { subsystem, arena, hosts, connections, .. } = self;
        let waits = |(_, connection): &(usize, &mut Connection)| connection.power() == Some(id);
        if let Some((_, connection)) = connections.iter_mut().find(waits) {
            connection.computed(&mut Shared { subsystem, arena, hosts }, power, self.now);
        }
    }

    /// Sets the drive's health, for the SMART log.
    pub fn set_health(&mut self, health: Health) {
        if self.subsystem.set_health(health) {
            let ids: Vec<_> = self.subsystem.controllers().collect();
            for id in ids {
                if let Some(mut controller) = self.subsystem.controller(id) {
                    controller.attend(&self.arena);
                }
            }
        }
    }
}
