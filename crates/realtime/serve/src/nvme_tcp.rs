//! A drive on its polling thread, as an NVMe/TCP target: the sockets of its hosts, between
//! [`stasis_nvme_tcp`] and a drive in real time.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Bound;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{epoll, Timespec};
use stasis_block::clock::Nanos;
use stasis_block::units::format_duration;
use stasis_drive::Done;
use stasis_nvme::fabrics::DiscoveryEntry;
use stasis_nvme::{AnaState, Ended, Subsystem, VendorRequest};
use stasis_nvme_auth::{Group, Randomness, Secrets};
use stasis_nvme_tcp::{Authentication, ConnectionId, Target, MAX_CONNECTIONS};

use crate::backend::{Backend, Counted};
use crate::io_records::IoRecordSender;
use crate::new_nvme::{missing_namespace, Follower, KeepState, MakeNvme, NewNvme};
use crate::powers::Powers;
use crate::statistics::InUse;
use crate::store::{register, Store};
use crate::ServeError;

/// Data of the first listening socket in the events; the others' are behind it.
const FIRST_LISTENER: u64 = 1 << 32;
/// Data of the thread that computes for authentications.
const COMPUTED: u64 = FIRST_LISTENER - 1;
/// Bytes that are taken from a socket at a time.
const CHUNK: usize = 64 << 10;
/// Bytes that are taken from sockets in a turn, and given to sockets: the drives of the thread take
/// turns, and no host keeps one.
const TURN: usize = 128 << 10;
/// The part of [`TURN`] that a message takes however short it is.
const MESSAGE: usize = 1 << 10;
/// Time (ns) in which a host is to take the last bytes of a connection that has ended.
const LINGER: Nanos = 5_000_000_000;

/// Settings of a drive that is an NVMe/TCP target.
pub struct NvmeTcp {
    /// The sockets on which hosts come: each one is a path, of which the first has number 1.
    pub listeners: Vec<TcpListener>,
    /// The NQNs of the hosts that may connect; empty: all.
    pub hosts: Vec<String>,
    /// Secrets of the hosts that authenticate, by their NQNs. If there are some, they may connect
    /// and `hosts`, and nobody else.
    pub secrets: BTreeMap<String, Secrets>,
    /// The groups of Diffie-Hellman by which they authenticate, in the order in which they are
    /// preferred.
    pub groups: Vec<Group>,
    /// The subsystems that hosts discover at this address.
    pub discovery: Vec<DiscoveryEntry>,
    /// Makes the drive's subsystem.
    pub subsystem: MakeNvme<Subsystem>,
}

/// A host's socket.
struct Peer {
    stream: TcpStream,
    address: SocketAddr,
    /// The events that are waited for.
    interest: epoll::EventFlags,
    /// By when it is to have the last bytes, once the connection has ended (ns).
    last: Option<Nanos>,
}

/// An NVMe/TCP target as its thread sees it.
pub(crate) struct Served {
    pub(crate) backend: Backend,
    target: Target,
    /// Keeps the subsystem's state in the end.
    keep: Option<KeepState>,
    /// Keeps it before each completion that depends on it.
    follower: Follower,
    /// Empty once no more hosts are taken.
    listeners: Vec<TcpListener>,
    paths: u16,
    /// Events of its sockets; the thread waits for this descriptor.
    events: OwnedFd,
    peers: BTreeMap<ConnectionId, Peer>,
    /// Computes for authentications, where hosts have secrets.
    powers: Option<Powers>,
    chunk: Box<[u8]>,
    done: Vec<Done>,
    counted: Vec<Counted>,
    capacity: u64,
    /// Time at which the last turn began (ns).
    now: Nanos,
    /// The connection that was last given bytes.
    speaker: ConnectionId,
    /// The shortest way to a host whose connection has ended.
    way: Option<Nanos>,
    said_way: bool,
}

