//! Handling of a processor's exits: accesses of the guest to MSRs, ports and devices' memory.

use stasis_layout::number;
use stasis_run_events::RunEvent;

use super::kept_boot::{Access, Bytes};
use super::slots::Device;
use super::timeline::Timeline;
use super::vm::{After, Machine};
use crate::apic::{self, Effect};
use crate::devices::{cmos, DriveDevice, NetworkDevice, Serial};
use crate::error::Error;
use crate::exit::Exit;
use crate::layout::{
    self, APIC_SIZE, CHANNEL_SLOT, DEVICE_BAR, FIRST_DRIVE_SLOT, TSC_DEADLINE, X2APIC,
};
use crate::pci::MSIX_BAR;
use crate::{pvclock, pveoi};

/// The ports of PCI's configuration space.
const PCI_PORTS: std::ops::RangeInclusive<u16> = 0xcf8..=0xcff;

/// The legacy timer's ports. There is none; a counter that reads zero ends
/// Linux's early attempt to calibrate by it at once (`quick_pit_calibrate`).
const PIT: std::ops::RangeInclusive<u16> = 0x40..=0x43;

/// The port that tells a kernel the reason of a non-maskable interrupt (PC/AT: system control port
/// B): a bus or memory error in its two upper bits, which there is never. The other bits stay as
/// those of a port that nothing answers.
const NMI_REASON: u16 = 0x61;
const NO_NMI_REASON: u8 = 0x3f;

impl Machine {
    /// Does what `exit` of processor `index` asks for, at that processor's time.
    pub(super) fn act(
        &mut self,
        timeline: &mut Timeline,
        index: usize,
        exit: Exit,
    ) -> Result<After, Error> {
        timeline.clock.set(self.processors[index].time);
        let exits = &mut timeline.statistics.exits;
        let after = match exit {
            Exit::Interrupted | Exit::Halt | Exit::Debug(_) => return Ok(After::Continue),
            Exit::Window => {
                exits.interrupt_window += 1;
                return Ok(After::Continue);
            }
            Exit::MsrWrite { number, value } => {
                exits.msr += 1;
                self.write_msr(timeline, index, number, value)?
            }
            Exit::MsrRead { number } => {
                exits.msr += 1;
                let value = self.read_msr(timeline, index, number);
                self.vcpus[index].answer_msr(value);
                After::Continue
            }
            Exit::MmioWrite { address, data: (bytes, length) } => {
                exits.mmio += 1;
                self.mmio_write(timeline, index, address, &bytes[..length])?
            }
            Exit::MmioRead { address } => {
                exits.mmio += 1;
                self.mmio_read(timeline, index, address);
                After::Continue
            }
            Exit::PortWrite { port } => {
                exits.io += 1;
                self.port_write(timeline, index, port)?;
                After::Continue
            }
            Exit::PortRead { port } => {
                exits.io += 1;
                self.port_read(index, port);
                After::Continue
            }
            Exit::Shutdown => After::Panicked,
            Exit::Unsupported(instruction) => return Err(Error::Guest(instruction)),
        };
        if let Some(rewind) = &mut self.rewind {
            rewind.seen(timeline.clock.now());
        }
        Ok(after)
    }

    fn write_msr(
        &mut self,
        timeline: &mut Timeline,
        index: usize,
        number: u32,
        value: u64,
    ) -> Result<After, Error> {
        if number == TSC_DEADLINE {
            let value = if value == 0 { 0 } else { value.saturating_add(self.origin) };
            let deadline = self.on_the_clock(timeline, value);
            self.processors[index].apic.set_deadline(deadline);
        } else if number == pvclock::SYSTEM_TIME {
            let page = self.clock.set_page(index, value, timeline.clock.scale());
            if let Some((address, page)) = page {
                // Not in memory: the guest has no clock there.
                let _ = self.memory.write(address, &page);
            }
        } else if number == pveoi::WORD {
            self.processors[index].eoi.set_word(value);
        } else if number == pvclock::WALL_CLOCK {
            // Not in memory: the guest has no use for it then.
            let _ = self.memory.write(value, &pvclock::wall_clock(cmos::DATE));
        } else if X2APIC.contains(&number) {
            self.write_apic(timeline, index, apic::register_of(number), value)?;
        }
        // MSRs that KVM does not have take any value.
        Ok(After::Continue)
    }

