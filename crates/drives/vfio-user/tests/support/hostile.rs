//! A client that does anything, as a script of bytes says.

use std::cell::RefCell;

use stasis_block::memory::{Memory, OutOfMemoryRange};
use stasis_block::{Health, Operation, Status};
use stasis_nvme::{Config, Namespace, Subsystem, Transport};
use stasis_vfio_user::{
    Connection, Device, DmaUnmap, Doorbells, Drive, Handled, Request, DOORBELLS, MAX_MESSAGE,
};

#[path = "../../../block/tests/common/hostile.rs"]
mod common;
use common::Script;

const SIZE: u64 = 1 << 20;
/// Bytes of the guest's memory: queues in the first pages, data behind.
const MEMORY: usize = 64 << 10;

pub struct Ram(RefCell<Vec<u8>>);

impl Memory for Ram {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfMemoryRange> {
        let error = OutOfMemoryRange { address, length: into.len() };
        let ram = self.0.borrow();
        let start = usize::try_from(address).map_err(|_| error)?;
        let from = start.checked_add(into.len()).and_then(|end| ram.get(start..end));
        into.copy_from_slice(from.ok_or(error)?);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfMemoryRange> {
        let error = OutOfMemoryRange { address, length: from.len() };
        let mut ram = self.0.borrow_mut();
        let start = usize::try_from(address).map_err(|_| error)?;
        let into = start.checked_add(from.len()).and_then(|end| ram.get_mut(start..end));
        into.ok_or(error)?.copy_from_slice(from);
        Ok(())
    }
}

struct Page(RefCell<Vec<u32>>);

impl Doorbells for Page {
    fn read(&self, into: &mut [u32]) {
        let page = self.0.borrow();
        into.copy_from_slice(&page[..into.len()]);
    }

    fn differ(&self, known: &[u32]) -> bool {
        self.0.borrow()[..known.len()] != *known
    }

    fn write(&self, index: usize, value: u32) {
        self.0.borrow_mut()[index] = value;
    }

    fn clear(&self, index: usize, expected: u32) {
        let word = &mut self.0.borrow_mut()[index];
        if *word == expected {
            *word = 0;
        }
    }
}

/// A message of a client.
pub fn message(command: u16, payload: &[u8]) -> Vec<u8> {
    let mut raw = vec![1, 0];
    raw.extend(command.to_le_bytes());
    raw.extend((16 + payload.len() as u32).to_le_bytes());
    raw.extend([0; 8]);
    raw.extend(payload);
    raw
}

fn write(region: u32, offset: u64, data: &[u8]) -> Vec<u8> {
    let mut payload = offset.to_le_bytes().to_vec();
    payload.extend(region.to_le_bytes());
    payload.extend((data.len() as u32).to_le_bytes());
    payload.extend(data);
    message(10, &payload)
}

struct Client {
    connection: Connection<u8>,
    subsystem: Subsystem,
    device: Device,
    ram: Ram,
    page: Page,
    ended: bool,
}

impl Client {
    /// Gives the device's connection bytes in pieces, with descriptors at the beginning.
    fn send(&mut self, mut bytes: &[u8], piece: usize, descriptors: u8) {
        let mut given = Some(0..descriptors);
        while !bytes.is_empty() && !self.ended {
            let wants = self.connection.wants();
            assert!(wants > 0 && wants <= MAX_MESSAGE);
            let (now, later) = bytes.split_at(wants.min(piece.max(1)).min(bytes.len()));
            bytes = later;
            match self.connection.receive(now, given.take().into_iter().flatten()) {
                Err(fault) => {
                    assert!(!fault.to_string().is_empty());
                    self.ended = true;
                }
                Ok(None) => {}
                Ok(Some(message)) => self.answer(message),
            }
        }
    }