impl Served {
    pub(crate) fn new(
        name: Arc<str>,
        settings: NvmeTcp,
        store: Store,
        record: Option<IoRecordSender>,
        epoll: Arc<OwnedFd>,
    ) -> Result<Self, ServeError> {
        let NvmeTcp { listeners, hosts, secrets, groups, discovery, subsystem } = settings;
        let properties = store.properties();
        let failed = |source: rustix::io::Errno| ServeError::Wait { source: source.into() };
        let events = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        for (data, listener) in (FIRST_LISTENER..).zip(&listeners) {
            listener.set_nonblocking(true).map_err(|source| ServeError::Wait { source })?;
            let data = epoll::EventData::new_u64(data);
            epoll::add(&events, listener, data, epoll::EventFlags::IN).map_err(failed)?;
        }
        // SAFETY: the descriptor is this value's alone, and closing it takes it out.
        unsafe { register(&epoll, events.as_raw_fd()) }.map_err(failed)?;
        let backend = Backend::new(Arc::clone(&name), store, record, epoll)?.with_sockets();
        // Last: from here on the medium is in use by this subsystem.
        let made = subsystem(properties.capacity, properties.discard_zeroes);
        let NewNvme { nvme: mut subsystem, keep, follow } =
            made.map_err(|message| ServeError::Store { name: name.to_string(), message })?;
        subsystem.divide_work();
        let follower = Follower::new(follow, subsystem.state_changes());
        let mut target = Target::new(subsystem, hosts);
        let mut powers = None;
        if !secrets.is_empty() {
            let started = powers.insert(Powers::start(&name)?);
            let data = epoll::EventData::new_u64(COMPUTED);
            epoll::add(&events, started.descriptor(), data, epoll::EventFlags::IN)
                .map_err(failed)?;
            let random = Randomness::new(fill);
            target.set_authentication(Authentication::new(secrets, groups, random));
        }
        target.set_discovery(discovery);
        Ok(Self {
            backend,
            target,
            keep,
            follower,
            paths: listeners.len() as u16,
            listeners,
            events,
            peers: BTreeMap::new(),
            powers,
            chunk: vec![0; CHUNK].into(),
            done: Vec::new(),
            counted: Vec::new(),
            capacity: properties.capacity,
            now: 0,
            speaker: ConnectionId(0),
            way: None,
            said_way: false,
        })
    }

    pub(crate) fn in_use(&self) -> InUse {
        InUse {
            capacity: self.capacity,
            in_use: !self.peers.is_empty(),
            in_flight: self.target.in_flight(),
            way: self.shortest_way(),
        }
    }

    /// Returns the shortest way to any host so far.
    fn shortest_way(&self) -> Option<Nanos> {
        let queues = self.peers.iter().filter(|(&id, _)| self.target.carries_io(id));
        let ways = queues.filter_map(|(_, peer)| round_trip(&peer.stream));
        self.way.into_iter().chain(ways).min()
    }

    /// Says so once if the model is faster than the way to its hosts.
    fn compare_with_way(&mut self) {
        let Some(wanted) = self.backend.mean_wanted().filter(|_| !self.said_way) else { return };
        let Some(way) = self.shortest_way().filter(|&way| wanted < way) else { return };
        self.said_way = true;
        let message = format!(
            "the model takes {} on average, and the way to the host {} at least (a round trip of \
             TCP): the host sees the way more than the model; take a slower model, or `stasis run`, \
             where time stands still meanwhile (said once)",
            format_duration(wanted),
            format_duration(way)
        );
        crate::log::warn(&self.backend.name, &message);
    }

