//! A host that speaks NVMe/TCP to a target in this process, and the target's drive.
#![allow(dead_code)]

use stasis_block::{Operation, Status};
use stasis_nvme::fabrics::DISCOVERY_NQN;
use stasis_nvme::{Config, Namespace, Subsystem, Zones};
use stasis_nvme_tcp::{ConnectionId, Target};

pub const READ: u8 = 2;
pub const WRITE: u8 = 1;
pub const IDENTIFY: u8 = 6;
pub const FABRICS: u8 = 0x7f;
pub const KEEP_ALIVE: u8 = 0x18;
pub const SIZE: usize = 8 << 20;
pub const HOST: &str = "nqn.2014-08.org.example:host";

/// A target and its drive in memory.
pub struct Bench {
    pub target: Target,
    pub disk: Vec<u8>,
    pub now: u64,
    /// The path by which new connections come.
    pub path: u16,
}

pub fn config() -> Config {
    Config {
        serial: "TCP0".into(),
        queue_entries: 128,
        queue_pairs: 4,
        namespaces: vec![Namespace::new((SIZE / 512) as u64, 512)],
        max_transfer: 512 << 10,
        ..Config::default()
    }
}

pub fn zoned() -> Config {
    let zones = Zones::new(1 << 20);
    let namespace = Namespace { zoned: Some(zones), ..Namespace::new((SIZE / 512) as u64, 512) };
    Config { namespaces: vec![namespace], ..config() }
}

impl Bench {
    pub fn new() -> Self {
        Self::with(config(), &[])
    }

    pub fn with(config: Config, hosts: &[&str]) -> Self {
        let hosts = hosts.iter().map(|host| host.to_string()).collect();
        let target = Target::new(Subsystem::new(config).unwrap(), hosts);
        Self { target, disk: vec![0; SIZE], now: 0, path: 1 }
    }

    pub fn nqn(&self) -> String {
        self.target.subsystem().config().nqn()
    }

    /// Carries out what the drive has to do.
    pub fn work(&mut self) {
        while let Some((id, power)) = self.target.pop_power() {
            self.target.computed(id, power.compute());
        }
        loop {
            while let Some(vendor) = self.target.pop_vendor() {
                let result = Err(stasis_block::VendorError::Opcode);
                self.target.complete_vendor(vendor.tag, result, &vendor.command.data);
            }
            let Some(mut request) = self.target.pop_request() else { break };
            let command = request.command;
            let range = command.offset as usize..(command.offset + command.length) as usize;
            match command.operation {
                Operation::Read => {
                    request.data.resize(range.len(), 0);
                    request.data.copy_from_slice(&self.disk[range]);
                }
                Operation::Write => self.disk[range].copy_from_slice(&request.data),
                Operation::WriteZeroes => self.disk[range].fill(0),
                _ => {}
            }
            self.target.complete(request.tag, Status::Ok, request.data);
        }
        self.target.collect();
    }

    pub fn pass(&mut self, nanos: u64) {
        self.now += nanos;
        self.target.set_time(self.now);
        self.target.collect();
    }
}

/// A PDU that has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pdu {
    pub kind: u8,
    pub flags: u8,
    /// All of its header.
    pub header: Vec<u8>,
    pub data: Vec<u8>,
}

/// A completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cqe {
    pub result: u64,
    pub head: u16,
    pub cid: u16,
    /// Type and code.
    pub status: u16,
}

/// A connection of the host.
pub struct Host {
    pub id: ConnectionId,
    pub digests: u8,
    pub cid: u16,
    pub host: String,
    pub host_id: [u8; 16],
    received: Vec<u8>,
}

fn sum(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).to_le_bytes()
}

/// A command entry.
pub fn entry(opcode: u8, cid: u16, nsid: u32) -> [u8; 64] {
    let mut raw = [0; 64];
    raw[0] = opcode;
    raw[1] = 0x40;
    raw[2..4].copy_from_slice(&cid.to_le_bytes());
    raw[4..8].copy_from_slice(&nsid.to_le_bytes());
    raw
}

/// Puts the data block of a command in: in its capsule, or moved by PDUs.
pub fn block(raw: &mut [u8; 64], length: usize, in_capsule: bool) {
    raw[32..36].copy_from_slice(&(length as u32).to_le_bytes());
    raw[39] = if in_capsule { 0x01 } else { 0x5a };
}

/// The data of Connect.
pub fn connect_data(controller: u16, subsystem: &str, host: &str, id: [u8; 16]) -> Vec<u8> {
    let mut data = vec![0; 1024];
    data[..16].copy_from_slice(&id);
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
    data[512..512 + host.len()].copy_from_slice(host.as_bytes());
    data
}

impl Host {
    /// A connection that has exchanged nothing.
    pub fn unopened(bench: &mut Bench) -> Self {
        let id = bench.target.open(bench.path).unwrap();
        let host = HOST.to_owned();
        Self { id, digests: 0, cid: 0, host, host_id: [7; 16], received: vec![] }
    }

