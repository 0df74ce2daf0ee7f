//! The device: its regions, its interrupts, and the doorbells that it looks for.

use stasis_block::Health;
use stasis_nvme::{is_admin_doorbell, ControllerId, Memory, Subsystem};

use crate::config_space::{self, ConfigSpace};
use crate::doorbells::Doorbells;
use crate::fault::Refusal;
use crate::layout::{self, BAR0_SIZE, DOORBELLS, DOORBELLS_SIZE, PENDING, TABLE, TABLE_ENTRY};
use crate::replies::{self, Payload};
use crate::request::{command, DmaMap, DmaUnmap, Request, Vectors};

/// A reply to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The bytes behind the header.
    pub payload: Payload,
    /// True if the descriptor of BAR 0's memory goes with it.
    pub has_memory: bool,
}

impl Answer {
    /// A reply without a descriptor.
    pub fn of(payload: Payload) -> Self {
        Self { payload, has_memory: false }
    }
}

/// The outcome of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Handled<F> {
    /// The request is done.
    Answer(Answer),
    /// The carrier is to map memory, and to answer with nothing.
    Map(DmaMap, Option<F>),
    /// The carrier is to forget memory, and to answer with this.
    Unmap(DmaUnmap, Payload),
    /// The carrier is to connect existing vectors, or to disconnect them, and to answer with
    /// nothing.
    SetVectors(Vectors<F>),
    /// The carrier is to signal existing vectors, and to answer with nothing.
    Signal(Vec<u16>),
}

/// The drive behind the devices.
pub struct Drive<'a> {
    /// The subsystem, of which each device is a controller.
    pub subsystem: &'a mut Subsystem,
    /// Asked for before admin commands are begun.
    pub health: &'a mut dyn FnMut() -> Health,
}

/// An NVMe controller on the PCI bus.
#[derive(Debug)]
pub struct Device {
    /// The controller in its subsystem.
    id: ControllerId,
    /// Number of MSI-X vectors.
    vectors: u16,
    space: ConfigSpace,
    table: Vec<u8>,
    /// Vectors that were to be signalled while nothing was connected, a bit for each.
    pending: u128,
    /// Last values of the doorbells.
    last: Vec<u32>,
    /// True if clients map the doorbells.
    mapped: bool,
    accesses: u64,
}

impl Device {
    /// Makes the device of a controller on PCIe, as after power was switched on. `mapped`: clients
    /// map the doorbells, which the carrier looks for; otherwise each ringing is a message.
    pub fn new(subsystem: &Subsystem, id: ControllerId, mapped: bool) -> Self {
        let vectors = subsystem.vectors();
        Self {
            id,
            vectors,
            space: ConfigSpace::new(vectors),
            table: vec![0; usize::from(vectors) * TABLE_ENTRY],
            pending: 0,
            // A pair of doorbells for each queue pair, of which there is one more than vectors of
            // I/O queues: as many as vectors.
            last: vec![0; 2 * usize::from(vectors)],
            mapped,
            accesses: 0,
        }
    }

    /// The controller in its subsystem.
    pub fn id(&self) -> ControllerId {
        self.id
    }

    /// Returns whether clients map the doorbells.
    pub fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// Returns whether the guest lets the device reach memory.
    pub fn is_bus_master(&self) -> bool {
        self.space.is_bus_master()
    }

    /// Returns whether a driver rings doorbells in mapped memory.
    pub fn is_polled(&self, subsystem: &Subsystem) -> bool {
        self.mapped && self.space.is_bus_master() && subsystem.is_enabled(self.id)
    }

    /// Accesses to BAR 0 by messages so far: each one has trapped.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Resets everything, as after power was switched on.
    pub fn reset(&mut self, subsystem: &mut Subsystem, doorbells: &dyn Doorbells) {
        if let Some(mut controller) = subsystem.controller(self.id) {
            controller.reset_function();
            while controller.pop_stale_doorbell().is_some() {}
        }
        self.space.reset();
        self.table.fill(0);
        self.pending = 0;
        for (index, last) in self.last.iter_mut().enumerate() {
            doorbells.write(index, 0);
            *last = 0;
        }
    }

