//! A connection: from its bytes to commands and their data, and back.

use std::collections::VecDeque;
use std::mem::offset_of;
use std::net::IpAddr;

use slab::Slab;
use stasis_block::clock::Nanos;
use stasis_nvme::fabrics::{CapsuleFault, CONNECT, IN_CAPSULE, OPCODE};
use stasis_nvme::fabrics::{Connect, ConnectError, Connected, CONNECT_DATA};
use stasis_nvme::fabrics::{DiscoveryEntry, DISCOVERY_NQN};
use stasis_nvme::{ControllerMut, Subsystem};
use stasis_nvme_auth::{Computed, Verifier};
use stasis_nvme_layout::queue::{CompletionEntry, FabricsEntry, SglDescriptor};
use stasis_nvme_layout::tcp::{
    CommonHeader, DataHeader, InitializeRequest, InitializeResponse, ResponseCapsule, Termination,
};
use stasis_nvme_layout::{
    transmute, transmute_mut, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, U16,
};

use crate::arena::{Arena, BufferId};
use crate::authentication::{self, is_authentication, PowerId, Progress};
use crate::fault::Fault;
use crate::hosts::Hosts;
use crate::pdu::{self, digest, flag, kind, put, Digests, Header, COMMON, DATA, DIGEST};

/// Maximum length of the data of one PDU of the host (MAXH2CDATA) in bytes.
const MAX_HOST_DATA: u32 = 128 << 10;
/// Limit on the data of commands under way on a connection in bytes: commands beyond it wait, each
/// for its buffer.
const MAX_BUFFERED: usize = 8 << 20;
/// Limit on the bytes that wait to be sent, above which nothing more is to be received.
pub const MAX_OUTPUT: usize = 8 << 20;
/// The beginning of a TLS connection: a record of type handshake, version 3 (RFC 8446 section 5.1).
const TLS_HANDSHAKE: [u8; 2] = [22, 3];
/// Types of data blocks (NVMe-oF 1.1 section 2.1, NVMe/TCP 1.0 section 3.3.2).
mod block {
    /// An offset into the data of the capsule.
    pub const OFFSET: u8 = 0x01;
    /// Moved by PDUs of data.
    pub const TRANSPORT: u8 = 0x5a;
}

/// The place of a command's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In its capsule, from this byte on.
    Capsule(usize),
    /// In PDUs of data.
    Pdus,
}

/// The place that a descriptor names, of `there` bytes of data in the capsule, where a transfer has `most`
/// bytes. `from_host`: the data is the host's.
///
/// # Errors
/// The fault of the descriptor.
fn place(
    sgl: &SglDescriptor,
    (there, most): (usize, u32),
    from_host: bool,
) -> Result<Place, CapsuleFault> {
    match sgl.identifier {
        // ICDOFF is 0: offsets are from the data's beginning.
        block::OFFSET if from_host => {
            let start = usize::try_from(sgl.address.get()).ok().filter(|&start| start <= there);
            let start = start.ok_or(CapsuleFault::BlockOffset)?;
            match sgl.length.get() as usize <= there - start {
                true => Ok(Place::Capsule(start)),
                false => Err(CapsuleFault::BlockLength),
            }
        }
        block::TRANSPORT if sgl.length.get() > most => Err(CapsuleFault::BlockLength),
        block::TRANSPORT => Ok(Place::Pdus),
        _ => Err(CapsuleFault::BlockType),
    }
}

/// Progress of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The initialization request has not come.
    New,
    /// The Connect command has not come.
    Initialized,
    /// The connection carries a queue.
    Connected(Connected),
    /// The connection is to be closed once its output is sent.
    Ended,
}

/// A command under way.
#[derive(Debug)]
struct Command {
    cid: u16,
    raw: [u8; 64],
    stage: Stage,
    /// Length of its data in bytes.
    length: usize,
    /// True if the data goes to the host.
    to_host: bool,
    buffer: Option<BufferId>,
    /// True if a digest of its data was wrong.
    damaged: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Waits for a buffer.
    Waiting,
    /// So many bytes of its data have come.
    Receiving(usize),
    /// The controller has it.
    Submitted,
}

