//! Accesses of the guest to registers: MSRs, the APIC, devices' memory.

use super::timeline::Timeline;
use super::vm::{After, Machine};
use crate::apic::{self, Effect};
use crate::devices::cmos;
use crate::error::Error;
use crate::layout::{
    self, APIC_SIZE, CHANNEL_SLOT, DRIVE_BAR, FIRST_DRIVE_SLOT, TSC_DEADLINE, X2APIC,
};
use crate::pci::MSIX_BAR;
use crate::{pvclock, pveoi};

/// The legacy timer's ports. There is none; a counter that reads zero ends
/// Linux's early attempt to calibrate by it at once (`quick_pit_calibrate`).
pub(super) const PIT: std::ops::RangeInclusive<u16> = 0x40..=0x43;

impl Machine {
    pub(super) fn write_msr(
        &mut self,
        timeline: &mut Timeline,
        index: usize,
        number: u32,
        value: u64,
    ) -> Result<After, Error> {
        if number == TSC_DEADLINE {
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

    pub(super) fn mmio_write(
        &mut self,
        timeline: &mut Timeline,
        index: usize,
        address: u64,
        data: &[u8],
    ) -> Result<After, Error> {
        if let Some(offset) = within(address, layout::LOCAL_APIC, APIC_SIZE) {
            self.write_apic(timeline, index, apic::register_at(offset), word(data))?;
            return Ok(After::Continue);
        }
        if let Some(offset) = within(address, layout::IO_APIC, APIC_SIZE) {
            self.io_apic.write(offset, data);
            return Ok(After::Continue);
        }
        let Some(place) = self.bus.find(address) else { return Ok(After::Continue) };
        match (place.slot, place.bar) {
            (CHANNEL_SLOT, stasis_channel::REGISTERS_BAR)
                if place.offset == stasis_channel::DOORBELL_OFFSET =>
            {
                return self.ring(timeline);
            }
            (slot, DRIVE_BAR) if slot >= FIRST_DRIVE_SLOT => {
                let now = timeline.clock.now_ns();
                let drive = slot - FIRST_DRIVE_SLOT;
                if drive < self.own && self.drives[drive].is_doorbell(place.offset) {
                    timeline.statistics.exits.doorbell += 1;
                }
                // Help that the guest asks for applies to the requests of this write, too.
                self.read_help_page(timeline);
                self.drives[drive].write(&self.memory, now, place.offset, data);
                if let Some(rewind) = &mut self.rewind {
                    rewind.doorbell(timeline.clock.now());
                }
                self.interrupts(timeline, drive)?;
            }
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
}

/// The offset of `address` in a range.
pub(super) fn within(address: u64, base: u64, length: u64) -> Option<u64> {
    address.checked_sub(base).filter(|offset| *offset < length)
}

/// Stores a register's value in as many bytes as were read.
pub(super) fn put(into: &mut [u8], value: u64) {
    let length = into.len().min(8);
    into[..length].copy_from_slice(&value.to_le_bytes()[..length]);
}

fn word(data: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..data.len()].copy_from_slice(data);
    u64::from_le_bytes(bytes)
}