    fn answer(&mut self, message: stasis_vfio_user::Message<u8>) {
        let Self { subsystem, device, ram, page, .. } = self;
        let there = subsystem.vectors();
        let mut drive = Drive { subsystem, health: &mut Health::default };
        let answer = message.request.and_then(|request| {
            let room = match &request {
                Request::RegionInfo { room, .. } => *room as usize,
                _ => MAX_MESSAGE,
            };
            Ok(match device.handle(&mut drive, ram, page, request)? {
                Handled::Answer(answer) => {
                    assert!(answer.payload.len() <= room);
                    answer.payload
                }
                Handled::Map(map, _) => {
                    assert!(map.size > 0 && map.address.checked_add(map.size).is_some());
                    Vec::new()
                }
                Handled::Unmap(DmaUnmap::All | DmaUnmap::Piece { .. }, payload) => payload,
                Handled::SetVectors(vectors) => {
                    let end = u32::from(vectors.start) + u32::from(vectors.count);
                    assert!(end <= u32::from(there));
                    let given = vectors.descriptors.len();
                    assert!(given == 0 || given == usize::from(vectors.count));
                    Vec::new()
                }
                Handled::Signal(vectors) => {
                    vectors.iter().for_each(|&vector| device.set_pending(vector));
                    Vec::new()
                }
            })
        });
        let reply = message.header.reply(&answer);
        assert!(reply.is_none_or(|reply| (16..=MAX_MESSAGE).contains(&reply.len())));
    }

