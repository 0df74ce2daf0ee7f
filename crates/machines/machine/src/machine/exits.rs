//! Handling of a processor's exits.

use stasis_run_events::RunEvent;

use super::access::{put, within, PIT};
use super::timeline::Timeline;
use super::vm::{After, Machine};
use crate::apic;
use crate::devices::{cmos, Serial};
use crate::error::Error;
use crate::exit::Exit;
use crate::layout::{
    self, APIC_SIZE, CHANNEL_SLOT, DRIVE_BAR, FIRST_DRIVE_SLOT, TSC_DEADLINE, X2APIC,
};
use crate::pci::MSIX_BAR;

/// The ports of PCI's configuration space.
const PCI_PORTS: std::ops::RangeInclusive<u16> = 0xcf8..=0xcff;

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
            Exit::Interrupted | Exit::Halt => return Ok(After::Continue),
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
            Exit::Unsupported(what) => return Err(Error::Guest(what)),
        };
        if let Some(rewind) = &mut self.rewind {
            rewind.seen(timeline.clock.now());
        }
        Ok(after)
    }

    fn read_msr(&mut self, timeline: &Timeline, index: usize, number: u32) -> u64 {
        let apic = &mut self.processors[index].apic;
        if X2APIC.contains(&number) {
            // A processor's first access in this mode can be a read: Linux 6.12.117's.
            apic.set_x2apic(self.vcpus[index].x2apic());
        }
        match number {
            TSC_DEADLINE => apic.deadline(),
            number if X2APIC.contains(&number) => {
                apic.read(apic::register_of(number), timeline.clock.now_ns()).unwrap_or(0)
            }
            // MSRs that KVM does not have read as zero.
            _ => 0,
        }
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
                (slot, DRIVE_BAR) if slot >= FIRST_DRIVE_SLOT => {
                    self.drives[slot - FIRST_DRIVE_SLOT].read(place.offset, into);
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
        let data = self.vcpus[index].port_data();
        if Serial::owns(port) {
            for &byte in &*data {
                if let Some(text) = self.serial.write(port, byte) {
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
        let into = self.vcpus[index].port_data();
        into.fill(0xff);
        if Serial::owns(port) {
            into.fill(self.serial.read(port));
        } else if PCI_PORTS.contains(&port) {
            self.bus.port_read(port, into);
        } else if cmos::PORTS.contains(&port) {
            into.fill(self.cmos.read(port));
        } else if PIT.contains(&port) {
            into.fill(0);
        }
    }
}