    /// A connection that has exchanged initialization requests.
    pub fn open(bench: &mut Bench, digests: u8) -> Self {
        let mut host = Self::unopened(bench);
        let mut request = vec![0; 128];
        request[2] = 128;
        request[4] = 128;
        request[11] = digests;
        bench.target.receive(host.id, &request);
        host.digests = 0;
        let response = host.next(bench).expect("a response");
        host.digests = digests;
        assert_eq!((response.kind, response.header[11]), (1, digests));
        host
    }

    /// A PDU of the host.
    pub fn pdu(&self, kind: u8, flags: u8, header: &[u8], data: &[u8]) -> Vec<u8> {
        let length = 8 + header.len();
        let with_digest = length + if self.digests & 1 != 0 { 4 } else { 0 };
        let tail = if self.digests & 2 != 0 && !data.is_empty() { 4 } else { 0 };
        let all = with_digest + data.len() + tail;
        let flags = flags | self.digests & 1 | if tail > 0 { 2 } else { 0 };
        let offset = if data.is_empty() { 0 } else { with_digest as u8 };
        let mut raw = vec![kind, flags, length as u8, offset];
        raw.extend((all as u32).to_le_bytes());
        raw.extend(header);
        if self.digests & 1 != 0 {
            raw.extend(sum(&raw));
        }
        raw.extend(data);
        if tail > 0 {
            raw.extend(sum(data));
        }
        raw
    }

    pub fn send(&mut self, bench: &mut Bench, kind: u8, flags: u8, header: &[u8], data: &[u8]) {
        let raw = self.pdu(kind, flags, header, data);
        bench.target.receive(self.id, &raw);
        bench.work();
    }

    /// The next PDU that has come.
    pub fn next(&mut self, bench: &mut Bench) -> Option<Pdu> {
        let output = bench.target.output(self.id).to_vec();
        bench.target.sent(self.id, output.len());
        self.received.extend(output);
        let length = u32::from_le_bytes(self.received.get(4..8)?.try_into().unwrap()) as usize;
        if self.received.len() < length {
            return None;
        }
        let raw: Vec<u8> = self.received.drain(..length).collect();
        let (kind, flags, header, offset) = (raw[0], raw[1], raw[2] as usize, raw[3] as usize);
        if self.digests & 1 != 0 && kind != 3 {
            assert_eq!(raw[header..header + 4], sum(&raw[..header]), "header digest");
        }
        let mut data = match offset {
            0 => vec![],
            offset => raw[offset..].to_vec(),
        };
        if self.digests & 2 != 0 && !data.is_empty() {
            let digest = data.split_off(data.len() - 4);
            assert_eq!(digest, sum(&data), "data digest");
        }
        Some(Pdu { kind, flags, header: raw[..header].to_vec(), data })
    }

    /// The next completion, which must have come, and the data before it.
    pub fn completion(&mut self, bench: &mut Bench) -> (Cqe, Vec<u8>) {
        let mut data = vec![];
        loop {
            let pdu = self.next(bench).expect("a PDU");
            match pdu.kind {
                7 => data.extend(pdu.data),
                5 => {
                    let raw = &pdu.header[8..];
                    let word = |at: usize| u16::from_le_bytes([raw[at], raw[at + 1]]);
                    let result = u64::from_le_bytes(raw[..8].try_into().unwrap());
                    let status = word(14) >> 1 & 0x7ff;
                    return (Cqe { result, head: word(8), cid: word(12), status }, data);
                }
                other => panic!("PDU {other:#x}: {pdu:?}"),
            }
        }
    }

    pub fn next_cid(&mut self) -> u16 {
        self.cid = self.cid.wrapping_add(1);
        self.cid
    }

    /// Sends a command with data in its capsule, or none.
    pub fn command(&mut self, bench: &mut Bench, mut raw: [u8; 64], data: &[u8]) -> (Cqe, Vec<u8>) {
        raw[2..4].copy_from_slice(&self.next_cid().to_le_bytes());
        self.send(bench, 4, 0, &raw, data);
        let (cqe, data) = self.completion(bench);
        assert_eq!(cqe.cid, self.cid);
        (cqe, data)
    }

    /// Sends Connect for queue `queue` of 32 entries.
    pub fn connect(
        &mut self,
        bench: &mut Bench,
        queue: u16,
        controller: u16,
        subsystem: &str,
    ) -> Cqe {
        let data = connect_data(controller, subsystem, &self.host, self.host_id);
        self.connect_with(bench, queue, 31, 0, &data)
    }

    pub fn connect_with(
        &mut self,
        bench: &mut Bench,
        queue: u16,
        last: u16,
        keep_alive: u32,
        data: &[u8],
    ) -> Cqe {
        let mut raw = entry(FABRICS, 0, 1);
        block(&mut raw, data.len(), true);
        raw[42..44].copy_from_slice(&queue.to_le_bytes());
        raw[44..46].copy_from_slice(&last.to_le_bytes());
        raw[48..52].copy_from_slice(&keep_alive.to_le_bytes());
        self.command(bench, raw, data).0
    }

