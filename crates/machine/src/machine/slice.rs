//! One slice of one processor: into guest mode, out of it, and what the exit
//! asks for.

use kvm_ioctls::VcpuExit;
use stasis_journal::Entry;

use super::access::{put, within, PIT, TSC_DEADLINE, X2APIC};
use super::line::Line;
use super::one::{After, Machine};
use crate::clock::Way;
use crate::devices::{cmos, Serial};
use crate::error::Error;
use crate::layout;
use crate::time::host_tsc;
use crate::vcpu::State;

/// A slice that would leave the host's quiet time within so many ticks is not
/// begun.
const SHORTEST_STAY: u64 = 40_000;
/// An event so little ahead (ticks) is not worth an entry.
const GRAIN: u64 = 400;
/// By how much a kick's handling may differ from the calibrated cost before the
/// host counts as having been away (ticks).
const KICK_TOLERANCE: u64 = 20_000;

impl Machine {
    /// Runs processor `index` until `until` (ticks), the end of its slice, or
    /// an exit of its own; `alone`: no other of any machine could run.
    pub(super) fn slice(
        &mut self,
        line: &mut Line,
        index: usize,
        mut until: u64,
        alone: bool,
    ) -> Result<After, Error> {
        let now = line.clock.now();
        if !alone || self.lazy {
            until = until.min(line.slice_end);
        }
        let slack = line.clock.costs.slack as u64;
        if until <= now.saturating_add(slack + GRAIN) {
            // Too little to enter for: the clock is set forward to the event.
            line.clock.set(until.max(now));
            return Ok(After::Continue);
        }
        if let Some(quiet) = &mut line.quiet {
            if host_tsc().saturating_add(SHORTEST_STAY) >= quiet.end() {
                quiet.wait();
                line.slept = true;
            }
        }
        if std::mem::take(&mut line.slept) {
            self.vcpus[index].settle()?;
        }
        let injecting = self.inject(line, index)?;
        let vcpu = &mut self.vcpus[index];
        let aim = vcpu.immediate_exit();
        line.kick.aim(aim);
        if line.kick.take_fired(host_tsc()).is_some() {
            // It fired while the host was at work: it has nothing to end.
            // SAFETY: a byte of a vCPU that is not running.
            unsafe { aim.write_volatile(0) };
        }
        let entry = host_tsc();
        let costs = &line.clock.costs;
        let mut due = entry
            .saturating_add(until - now)
            .saturating_add_signed(costs.arm + costs.enter - costs.slack)
            .min(entry + line.longest_slice);
        if let Some(quiet) = &line.quiet {
            due = due.min(quiet.end());
        }
        // An earlier time that is still armed does no harm; it is cheaper to
        // be kicked early now and then than to set the timer for each entry.
        if line.kick.armed().is_none_or(|armed| armed > due || armed < entry) {
            line.kick.arm(due);
        }
        let entered = line.clock.now();
        let (exit, after) = vcpu.run(&mut line.clock, injecting)?;
        line.statistics.exits.total += 1;
        let exits = &mut line.statistics.exits;
        macro_rules! left {
            ($way:expr) => {{
                line.clock.leave($way, after);
                if let Some(due) = line.kick.take_fired(after) {
                    // SAFETY: a byte of a vCPU that is not running.
                    unsafe { aim.write_volatile(0) };
                    line.clock.cap(due);
                }
            }};
        }
        let outcome = match exit {
            VcpuExit::Intr => {
                exits.total -= 1;
                match line.kick.take_fired(after) {
                    Some(due) => {
                        // SAFETY: a byte of a vCPU that is not running.
                        unsafe { aim.write_volatile(0) };
                        let measured = {
                            line.clock.leave(Way::Kick, after);
                            line.clock.now()
                        };
                        line.clock.leave_at(due);
                        // Much later than due: the host was away while the
                        // guest ran on. Or an earlier setting's signal.
                        let late = measured.saturating_sub(line.clock.now());
                        let astray = due >= after;
                        if late > KICK_TOLERANCE.max(slack) || line.quiet.is_none() || astray {
                            line.clock.set(measured.max(entered));
                        }
                        let stopped = line.clock.now();
                        if stopped + slack >= until {
                            exits.kick += 1;
                            exits.total += 1;
                            let over = stopped.saturating_sub(until);
                            line.statistics.overshoot.add(line.clock.scale().to_ns(over));
                            line.clock.set(stopped.max(until));
                        }
                    }
                    // Another signal: the stop flag, most likely.
                    None => line.clock.leave(Way::Kick, after),
                }
                return Ok(After::Continue);
            }
            VcpuExit::Hlt => {
                left!(Way::Halt);
                exits.halt += 1;
                self.processors[index].state = State::Halted;
                return Ok(After::Continue);
            }
            VcpuExit::IrqWindowOpen => {
                left!(Way::Other);
                exits.interrupt_window += 1;
                return Ok(After::Continue);
            }
            VcpuExit::X86Wrmsr(write) => {
                left!(Way::MsrWrite);
                exits.msr += 1;
                let (number, value) = (write.index, write.data);
                *write.error = 0;
                self.write_msr(line, index, number, value)?
            }
            VcpuExit::X86Rdmsr(read) => {
                left!(Way::MsrRead);
                exits.msr += 1;
                *read.error = 0;
                let apic = &self.processors[index].apic;
                *read.data = match read.index {
                    TSC_DEADLINE => apic.deadline(),
                    msr if X2APIC.contains(&msr) => {
                        apic.read(msr & 0xff, line.clock.now_ns()).unwrap_or(0)
                    }
                    // MSRs that KVM does not know read as zero.
                    _ => 0,
                };
                After::Continue
            }
            VcpuExit::MmioWrite(address, data) => {
                left!(Way::MmioWrite);
                exits.mmio += 1;
                let mut bytes = [0; 8];
                let length = data.len().min(8);
                bytes[..length].copy_from_slice(&data[..length]);
                self.mmio_write(line, index, address, &bytes[..length])?
            }
            VcpuExit::MmioRead(address, into) => {
                left!(Way::MmioRead);
                exits.mmio += 1;
                into.fill(0xff);
                if let Some(offset) = within(address, layout::LOCAL_APIC, 0x1000) {
                    let now = line.clock.now_ns();
                    let value = self.processors[index].apic.read((offset >> 4) as u32, now);
                    put(into, value.unwrap_or(0));
                } else if let Some(offset) = within(address, layout::IO_APIC, 0x1000) {
                    self.io_apic.read(offset, into);
                } else if let Some(place) = self.bus.find(address) {
                    match (place.slot, place.bar) {
                        (1, _) => put(into, u64::from(stasis_channel::VERSION)),
                        (slot, 0) if slot >= 2 => self.drives[slot - 2].read(place.offset, into),
                        (slot, 4) => {
                            if let Some(msix) = self.bus.function(slot).msix() {
                                msix.read(place.offset, into);
                            }
                        }
                        _ => {}
                    }
                }
                After::Continue
            }
            VcpuExit::IoOut(port, data) => {
                left!(Way::Port);
                exits.io += 1;
                if Serial::owns(port) {
                    for &byte in data {
                        if let Some(text) = self.serial.write(port, byte) {
                            line.tell_from(self.number, Entry::Console(text))?;
                        }
                    }
                } else if let (true, Some(&value)) = (cmos::PORTS.contains(&port), data.first()) {
                    self.cmos.write(port, value);
                } else if (0xcf8..=0xcff).contains(&port) {
                    if let Some(slot) = self.bus.port_write(port, data) {
                        let released = self
                            .bus
                            .function(slot.min(1 + self.drives.len()))
                            .msix()
                            .map(|msix| msix.released());
                        for message in released.into_iter().flatten() {
                            self.send(line, None, message);
                        }
                    }
                }
                After::Continue
            }
            VcpuExit::IoIn(port, into) => {
                left!(Way::Port);
                exits.io += 1;
                into.fill(0xff);
                if Serial::owns(port) {
                    into.fill(self.serial.read(port));
                } else if (0xcf8..=0xcff).contains(&port) {
                    self.bus.port_read(port, into);
                } else if cmos::PORTS.contains(&port) {
                    into.fill(self.cmos.read(port));
                } else if PIT.contains(&port) {
                    into.fill(0);
                }
                After::Continue
            }
            VcpuExit::Shutdown => {
                left!(Way::Other);
                After::Panicked
            }
            other => {
                let what = format!("{other:?}");
                return Err(Error::Guest(what));
            }
        };
        if let Some(rewind) = &mut self.rewind {
            rewind.floor = rewind.floor.max(line.clock.now());
        }
        Ok(outcome)
    }
}