/// A connection of a host.
#[derive(Debug)]
pub struct Connection {
    /// The path by which its host comes.
    path: u16,
    /// This end's address, where the carrier has said it.
    local: Option<IpAddr>,
    state: State,
    /// Verifier of a queue whose host is to authenticate.
    verifier: Option<Verifier>,
    /// The power that its verifier waits for, and the command that ends then.
    computing: Option<(PowerId, u16)>,
    /// Time at which its host's time began: it was opened, or a power was computed for it (ns).
    opened: Nanos,
    digests: Digests,
    /// Alignment of the data that the host receives, in bytes.
    alignment: usize,
    /// True if completions carry no head of the submission queue.
    no_flow_control: bool,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Number of bytes of `output` that are sent.
    sent: usize,
    commands: Slab<Command>,
    waiting: VecDeque<usize>,
    /// Bytes of the buffers of its commands.
    buffered: usize,
    fault: Option<Fault>,
}

/// The parts of a target that its connections share.
pub struct Shared<'a> {
    pub subsystem: &'a mut Subsystem,
    pub arena: &'a mut Arena,
    pub hosts: &'a mut Hosts,
}

impl Connection {
    pub fn new(path: u16, now: Nanos) -> Self {
        Self {
            path,
            local: None,
            state: State::New,
            verifier: None,
            computing: None,
            opened: now,
            digests: Digests::default(),
            alignment: 4,
            no_flow_control: false,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            commands: Slab::new(),
            waiting: VecDeque::new(),
            buffered: 0,
            fault: None,
        }
    }

    /// Sets this end's address.
    pub fn set_local_address(&mut self, address: IpAddr) {
        self.local = Some(address);
    }

    /// The queue that it carries.
    pub fn connected(&self) -> Option<Connected> {
        match self.state {
            State::Connected(connected) => Some(connected),
            _ => None,
        }
    }

    /// Returns whether it is to be closed once its output is sent.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Since when its host lets it wait, if it carries no queue yet that the host can use.
    pub fn idle_since(&self) -> Option<Nanos> {
        let idle = match self.state {
            State::New | State::Initialized => true,
            // The time that a power takes is ours.
            State::Connected(_) => !self.is_authenticated() && self.computing.is_none(),
            State::Ended => false,
        };
        idle.then_some(self.opened)
    }

    /// Returns whether the host has authenticated, or needs not.
    fn is_authenticated(&self) -> bool {
        self.verifier.as_ref().is_none_or(Verifier::is_authenticated)
    }

    /// Takes the reason for its end.
    pub fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    /// Commands under way.
    pub fn in_flight(&self) -> usize {
        self.commands.len()
    }

    /// The bytes to send.
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// The first `count` bytes of the output are sent.
    pub fn sent(&mut self, count: usize) {
        self.sent = (self.sent + count).min(self.output.len());
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
    }

    /// Ends the connection, for `fault` if any.
    pub fn end(&mut self, fault: Option<Fault>, arena: &mut Arena) {
        if self.has_ended() {
            return;
        }
        if let Some((status, information)) = fault.as_ref().and_then(Fault::reason) {
            let (fes, fei) = (status.into(), information.into());
            let header = Termination { fes, fei, ..Default::default() };
            // The header of the PDU at fault, as its data.
            let at_fault = &self.input[..self.input.len().min(pdu::MAX_TERMINATION - DATA)];
            let kind_and_flags = (kind::CONTROLLER_TERMINATION, 0);
            let start = self.output.len();
            put(
                &mut self.output,
                kind_and_flags,
                header.as_bytes(),
                at_fault,
                Digests::default(),
                4,
            );
            // Such a PDU has no data offset.
            self.output[start + 3] = 0;
        }
        self.fault = fault;
        self.state = State::Ended;
        self.input = Vec::new();
        self.waiting.clear();
        for command in self.commands.drain() {
            command.buffer.into_iter().for_each(|buffer| arena.give(buffer));
        }
    }

    /// Takes bytes of the host.
    pub fn receive(&mut self, shared: &mut Shared, bytes: &[u8]) {
        if self.has_ended() {
            return;
        }
        self.input.extend_from_slice(bytes);
        let mut at = 0;
        while !self.has_ended() {
            match self.next_pdu(at) {
                Ok(None) => break,
                Ok(Some((header, end))) => {
                    let input = std::mem::take(&mut self.input);
                    let handled = self.handle(shared, header, &input[at..end]);
                    self.input = input;
                    if let Err(fault) = handled {
                        self.input.drain(..at);
                        return self.end(Some(fault), shared.arena);
                    }
                    at = end;
                }
                Err(fault) => {
                    self.input.drain(..at);
                    return self.end(Some(fault), shared.arena);
                }
            }
        }
        if !self.has_ended() {
            self.input.drain(..at);
        }
    }

