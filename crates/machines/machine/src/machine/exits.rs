//! Handling of a processor's exits: accesses of the guest to MSRs, ports and devices' memory. Steps of
//! the machine: each goes to the part that owns the address.

use stasis_layout::number;
use stasis_run_events::RunEvent;

use super::common::Common;
use super::kept_boot::{Access, Bytes};
use super::slots::Device;
use super::vm::{After, Machine};
use crate::apic::{self, Effect};
use crate::devices::{cmos, NetworkDevice};
use crate::error::Error;
use crate::exit::Exit;
use crate::layout::{
    self, APIC_SIZE, CHANNEL_SLOT, DEVICE_BAR, FIRST_DRIVE_SLOT, TSC_DEADLINE, X2APIC,
};
use crate::pci::MSIX_BAR;
use crate::{pvclock, pveoi};

/// The ports of PCI's configuration space.
const PCI_PORTS: std::ops::RangeInclusive<u16> = 0xcf8..=0xcff;

impl Machine {
    /// Does what `exit` of processor `index` asks for, at that processor's time.
    pub(super) fn act(
        &mut self,
        common: &mut Common,
        index: usize,
        exit: Exit,
    ) -> Result<After, Error> {
        common.clock.set(self.processors[index].time);
        let after = match exit {
            Exit::Interrupted | Exit::Halt | Exit::Debug(_) | Exit::Window => {
                return Ok(After::Continue);
            }
            Exit::MsrWrite { number, value } => self.write_msr(common, index, number, value)?,
            Exit::MsrRead { number } => {
                let value = self.read_msr(common, index, number);
                self.vcpus[index].answer_msr(value);
                After::Continue
            }
            Exit::MmioWrite { address, data: (bytes, length) } => {
                self.mmio_write(common, index, address, &bytes[..length])?
            }
            Exit::MmioRead { address } => {
                self.mmio_read(common, index, address);
                After::Continue
            }
            Exit::PortWrite { port } => {
                self.port_write(common, index, port)?;
                After::Continue
            }
            Exit::PortRead { port } => {
                self.port_read(index, port);
                After::Continue
            }
            Exit::Shutdown => After::Panicked,
            Exit::Unsupported(instruction) => return Err(Error::Guest(instruction)),
        };
        if let Some(rewind) = &mut self.rewind {
            rewind.seen(common.clock.now());
        }
        Ok(after)
    }

    fn write_msr(
        &mut self,
        common: &mut Common,
        index: usize,
        number: u32,
        value: u64,
    ) -> Result<After, Error> {
        if number == TSC_DEADLINE {
            let value = if value == 0 { 0 } else { value.saturating_add(self.origin) };
            let deadline = self.on_the_clock(common, value);
            self.processors[index].apic.set_deadline(deadline);
        } else if number == pvclock::SYSTEM_TIME {
            let page = self.clock.set_page(index, value, common.clock.scale());
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
            self.write_apic(common, index, apic::register_of(number), value)?;
        }
        // MSRs that KVM does not have take any value.
        Ok(After::Continue)
    }

    /// A guest that reads one clock for all its processors sets each one's timer
    /// by that clock; the timer itself counts in the processor's local time.
    fn on_the_clock(&self, common: &Common, deadline: u64) -> u64 {
        if deadline == 0 || !self.clock.is_used() {
            return deadline;
        }
        let ahead = self.clock.now() as i64 - common.clock.now() as i64;
        deadline.saturating_add_signed(ahead).max(1)
    }

    fn write_apic(
        &mut self,
        common: &mut Common,
        index: usize,
        register: u32,
        value: u64,
    ) -> Result<(), Error> {
        let x2apic = self.vcpus[index].x2apic();
        let now = common.clock.now_ns();
        let apic = &mut self.processors[index].apic;
        apic.set_x2apic(x2apic);
        if let Effect::Send(message) = apic.write(register, value, now) {
            self.send(common, Some(index), message)?;
        }
        Ok(())
    }