    /// Returns the time at which something is to be looked at even if nothing rings.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let events = [self.backend.next_event(), self.next_deadline()];
        events.into_iter().flatten().min()
    }

    /// Returns the time at which a host's time is up.
    fn next_deadline(&self) -> Option<Nanos> {
        let last = self.peers.values().filter_map(|peer| peer.last);
        last.chain(self.target.next_deadline()).min()
    }

    /// Does the work that is due; returns whether there was any.
    pub(crate) fn turn(&mut self, now: Nanos, clock: &impl Fn() -> Nanos) -> bool {
        let due = self.next_deadline().is_some_and(|at| at <= now);
        self.now = now;
        self.target.set_time(now);
        let heard = self.hear();
        self.submit(now);
        let mut done = std::mem::take(&mut self.done);
        let advanced = self.backend.advance(now, &mut done);
        let any = !done.is_empty();
        complete(&mut self.target, &mut done, &mut self.counted);
        self.done = done;
        // Commands that had waited for room.
        self.submit(now);
        if heard || any || due {
            self.target.collect();
            self.speak();
        }
        if any {
            self.count(clock());
            self.backend.report_errors();
            self.compare_with_way();
        }
        heard || advanced || due
    }

    /// Counts the requests that the hosts have back as of `delivered`.
    fn count(&mut self, delivered: Nanos) {
        for counted in self.counted.drain(..) {
            self.backend.count(&counted, delivered);
        }
    }

    /// Takes what hosts have sent; returns whether there was anything.
    fn hear(&mut self) -> bool {
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 64];
        let Ok((events, _)) = epoll::wait(&self.events, &mut events, Some(&Timespec::default()))
        else {
            return false;
        };
        let mut taken = 0;
        for event in events.iter() {
            // The events of the others come again.
            if taken >= TURN {
                break;
            }
            match event.data.u64() {
                data if data >= FIRST_LISTENER => self.accept((data - FIRST_LISTENER) as usize),
                COMPUTED => {
                    if let Some(powers) = &self.powers {
                        powers.take(|(id, power)| self.target.computed(id, power));
                    }
                }
                id => taken += self.receive(ConnectionId(id as usize)).max(MESSAGE),
            }
        }
        if let Some(powers) = &self.powers {
            while let Some((id, power)) = self.target.pop_power() {
                powers.ask(id, power);
            }
        }
        !events.is_empty()
    }

    /// Takes the hosts that come by the listening socket of this index.
    fn accept(&mut self, index: usize) {
        let Some(listener) = self.listeners.get(index) else { return };
        let path = index as u16 + 1;
        while let Ok((stream, address)) = listener.accept() {
            let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            let opened = ready.ok().and_then(|()| self.target.open(path));
            let Some(id) = opened else {
                self.backend.counts.refused += 1;
                let most = MAX_CONNECTIONS;
                let message = format!("{address} was turned away: there are {most} connections");
                crate::log::warn(&self.backend.name, &message);
                continue;
            };
            let interest = epoll::EventFlags::IN;
            let data = epoll::EventData::new_u64(id.0 as u64);
            if epoll::add(&self.events, &stream, data, interest).is_err() {
                self.target.close(id);
                continue;
            }
            if let Ok(local) = stream.local_addr() {
                self.target.set_local_address(id, local.ip().to_canonical());
            }
            self.backend.counts.connections += 1;
            self.peers.insert(id, Peer { stream, address, interest, last: None });
        }
    }

    /// Takes a chunk of bytes of a host, as long as it takes ours; returns how many.
    fn receive(&mut self, id: ConnectionId) -> usize {
        if self.target.is_admin(id) {
            let health = self.backend.store.health();
            self.target.set_health(health);
        }
        let Some(peer) = self.peers.get_mut(&id) else { return 0 };
        if !self.target.wants_input(id) || self.target.has_ended(id) {
            return 0;
        }
        match peer.stream.read(&mut self.chunk) {
            Ok(0) => self.close(id),
            Ok(count) => {
                self.target.receive(id, &self.chunk[..count]);
                return count;
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.close(id),
        }
        0
    }

    fn close(&mut self, id: ConnectionId) {
        self.way = self.shortest_way();
        self.target.close(id);
        // Closing the socket takes it out of the events.
        self.peers.remove(&id);
    }

    /// Hands requests to the drive, and vendor specific commands.
    fn submit(&mut self, now: Nanos) {
        while let Some(VendorRequest { tag, mut command }) = self.target.pop_vendor() {
            let result = self.backend.store.vendor(now, &mut command);
            self.target.complete_vendor(tag, result, &command.data);
        }
        let subsystem = self.target.subsystem();
        self.backend.look_at_layout(subsystem.state_changes(), || subsystem.layout());
        while let Some(request) = self.target.pop_request() {
            self.backend.store.submit(now, request);
        }
        while let Some(refused) = self.target.pop_refused() {
            self.backend.count_refused(&refused, now);
        }
    }

    /// Sends what there is to be sent, and closes the connections that have ended.
    fn speak(&mut self) {
        let Self { target, follower, backend, .. } = self;
        let changes = target.subsystem().state_changes();
        follower.keep(&backend.name, changes, || target.kept_state());
        let Self { peers, target, backend, events, way, now, speaker, .. } = self;
        // Those after the last one that had its turn come first.
        let mut room = TURN;
        let (before, after) = (..=*speaker, (Bound::Excluded(*speaker), Bound::Unbounded));
        let mut lost = Vec::new();
        for part in [true, false] {
            let peers = if part { peers.range_mut(after) } else { peers.range_mut(before) };
            for (&id, peer) in peers {
                if room == 0 {
                    break;
                }
                if target.output(id).is_empty() {
                    continue;
                }
                *speaker = id;
                if !send(target, id, &mut peer.stream, &mut room) {
                    lost.push(id);
                }
            }
        }
        // Closing a socket takes it out of the events.
        peers.retain(|&id, peer| {
            let reached = !lost.contains(&id);
            if let Some(fault) = target.take_fault(id) {
                backend.counts.faults += 1;
                let message = format!("host at {}: {fault}; its connection ends", peer.address);
                crate::log::warn(&backend.name, &message);
            }
            let (sent, ended) = (target.output(id).is_empty(), target.has_ended(id));
            let takes = !ended || *now < *peer.last.get_or_insert(*now + LINGER);
            if !reached || ended && sent || !takes {
                let last = target.carries_io(id).then(|| round_trip(&peer.stream));
                *way = way.iter().copied().chain(last.flatten()).min();
                target.close(id);
                return false;
            }
            let mut interest = epoll::EventFlags::empty();
            // Bytes after the end are not taken.
            interest.set(epoll::EventFlags::IN, !ended && target.wants_input(id));
            interest.set(epoll::EventFlags::OUT, !sent);
            if interest != peer.interest {
                let data = epoll::EventData::new_u64(id.0 as u64);
                let _ = epoll::modify(&*events, &peer.stream, data, interest);
                peer.interest = interest;
            }
            true
        });
    }

    /// Sets the access to the drive on a path.
    ///
    /// # Errors
    /// There is no such path: returns how many there are.
    pub(crate) fn set_ana(&mut self, path: u16, state: AnaState) -> Result<(), u16> {
        if !(1..=self.paths).contains(&path) {
            return Err(self.paths);
        }
        self.target.set_ana(path, state);
        self.target.collect();
        self.speak();
        Ok(())
    }

    /// Grants a namespace to a host, or to all, or withdraws it.
    ///
    /// # Errors
    /// The reason why it cannot be done.
    pub(crate) fn set_attached(
        &mut self,
        nsid: u32,
        host: Option<&str>,
        attached: bool,
    ) -> Result<(), String> {
        let set = self.target.set_attached(nsid, host, attached);
        set.map_err(|count| missing_namespace(nsid, count))?;
        self.target.collect();
        self.speak();
        Ok(())
    }

    /// Takes no more hosts: the drive is about to end.
    pub(crate) fn begin_end(&mut self) {
        self.listeners.clear();
    }

    /// Waits until `limit` for requests under way, makes everything durable and closes the drive.
    pub(crate) fn finish(
        mut self,
        clock: &impl Fn() -> Nanos,
        limit: Instant,
    ) -> Result<(), String> {
        self.backend.release(clock());
        let Self { backend, target, counted, .. } = &mut self;
        let idle = backend.quiesce(clock, limit, |_, done| complete(target, done, counted));
        self.target.collect();
        self.speak();
        self.count(clock());
        let state = self.target.kept_state();
        self.backend.finish(idle)?;
        self.keep.map_or(Ok(()), |keep| keep(state))
    }
}

