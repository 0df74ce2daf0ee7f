//! The engine on the bare machine: guests by SVM, without an operating system
//! below (`stasis_bare`).

mod cpuid;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use stasis_bare::svm::{self, Alike, Debug, DebugRegisters, KeptVcpu, LongMode, Nested};

use crate::engine::{Engine, MachineProcessors, Processors, Region};
use crate::error::Error;
use crate::exit::Exit;
use crate::freeze::{Clock, Costs};
use crate::layout;
use crate::memory::GuestMemory;
use crate::pvclock::Reads;
use crate::vcpu::{DebugVcpu, Registers, SliceEnd, Vcpu, MAX_SLICE};

/// QEMU's TSC, in kHz: one tick for each instruction, a nanosecond each.
const KHZ: u64 = 1_000_000;
/// The machines made so far, and the costs of guest mode.
pub struct BareEngine {
    costs: svm::Costs,
    machines: Vec<Vec<Box<dyn Vcpu>>>,
    alike: Arc<Alike>,
}

impl BareEngine {
    /// Prepares the processor.
    pub fn open() -> Result<Self, Error> {
        static COSTS: OnceLock<svm::Costs> = OnceLock::new();
        let costs = match COSTS.get() {
            // A first boot was made before the run.
            Some(costs) => *costs,
            None => {
                // SAFETY: on the bare machine, as the caller has found, and once in its life.
                let costs = unsafe {
                    stasis_bare::start();
                    svm::calibrate()
                };
                let costs = costs.map_err(Error::NotExact)?;
                *COSTS.get_or_init(|| costs)
            }
        };
        Ok(Self { costs, machines: Vec::new(), alike: Arc::default() })
    }
}

impl Engine for BareEngine {
    unsafe fn add_machine(
        &mut self,
        regions: &[Region],
        code: &[Range<u64>],
        processors: MachineProcessors,
    ) -> Result<(), Error> {
        let MachineProcessors { count, reads, notes_writes, .. } = processors;
        let mut nested = if notes_writes { Nested::noting_writes() } else { Nested::new() };
        nested.set_fine(code);
        for &(base, length, host) in regions {
            nested.map(base, host, length).map_err(Error::NotMappable)?;
        }
        let nested = Arc::new(nested);
        self.alike.add(&nested);
        let alike = &self.alike;
        let costs = self.costs;
        let one = |index| {
            let place = (index, count, reads);
            let (vcpu, nested, alike) = (new(place), Arc::clone(&nested), Arc::clone(alike));
            Box::new(Processor { vcpu, place, nested, alike, costs, origin: 0 }) as Box<dyn Vcpu>
        };
        self.machines.push((0..count).map(one).collect());
        Ok(())
    }

    fn khz(&mut self) -> Result<u64, Error> {
        Ok(KHZ)
    }

    fn calibrate(&mut self, _: &GuestMemory) -> Result<Costs, Error> {
        // Costs are in no guest's time: none are taken off.
        Ok(Costs::default())
    }

    fn processors(&mut self) -> Result<Processors, Error> {
        Ok(std::mem::take(&mut self.machines))
    }
}

/// A processor's number, how many its machine has, and how they read the time.
type Place = (u32, u32, Reads);

/// The processor after power-on.
fn new((index, count, reads): Place) -> svm::Vcpu {
    svm::Vcpu::new(index, cpuid::leaves(index, count, reads))
}

struct Processor {
    // Dropped in this order: the processor, its memory's tables.
    vcpu: svm::Vcpu,
    place: Place,
    nested: Arc<Nested>,
    alike: Arc<Alike>,
    costs: svm::Costs,
    /// Time at which its TSC is zero (ticks).
    origin: u64,
}

impl Vcpu for Processor {
    fn x2apic(&mut self) -> bool {
        self.vcpu.x2apic()
    }

    fn initialize(&mut self) -> Result<(), Error> {
        self.vcpu.start_at_page(0);
        Ok(())
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.vcpu = new(self.place);
        Ok(())
    }

    fn start_at_page(&mut self, page: u8) -> Result<(), Error> {
        self.vcpu.start_at_page(page);
        Ok(())
    }