    pub fn get_property(&mut self, bench: &mut Bench, offset: u32, wide: bool) -> Cqe {
        let mut raw = entry(FABRICS, 0, 4);
        raw[40] = u8::from(wide);
        raw[44..48].copy_from_slice(&offset.to_le_bytes());
        self.command(bench, raw, &[]).0
    }

    pub fn set_property(&mut self, bench: &mut Bench, offset: u32, value: u32) -> Cqe {
        let mut raw = entry(FABRICS, 0, 0);
        raw[44..48].copy_from_slice(&offset.to_le_bytes());
        raw[48..52].copy_from_slice(&value.to_le_bytes());
        self.command(bench, raw, &[]).0
    }

    /// An admin command that reads `length` bytes.
    pub fn admin_read(
        &mut self,
        bench: &mut Bench,
        (opcode, nsid): (u8, u32),
        dword10: u32,
        length: usize,
    ) -> (Cqe, Vec<u8>) {
        let mut raw = entry(opcode, 0, nsid);
        block(&mut raw, length, false);
        raw[40..44].copy_from_slice(&dword10.to_le_bytes());
        self.command(bench, raw, &[])
    }

    /// A Read or Write of namespace 1 from block `lba` on.
    pub fn io(opcode: u8, lba: u64, bytes: usize, in_capsule: bool) -> [u8; 64] {
        let mut raw = entry(opcode, 0, 1);
        block(&mut raw, bytes, in_capsule);
        raw[40..48].copy_from_slice(&lba.to_le_bytes());
        raw[48..52].copy_from_slice(&((bytes / 512 - 1) as u32).to_le_bytes());
        raw
    }

    /// Reads from block `lba` on.
    pub fn read(&mut self, bench: &mut Bench, lba: u64, bytes: usize) -> (Cqe, Vec<u8>) {
        self.command(bench, Self::io(READ, lba, bytes, false), &[])
    }

    /// Writes in a capsule.
    pub fn write(&mut self, bench: &mut Bench, lba: u64, data: &[u8]) -> Cqe {
        self.command(bench, Self::io(WRITE, lba, data.len(), true), data).0
    }

    /// Writes by PDUs of data of at most `piece` bytes.
    pub fn write_long(&mut self, bench: &mut Bench, lba: u64, data: &[u8], piece: usize) -> Cqe {
        let mut raw = Self::io(WRITE, lba, data.len(), false);
        raw[2..4].copy_from_slice(&self.next_cid().to_le_bytes());
        self.send(bench, 4, 0, &raw, &[]);
        let ready = self.next(bench).expect("a request for data");
        assert_eq!(ready.kind, 9);
        assert_eq!(
            ready.header[12..20],
            [&[0; 4][..], &(data.len() as u32).to_le_bytes()].concat()
        );
        for (index, part) in data.chunks(piece).enumerate() {
            let at = index * piece;
            let last = if at + part.len() == data.len() { 4 } else { 0 };
            let header = host_data(&ready, at as u32, part.len() as u32);
            self.send(bench, 6, last, &header, part);
        }
        self.completion(bench).0
    }
}

/// The header of data that `ready` asks for.
pub fn host_data(ready: &Pdu, at: u32, length: u32) -> Vec<u8> {
    let mut header = ready.header[8..12].to_vec();
    header.extend(at.to_le_bytes());
    header.extend(length.to_le_bytes());
    header.extend([0; 4]);
    header
}

/// A host with a controller that is ready: its admin queue, and the controller.
pub fn ready(bench: &mut Bench, digests: u8) -> (Host, u16) {
    let mut admin = Host::open(bench, digests);
    let nqn = bench.nqn();
    let connected = admin.connect(bench, 0, 0xffff, &nqn);
    assert_eq!(connected.status, 0);
    enable(bench, &mut admin);
    (admin, connected.result as u16)
}

/// Enables a controller, with all command sets where there are several.
pub fn enable(bench: &mut Bench, admin: &mut Host) {
    let cap = admin.get_property(bench, 0, true).result;
    let sets = if cap >> 43 & 1 != 0 { 6 << 4 } else { 0 };
    assert_eq!(admin.set_property(bench, 0x14, 4 << 20 | 6 << 16 | sets | 1).status, 0);
    assert_eq!(admin.get_property(bench, 0x1c, false).result, 1, "ready");
}

/// The same with an I/O queue.
pub fn with_queue(bench: &mut Bench, digests: u8) -> (Host, Host, u16) {
    let (admin, controller) = ready(bench, digests);
    let mut io = Host::open(bench, digests);
    io.host.clone_from(&admin.host);
    let nqn = bench.nqn();
    assert_eq!(io.connect(bench, 1, controller, &nqn).status, 0);
    (admin, io, controller)
}

/// The subsystem's name of discovery.
pub fn discovery() -> &'static str {
    DISCOVERY_NQN
}