/// Fills a buffer with the kernel's random bytes. Returns whether the kernel gave them.
fn fill(buffer: &mut [u8]) -> bool {
    // Less than 256 bytes come as a whole (getrandom(2)).
    let flags = rustix::rand::GetRandomFlags::empty();
    buffer.chunks_mut(256).all(|part| {
        let wanted = part.len();
        rustix::rand::getrandom(part, flags).is_ok_and(|count| count == wanted)
    })
}

/// Hands requests back to their hosts, which do not see them yet.
fn complete(target: &mut Target, done: &mut Vec<Done>, counted: &mut Vec<Counted>) {
    for done in done.drain(..) {
        counted.push(Counted::from(&done));
        let ended =
            Ended { status: done.status, failed_at: done.failed_at, delivery: done.delivery };
        target.complete(done.tag, ended, done.data);
    }
}

/// The shortest round trip of a connection that TCP has measured (ns).
fn round_trip(stream: &TcpStream) -> Option<Nanos> {
    /// `tcpi_min_rtt` in `struct tcp_info` (Linux's include/uapi/linux/tcp.h), in us.
    const MIN_RTT: usize = 148;
    let mut info = [0u8; MIN_RTT + 4];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if done != 0 || (length as usize) < info.len() {
        return None;
    }
    let micros = u32::from_le_bytes([info[148], info[149], info[150], info[151]]);
    // All ones: none was measured.
    (micros != u32::MAX && micros > 0).then(|| Nanos::from(micros) * 1_000)
}

/// Sends the output of a connection as far as its socket takes it, and by `room` bytes at most, from
/// which they are taken; returns whether the host is still there.
fn send(target: &mut Target, id: ConnectionId, stream: &mut TcpStream, room: &mut usize) -> bool {
    while !target.output(id).is_empty() && *room > 0 {
        let output = target.output(id);
        match stream.write(&output[..output.len().min(*room)]) {
            Ok(count) => {
                target.sent(id, count);
                *room = room.saturating_sub(count.max(MESSAGE));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}