    /// The PDU at `at` of the input and its end, once all of it is there.
    fn next_pdu(&self, at: usize) -> Result<Option<(Header, usize)>, Fault> {
        let Some(raw) = self.input[at..].first_chunk::<COMMON>() else { return Ok(None) };
        if self.state == State::New && raw[..2] == TLS_HANDSHAKE {
            return Err(Fault::Tls);
        }
        let header = Header::parse(raw);
        self.check_header(&header)?;
        let end = at + header.length as usize;
        Ok((end <= self.input.len()).then_some((header, end)))
    }

    /// Checks a common header, before its PDU is waited for.
    fn check_header(&self, header: &Header) -> Result<(), Fault> {
        let invalid = |at| Err(Fault::Header { kind: header.kind, at });
        let (wanted, data) = match header.kind {
            kind::IC_REQUEST if self.state == State::New => (pdu::IC, 0),
            kind::HOST_TERMINATION => (DATA, pdu::MAX_TERMINATION - DATA),
            kind::COMMAND if self.state != State::New => (pdu::COMMAND, IN_CAPSULE as usize),
            kind::HOST_DATA if self.connected().is_some() || self.is_connecting() => {
                (DATA, MAX_HOST_DATA as usize)
            }
            kind::IC_REQUEST | kind::COMMAND | kind::HOST_DATA => {
                return Err(Fault::Sequence(header.kind));
            }
            _ => return invalid(0),
        };
        let mut digests = Digests::default();
        if matches!(header.kind, kind::COMMAND | kind::HOST_DATA) {
            digests = self.digests;
        }
        let length = header.length as usize;
        if usize::from(header.header) != wanted {
            return invalid(2);
        }
        if digests.header != (header.flags & flag::HEADER_DIGEST != 0) {
            return invalid(1);
        }
        let before = wanted + if digests.header { DIGEST } else { 0 };
        if header.kind == kind::HOST_TERMINATION {
            // Its data lies behind the header, wherever it says.
            return if (wanted..=wanted + data).contains(&length) { Ok(()) } else { invalid(4) };
        }
        if length == before {
            return Ok(());
        }
        // Without data, or shorter than its header: it is the length that is wrong.
        if header.offset == 0 || length < before {
            return invalid(4);
        }
        let start = usize::from(header.offset);
        let sum = if digests.data { DIGEST } else { 0 };
        if digests.data != (header.flags & flag::DATA_DIGEST != 0) {
            return invalid(1);
        }
        // CPDA is 0: the data begins at a multiple of 4 bytes.
        if start < before || start % 4 != 0 {
            return invalid(3);
        }
        if length <= start + sum || length > start + data + sum {
            return invalid(4);
        }
        Ok(())
    }