    /// A guest that reads one clock for all its processors sets each one's timer
    /// by that clock; the timer itself counts in the processor's local time.
    fn on_the_clock(&self, timeline: &Timeline, deadline: u64) -> u64 {
        if deadline == 0 || !self.clock.is_used() {
            return deadline;
        }
        let ahead = self.clock.now() as i64 - timeline.clock.now() as i64;
        deadline.saturating_add_signed(ahead).max(1)
    }

    fn write_apic(
        &mut self,
        timeline: &mut Timeline,
        index: usize,
        register: u32,
        value: u64,
    ) -> Result<(), Error> {
        let x2apic = self.vcpus[index].x2apic();
        let now = timeline.clock.now_ns();
        let apic = &mut self.processors[index].apic;
        apic.set_x2apic(x2apic);
        if let Effect::Send(message) = apic.write(register, value, now) {
            self.send(timeline, Some(index), message)?;
        }
        Ok(())
    }

    fn read_msr(&mut self, timeline: &Timeline, index: usize, number: u32) -> u64 {
        let apic = &mut self.processors[index].apic;
        if X2APIC.contains(&number) {
            // A processor's first access in this mode can be a read: Linux 6.12.117's.
            apic.set_x2apic(self.vcpus[index].x2apic());
        }
        match number {
            TSC_DEADLINE => apic.deadline().saturating_sub(self.origin),
            number if X2APIC.contains(&number) => {
                apic.read(apic::register_of(number), timeline.clock.now_ns()).unwrap_or(0)
            }
            // MSRs that KVM does not have read as zero.
            _ => 0,
        }
    }

    fn mmio_write(
        &mut self,
        timeline: &mut Timeline,
        index: usize,
        address: u64,
        data: &[u8],
    ) -> Result<After, Error> {
        if let Some(offset) = within(address, layout::LOCAL_APIC, APIC_SIZE) {
            self.write_apic(timeline, index, apic::register_at(offset), number(data))?;
            return Ok(After::Continue);
        }
        if let Some(offset) = within(address, layout::IO_APIC, APIC_SIZE) {
            self.kept_boot.accessed(|| Access::IoApicWrite(offset, Bytes::new(data)));
            self.io_apic.write(offset, data);
            return Ok(After::Continue);
        }
        let Some(place) = self.bus.find(address) else { return Ok(After::Continue) };
        match (place.slot, place.bar) {
            (CHANNEL_SLOT, stasis_channel::REGISTERS_BAR)
                if place.offset == stasis_channel::DOORBELL_OFFSET =>
            {
                return self.ring(timeline, index, (address, data));
            }
            (slot, DEVICE_BAR | MSIX_BAR) if slot >= FIRST_DRIVE_SLOT => {
                self.kept_boot.accessed_drive();
            }
            _ => {}
        }
        match (place.slot, place.bar) {
            (slot, DEVICE_BAR) if slot >= FIRST_DRIVE_SLOT => match self.slots.device(slot) {
                Some(Device::Port(port)) => {
                    if NetworkDevice::is_doorbell(place.offset) {
                        timeline.statistics.exits.doorbell += 1;
                    }
                    self.ports[port].write(&self.memory, place.offset, data);
                    self.transmit(timeline, port)?;
                }
                Some(Device::Drive(drive, path)) => {
                    let now = timeline.clock.now_ns();
                    if drive < self.own && self.drives[drive].is_doorbell(place.offset) {
                        timeline.statistics.exits.doorbell += 1;
                    }
                    // Help that the guest asks for applies to the requests of this write, too.
                    self.read_help_page(timeline);
                    let before = self.drives[drive].submitted();
                    self.drives[drive].write(&self.memory, now, (path, place.offset), data);
                    if timeline.guest_ios.is_some() && drive < self.own {
                        self.guest_ios_rung(timeline, index, (drive, path), before);
                    }
                    let submitted = self.drives[..self.own].iter().map(DriveDevice::submitted);
                    timeline.triggers.count(self.number, submitted, now);
                    if let Some(rewind) = &mut self.rewind {
                        rewind.doorbell(timeline.clock.now());
                    }
                    self.interrupts(timeline, drive)?;
                }
                None => {}
            },
            (slot, MSIX_BAR) => {
                let message =
                    self.bus.function(slot).msix().and_then(|msix| msix.write(place.offset, data));
                if let Some(message) = message {
                    self.send(timeline, None, message)?;
                }
            }
            _ => {}
        }
        Ok(After::Continue)
    }