    /// Does what the carrier does between messages.
    fn turn(&mut self) {
        let Self { subsystem, device, ram, page, .. } = self;
        device.poll(&mut Drive { subsystem, health: &mut Health::default }, ram, page);
        while let Some(vendor) = subsystem.pop_vendor() {
            if let Some(mut controller) = subsystem.controller(device.id()) {
                controller.complete_vendor(ram, vendor.tag, Ok(0), &vendor.command.data);
            }
        }
        while let Some(request) = subsystem.pop_request() {
            let mut data = request.data;
            if request.command.operation == Operation::Read {
                data = vec![7; request.command.length as usize];
            }
            subsystem.complete(ram, request.tag, Status::Ok, data);
        }
        while subsystem.pop_refused().is_some() {}
        let interrupt = |subsystem: &mut Subsystem, id| subsystem.controller(id)?.pop_interrupt();
        while let Some(vector) = interrupt(subsystem, device.id()) {
            device.set_pending(vector);
            assert!(device.take_pending(vector) && !device.take_pending(vector));
        }
        device.poll(&mut Drive { subsystem, health: &mut Health::default }, ram, page);
    }
}

fn client(mapped: bool, transport: Transport) -> Client {
    let config = Config {
        serial: "H".into(),
        queue_pairs: 2,
        queue_entries: 16,
        max_transfer: 64 << 10,
        max_in_flight_bytes: 256 << 10,
        namespaces: vec![Namespace::new(SIZE / 512, 512)],
        shadow_doorbells: false,
        ..Config::default()
    };
    let mut subsystem = Subsystem::new(config).expect("a good configuration");
    let id = subsystem.add_controller(transport).expect("room for one");
    Client {
        connection: Connection::default(),
        device: Device::new(&subsystem, id, mapped),
        subsystem,
        ram: Ram(vec![0; MEMORY].into()),
        page: Page(vec![0; 1024].into()),
        ended: false,
    }
}

/// Has the controller reach memory, and enables it with admin queues of 16 entries in the first two
/// pages.
fn enable(client: &mut Client) {
    client.send(&message(1, &[0; 4]), usize::MAX, 0);
    for message in [
        write(7, 4, &[6, 0]),
        write(0, 0x24, &[15, 0, 15, 0]),
        write(0, 0x28, &0u64.to_le_bytes()),
        write(0, 0x30, &0x1000u64.to_le_bytes()),
        write(0, 0x14, &0x0046_0001u32.to_le_bytes()),
    ] {
        client.send(&message, usize::MAX, 0);
    }
}

/// Puts a command into the admin queue at `tail`, and rings.
fn admin(client: &mut Client, tail: u32, entry: &[u8; 64], by_message: bool) {
    let _ = client.ram.write(u64::from((tail + 15) % 16) * 64, entry);
    let rung = (tail % 16).to_le_bytes();
    match by_message {
        true => client.send(&write(0, DOORBELLS, &rung), usize::MAX, 0),
        false => client.page.write(0, tail % 16),
    }
    client.turn();
}

/// Runs a script: whatever it says, nothing panics, memory is bounded, and a client that keeps to
/// the protocol is served in the end.
pub fn run(script: &[u8]) {
    let mut script = Script(script);
    let flags = script.u8();
    let transport = if flags & 4 != 0 { Transport::SharedPcie } else { Transport::Pcie };
    let mut client = client(flags & 1 != 0, transport);
    // A controller that works, or else most scripts never get there.
    if flags & 2 != 0 {
        enable(&mut client);
    }
    let mut tail = 0;
    while !script.0.is_empty() {
        match script.u8() % 8 {
            0 => {
                let command = u16::from(script.u8() % 20);
                let length = usize::from(script.u8() % 64);
                let payload: Vec<u8> = (0..length).map(|_| script.u8()).collect();
                let (piece, descriptors) = (script.u8(), script.u8());
                client.send(&message(command, &payload), piece.into(), descriptors % 20);
            }
            1 => {
                let length = script.u8();
                let raw: Vec<u8> = (0..length).map(|_| script.u8()).collect();
                client.send(&raw, usize::MAX, 0);
            }
            2 => {
                let (region, offset) = (u32::from(script.u8() % 10), u64::from(script.u16()));
                let length = [1, 2, 4, 8][usize::from(script.u8() % 4)];
                let data: Vec<u8> = (0..length).map(|_| script.u8()).collect();
                client.send(&write(region, offset, &data), usize::MAX, 0);
            }
            3 => {
                let mut payload = u64::from(script.u16()).to_le_bytes().to_vec();
                payload.extend(u32::from(script.u8() % 10).to_le_bytes());
                payload.extend(u32::from(script.u8()).to_le_bytes());
                client.send(&message(9, &payload), usize::MAX, 0);
            }
            4 => {
                let index = usize::from(script.u8() % 8);
                client.page.write(index, script.u32() % 20);
                client.turn();
            }
            5 => {
                let mut entry = [0; 64];
                (entry[0], entry[2], entry[4]) = (script.u8() % 16, script.u8(), script.u8() % 3);
                entry[24..32].copy_from_slice(&u64::from(script.u16()).to_le_bytes());
                entry[40..44].copy_from_slice(&script.u32().to_le_bytes());
                entry[44..48].copy_from_slice(&script.u32().to_le_bytes());
                tail += 1;
                admin(&mut client, tail, &entry, script.u8() % 2 == 0);
            }
            6 => {
                let at = u64::from(script.u16());
                let word = script.u32().to_le_bytes();
                let _ = client.ram.write(at, &word);
            }
            _ => client.turn(),
        }
    }
    serves(client);
}

/// Another client of the same device finds a drive that works.
fn serves(client: Client) {
    let mut client = Client { connection: Connection::default(), ended: false, ..client };
    client.device.reset(&mut client.subsystem, &client.page);
    client.ram.0.borrow_mut().fill(0);
    enable(&mut client);
    // Identify Controller, to the third page.
    let mut identify = [0; 64];
    (identify[0], identify[40]) = (6, 1);
    identify[24..32].copy_from_slice(&0x2000u64.to_le_bytes());
    admin(&mut client, 1, &identify, false);
    if !client.device.is_mapped() {
        client.send(&write(0, DOORBELLS, &[1, 0, 0, 0]), usize::MAX, 0);
        client.turn();
    }
    let mut serial = [0; 5];
    client.ram.read(0x2004, &mut serial).expect("in memory");
    assert_eq!(&serial, b"H    ", "the serial number");
    let mut status = [0; 2];
    client.ram.read(0x100e, &mut status).expect("in memory");
    assert_eq!(status, [1, 0], "phase, and success");
}
