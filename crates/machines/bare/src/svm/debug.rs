//! A debugger's hold on a processor: breakpoints, watchpoints, registers. None of it takes the guest's time,
//! and none of it is in the guest's memory.
//!
//! A watchpoint is a debug register (`shares.rs`), and so is a breakpoint. Breakpoints for which there is none
//! are pages that the guest cannot execute: where it comes to one, its breakpoints get the registers of
//! others (`breakpoints.rs`). The guest's own accesses to debug registers leave it, so it finds those that it
//! has set. A step is a run of one tick: the trap flag would be seen, as SYSCALL leaves it in R11, and Linux
//! returns another way then. Only what is asked for is intercepted, so that a guest without a debugger
//! has its own.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use iced_x86::Register;

use super::access;
use super::enter::stasis_switch;
use super::nested::Nested;
use super::registers;
use super::shares::{Holder, ENABLES, REGISTERS, RESET_CONTROL};
use super::vcpu::{Served, Vcpu, CURRENT, PROTECTION, UNDEFINED};
use super::vmcb::{
    Segment, CR0, CR2, CR3, CR4, DR6, DR7, EFER, EXCEPTION_INTERCEPTS, KERNEL_GS_BASE, RFLAGS, RIP,
};
use super::walk::{self, ADDRESS};
use crate::exit::{DebugEvent, Exit};

/// Watchpoints of a processor.
pub const WATCHES: usize = REGISTERS;

/// The accesses that a watchpoint is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Stores.
    Write,
    /// Loads and stores.
    Access,
}

/// Bytes after whose access the processor leaves the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watchpoint {
    /// Their linear address, a multiple of their length.
    pub linear: u64,
    /// The accesses that it is for.
    pub kind: Watch,
    /// 1, 2, 4 or 8 bytes.
    pub length: u8,
    /// The process whose it is, by the address of its top page table; None: any.
    pub process: Option<u64>,
}

/// The watchpoints of a processor.
pub type Watches = [Option<Watchpoint>; WATCHES];

/// An instruction before which the processor leaves the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breakpoint {
    /// Its linear address.
    pub linear: u64,
    /// The process whose it is, by the address of its top page table; None: any.
    pub process: Option<u64>,
}

/// The events that a debugger waits for: the same of all processors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Debug {
    /// An exit before each of these instructions.
    pub breakpoints: Arc<[Breakpoint]>,
    /// An exit after an access to each of these.
    pub watches: Watches,
}

/// The registers of a processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebugRegisters {
    /// RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15.
    pub general: [u64; 16],
    /// RIP.
    pub rip: u64,
    /// RFLAGS.
    pub rflags: u64,
    /// CS, SS, DS, ES, FS, GS.
    pub segments: [u16; 6],
    /// The base of FS.
    pub fs_base: u64,
    /// The base of GS.
    pub gs_base: u64,
    /// The base of GS that SWAPGS exchanges.
    pub kernel_gs_base: u64,
    /// CR0.
    pub cr0: u64,
    /// CR2.
    pub cr2: u64,
    /// CR3.
    pub cr3: u64,
    /// CR4.
    pub cr4: u64,
    /// EFER.
    pub efer: u64,
    /// The x87 and SSE state, as FXSAVE writes it.
    pub vectors: [u8; 512],
}

/// The addresses in the debug registers of the one processor that there is.
static LOADED: Mutex<[u64; REGISTERS]> = Mutex::new([0; REGISTERS]);

const DB_INTERCEPT: u32 = 1 << 1;
/// DR6 with nothing to report.
const RESET_STATUS: u64 = 0xffff_0ff0;

impl Vcpu {
    /// Sets the events for which the processor leaves guest mode, from the next entry on.
    pub fn set_debug(&mut self, debug: &Debug) {
        if self.debug != *debug {
            self.debug.clone_from(debug);
            self.preferred.clear();
            self.absent.clear();
            self.share_anew();
        }
    }

    /// The watchpoints that the guest's own leave without effect: bit n for watchpoint n.
    pub fn unwatched(&self) -> u8 {
        self.shares.unwatched
    }

    /// The next instruction runs, whatever breakpoint is there.
    pub fn pass_breakpoint(&mut self) {
        (self.passes, self.since) = (self.is_watched, None);
    }

    /// An instruction by which another process may run, or a program go on: it runs alone, and then
    /// pages are looked up again.
    pub(super) fn step(&mut self) -> Served {
        (self.steps, self.since) = (true, None);
        Served::Again
    }