    fn start_at_kernel(&mut self, entry: u64) -> Result<(), Error> {
        const RSI: usize = 6;
        const RIP: usize = 16;
        let mode = LongMode { cr3: layout::PAGE_TABLES, gdt: layout::GDT, idt: 0 };
        self.vcpu.start_in_long_mode(&mode);
        let mut registers = [0; 18];
        (registers[RSI], registers[RIP]) = (layout::ZERO_PAGE, entry);
        self.vcpu.set_registers(&registers);
        Ok(())
    }

    fn interruptible(&mut self) -> bool {
        self.vcpu.interruptible()
    }

    fn inject(&mut self, vector: u8) -> Result<(), Error> {
        self.vcpu.inject(vector);
        Ok(())
    }

    fn request_window(&mut self, on: bool) {
        self.vcpu.request_window(on);
    }

    fn nmi(&mut self) {
        self.vcpu.nmi();
    }

    fn registers(&mut self) -> Result<Registers, Error> {
        let registers = self.vcpu.registers();
        let (rsp, rip, rflags) = (registers[4], registers[16], registers[17]);
        Ok(Registers { rip, rsp, rflags, cr2: self.vcpu.fault_address() })
    }

    fn debug(&mut self) -> Option<&mut dyn DebugVcpu> {
        Some(self)
    }

    fn port_data(&mut self) -> &mut [u8] {
        self.vcpu.data()
    }

    fn mmio_answer(&mut self) -> &mut [u8] {
        self.vcpu.data()
    }

    fn answer_msr(&mut self, value: u64) {
        self.vcpu.set_msr_answer(value);
    }

    fn shortest(&self) -> u64 {
        0
    }

    fn lateness(&self) -> u64 {
        0
    }

    fn count_from(&mut self, origin: u64) -> bool {
        self.origin = origin;
        true
    }

    fn keep(&mut self) -> Option<KeptVcpu> {
        // SAFETY: on the bare machine.
        unsafe { self.vcpu.keep(&self.nested) }
    }

    fn go_on_from(&mut self, kept: &KeptVcpu) {
        self.vcpu.go_on_from(kept);
    }

    fn take_written(&mut self, found: &mut dyn FnMut(u64, u64)) -> bool {
        self.nested.take_written(found)
    }

    unsafe fn share(&mut self, range: Range<u64>, equal: bool) {
        // SAFETY: on the bare machine, and between two turns; the caller's promise.
        unsafe { self.alike.share(range, equal) };
    }

    fn guard(&self) -> Option<Arc<dyn Fn(Range<u64>) + Send + Sync>> {
        let nested = Arc::clone(&self.nested);
        Some(Arc::new(move |range| {
            nested.own(range);
        }))
    }

    fn run_slice(&mut self, clock: &mut Clock, until: u64, _: bool) -> Result<SliceEnd, Error> {
        let origin = self.origin;
        let end = until.min(clock.now().saturating_add(MAX_SLICE));
        let (from, to) = (clock.now() - origin, end - origin);
        // SAFETY: on the bare machine; the guest's memory is the machine's, which
        // promised it to `add_machine`.
        let (exit, now) = unsafe { self.vcpu.run(&self.nested, &self.costs, from, to) };
        let now = now + origin;
        clock.set(now);
        let over = exit == Exit::Interrupted && now >= until;
        let overshoot = over.then(|| now - until);
        Ok(SliceEnd { exit, overshoot })
    }
}

impl DebugVcpu for Processor {
    fn set(&mut self, debug: &Debug) {
        self.vcpu.set_debug(debug);
    }

    fn registers(&mut self) -> DebugRegisters {
        // SAFETY: on the bare machine.
        unsafe { self.vcpu.debug_registers(&self.nested) }
    }

    fn set_registers(&mut self, registers: &DebugRegisters) {
        self.vcpu.set_debug_registers(registers);
    }

    fn translate(&mut self, process: Option<u64>, linear: u64) -> Option<(u64, u64)> {
        self.vcpu.translate(&self.nested, process, linear)
    }

    fn pass_breakpoint(&mut self) {
        self.vcpu.pass_breakpoint();
    }

    fn unwatched(&mut self) -> u8 {
        self.vcpu.unwatched()
    }
}
