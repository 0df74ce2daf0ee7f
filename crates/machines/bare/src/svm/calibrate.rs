//! Costs of entering and leaving guest mode, measured by a guest of our own.
//!
//! The guest's code lies in this program, and the guest's memory is the bare machine's own. Every
//! instruction is to take one tick, whether it leaves the guest or not. QEMU's versions count some
//! of them otherwise; the costs that are taken off make them the same.

use super::debug::{Debug, Watch, Watchpoint};
use super::nested::Nested;
use super::time::{Costs, ExitPath};
use super::vcpu::{LongMode, Vcpu};
use crate::exit::Exit;
use crate::layout::{LOW_END, PAGE_TABLES};
use std::arch::global_asm;

const VECTOR: u8 = 0x30;
/// Not memory: where devices are.
const DEVICE: u64 = LOW_END;
/// A register that no processor has.
const UNKNOWN_MSR: u32 = 0x6e0;

// Each piece: a TSC reading to R8, the instruction, a TSC reading to R9. Between the readings there
// are two instructions and the second reading itself. The symbols are global: the code that takes
// their addresses may be in another codegen unit.
global_asm!(
    ".pushsection .text.stasis_calibration, \"ax\", @progbits",
    ".globl stasis_calibrate_port",
    ".globl stasis_calibrate_store",
    ".globl stasis_calibrate_load",
    ".globl stasis_calibrate_wrmsr",
    ".globl stasis_calibrate_cpuid",
    ".globl stasis_calibrate_halt",
    ".globl stasis_calibrate_window",
    ".globl stasis_calibrate_debug_register",
    ".globl stasis_calibrate_watch",
    ".globl stasis_calibrate_spin",
    ".balign 4096",
    "stasis_calibrate_port:",
    "rdtsc",
    "mov r8, rax",
    "out 0x10, al",
    "rdtsc",
    "mov r9, rax",
    "hlt",
    "stasis_calibrate_store:",
    "rdtsc",
    "mov r8, rax",
    "mov [rsi], ebx",
    "rdtsc",
    "mov r9, rax",
    "hlt",
    "stasis_calibrate_load:",
    "rdtsc",
    "mov r8, rax",
    "mov ebx, [rsi]",
    "rdtsc",
    "mov r9, rax",
    "hlt",
    "stasis_calibrate_wrmsr:",
    "rdtsc",
    "mov r8, rax",
    "wrmsr",
    "rdtsc",
    "mov r9, rax",
    "hlt",
    "stasis_calibrate_cpuid:",
    "rdtsc",
    "mov r8, rax",
    "cpuid",
    "rdtsc",
    "mov r9, rax",
    "hlt",
    "stasis_calibrate_halt:",
    "rdtsc",
    "mov r8, rax",
    "hlt",
    "rdtsc",
    "mov r9, rax",
    "hlt",
    "stasis_calibrate_window:",
    "rdtsc",
    "mov r8, rax",
    "sti",
    "nop",
    "rdtsc",
    "mov r9, rax",
    "hlt",
    "stasis_calibrate_debug_register:",
    "rdtsc",
    "mov r8, rax",
    "mov rbx, dr6",
    "rdtsc",
    "mov r9, rax",
    "hlt",
    "stasis_calibrate_watch:",
    "rdtsc",
    "mov r8, rax",
    "mov rbx, [rsp - 64]",
    "rdtsc",
    "mov r9, rax",
    "hlt",
    "stasis_calibrate_spin:",
    "inc rbx",
    "jmp stasis_calibrate_spin",
    ".popsection",
);

extern "C" {
    fn stasis_calibrate_port();
    fn stasis_calibrate_store();
    fn stasis_calibrate_load();
    fn stasis_calibrate_wrmsr();
    fn stasis_calibrate_cpuid();
    fn stasis_calibrate_halt();
    fn stasis_calibrate_window();
    fn stasis_calibrate_debug_register();
    fn stasis_calibrate_watch();
    fn stasis_calibrate_spin();
}

/// The machine does not count as it should.
#[derive(Debug, thiserror::Error)]
#[error("the emulated machine does not repeat itself: {path} took {ticks:?} ticks; QEMU must count instructions (-icount shift=0)")]
pub struct NotExact {
    path: &'static str,
    ticks: [i64; 2],
}

/// Descriptors: none, none, 64-bit code, data.
static SEGMENTS: [u64; 4] = [0, 0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];

#[repr(C, align(4096))]
struct Page([u64; 512]);

struct Bench {
    nested: Nested,
    vcpu: Vcpu,
    idt: Box<Page>,
    stack: Box<Page>,
}