    /// The next instruction is one like others.
    pub(super) fn pass_none(&mut self) {
        (self.passes, self.steps, self.since) = (false, false, None);
    }

    /// Has the registers given out anew before the next entry.
    pub(super) fn share_anew(&mut self) {
        (self.is_watched, self.is_shared) = (true, false);
    }

    /// Before an entry at `now`, where debug registers or pages are used. Returns whether one instruction
    /// is to run.
    #[cold]
    pub(super) fn arm(&mut self, nested: &Nested, now: u64) -> bool {
        self.load(nested, now);
        self.since.is_some()
    }

    fn load(&mut self, nested: &Nested, now: u64) {
        if self.since.is_some_and(|since| since < now) {
            self.pass_none();
        }
        if self.passes || self.steps {
            self.since = self.since.or(Some(now));
        }
        if !self.is_shared {
            self.share(nested);
        }
        self.forbid(nested);
        let control = match self.passes {
            true => self.shares.without_breakpoints(),
            false => self.shares.control,
        };
        self.vmcb.set(DR7, control);
        self.status = self.vmcb.get(DR6);
        self.vmcb.set(DR6, RESET_STATUS);
        if control & ENABLES == 0 {
            return;
        }
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = (*loaded != self.shares.addresses).then_some(&self.shares.addresses);
        // QEMU looks for them in all that runs, as VMRUN alone does not make it
        // (`helper_vmrun`, 7.2 to 11), and reports those that DR7 enables.
        // SAFETY: up to the entry this program accesses its stack and the control block only, and
        // an exception there has no effect but to take the host's time.
        unsafe { crate::host::write_debug_registers(changed, control) };
        *loaded = self.shares.addresses;
    }

    /// After the exit, before anything else is accessed.
    #[cold]
    pub(super) fn disarm(&mut self) {
        let control = self.vmcb.get(DR7);
        if control & ENABLES != 0 {
            // Nothing but enabling changes: QEMU compares less then.
            // SAFETY: nothing is enabled.
            unsafe { crate::host::write_debug_registers(None, control & !ENABLES) };
        }
        self.raised = self.vmcb.get(DR6);
        self.vmcb.set(DR6, self.status);
        if !self.is_used() {
            self.is_watched = false;
            self.pass_none();
            self.vmcb.set(DR7, RESET_CONTROL);
        }
    }

    fn is_used(&self) -> bool {
        !self.is_shared || self.shares.are_used() || !self.shares.waiting.is_empty()
    }

    /// Intercepts debug exceptions where a register is used.
    pub(super) fn intercept_debug(&mut self) {
        let exceptions = if self.shares.are_used() { DB_INTERCEPT } else { 0 };
        self.vmcb.set_long(EXCEPTION_INTERCEPTS, exceptions);
    }

    /// A debug exception.
    pub(super) fn debugged(&mut self, nested: &Nested) -> Served {
        const DEBUG: u64 = 1;
        const HITS: u64 = 0xf;
        let process = self.vmcb.get(CR3) & ADDRESS;
        let (mut guests, mut watches, mut elsewhere, mut breakpoint) = (0, 0, false, None);
        for (register, holder) in self.shares.holders.iter().enumerate() {
            let is_enabled = self.vmcb.get(DR7) >> (2 * register) & 3 != 0;
            if self.raised >> register & 1 == 0 || !is_enabled {
                continue;
            }
            match *holder {
                Holder::Nobody => {}
                Holder::Guest => guests |= 1 << register,
                Holder::Watch(number) => {
                    let one = self.debug.watches[number];
                    match one.and_then(|one| one.process).is_none_or(|its| its == process) {
                        true => watches |= 1 << number,
                        false => elsewhere = true,
                    }
                }
                Holder::Breakpoint(number) => breakpoint = Some(number),
            }
        }
        if let Some(number) = breakpoint {
            // The guest's own at this instruction comes when the instruction is to run.
            return match self.is_there(nested, number) {
                true => Served::Outside(Exit::Debug(DebugEvent::Breakpoint)),
                false => Served::Inside,
            };
        }
        let others = self.raised & !RESET_STATUS & !HITS;
        if guests | others != 0 || watches == 0 && !elsewhere {
            let status = self.status & !HITS | guests | others;
            self.vmcb.set(DR6, status);
            self.raise(DEBUG);
        }
        match watches {
            0 => Served::Inside,
            watches => Served::Outside(Exit::Debug(DebugEvent::Watch(watches))),
        }
    }

