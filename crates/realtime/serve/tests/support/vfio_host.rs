//! A guest on a real socket without a machine: the messages of a vfio-user client, memory, and an
//! NVMe driver with an admin queue and an I/O queue.
#![allow(dead_code)]

use std::fs::File;
use std::io::{Error, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

pub const MEMORY: u64 = 2 << 20;
/// Entries of each queue.
pub const ENTRIES: u16 = 64;
const DOORBELLS: u64 = 0x1000;
const ADMIN_SQ: u64 = 0;
const ADMIN_CQ: u64 = 0x1000;
const SQ: u64 = 0x2000;
const CQ: u64 = 0x3000;
const PAGE: u64 = 0x4000;
/// Data, 4 KiB for each command.
const DATA: u64 = 0x10000;

/// A client's connection.
pub struct Client {
    pub stream: UnixStream,
    next: u16,
}

fn dword(raw: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(raw[at..at + 4].try_into().unwrap())
}

impl Client {
    /// Connects and agrees on the version.
    pub fn connect(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut client = Self { stream, next: 0 };
        let mut version = vec![0; 4];
        version.extend(br#"{"capabilities":{"max_msg_fds":16,"max_data_xfer_size":1048576}}"#);
        version.push(0);
        client.ask(1, &version, &[])?;
        Ok(client)
    }

    /// Sends a message; returns its number.
    pub fn send(&mut self, command: u16, payload: &[u8], fds: &[BorrowedFd]) -> Result<u16> {
        self.next = self.next.wrapping_add(1);
        let mut raw = self.next.to_le_bytes().to_vec();
        raw.extend(command.to_le_bytes());
        raw.extend((16 + payload.len() as u32).to_le_bytes());
        raw.extend([0; 8]);
        raw.extend(payload);
        let mut space = [const { MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(32))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        let flags = SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&self.stream, &[IoSlice::new(&raw)], &mut ancillary, flags)?;
        Ok(self.next)
    }

    fn receive(&mut self, into: &mut [u8], fds: &mut Vec<OwnedFd>) -> Result<()> {
        let mut done = 0;
        while done < into.len() {
            let mut space = [const { MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(4))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut vectors = [IoSliceMut::new(&mut into[done..])];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let received = rustix::net::recvmsg(&self.stream, &mut vectors, &mut ancillary, flags)?;
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    fds.extend(received);
                }
            }
            if received.bytes == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            done += received.bytes;
        }
        Ok(())
    }

    /// The next reply: its payload and descriptors, or its errno as an error.
    pub fn reply(&mut self, number: u16) -> Result<(Vec<u8>, Vec<OwnedFd>)> {
        let (mut header, mut fds) = ([0; 16], Vec::new());
        self.receive(&mut header, &mut fds)?;
        assert_eq!(header[..2], number.to_le_bytes());
        let mut payload = vec![0; dword(&header, 4) as usize - 16];
        self.receive(&mut payload, &mut fds)?;
        match dword(&header, 8) {
            0x01 => Ok((payload, fds)),
            0x21 => {
                assert!(payload.is_empty());
                Err(Error::from_raw_os_error(dword(&header, 12) as i32))
            }
            flags => panic!("a reply with flags {flags:#x}"),
        }
    }

    pub fn ask(
        &mut self,
        command: u16,
        payload: &[u8],
        fds: &[BorrowedFd],
    ) -> Result<(Vec<u8>, Vec<OwnedFd>)> {
        let number = self.send(command, payload, fds)?;
        self.reply(number)
    }

    pub fn map(&mut self, address: u64, size: u64, memory: Option<&File>) -> Result<()> {
        let mut payload = [32u32, 3].map(u32::to_le_bytes).concat();
        payload.extend([0, address, size].map(u64::to_le_bytes).concat());
        let fds: Vec<_> = memory.map(|file| file.as_fd()).into_iter().collect();
        self.ask(2, &payload, &fds).map(|_| ())
    }

    pub fn unmap(&mut self, address: u64, size: u64) -> Result<()> {
        let mut payload = [24u32, 0].map(u32::to_le_bytes).concat();
        payload.extend([address, size].map(u64::to_le_bytes).concat());
        let (reply, _) = self.ask(3, &payload, &[])?;
        assert_eq!(reply, payload);
        Ok(())
    }

    fn access(region: u32, offset: u64, count: u32) -> Vec<u8> {
        let mut payload = offset.to_le_bytes().to_vec();
        payload.extend([region, count].map(u32::to_le_bytes).concat());
        payload
    }

    pub fn read(&mut self, region: u32, offset: u64, count: u32) -> Result<Vec<u8>> {
        let (reply, _) = self.ask(9, &Self::access(region, offset, count), &[])?;
        Ok(reply[16..].to_vec())
    }

    pub fn write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<()> {
        let mut payload = Self::access(region, offset, data.len() as u32);
        payload.extend(data);
        self.ask(10, &payload, &[]).map(|_| ())
    }

    /// Returns BAR 0's memory and the offset of its doorbells, if they can be mapped.
    pub fn doorbells(&mut self) -> Result<Option<(File, u64)>> {
        let mut request = [0; 32];
        request[0] = 64;
        let (reply, mut fds) = self.ask(5, &request, &[])?;
        assert_eq!(reply[16..24], 0x4000u64.to_le_bytes());
        if dword(&reply, 4) & 4 == 0 {
            return Ok(None);
        }
        assert_eq!((dword(&reply, 12), dword(&reply, 40), reply.len()), (32, 1, 64));
        let offset = u64::from_le_bytes(reply[48..56].try_into().unwrap());
        Ok(Some((fds.pop().unwrap().into(), offset)))
    }

    /// Connects the first vectors to eventfds.
    pub fn interrupts(&mut self, eventfds: &[OwnedFd]) -> Result<()> {
        let payload = [20, 0x24, 2, 0, eventfds.len() as u32].map(u32::to_le_bytes).concat();
        let fds: Vec<_> = eventfds.iter().map(|fd| fd.as_fd()).collect();
        self.ask(8, &payload, &fds).map(|_| ())
    }
}

/// A guest that drives its controller.
pub struct VfioHost {
    pub client: Client,
    pub memory: File,
    pub doorbells: Option<(File, u64)>,
    pub eventfds: Vec<OwnedFd>,
    /// Tails and heads of both queues, and the phases.
    tails: [u16; 2],
    heads: [u16; 2],
    phases: [bool; 2],
}

pub fn memory(size: u64) -> File {
    let memory = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let file = File::from(memory);
    file.set_len(size).unwrap();
    file
}

impl VfioHost {
    /// Connects, and has the controller and an I/O queue.
    pub fn connect(path: &Path) -> Result<Self> {
        Self::connect_for(0, path)
    }

    /// Connects for the command sets that CC.CSS means by a number.
    pub fn connect_for(command_sets: u32, path: &Path) -> Result<Self> {
        let mut client = Client::connect(path)?;
        let memory = memory(MEMORY);
        client.map(0, MEMORY, Some(&memory))?;
        let doorbells = client.doorbells()?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let eventfds: Vec<_> = (0..2).map(|_| eventfd(0, flags).unwrap()).collect();
        client.interrupts(&eventfds)?;
        client.write(7, 4, &[6, 0])?;
        let mut host = Self {
            client,
            memory,
            doorbells,
            eventfds,
            tails: [0; 2],
            heads: [0; 2],
            phases: [true; 2],
        };
        host.enable_for(command_sets)?;
        Ok(host)
    }

    /// Connects as soon as a server is there.
    pub fn reconnect(path: &Path) -> Self {
        let limit = Instant::now() + Duration::from_secs(30);
        loop {
            match Self::connect(path) {
                Ok(host) => return host,
                Err(error) => assert!(Instant::now() < limit, "{error}"),
            }
            std::thread::yield_now();
        }
    }

    /// Enables the controller and makes the I/O queue.
    pub fn enable(&mut self) -> Result<()> {
        self.enable_for(0)
    }

    fn enable_for(&mut self, command_sets: u32) -> Result<()> {
        (self.tails, self.heads, self.phases) = ([0; 2], [0; 2], [true; 2]);
        for queue in [ADMIN_SQ, ADMIN_CQ, SQ, CQ] {
            self.memory.write_all_at(&[0; 4096], queue)?;
        }
        let last = (ENTRIES - 1).to_le_bytes();
        self.client.write(0, 0x24, &[last[0], last[1], last[0], last[1]])?;
        self.client.write(0, 0x28, &ADMIN_SQ.to_le_bytes())?;
        self.client.write(0, 0x30, &ADMIN_CQ.to_le_bytes())?;
        let configuration = 0x0046_0001 | command_sets << 4;
        self.client.write(0, 0x14, &u32::to_le_bytes(configuration))?;
        assert_eq!(self.client.read(0, 0x1c, 4)?, [1, 0, 0, 0], "ready");
        let size = u32::from(ENTRIES - 1) << 16 | 1;
        for (opcode, address, flags) in [(5, CQ, 1 << 16 | 3), (1, SQ, 1 << 16 | 1)] {
            let mut entry = [0; 64];
            entry[0] = opcode;
            entry[24..32].copy_from_slice(&address.to_le_bytes());
            entry[40..44].copy_from_slice(&size.to_le_bytes());
            entry[44..48].copy_from_slice(&u32::to_le_bytes(flags));
            assert_eq!(self.admin(entry)?.1, 0);
        }
        Ok(())
    }

    /// Writes a doorbell.
    pub fn ring(&mut self, index: u64, value: u16) -> Result<()> {
        let value = u32::from(value).to_le_bytes();
        match &self.doorbells {
            Some((file, offset)) => file.write_all_at(&value, offset + 4 * index),
            None => self.client.write(0, DOORBELLS + 4 * index, &value),
        }
    }

    /// Puts a command into a queue, and rings.
    pub fn submit(&mut self, queue: usize, entry: &[u8; 64]) -> Result<()> {
        let base = [ADMIN_SQ, SQ][queue];
        self.memory.write_all_at(entry, base + 64 * u64::from(self.tails[queue]))?;
        self.tails[queue] = (self.tails[queue] + 1) % ENTRIES;
        self.ring(2 * queue as u64, self.tails[queue])
    }

    /// A completion of a queue, if there is one: command, status, Dword 0.
    pub fn completion(&mut self, queue: usize) -> Result<Option<(u16, u16, u32)>> {
        let mut raw = [0; 16];
        let base = [ADMIN_CQ, CQ][queue];
        self.memory.read_exact_at(&mut raw, base + 16 * u64::from(self.heads[queue]))?;
        let status = u16::from_le_bytes([raw[14], raw[15]]);
        if (status & 1 != 0) != self.phases[queue] {
            return Ok(None);
        }
        self.heads[queue] = (self.heads[queue] + 1) % ENTRIES;
        self.phases[queue] ^= self.heads[queue] == 0;
        self.ring(2 * queue as u64 + 1, self.heads[queue])?;
        Ok(Some((u16::from_le_bytes([raw[12], raw[13]]), status >> 1, dword(&raw, 0))))
    }

    /// Waits for a completion of a queue by its interrupt.
    pub fn wait(&mut self, queue: usize) -> Result<(u16, u16, u32)> {
        loop {
            if let Some(done) = self.completion(queue)? {
                return Ok(done);
            }
            let mut fds = [
                PollFd::new(&self.eventfds[queue], PollFlags::IN),
                PollFd::new(&self.client.stream, PollFlags::IN),
            ];
            let limit = Timespec { tv_sec: 30, tv_nsec: 0 };
            assert!(poll(&mut fds, Some(&limit))? > 0, "no interrupt");
            if !fds[1].revents().is_empty() {
                // Completions from before the server's end count.
                let last = self.completion(queue)?;
                return last.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into());
            }
            let _ = rustix::io::read(&self.eventfds[queue], &mut [0; 8]);
        }
    }

    pub fn admin(&mut self, entry: [u8; 64]) -> Result<(u16, u16, u32)> {
        self.submit(0, &entry)?;
        self.wait(0)
    }

    /// Carries out a command of a queue whose data, if there is some, goes to the drive: its result and
    /// status.
    pub fn run(&mut self, queue: usize, mut entry: [u8; 64], data: &[u8]) -> Result<(u32, u16)> {
        self.memory.write_all_at(data, PAGE)?;
        entry[24..32].copy_from_slice(&PAGE.to_le_bytes());
        self.submit(queue, &entry)?;
        let (_, status, result) = self.wait(queue)?;
        Ok((result, status))
    }

    /// Begins a read (2) or a write (1) of a block of 4 KiB, at the slot `cid`.
    pub fn begin(&mut self, opcode: u8, cid: u16, block: u64) -> Result<()> {
        let mut entry = [0; 64];
        (entry[0], entry[4], entry[48]) = (opcode, 1, 7);
        entry[2..4].copy_from_slice(&cid.to_le_bytes());
        entry[24..32].copy_from_slice(&self.data(cid).to_le_bytes());
        entry[40..48].copy_from_slice(&(block * 8).to_le_bytes());
        self.submit(1, &entry)
    }

    /// Returns the address of the data of a slot.
    pub fn data(&self, cid: u16) -> u64 {
        DATA + 4096 * u64::from(cid)
    }

    pub fn begin_write(&mut self, cid: u16, block: u64, data: &[u8]) -> Result<()> {
        self.memory.write_all_at(data, self.data(cid))?;
        self.begin(1, cid, block)
    }

    pub fn write(&mut self, block: u64, data: &[u8]) -> Result<u16> {
        self.begin_write(0, block, data)?;
        Ok(self.wait(1)?.1)
    }

    pub fn read(&mut self, block: u64) -> Result<Vec<u8>> {
        self.begin(2, 0, block)?;
        let (_, status, _) = self.wait(1)?;
        assert_eq!(status, 0);
        let mut data = vec![0; 4096];
        self.memory.read_exact_at(&mut data, self.data(0))?;
        Ok(data)
    }

    /// Identify Controller.
    pub fn identify(&mut self) -> Result<Vec<u8>> {
        let mut entry = [0; 64];
        (entry[0], entry[40]) = (6, 1);
        entry[24..32].copy_from_slice(&PAGE.to_le_bytes());
        assert_eq!(self.admin(entry)?.1, 0);
        let mut page = vec![0; 4096];
        self.memory.read_exact_at(&mut page, PAGE)?;
        Ok(page)
    }
}