    fn read_msr(&mut self, common: &Common, index: usize, number: u32) -> u64 {
        let apic = &mut self.processors[index].apic;
        if X2APIC.contains(&number) {
            // A processor's first access in this mode can be a read: Linux 6.12.117's.
            apic.set_x2apic(self.vcpus[index].x2apic());
        }
        match number {
            TSC_DEADLINE => apic.deadline().saturating_sub(self.origin),
            number if X2APIC.contains(&number) => {
                apic.read(apic::register_of(number), common.clock.now_ns()).unwrap_or(0)
            }
            // MSRs that KVM does not have read as zero.
            _ => 0,
        }
    }

    fn mmio_write(
        &mut self,
        common: &mut Common,
        index: usize,
        address: u64,
        data: &[u8],
    ) -> Result<After, Error> {
        if let Some(offset) = within(address, layout::LOCAL_APIC, APIC_SIZE) {
            self.write_apic(common, index, apic::register_at(offset), number(data))?;
            return Ok(After::Continue);
        }
        if let Some(offset) = within(address, layout::IO_APIC, APIC_SIZE) {
            self.kept_boot.accessed(|| Access::IoApicWrite(offset, Bytes::new(data)));
            self.chipset.write_io_apic(offset, data);
            return Ok(After::Continue);
        }
        let Some(place) = self.bus.find(address) else { return Ok(After::Continue) };
        match (place.slot, place.bar) {
            (CHANNEL_SLOT, stasis_channel::REGISTERS_BAR)
                if place.offset == stasis_channel::DOORBELL_OFFSET =>
            {
                return self.ring(common, index, (address, data));
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
                        common.statistics.exits.doorbell += 1;
                    }
                    self.ports[port].write(&self.memory, place.offset, data);
                    self.transmit(common, port)?;
                }
                Some(Device::Drive(drive, path)) => {
                    let now = common.clock.now_ns();
                    if self.drives.is_own(drive) && self.drives[drive].is_doorbell(place.offset) {
                        common.statistics.exits.doorbell += 1;
                    }
                    // Help that the guest asks for applies to the requests of this write, too.
                    self.look_at_help(now);
                    let before = self.drives[drive].submitted();
                    self.drives[drive].write(&self.memory, now, (path, place.offset), data);
                    if common.view.keeps_ios() && self.drives.is_own(drive) {
                        self.guest_ios_rung(common, index, (drive, path), before);
                    }
                    common.triggers.count(self.number, self.drives.submitted(), now);
                    if let Some(rewind) = &mut self.rewind {
                        rewind.doorbell(common.clock.now());
                    }
                    self.interrupts(common, drive)?;
                }
                None => {}
            },
            (slot, MSIX_BAR) => {
                let message =
                    self.bus.function(slot).msix().and_then(|msix| msix.write(place.offset, data));
                if let Some(message) = message {
                    self.send(common, None, message)?;
                }
            }
            _ => {}
        }
        Ok(After::Continue)
    }

    fn mmio_read(&mut self, common: &Common, index: usize, address: u64) {
        let into = self.vcpus[index].mmio_answer();
        into.fill(0xff);
        if let Some(offset) = within(address, layout::LOCAL_APIC, APIC_SIZE) {
            let now = common.clock.now_ns();
            let value = self.processors[index].apic.read(apic::register_at(offset), now);
            put(into, value.unwrap_or(0));
        } else if let Some(offset) = within(address, layout::IO_APIC, APIC_SIZE) {
            self.chipset.read_io_apic(offset, into);
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

    fn port_write(&mut self, common: &mut Common, index: usize, port: u16) -> Result<(), Error> {
        let data = Bytes::new(self.vcpus[index].port_data());
        self.kept_boot.accessed(|| Access::PortWrite(port, data));
        self.write_port(common, port, data.get())
    }

    /// The guest writes `data` to a port.
    pub(super) fn write_port(
        &mut self,
        common: &mut Common,
        port: u16,
        data: &[u8],
    ) -> Result<(), Error> {
        if PCI_PORTS.contains(&port) {
            return match self.bus.port_write(port, data) {
                Some(written) => self.configured(common, written),
                None => Ok(()),
            };
        }
        let Self { chipset, kept_boot, number, .. } = self;
        chipset.write_port(port, data, |line| {
            kept_boot.wrote_line();
            common.stream.emit_from(*number, RunEvent::Console(line))
        })
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
        if PCI_PORTS.contains(&port) {
            into.fill(0xff);
            self.bus.port_read(port, into);
        } else {
            self.chipset.read_port(port, into);
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