    /// The data of a PDU, and whether its digest is right.
    fn data<'a>(&self, header: &Header, raw: &'a [u8]) -> (&'a [u8], bool) {
        let before = usize::from(header.header) + if self.digests.header { DIGEST } else { 0 };
        if raw.len() == before {
            return (&[], true);
        }
        let data = &raw[usize::from(header.offset)..];
        match self.digests.data {
            false => (data, true),
            true => {
                let (data, sum) = data.split_at(data.len() - DIGEST);
                (data, digest(data) == sum)
            }
        }
    }

    /// Handles a PDU whose common header was checked.
    fn handle(&mut self, shared: &mut Shared, header: Header, raw: &[u8]) -> Result<(), Fault> {
        if matches!(header.kind, kind::COMMAND | kind::HOST_DATA) && self.digests.header {
            let length = usize::from(header.header);
            if digest(&raw[..length]) != raw[length..length + DIGEST] {
                return Err(Fault::HeaderDigest(header.kind));
            }
        }
        match header.kind {
            kind::IC_REQUEST => self.initialize(head(&header, raw)?),
            kind::COMMAND => match self.state {
                State::Initialized => self.connect(shared, &header, raw),
                _ => self.command(shared, &header, raw),
            },
            kind::HOST_DATA => self.host_data(shared, &header, raw),
            _ => Err(Fault::Host(head::<Termination>(&header, raw)?.fes.get())),
        }
    }

    /// The initialization request (NVMe/TCP 1.0 section 3.6.2.2).
    fn initialize(&mut self, request: &InitializeRequest) -> Result<(), Fault> {
        let InitializeRequest { pfv, hpda, dgst: digests, .. } = *request;
        if pfv != 0 {
            return Err(Fault::Parameter(offset_of!(InitializeRequest, pfv) as u16));
        }
        // In units of 4 bytes, 0's based.
        if hpda > 31 {
            return Err(Fault::Parameter(offset_of!(InitializeRequest, hpda) as u16));
        }
        self.alignment = (usize::from(hpda) + 1) * 4;
        self.state = State::Initialized;
        let (dgst, maxh2cdata) = (digests & 3, MAX_HOST_DATA.into());
        let response = InitializeResponse { dgst, maxh2cdata, ..Default::default() };
        let kind_and_flags = (kind::IC_RESPONSE, 0);
        put(&mut self.output, kind_and_flags, response.as_bytes(), &[], Digests::default(), 4);
        self.digests = Digests { header: digests & 1 != 0, data: digests & 2 != 0 };
        Ok(())
    }

    /// Returns whether a Connect waits for its data.
    fn is_connecting(&self) -> bool {
        self.state == State::Initialized && !self.commands.is_empty()
    }

    /// A command before there is a queue: Connect, whose data is in its capsule, or is asked for.
    fn connect(&mut self, shared: &mut Shared, header: &Header, raw: &[u8]) -> Result<(), Fault> {
        let (data, intact) = self.data(header, raw);
        let Some(command) = raw[COMMON..].first_chunk::<64>() else {
            return Err(Fault::Header { kind: header.kind, at: 4 });
        };
        let FabricsEntry { opc, cid, fctype, sgl1, .. } = transmute!(*command);
        let refusal = match place(&sgl1, (data.len(), u32::MAX), true) {
            _ if !intact => CapsuleFault::Damaged,
            _ if opc != OPCODE || fctype != CONNECT || self.is_connecting() => {
                CapsuleFault::Sequence
            }
            Err(fault) => fault,
            Ok(_) if sgl1.length.get() as usize != CONNECT_DATA => CapsuleFault::BlockLength,
            Ok(Place::Capsule(start)) => {
                let data = &data[start..start + CONNECT_DATA];
                self.end_connect(shared, command, data.try_into().ok());
                return Ok(());
            }
            Ok(Place::Pdus) => {
                let command = Command {
                    cid: cid.get(),
                    raw: *command,
                    stage: Stage::Waiting,
                    length: CONNECT_DATA,
                    to_host: false,
                    buffer: None,
                    damaged: false,
                };
                let index = self.commands.insert(command);
                self.waiting.push_back(index);
                self.begin(shared);
                return Ok(());
            }
        };
        let status = (refusal.field() << 1).into();
        self.respond(CompletionEntry { cid, status, ..Default::default() });
        Ok(())
    }

    /// Connect has its data, or `None` where that was damaged: the connection becomes a queue, or not.
    fn end_connect(
        &mut self,
        shared: &mut Shared,
        command: &[u8; 64],
        data: Option<&[u8; CONNECT_DATA]>,
    ) {
        let FabricsEntry { cid, .. } = transmute!(*command);
        let mut entry = CompletionEntry { cid, ..Default::default() };
        let outcome = match data {
            None => Err((CapsuleFault::Damaged.field(), 0)),
            Some(data) => {
                let made = Connect::parse(command, data).and_then(|connect| {
                    self.make_queue(shared, &connect).map(|queue| (connect, queue))
                });
                made.map_err(|error: ConnectError| (error.field(), error.result()))
            }
        };
        match outcome {
            Ok((connect, connected)) => {
                self.no_flow_control = connect.no_flow_control;
                self.state = State::Connected(connected);
                let required = if self.is_authenticated() { 0 } else { authentication::REQUIRED };
                let result = u32::from(connected.controller.0) | required;
                entry.result.set(result.into());
                entry.sqhd.set(1);
            }
            Err((status, result)) => {
                entry.result.set(result.into());
                entry.status.set(status << 1);
            }
        }
        self.respond(entry);
    }

    fn make_queue(
        &mut self,
        shared: &mut Shared,
        connect: &Connect,
    ) -> Result<Connected, ConnectError> {
        let discovery = connect.subsystem == DISCOVERY_NQN;
        if !discovery && connect.subsystem != shared.subsystem.config().nqn() {
            return Err(ConnectError::subsystem());
        }
        if !discovery && !shared.hosts.allow(&connect.host.nqn) {
            return Err(ConnectError::host());
        }
        let connected = shared.subsystem.connect(connect, self.path, discovery)?;
        if !discovery {
            self.verifier = shared.hosts.verifier(&connect.host.nqn, &connect.subsystem);
        }
        if discovery {
            if let Some(mut controller) = shared.subsystem.controller(connected.controller) {
                controller.set_discovery(self.discovered(&shared.hosts.entries));
            }
        }
        Ok(connected)
    }

    /// The entries of the discovery log for its host: in place of any address (0.0.0.0, ::) the one
    /// by which the host has come, as no other computer reaches the former.
    fn discovered(&self, entries: &[DiscoveryEntry]) -> Vec<DiscoveryEntry> {
        let mut entries = entries.to_vec();
        for entry in entries.iter_mut().filter(|entry| entry.address.ip().is_unspecified()) {
            if let Some(local) = self.local {
                entry.address.set_ip(local);
            }
        }
        entries
    }

    /// A response capsule.
    fn respond(&mut self, mut entry: CompletionEntry) {
        if self.no_flow_control {
            entry.sqhd = U16::MAX_VALUE;
        }
        let digests = self.response_digests();
        let capsule = ResponseCapsule { common: CommonHeader::default(), entry };
        put(&mut self.output, (kind::RESPONSE, 0), capsule.as_bytes(), &[], digests, 4);
    }

    /// A response has a header digest only.
    fn response_digests(&self) -> Digests {
        Digests { data: false, ..self.digests }
    }

    /// Takes a command capsule of a queue.
    fn command(&mut self, shared: &mut Shared, header: &Header, raw: &[u8]) -> Result<(), Fault> {
        let State::Connected(connected) = self.state else {
            return Err(Fault::Sequence(header.kind));
        };
        if self.commands.len() >= connected.size.into() {
            return Err(Fault::TooMany);
        }
        let (data, intact) = self.data(header, raw);
        let Some(command) = raw[COMMON..].first_chunk::<64>() else {
            return Err(Fault::Header { kind: header.kind, at: 4 });
        };
        let FabricsEntry { opc, cid, fctype, sgl1, .. } = transmute!(*command);
        let cid = cid.get();
        // Bits 1:0 of the opcode, of a command of fabrics of its type: 1 from the host, 2 to it.
        let direction = if opc == OPCODE { fctype } else { opc } & 3;
        let (to_host, from_host) = (direction & 2 != 0, direction & 1 != 0);
        let authenticates = is_authentication(command);
        // Refusals that come before all that a command says itself.
        let refused = match () {
            () if !intact => Some(CapsuleFault::Damaged),
            () if !self.is_authenticated() && !authenticates => Some(CapsuleFault::Unauthenticated),
            () => None,
        };
        // The descriptor of a command without data is not looked at; of the others a fault of it waits
        // until the command gets as far as its data.
        let most = shared.subsystem.config().max_transfer;
        let place = match to_host || from_host {
            true => place(&sgl1, (data.len(), most), from_host),
            false => Ok(Place::Capsule(0)),
        };
        let length = match place {
            Ok(_) if to_host || from_host => sgl1.length.get() as usize,
            _ => 0,
        };
        let mut command = Command {
            cid,
            raw: *command,
            stage: Stage::Waiting,
            length,
            to_host,
            buffer: None,
            damaged: false,
        };
        let refused = refused.or(place.err().filter(|_| authenticates));
        if let Some(fault) = refused {
            if let Some(mut controller) = shared.subsystem.controller(connected.controller) {
                controller.pass(&*shared.arena, connected.queue, cid, Err(fault));
            }
            // A refused command has no data, whatever its length.
            command.length = 0;
            command.stage = Stage::Submitted;
            self.commands.insert(command);
            return Ok(());
        }
        match place {
            Ok(Place::Capsule(start)) if length > 0 => {
                let buffer = shared.arena.take(length);
                shared.arena.bytes(buffer).copy_from_slice(&data[start..start + length]);
                command.buffer = Some(buffer);
                self.buffered += length;
                let index = self.commands.insert(command);
                self.submit(shared, index, None);
            }
            Err(fault) => {
                let index = self.commands.insert(command);
                self.submit(shared, index, Some(fault));
            }
            Ok(_) => {
                let index = self.commands.insert(command);
                self.waiting.push_back(index);
                self.begin(shared);
            }
        }
        Ok(())
    }

    /// Begins the commands that wait, as far as there is room for their data.
    fn begin(&mut self, shared: &mut Shared) {
        let digests = self.response_digests();
        while let Some(&index) = self.waiting.front() {
            let Some(command) = self.commands.get_mut(index) else {
                self.waiting.pop_front();
                continue;
            };
            if self.buffered > 0 && self.buffered + command.length > MAX_BUFFERED {
                return;
            }
            self.waiting.pop_front();
            self.buffered += command.length;
            command.buffer = (command.length > 0).then(|| shared.arena.take(command.length));
            if command.to_host || command.length == 0 {
                self.submit(shared, index, None);
                continue;
            }
            command.stage = Stage::Receiving(0);
            let header = DataHeader {
                cccid: command.cid.into(),
                ttag: (index as u16).into(),
                datal: (command.length as u32).into(),
                ..Default::default()
            };
            // R2T: the host may send the command's data.
            let kind_and_flags = (kind::READY_TO_TRANSFER, 0);
            put(&mut self.output, kind_and_flags, header.as_bytes(), &[], digests, 4);
        }
    }

    /// Data that a command was asked for (NVMe/TCP 1.0 section 3.6.2.6).
    fn host_data(&mut self, shared: &mut Shared, header: &Header, raw: &[u8]) -> Result<(), Fault> {
        let DataHeader { cccid, ttag, datao, datal, .. } = *head(header, raw)?;
        let (cid, index) = (cccid.get(), usize::from(ttag));
        let (data, intact) = self.data(header, raw);
        let wrong = |at: usize| Err(Fault::Header { kind: header.kind, at: at as u16 });
        let Some(command) = self.commands.get_mut(index) else {
            return wrong(offset_of!(DataHeader, ttag));
        };
        // The tag is of a command that waits for data: of another one than the header says.
        if command.cid != cid {
            let waits = matches!(command.stage, Stage::Receiving(_));
            let cccid = offset_of!(DataHeader, cccid);
            return wrong(if waits { cccid } else { offset_of!(DataHeader, ttag) });
        }
        let Stage::Receiving(received) = command.stage else { return Err(Fault::Range(cid)) };
        let end = received + data.len();
        let place = (datao.get() as usize, datal.get() as usize);
        let right = place == (received, data.len());
        if !right || end > command.length {
            return Err(Fault::Range(cid));
        }
        // The last data is marked, and nothing else is.
        if (header.flags & flag::LAST != 0) != (end == command.length) {
            return Err(Fault::Header { kind: header.kind, at: 1 });
        }
        if let Some(buffer) = command.buffer {
            shared.arena.bytes(buffer)[received..end].copy_from_slice(data);
        }
        command.stage = Stage::Receiving(end);
        if !intact {
            // The command fails; the connection goes on (NVMe/TCP 1.0 section 3.3.1.1).
            command.damaged = true;
        }
        if end == command.length {
            match self.state {
                State::Initialized => self.connect_with(shared, index),
                _ => self.submit(shared, index, None),
            }
        }
        Ok(())
    }

    /// The data of a Connect has come.
    fn connect_with(&mut self, shared: &mut Shared, index: usize) {
        let Some(command) = self.commands.get(index) else { return };
        let (raw, damaged) = (command.raw, command.damaged);
        let data = command.buffer.map_or(&[][..], |buffer| shared.arena.bytes(buffer)).to_vec();
        self.finish(shared.arena, index);
        let data = data.first_chunk::<CONNECT_DATA>().filter(|_| !damaged);
        self.end_connect(shared, &raw, data);
    }

    /// Hands a command whose data has come to the controller, or whose data block has a fault.
    fn submit(&mut self, shared: &mut Shared, index: usize, fault: Option<CapsuleFault>) {
        let State::Connected(connected) = self.state else { return };
        let Some(command) = self.commands.get_mut(index) else { return };
        command.stage = Stage::Submitted;
        let Some(mut controller) = shared.subsystem.controller(connected.controller) else {
            return;
        };
        if command.damaged {
            let cid = command.cid;
            controller.pass(&*shared.arena, connected.queue, cid, Err(CapsuleFault::Damaged));
            return;
        }
        let verifier = self.verifier.as_mut().filter(|_| is_authentication(&command.raw));
        if let Some((verifier, of_hosts)) = verifier.zip(shared.hosts.authentication.as_mut()) {
            let data = command.buffer.map_or(&mut [][..], |buffer| shared.arena.bytes(buffer));
            let outcome = match self.computing {
                // The command before it has not ended.
                Some(_) => Err(CapsuleFault::Sequence),
                None => of_hosts.execute(verifier, &command.raw, data),
            };
            if let Ok(Progress::Waits(power)) = outcome {
                self.computing = Some((power, command.cid));
                return;
            }
            let outcome = outcome.map(|_| ());
            controller.pass(&*shared.arena, connected.queue, command.cid, outcome);
            return;
        }
        // A plain data block, in the arena.
        let entry: &mut FabricsEntry = transmute_mut!(&mut command.raw);
        entry.sgl1 = SglDescriptor {
            address: command.buffer.map_or(0, BufferId::address).into(),
            length: (command.length as u32).into(),
            ..Default::default()
        };
        if !controller.submit(&*shared.arena, connected.queue, command.raw, fault) {
            // A reset has taken the queue away meanwhile: its owner ends the connection.
            self.finish(shared.arena, index);
        }
    }

    /// The power that its verifier waits for.
    pub fn power(&self) -> Option<PowerId> {
        self.computing.map(|(power, _)| power)
    }

    /// Goes on with the power that the verifier waits for.
    pub fn computed(&mut self, shared: &mut Shared, power: Computed, now: Nanos) {
        let Some((_, cid)) = self.computing.take() else { return };
        self.opened = now;
        let State::Connected(connected) = self.state else { return };
        if let Some(verifier) = &mut self.verifier {
            verifier.computed(power);
        }
        if let Some(mut controller) = shared.subsystem.controller(connected.controller) {
            controller.pass(&*shared.arena, connected.queue, cid, Ok(()));
        }
    }

    /// Turns the completions of its queue into PDUs, and begins the commands that waited for their
    /// room.
    pub fn collect(&mut self, shared: &mut Shared) {
        let State::Connected(connected) = self.state else { return };
        let mut any = false;
        while let Some(entry) =
            completion(shared.subsystem.controller(connected.controller), connected.queue)
        {
            any = true;
            let cid = entry.cid.get();
            let ended = |command: &Command| command.cid == cid && command.stage == Stage::Submitted;
            let index = self.commands.iter().find(|(_, command)| ended(command));
            let Some(index) = index.map(|(index, _)| index) else {
                self.respond(entry);
                continue;
            };
            let succeeded = entry.status.get() >> 1 == 0;
            let command = &self.commands[index];
            let data = command.buffer.filter(|_| command.to_host && succeeded);
            // Without flow control, success without a result needs no response.
            let silent = data.is_some() && self.no_flow_control && entry.result == 0;
            if let Some(buffer) = data {
                let data = shared.arena.bytes(buffer);
                let (cccid, datal) = (cid.into(), (data.len() as u32).into());
                let header = DataHeader { cccid, datal, ..Default::default() };
                let success = if silent { flag::SUCCESS } else { 0 };
                let kind_and_flags = (kind::CONTROLLER_DATA, flag::LAST | success);
                put(
                    &mut self.output,
                    kind_and_flags,
                    header.as_bytes(),
                    data,
                    self.digests,
                    self.alignment,
                );
            }
            self.finish(shared.arena, index);
            if !silent {
                self.respond(entry);
            }
        }
        if any {
            self.begin(shared);
        }
        // The host has the last message.
        if let Some(ended) = self.verifier.as_ref().and_then(Verifier::ended) {
            self.end(Some(Fault::Authentication(ended)), shared.arena);
        }
    }

    /// Forgets a command.
    fn finish(&mut self, arena: &mut Arena, index: usize) {
        let Some(command) = self.commands.try_remove(index) else { return };
        if let Some(buffer) = command.buffer {
            self.buffered -= command.length;
            arena.give(buffer);
        }
    }
}

/// The next completion of a queue.
fn completion(controller: Option<ControllerMut>, queue: u16) -> Option<CompletionEntry> {
    controller?.pop_completion(queue).map(|raw| transmute!(raw))
}

/// The header of a PDU whose common header was checked.
fn head<'a, T>(header: &Header, raw: &'a [u8]) -> Result<&'a T, Fault>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    let head = T::ref_from_prefix(raw).map(|(head, _)| head);
    head.map_err(|_| Fault::Header { kind: header.kind, at: 4 })
}