    /// MOV from or to a debug register (AMD64 APM vol. 2, 13.1.1): the guest has its own.
    pub(super) fn debug_register(&mut self, nested: &Nested, code: u64) -> Served {
        const WRITE: u64 = 0x30;
        const DE: u64 = 1 << 3;
        const UPPER: u64 = 0xffff_ffff_0000_0000;
        let (writes, number) = (code >= WRITE, (code & 0xf) as usize);
        let number = match number {
            4 | 5 if self.vmcb.get(CR4) & DE != 0 => {
                self.raise(UNDEFINED);
                return Served::Inside;
            }
            4 | 5 => number + 2,
            _ => number,
        };
        let Some(instruction) = access::fetch(&self.vmcb, nested).decode() else {
            let text = format!("an access to DR{number} that cannot be read");
            return Served::Outside(Exit::Unsupported(text));
        };
        let general = match writes {
            true => instruction.op1_register(),
            false => instruction.op0_register(),
        };
        if general == Register::None || !general.is_gpr() {
            let text = format!("{:?} on DR{number}", instruction.code());
            return Served::Outside(Exit::Unsupported(text));
        }
        let (place, size) = (general.full_register().number(), general.size());
        if writes {
            let value = registers::get(&self.context, &self.vmcb, place);
            let value = if size == 8 { value } else { value & !UPPER };
            if number > 3 && value & UPPER != 0 {
                self.raise(PROTECTION);
                return Served::Inside;
            }
            match number {
                0..=3 => self.own.addresses[number] = value,
                6 => self.vmcb.set(DR6, value | RESET_STATUS),
                _ => self.own.control = value | RESET_CONTROL,
            }
            if number != 6 {
                self.share_anew();
            }
        } else {
            let value = match number {
                0..=3 => self.own.addresses[number],
                6 => self.vmcb.get(DR6),
                _ => self.own.control,
            };
            registers::set_sized(&mut self.context, &mut self.vmcb, place, size, value);
        }
        self.skip(instruction.len() as u64);
        Served::Inside
    }

    /// The registers, with the answer to the last exit applied.
    ///
    /// # Safety
    /// On the bare machine only.
    pub unsafe fn debug_registers(&mut self, nested: &Nested) -> DebugRegisters {
        self.finish(nested);
        let own = self.vmcb.address();
        if CURRENT.load(Ordering::Relaxed) == own {
            // SAFETY: the control block is this value's, and the one that the processor holds.
            unsafe { stasis_switch(own, own, self.context.host_lstar) };
        }
        let vmcb = &self.vmcb;
        let segment = |segment| vmcb.segment(segment);
        let all = [Segment::Cs, Segment::Ss, Segment::Ds, Segment::Es, Segment::Fs, Segment::Gs];
        DebugRegisters {
            general: std::array::from_fn(|number| registers::get(&self.context, vmcb, number)),
            rip: vmcb.get(RIP),
            rflags: vmcb.get(RFLAGS),
            segments: all.map(|one| segment(one).selector),
            fs_base: self.context.fs_base,
            gs_base: segment(Segment::Gs).base,
            kernel_gs_base: vmcb.get(KERNEL_GS_BASE),
            cr0: vmcb.get(CR0),
            cr2: vmcb.get(CR2),
            cr3: vmcb.get(CR3),
            cr4: vmcb.get(CR4),
            efer: vmcb.get(EFER),
            vectors: self.context.vectors.0,
        }
    }

    /// Sets the general registers, RIP, RFLAGS, and the x87 and SSE state; the others stay.
    pub fn set_debug_registers(&mut self, values: &DebugRegisters) {
        let mut general = [0; 18];
        general[..16].copy_from_slice(&values.general);
        (general[16], general[17]) = (values.rip, values.rflags);
        self.set_registers(&general);
        self.context.vectors.0 = values.vectors;
    }

    /// The guest-physical address of `linear` in the page tables of `process`, by the address of the top
    /// one (None: those that the processor has loaded), and how many bytes follow it in its page.
    pub fn translate(
        &self,
        nested: &Nested,
        process: Option<u64>,
        linear: u64,
    ) -> Option<(u64, u64)> {
        let process = process.unwrap_or_else(|| self.vmcb.get(CR3));
        walk::translate_in(&self.vmcb, nested, process, linear)
    }
}
