//! A slice in guest mode under KVM: how it ends, and when that was.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use kvm_ioctls::VmFd;

use super::kick::Kick;
use super::vcpu::Vcpu;
use crate::boot;
use crate::error::Error;
use crate::exit::{self, Exit};
use crate::freeze::{host_tsc, Clock, Costs, ExitPath};
use crate::vcpu::{Registers, SliceEnd};

/// The longest slice, in the host's time: the stop flag is looked at between.
const MAX_SLICE: Duration = Duration::from_millis(20);
/// The longest time for which a guest is set forward to an event without entering it.
const SKIPPED: Duration = Duration::from_micros(100);
/// An event so little ahead (ticks) is not worth an entry.
const GRAIN: u64 = 400;

/// Measured properties of the host.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    khz: u64,
    /// By how much a slice can end late (ticks).
    lateness: u64,
}

impl Host {
    /// A host whose TSC runs at `khz`, calibrated.
    pub fn new(khz: u64, costs: &Costs) -> Self {
        Self { khz, lateness: costs.slack as u64 + GRAIN }
    }

    /// Returns the ticks that `time` takes.
    fn ticks(&self, time: Duration) -> u64 {
        (self.khz as f64 * time.as_secs_f64() * 1e3) as u64
    }
}

thread_local! {
    /// The timer of this thread, made when its first processor enters.
    static TIMER: RefCell<Option<Timer>> = const { RefCell::new(None) };
}

/// A thread's timer, which ends slices.
struct Timer {
    kick: Kick,
    longest: u64,
}

impl Timer {
    fn new(host: &Host) -> Result<Self, Error> {
        Ok(Self {
            kick: Kick::new(host.khz).map_err(Error::Timer)?,
            longest: host.ticks(MAX_SLICE),
        })
    }

    /// Sets the timer that ends a slice of `ticks`, if it is not set to an
    /// earlier time.
    fn arm(&mut self, vcpu: &mut Vcpu, costs: &Costs, ticks: u64) {
        let aim = vcpu.immediate_exit();
        self.kick.aim(aim);
        if self.kick.take_fired(host_tsc()).is_some() {
            // The timer fired while the host was at work: there is no slice to end. SAFETY: a byte
            // of a vCPU that is not running.
            unsafe { aim.write_volatile(0) };
        }
        let entry = host_tsc();
        let due = entry
            .saturating_add(ticks)
            .saturating_add_signed(costs.arm + costs.enter - costs.slack)
            .min(entry + self.longest);
        // An earlier time that is still armed does no harm; it is cheaper to
        // be kicked early now and then than to set the timer for each entry.
        if self.kick.armed().is_none_or(|armed| armed > due || armed < entry) {
            self.kick.arm(due);
        }
    }

    /// The guest left by itself: sets the clock to when that was.
    fn left(&mut self, vcpu: &mut Vcpu, clock: &mut Clock, path: ExitPath, after: u64) {
        clock.leave(path, after);
        if let Some(due) = self.kick.take_fired(after) {
            // SAFETY: a byte of a vCPU that is not running.
            unsafe { vcpu.immediate_exit().write_volatile(0) };
            clock.cap(due);
        }
    }

    /// The slice was ended from outside: sets the clock to when that was. By how
    /// much it was longer than planned, unless it ended before.
    fn kicked(
        &mut self,
        vcpu: &mut Vcpu,
        clock: &mut Clock,
        (entered, until): (u64, u64),
        after: u64,
    ) -> Option<u64> {
        let slack = clock.costs.slack as u64;
        clock.leave(ExitPath::Kick, after);
        // Otherwise another signal: the stop flag, most likely.
        self.kick.take_fired(after)?;
        // SAFETY: a byte of a vCPU that is not running.
        unsafe { vcpu.immediate_exit().write_volatile(0) };
        // The host may have been away while the guest ran on, so the time is the one
        // that was measured.
        let stopped = clock.now().max(entered);
        clock.set(stopped);
        if stopped + slack + GRAIN < until {
            return None;
        }
        clock.set(stopped.max(until));
        Some(stopped.saturating_sub(until))
    }
}

/// A processor under KVM.
pub struct Processor {
    // Dropped in this order: the processor, its machine.
    vcpu: Vcpu,
    _vm: Arc<VmFd>,
    host: Host,
}

impl Processor {
    /// `vcpu` of the machine `vm`.
    pub fn new(vcpu: Vcpu, vm: Arc<VmFd>, host: Host) -> Self {
        Self { vcpu, _vm: vm, host }
    }
}

impl crate::vcpu::Vcpu for Processor {
    fn x2apic(&mut self) -> bool {
        self.vcpu.x2apic()
    }

    fn initialize(&mut self) -> Result<(), Error> {
        self.vcpu.initialize()
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.vcpu.reset()
    }

    fn start_at_page(&mut self, page: u8) -> Result<(), Error> {
        self.vcpu.start_at_page(page)
    }

    fn start_at_kernel(&mut self, entry: u64) -> Result<(), Error> {
        let fd = self.vcpu.fd();
        let mut sregs = fd.get_sregs().map_err(Error::kvm("read registers"))?;
        boot::long_mode(&mut sregs);
        fd.set_sregs(&sregs).map_err(Error::kvm("set registers"))?;
        fd.set_regs(&boot::entry_registers(entry)).map_err(Error::kvm("set registers"))
    }

    fn interruptible(&mut self) -> bool {
        self.vcpu.interruptible()
    }

    fn inject(&mut self, vector: u8) -> Result<(), Error> {
        self.vcpu.inject(vector)
    }

    fn request_window(&mut self, on: bool) {
        self.vcpu.request_window(on);
    }

    fn nmi(&mut self) {
        let _ = self.vcpu.fd().nmi();
    }

    fn registers(&mut self) -> Result<Registers, Error> {
        let regs = self.vcpu.fd().get_regs().map_err(Error::kvm("read registers"))?;
        let sregs = self.vcpu.fd().get_sregs().map_err(Error::kvm("read registers"))?;
        Ok(Registers { rip: regs.rip, rsp: regs.rsp, rflags: regs.rflags, cr2: sregs.cr2 })
    }

    fn port_data(&mut self) -> &mut [u8] {
        self.vcpu.port_data()
    }

    fn mmio_answer(&mut self) -> &mut [u8] {
        self.vcpu.mmio_answer()
    }

    fn answer_msr(&mut self, value: u64) {
        self.vcpu.answer_msr(value);
    }

    fn shortest(&self) -> u64 {
        // A guest whose tick is hardly longer than its host is late must run all the same.
        self.host.lateness.min(self.host.ticks(SKIPPED))
    }

    fn lateness(&self) -> u64 {
        self.host.lateness
    }

    fn run_slice(
        &mut self,
        clock: &mut Clock,
        until: u64,
        injecting: bool,
    ) -> Result<SliceEnd, Error> {
        let Self { vcpu, host, .. } = self;
        TIMER.with_borrow_mut(|timer| {
            let timer = match timer {
                Some(timer) => timer,
                none => none.insert(Timer::new(host)?),
            };
            let entered = clock.now();
            timer.arm(vcpu, &clock.costs, until.saturating_sub(entered));
            let run = vcpu.run(clock, injecting);
            timer.kick.rest();
            let (exit, after) = run?;
            let overshoot = match exit {
                Exit::Interrupted => timer.kicked(vcpu, clock, (entered, until), after),
                _ => {
                    timer.left(vcpu, clock, exit::path(&exit), after);
                    None
                }
            };
            Ok(SliceEnd { exit, overshoot })
        })
    }
}