/// Measures the costs.
///
/// # Errors
/// The measured costs are not the same each time.
///
/// # Safety
/// On the bare machine only.
pub unsafe fn calibrate() -> Result<Costs, NotExact> {
    let mut nested = Nested::new();
    nested.map(0, 0, LOW_END).expect("aligned, and the first");
    let vcpu = Vcpu::new(0, Vec::new());
    let (idt, stack) = (Box::new(Page([0; 512])), Box::new(Page([0; 512])));
    let mut bench = Bench { nested, vcpu, idt, stack };
    let mut costs = Costs::default();
    costs.enter = twice("an entry", || bench.entry(&costs, false))?;
    costs.inject = twice("an injection", || bench.entry(&costs, true))?;
    for (way, path, code) in [
        (ExitPath::Port, "a port", stasis_calibrate_port as unsafe extern "C" fn()),
        (ExitPath::Memory, "a store", stasis_calibrate_store),
        (ExitPath::Msr, "an MSR", stasis_calibrate_wrmsr),
        (ExitPath::Cpuid, "CPUID", stasis_calibrate_cpuid),
        (ExitPath::Halt, "HLT", stasis_calibrate_halt),
        (ExitPath::DebugRegister, "a debug register", stasis_calibrate_debug_register),
    ] {
        costs.leave[way as usize] = twice(path, || bench.gap(&costs, code as usize as u64, 3))?;
    }
    let load = twice("a load", || bench.gap(&costs, stasis_calibrate_load as *const () as u64, 3))?;
    if load != 0 {
        return Err(NotExact { path: "a load after a store", ticks: [0, load] });
    }
    let window = stasis_calibrate_window as *const () as u64;
    costs.leave[ExitPath::Window as usize] = twice("a window", || bench.gap(&costs, window, 4))?;
    let watch = stasis_calibrate_watch as *const () as u64;
    costs.leave[ExitPath::Watch as usize] = twice("a watchpoint", || bench.gap(&costs, watch, 3))?;
    costs.timer = twice("the timer", || bench.spin(&costs).0)?;
    costs.leave[ExitPath::Timer as usize] = twice("the timer's exit", || bench.spin(&costs).1)?;
    costs.leave[ExitPath::Other as usize] = costs.leave[ExitPath::Port as usize];
    Ok(costs)
}

fn twice(path: &'static str, mut measure: impl FnMut() -> i64) -> Result<i64, NotExact> {
    // The first time, QEMU translates.
    measure();
    let ticks = [measure(), measure()];
    if ticks[0] == ticks[1] {
        Ok(ticks[0])
    } else {
        Err(NotExact { path, ticks })
    }
}

impl Bench {
    fn start(&mut self, code: u64) {
        const INTERRUPT_GATE: u64 = 0x8e00 << 32;
        let handler = stasis_calibrate_port as *const () as u64;
        let gate = 2 * usize::from(VECTOR);
        self.idt.0[gate] =
            handler & 0xffff | 0x10 << 16 | INTERRUPT_GATE | (handler >> 16 & 0xffff) << 48;
        self.idt.0[gate + 1] = handler >> 32;
        let idt = self.idt.0.as_ptr() as u64;
        let mode = LongMode { cr3: PAGE_TABLES, gdt: SEGMENTS.as_ptr() as u64, idt };
        self.vcpu.start_in_long_mode(&mode);
        let mut registers = [0; 18];
        registers[1] = u64::from(UNKNOWN_MSR);
        registers[4] = self.stack.0.as_ptr() as u64 + 4096;
        registers[6] = DEVICE;
        registers[16] = code;
        registers[17] = 1 << 9;
        self.vcpu.set_registers(&registers);
    }

    fn run(&mut self, costs: &Costs, now: u64, until: u64) -> (Exit, u64) {
        // SAFETY: on the bare machine by the caller's promise; this guest's code
        // writes to no memory but its stack.
        unsafe { self.vcpu.run(&self.nested, costs, now, until) }
    }

    /// From `now` to the first instruction's reading of the TSC.
    fn entry(&mut self, costs: &Costs, inject: bool) -> i64 {
        const NOW: u64 = 1 << 20;
        self.start(stasis_calibrate_port as *const () as u64);
        if inject {
            self.vcpu.inject(VECTOR);
        }
        self.run(costs, NOW, u64::MAX);
        self.vcpu.registers()[8] as i64 - NOW as i64 - 1
    }

    /// Returns the distance between two readings beyond `instructions`.
    fn gap(&mut self, costs: &Costs, code: u64, instructions: i64) -> i64 {
        self.start(code);
        let halts = if code == stasis_calibrate_halt as *const () as u64 { 2 } else { 1 };
        if code == stasis_calibrate_window as *const () as u64 {
            self.vcpu.clear_interrupts();
            self.vcpu.request_window(true);
        }
        let mut debug = Debug::default();
        if code == stasis_calibrate_watch as *const () as u64 {
            let watched = self.stack.0.as_ptr() as u64 + 4096 - 64;
            let kind = Watch::Access;
            debug.watches[0] = Some(Watchpoint { linear: watched, kind, length: 8, process: None });
        }
        self.vcpu.set_debug(&debug);
        let (mut now, mut halted) = (1 << 20, 0);
        while halted < halts {
            let (exit, then) = self.run(costs, now, u64::MAX);
            now = then;
            halted += u32::from(exit == Exit::Halt);
        }
        self.vcpu.set_debug(&Debug::default());
        let registers = self.vcpu.registers();
        registers[9].wrapping_sub(registers[8]) as i64 - instructions
    }

    /// By how much the guest stays too short, and its time is too late then.
    fn spin(&mut self, costs: &Costs) -> (i64, i64) {
        const NOW: u64 = 1 << 20;
        const STAY: u64 = 10_000;
        let code = stasis_calibrate_spin as *const () as u64;
        self.start(code);
        let (_, now) = self.run(costs, NOW, NOW + STAY);
        let registers = self.vcpu.registers();
        // INC RBX is 3 bytes long.
        let executed = 2 * registers[3] - u64::from(registers[16] != code);
        (STAY as i64 - executed as i64, now as i64 - (NOW + executed) as i64)
    }
}