    fn mmio_read(&mut self, timeline: &Timeline, index: usize, address: u64) {
        let into = self.vcpus[index].mmio_answer();
        into.fill(0xff);
        if let Some(offset) = within(address, layout::LOCAL_APIC, APIC_SIZE) {
            let now = timeline.clock.now_ns();
            let value = self.processors[index].apic.read(apic::register_at(offset), now);
            put(into, value.unwrap_or(0));
        } else if let Some(offset) = within(address, layout::IO_APIC, APIC_SIZE) {
            self.io_apic.read(offset, into);
        } else if let Some(place) = self.bus.find(address) {
            match (place.slot, place.bar) {
                (CHANNEL_SLOT, _) => put(into, u64::from(stasis_channel::VERSION)),
                (slot, DEVICE_BAR) if slot >= FIRST_DRIVE_SLOT => {
                    self.kept_boot.accessed_drive();
                    match self.slots.device(slot) {
                        Some(Device::Port(port)) => self.ports[port].read(place.offset, into),
                        Some(Device::Drive(drive, path)) => {
                            self.drives[drive].read(path, place.offset, into);
                        }
                        None => {}
                    }
                }
                (slot, MSIX_BAR) => {
                    if let Some(msix) = self.bus.function(slot).msix() {
                        msix.read(place.offset, into);
                    }
                }
                _ => {}
            }
        }
    }

    fn port_write(
        &mut self,
        timeline: &mut Timeline,
        index: usize,
        port: u16,
    ) -> Result<(), Error> {
        let data = Bytes::new(self.vcpus[index].port_data());
        self.kept_boot.accessed(|| Access::PortWrite(port, data));
        self.write_port(timeline, port, data.get())
    }

    /// The guest writes `data` to a port.
    pub(super) fn write_port(
        &mut self,
        timeline: &mut Timeline,
        port: u16,
        data: &[u8],
    ) -> Result<(), Error> {
        if Serial::owns(port) {
            for &byte in data {
                if let Some(text) = self.serial.write(port, byte) {
                    self.kept_boot.wrote_line();
                    timeline.emit_from(self.number, RunEvent::Console(text))?;
                }
            }
        } else if let (true, Some(&value)) = (cmos::PORTS.contains(&port), data.first()) {
            self.cmos.write(port, value);
        } else if PCI_PORTS.contains(&port) {
            if let Some(written) = self.bus.port_write(port, data) {
                self.configured(timeline, written)?;
            }
        }
        Ok(())
    }

    fn port_read(&mut self, index: usize, port: u16) {
        let mut found = [0; 8];
        let length = self.vcpus[index].port_data().len().min(found.len());
        let found = &mut found[..length];
        self.read_port(port, found);
        self.kept_boot.accessed(|| Access::PortRead(port, Bytes::new(found)));
        self.vcpus[index].port_data()[..length].copy_from_slice(found);
    }

    /// The guest reads from a port.
    pub(super) fn read_port(&mut self, port: u16, into: &mut [u8]) {
        into.fill(0xff);
        if Serial::owns(port) {
            into.fill(self.serial.read(port));
        } else if PCI_PORTS.contains(&port) {
            self.bus.port_read(port, into);
        } else if cmos::PORTS.contains(&port) {
            into.fill(self.cmos.read(port));
        } else if PIT.contains(&port) {
            into.fill(0);
        } else if port == NMI_REASON {
            into.fill(NO_NMI_REASON);
        }
    }
}

/// The offset of `address` in a range.
fn within(address: u64, base: u64, length: u64) -> Option<u64> {
    address.checked_sub(base).filter(|offset| *offset < length)
}

/// Stores a register's value in as many bytes as were read.
fn put(into: &mut [u8], value: u64) {
    let length = into.len().min(8);
    into[..length].copy_from_slice(&value.to_le_bytes()[..length]);
}
