//! A debugger's hold on a processor: breakpoints, watchpoints, registers. None of it takes the guest's time.
//!
//! A breakpoint is an INT3 in the guest's memory, of which [`Vcpu::set_debug`] makes an exit; a
//! watchpoint is a debug register; a step is a run of one tick. The trap flag would be seen: SYSCALL
//! leaves it in R11, and Linux returns another way then. Only what is asked for is intercepted, so
//! that a guest without a debugger has its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::enter::stasis_switch;
use super::nested::Nested;
use super::vcpu::{Served, Vcpu, CURRENT, VALID};
use super::vmcb::{
    Segment, CONTROL_INTERCEPTS, CR0, CR2, CR3, CR4, DR6, DR7, EFER, EVENT, EXCEPTION_INTERCEPTS,
    KERNEL_GS_BASE, RFLAGS, RIP,
};
use super::{registers, walk};
use crate::exit::{DebugEvent, Exit};

/// Watchpoints of a processor (AMD64 APM vol. 2, 13.1.1).
pub const WATCHES: usize = 4;

/// The accesses that a watchpoint is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Stores.
    Write,
    /// Loads and stores.
    Access,
    /// Execution: the exit is before the instruction.
    Execute,
}

/// Linear address of each watchpoint, its kind, and its bytes: 1, 2, 4 or 8, and the address a
/// multiple of it.
pub type Watches = [Option<(u64, Watch, u8)>; WATCHES];

/// The events that a debugger waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Debug {
    /// An exit at INT3 and INT n, of which the caller knows which are its own.
    pub breakpoints: bool,
    /// The same of all processors. The guest's own have no effect while there are any.
    pub watches: Watches,
}

impl Debug {
    fn watches(&self) -> bool {
        self.watches.iter().any(Option::is_some)
    }

    /// DR7 for the watchpoints.
    fn control(&self) -> u64 {
        const RESERVED: u64 = 1 << 10;
        const EXACT: u64 = 1 << 9;
        let watches = self.watches.iter().enumerate();
        watches.fold(RESERVED, |control, (number, watch)| {
            let Some((_, kind, length)) = *watch else { return control };
            let (kind, length) = match kind {
                Watch::Execute => (0, 1),
                Watch::Write => (1, length),
                Watch::Access => (3, length),
            };
            let length = match length {
                1 => 0,
                2 => 1,
                8 => 2,
                _ => 3,
            };
            // Enabled in all tasks.
            control | EXACT | 2 << (2 * number) | (kind | length << 2) << (16 + 4 * number)
        })
    }
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

/// The watchpoints that the one processor that there is has loaded.
static LOADED: Mutex<Watches> = Mutex::new([None; WATCHES]);
/// Set if there are any: each entry asks.
static ARE_LOADED: AtomicBool = AtomicBool::new(false);

/// Intercept of INT n, in the first word of intercepts.
const INTN_INTERCEPT: u32 = 1 << 21;
const DB_INTERCEPT: u32 = 1 << 1;

impl Vcpu {
    /// Sets the events for which the processor leaves guest mode, from the next entry on.
    pub fn set_debug(&mut self, debug: Debug) {
        if debug.watches != self.debug.watches {
            self.vmcb.set(DR7, debug.control());
        }
        self.debug = debug;
        self.is_watched = debug.watches();
        let intn = if debug.breakpoints { INTN_INTERCEPT } else { 0 };
        let first = self.vmcb.get_long(CONTROL_INTERCEPTS) & !INTN_INTERCEPT;
        self.vmcb.set_long(CONTROL_INTERCEPTS, first | intn);
        let exceptions = if debug.watches() { DB_INTERCEPT } else { 0 };
        self.vmcb.set_long(EXCEPTION_INTERCEPTS, exceptions);
    }

    /// Before an entry.
    pub(super) fn arm(&mut self) {
        if !self.is_watched && !ARE_LOADED.load(Ordering::Relaxed) {
            return;
        }
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if *loaded != self.debug.watches {
            *loaded = self.debug.watches;
            ARE_LOADED.store(self.is_watched, Ordering::Relaxed);
            let address = |number: usize| loaded[number].map_or(0, |(address, _, _)| address);
            let addresses = [address(0), address(1), address(2), address(3)];
            // QEMU looks for them in all that runs, as VMRUN alone does not make it
            // (`helper_vmrun`, 7.2 to 11), and reports those that DR7 enables: the guest's, once it
            // is entered, and none after it has left.
            // SAFETY: this program accesses its stack and the control block only before it enters.
            unsafe { crate::host::write_debug_registers(addresses, self.debug.control()) };
        }
    }

    /// A debug exception, or an INT n.
    pub(super) fn debugged(&mut self, nested: &Nested, code: u64) -> Served {
        const INTN: u64 = 0x75;
        const DEBUG: u64 = 1;
        if code != INTN {
            let status = self.vmcb.get(DR6);
            if status & 0xf == 0 {
                // A step of the guest's own debugger.
                self.raise(DEBUG);
                return Served::Inside;
            }
            self.vmcb.set(DR6, status & !0xf);
            return Served::Outside(Exit::Debug(DebugEvent::Watch((status & 0xf) as u8)));
        }
        let mut code = [0; 2];
        walk::read(&self.vmcb, nested, self.vmcb.get(RIP), &mut code);
        match code {
            [0xcc, _] => Served::Outside(Exit::Debug(DebugEvent::Breakpoint)),
            _ => {
                self.software_interrupt(code[1], 2);
                Served::Inside
            }
        }
    }

    /// Lets the INT3 at RIP have its effect in the guest: it is the guest's own.
    pub fn pass_breakpoint(&mut self) {
        self.software_interrupt(3, 1);
    }

    fn software_interrupt(&mut self, vector: u8, length: u64) {
        const SOFTWARE: u64 = 4 << 8;
        self.skip(length);
        self.vmcb.set(EVENT, u64::from(vector) | SOFTWARE | VALID);
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

    /// The guest-physical address of `linear` in the guest's page tables, and how many bytes
    /// follow it in its page.
    pub fn translate(&self, nested: &Nested, linear: u64) -> Option<(u64, u64)> {
        walk::translate(&self.vmcb, nested, linear)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchpoints_are_encoded_as_the_manual_says() {
        let mut debug = Debug::default();
        assert_eq!(debug.control(), 0x400);
        debug.watches[0] = Some((0x1000, Watch::Write, 8));
        debug.watches[3] = Some((0x2000, Watch::Access, 4));
        // AMD64 APM vol. 2, figure 13-4: enabled are 0 (8 bytes, stores) and 3 (4 bytes, accesses).
        assert_eq!(debug.control(), 0xf009_0682);
        debug.watches[1] = Some((0x3001, Watch::Execute, 1));
        assert_eq!(debug.control(), 0xf009_068a);
        assert!(debug.watches());
    }
}