    /// Handles a request. Other controllers are to be attended to then, where
    /// [`Subsystem::waiting`] names them.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn handle<F>(
        &mut self,
        drive: &mut Drive,
        memory: &dyn Memory,
        doorbells: &dyn Doorbells,
        request: Request<F>,
    ) -> Result<Handled<F>, Refusal> {
        let payload = match request {
            Request::Version(proposed) => replies::version(&proposed),
            Request::Map(map, descriptor) => return Ok(Handled::Map(map, descriptor)),
            Request::Unmap(which, payload) => return Ok(Handled::Unmap(which, payload)),
            Request::DeviceInfo => replies::device_info(),
            Request::RegionInfo { index, room } => {
                if index >= layout::REGIONS {
                    return Err(Refusal::Index { command: command::REGION_INFO, index });
                }
                let has_memory = index == layout::BAR0 && self.mapped;
                let payload = replies::region_info(index, room, self.mapped);
                return Ok(Handled::Answer(Answer { payload, has_memory }));
            }
            Request::IrqInfo(index) => {
                if index >= layout::INTERRUPTS {
                    return Err(Refusal::Index { command: command::IRQ_INFO, index });
                }
                let is_msix = index == layout::MSIX;
                replies::irq_info(index, if is_msix { self.vectors } else { 0 })
            }
            Request::SetVectors(vectors) => return self.vectors(vectors),
            Request::NoVectors => Payload::new(),
            Request::Trigger(vectors) => {
                if vectors.iter().any(|&vector| vector >= self.vectors) {
                    let fault = "vectors that there are not";
                    return Err(Refusal::Message { command: command::SET_IRQS, fault });
                }
                return Ok(Handled::Signal(vectors));
            }
            Request::Read { region, offset, count } => {
                check(region, offset, count)?;
                let mut data = vec![0; count as usize];
                self.read(drive.subsystem, doorbells, (region, offset), &mut data);
                replies::access(region, offset, count, &data)
            }
            Request::Write { region, offset, data } => {
                let count = data.len() as u32;
                check(region, offset, count)?;
                self.write(drive, memory, doorbells, (region, offset), &data);
                replies::access(region, offset, count, &[])
            }
            Request::Reset => {
                self.reset(drive.subsystem, doorbells);
                Payload::new()
            }
        };
        Ok(Handled::Answer(Answer::of(payload)))
    }

    fn vectors<F>(&mut self, mut vectors: Vectors<F>) -> Result<Handled<F>, Refusal> {
        let there = self.vectors;
        if vectors.start == 0 && vectors.count == u16::MAX {
            // All of them.
            vectors.count = there;
        }
        let end = u32::from(vectors.start) + u32::from(vectors.count);
        if end > u32::from(there) {
            let fault = "vectors that there are not";
            return Err(Refusal::Message { command: command::SET_IRQS, fault });
        }
        Ok(Handled::SetVectors(vectors))
    }

    fn read(
        &mut self,
        subsystem: &mut Subsystem,
        doorbells: &dyn Doorbells,
        (region, offset): (u32, u64),
        into: &mut [u8],
    ) {
        if region == layout::CONFIG {
            return self.space.read(offset as usize, into);
        }
        self.accesses += 1;
        match offset {
            TABLE..PENDING => copy(&self.table, offset - TABLE, into),
            PENDING.. => copy(&self.pending.to_le_bytes(), offset - PENDING, into),
            DOORBELLS.. if self.mapped => {
                let mut words = vec![0; self.last.len()];
                doorbells.read(&mut words);
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                copy(&bytes, offset - DOORBELLS, into);
            }
            _ => {
                if let Some(mut controller) = subsystem.controller(self.id) {
                    controller.read_register(offset, into);
                }
            }
        }
    }

    fn write(
        &mut self,
        drive: &mut Drive,
        memory: &dyn Memory,
        doorbells: &dyn Doorbells,
        (region, offset): (u32, u64),
        from: &[u8],
    ) {
        if region == layout::CONFIG {
            if self.space.write(offset as usize, from) {
                // Function Level Reset.
                self.reset(drive.subsystem, doorbells);
            }
            return;
        }
        self.accesses += 1;
        match offset {
            TABLE..PENDING => {
                let places = self.table.iter_mut().skip((offset - TABLE) as usize);
                places.zip(from).for_each(|(byte, from)| *byte = *from);
            }
            PENDING.. => {}
            DOORBELLS.. if self.mapped => {
                if let Ok(raw) = <[u8; 4]>::try_from(from) {
                    doorbells.write((offset - DOORBELLS) as usize / 4, u32::from_le_bytes(raw));
                    self.poll(drive, memory, doorbells);
                }
            }
            _ => self.register(drive, memory, offset, from),
        }
        self.clear_stale(drive.subsystem, doorbells);
    }

    fn register(&mut self, drive: &mut Drive, memory: &dyn Memory, offset: u64, from: &[u8]) {
        let news = is_admin_doorbell(offset) && drive.subsystem.set_health((drive.health)());
        if let Some(mut controller) = drive.subsystem.controller(self.id) {
            if news {
                controller.attend(memory);
            }
            controller.write_register(memory, offset, from);
        }
    }

    /// Returns whether a doorbell was rung in mapped memory.
    pub fn is_rung(&self, subsystem: &Subsystem, doorbells: &dyn Doorbells) -> bool {
        self.is_polled(subsystem) && doorbells.differ(&self.last)
    }

    /// Looks for the doorbells that were rung in mapped memory, and fetches the commands that they
    /// announce; returns whether there were any. Others as for [`Device::handle`].
    pub fn poll(
        &mut self,
        drive: &mut Drive,
        memory: &dyn Memory,
        doorbells: &dyn Doorbells,
    ) -> bool {
        if !self.is_rung(drive.subsystem, doorbells) {
            return false;
        }
        let mut now = [0; 2 * MAX_PAIRS];
        let words = self.last.len().min(now.len());
        doorbells.read(&mut now[..words]);
        let mut any = false;
        for (index, &value) in now[..words].iter().enumerate() {
            if std::mem::replace(&mut self.last[index], value) != value {
                any = true;
                let offset = DOORBELLS + 4 * index as u64;
                self.register(drive, memory, offset, &value.to_le_bytes());
            }
        }
        self.clear_stale(drive.subsystem, doorbells);
        any
    }

    /// Doorbells of queues that have come or gone begin again at 0.
    fn clear_stale(&mut self, subsystem: &mut Subsystem, doorbells: &dyn Doorbells) {
        let Some(mut controller) = subsystem.controller(self.id) else { return };
        while let Some(offset) = controller.pop_stale_doorbell() {
            let index = (offset - DOORBELLS) as usize / 4;
            if let Some(last) = self.last.get_mut(index) {
                if *last != 0 {
                    doorbells.clear(index, std::mem::take(last));
                }
            }
        }
    }

    /// Notes that `vector` was to be signalled and is not connected.
    pub fn set_pending(&mut self, vector: u16) {
        self.pending |= 1u128.checked_shl(vector.into()).unwrap_or(0);
    }

    /// Returns whether `vector` was to be signalled before it was connected; it is not any more.
    pub fn take_pending(&mut self, vector: u16) -> bool {
        let bit = 1u128.checked_shl(vector.into()).unwrap_or(0);
        let was = self.pending & bit != 0;
        self.pending &= !bit;
        was
    }
}

/// Limit on the queue pairs, the admin queues included.
const MAX_PAIRS: usize = 128;
const _: () = assert!(MAX_PAIRS * 8 <= DOORBELLS_SIZE as usize);

fn check(region: u32, offset: u64, count: u32) -> Result<(), Refusal> {
    let size = match region {
        layout::BAR0 => BAR0_SIZE,
        layout::CONFIG => config_space::SIZE as u64,
        _ => 0,
    };
    match offset.checked_add(count.into()) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Refusal::Range { region, offset, count }),
    }
}

fn copy(from: &[u8], at: u64, into: &mut [u8]) {
    let bytes = from.iter().skip(at as usize);
    into.iter_mut().zip(bytes).for_each(|(byte, from)| *byte = *from);
}
