//! A host on a real socket: an admin queue and an I/O queue over NVMe/TCP.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A connection that has exchanged initialization requests.
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    at: usize,
}

/// An event of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// Data of a read.
    Data(u16, Vec<u8>),
    /// A command has ended, with the low 16 bits of its result and its status.
    Done(u16, u16, u16),
    /// The target asks for so many bytes of a write.
    Ready(u16, u16, u32),
    /// The target ends the connection, for this reason.
    Termination(u16),
}

fn word(raw: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([raw[at], raw[at + 1]])
}

fn dword(raw: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]])
}

impl Connection {
    pub fn open(address: SocketAddr) -> std::io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        let mut request = [0; 128];
        (request[2], request[4]) = (128, 128);
        stream.write_all(&request)?;
        let mut response = [0; 128];
        stream.read_exact(&mut response)?;
        Ok(Self { stream, received: Vec::new(), at: 0 })
    }

    /// Sends a command capsule.
    pub fn command(&mut self, entry: &[u8; 64], data: &[u8]) -> std::io::Result<()> {
        let mut raw = vec![4, 0, 72, if data.is_empty() { 0 } else { 72 }];
        raw.extend(((72 + data.len()) as u32).to_le_bytes());
        raw.extend(entry);
        raw.extend(data);
        self.send(&raw)
    }

    pub fn send(&mut self, raw: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(raw)
    }

    /// The next event; waits for it.
    pub fn next(&mut self) -> std::io::Result<Event> {
        loop {
            if let Some(event) = self.parse() {
                return Ok(event);
            }
            self.received.drain(..std::mem::take(&mut self.at));
            let start = self.received.len();
            self.received.resize(start + (256 << 10), 0);
            let count = self.stream.read(&mut self.received[start..]);
            self.received.truncate(start + *count.as_ref().unwrap_or(&0));
            if count? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn parse(&mut self) -> Option<Event> {
        let raw = &self.received[self.at..];
        let length = if raw.len() >= 8 { dword(raw, 4) as usize } else { return None };
        let raw = raw.get(..length)?;
        let event = match raw[0] {
            5 => Event::Done(word(raw, 20), word(raw, 8), word(raw, 22) >> 1 & 0x7ff),
            7 => Event::Data(word(raw, 8), raw[usize::from(raw[3])..].to_vec()),
            9 => Event::Ready(word(raw, 8), word(raw, 10), dword(raw, 16)),
            3 => Event::Termination(word(raw, 8)),
            other => panic!("PDU of type {other:#x}"),
        };
        self.at += length;
        Some(event)
    }

    /// Returns whether nothing has come that was not taken.
    pub fn is_quiet(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        self.at == self.received.len() && peeked.is_err()
    }

    /// Sends a command and waits for its end: its result and status.
    pub fn run(&mut self, entry: &[u8; 64], data: &[u8]) -> std::io::Result<(u16, u16)> {
        self.command(entry, data)?;
        match self.next()? {
            Event::Done(_, result, status) => Ok((result, status)),
            other => panic!("{other:?}"),
        }
    }

    /// Connects queue `queue` of 128 entries, with a Keep Alive timer of `keep_alive` ms; 0: none.
    pub fn connect(
        &mut self,
        queue: u16,
        controller: u16,
        nqn: &str,
        host: u8,
        keep_alive: u32,
    ) -> std::io::Result<(u16, u16)> {
        let mut data = vec![0; 1024];
        data[..16].fill(host);
        data[16..18].copy_from_slice(&controller.to_le_bytes());
        data[256..256 + nqn.len()].copy_from_slice(nqn.as_bytes());
        let name = format!("nqn.2014-08.org.example:host{host}");
        data[512..512 + name.len()].copy_from_slice(name.as_bytes());
        let mut entry = [0; 64];
        (entry[0], entry[4], entry[39], entry[44]) = (0x7f, 1, 1, 127);
        entry[32..36].copy_from_slice(&1024u32.to_le_bytes());
        entry[42..44].copy_from_slice(&queue.to_le_bytes());
        entry[48..52].copy_from_slice(&keep_alive.to_le_bytes());
        self.run(&entry, &data)
    }

    /// Begins a read of 4 KiB at `block`, in units of 4 KiB.
    pub fn read(&mut self, cid: u16, block: u64) -> std::io::Result<()> {
        self.command(&io(2, cid, block, false), &[])
    }

    /// Begins a write of 4 KiB.
    pub fn write(&mut self, cid: u16, block: u64, data: &[u8]) -> std::io::Result<()> {
        self.command(&io(1, cid, block, true), data)
    }
}

/// A Read or Write of 4 KiB.
fn io(opcode: u8, cid: u16, block: u64, in_capsule: bool) -> [u8; 64] {
    let mut entry = [0; 64];
    (entry[0], entry[1], entry[4]) = (opcode, 0x40, 1);
    entry[2..4].copy_from_slice(&cid.to_le_bytes());
    entry[32..36].copy_from_slice(&4096u32.to_le_bytes());
    entry[39] = if in_capsule { 1 } else { 0x5a };
    entry[40..48].copy_from_slice(&(block * 8).to_le_bytes());
    entry[48] = 7;
    entry
}

/// A host with a controller that is ready.
pub struct TcpHost {
    /// The identifier of its controller.
    pub controller: u16,
    pub admin: Connection,
    pub io: Connection,
}

impl TcpHost {
    /// Connects to the subsystem `nqn` at `address`, for the NVM command set.
    pub fn connect(address: SocketAddr, nqn: &str, host: u8) -> std::io::Result<Self> {
        Self::connect_for(0, address, nqn, host)
    }

    /// Connects for the command sets that CC.CSS means by a number.
    pub fn connect_for(
        command_sets: u32,
        address: SocketAddr,
        nqn: &str,
        host: u8,
    ) -> std::io::Result<Self> {
        let mut admin = Connection::open(address)?;
        let (controller, status) = admin.connect(0, 0xffff, nqn, host, 0)?;
        assert_eq!(status, 0, "a controller");
        let mut enable = [0; 64];
        (enable[0], enable[44]) = (0x7f, 0x14);
        let configuration = 4 << 20 | 6 << 16 | command_sets << 4 | 1;
        enable[48..52].copy_from_slice(&configuration.to_le_bytes());
        assert_eq!(admin.run(&enable, &[])?.1, 0);
        let mut io = Connection::open(address)?;
        assert_eq!(io.connect(1, controller, nqn, host, 0)?.1, 0, "an I/O queue");
        Ok(Self { controller, admin, io })
    }

    /// Connects as soon as a server is there.
    pub fn reconnect(address: SocketAddr, nqn: &str, host: u8) -> Self {
        let limit = Instant::now() + Duration::from_secs(30);
        loop {
            match Self::connect(address, nqn, host) {
                Ok(host) => return host,
                Err(error) => assert!(Instant::now() < limit, "no server: {error}"),
            }
            std::thread::yield_now();
        }
    }

    /// Reads 4 KiB.
    pub fn read(&mut self, block: u64) -> std::io::Result<Vec<u8>> {
        self.io.read(1, block)?;
        let Event::Data(1, data) = self.io.next()? else { panic!("no data") };
        assert_eq!(self.io.next()?, Event::Done(1, 0, 0));
        Ok(data)
    }

    /// Writes 4 KiB.
    pub fn write(&mut self, block: u64, data: &[u8]) -> std::io::Result<()> {
        self.io.write(1, block, data)?;
        assert_eq!(self.io.next()?, Event::Done(1, 0, 0));
        Ok(())
    }
}
