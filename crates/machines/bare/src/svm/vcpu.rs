//! One processor of a guest: entries, exits, and their requests.

use super::access::{self, Access, Target};
use super::cpuid::Leaf;
use super::debug::Debug;
use super::enter::{stasis_enter, stasis_switch, Context};
use super::msr::{self, IoMap, MsrMap};
use super::nested::Nested;
use super::registers::{
    self, RAX_NUMBER, RBX_NUMBER, RCX_NUMBER, RDI_NUMBER, RDX_NUMBER, RSI_NUMBER,
};
use super::shares::{Own, Shares};
use super::time::{Costs, ExitPath, TIMER};
use super::vmcb::*;
use super::walk;
use crate::exit::Exit;
use std::sync::atomic::{AtomicU64, Ordering};

// Work that an exit leaves for the next entry.
#[derive(Debug, Clone, Copy)]
enum Pending {
    Nothing,
    Port(usize),
    // A port's bytes, to the guest's memory.
    PortString(u64, usize),
    Memory(Target, usize),
    Msr,
}

/// The general registers, for a start and for diagnosis: RAX, RCX, RDX, RBX,
/// RSP, RBP, RSI, RDI, R8 to R15, then RIP and RFLAGS.
pub type Registers = [u64; 18];

/// Start of a processor other than from reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongMode {
    /// The page tables' top.
    pub cr3: u64,
    /// The descriptor table, whose third entry is 64-bit code and whose fourth
    /// is data.
    pub gdt: u64,
    /// The interrupt descriptor table; 0: none.
    pub idt: u64,
}

/// A processor.
pub struct Vcpu {
    pub(super) context: Box<Context>,
    pub(super) vmcb: Box<Vmcb>,
    // The control block points to them.
    _maps: (Box<IoMap>, Box<MsrMap>),
    cpuid: Vec<Leaf>,
    pending: Pending,
    bytes: [u8; 8],
    // Number of those of the last exit.
    length: usize,
    value: u64,
    pub(super) apic_base: u64,
    pub(super) tsc_aux: u64,
    pub(super) pat: u64,
    pub(super) mtrr: Mtrr,
    pub(super) nmi: bool,
    // The vector that goes in at the next entry.
    pub(super) injected: Option<u8>,
    pub(super) window: bool,
    pub(super) debug: Debug,
    /// The guest's own debug registers.
    pub(super) own: Own,
    pub(super) shares: Shares,
    /// False if the debug registers are to be given out anew.
    pub(super) is_shared: bool,
    /// True if debug registers or pages are used.
    pub(super) is_watched: bool,
    /// Breakpoints that get a register before others.
    pub(super) preferred: Vec<usize>,
    /// Breakpoints whose code was not in memory when the guest came to it.
    pub(super) absent: Vec<usize>,
    /// Pages that cannot be executed, and the breakpoint for which that is so.
    pub(super) forbidden: Vec<(u64, usize)>,
    /// True if the next instruction runs, whatever breakpoint is there.
    pub(super) passes: bool,
    /// True if it runs without intercepts that are for breakpoints.
    pub(super) steps: bool,
    /// The time at which that was so first.
    pub(super) since: Option<u64>,
    /// The guest's DR6 at the entry, and the processor's after the exit.
    pub(super) status: u64,
    pub(super) raised: u64,
}

/// The control block whose state the processor holds.
pub(super) static CURRENT: AtomicU64 = AtomicU64::new(0);

const SVME: u64 = 1 << 12;
const SHADOW: u64 = 1;
pub(super) const VALID: u64 = 1 << 31;
const INTERRUPTS: u64 = 1 << 9;
// At offset 0x60: APM vol. 2, 15.21.2 and appendix B.
const MASKING: u64 = 1 << 24;
const REQUESTED: u64 = 1 << 8;
const WINDOW: u64 = REQUESTED | 0xf << 16 | 1 << 20;
const WINDOW_INTERCEPT: u32 = 1 << 4;

// Causes of a nested page fault (APM vol. 2, 15.25.6).
const PRESENT: u64 = 1;
const WRITE: u64 = 2;
const FETCH: u64 = 1 << 4;

pub(super) const UNDEFINED: u64 = 6;
pub(super) const PROTECTION: u64 = 13;

impl Vcpu {
    /// A processor in the state after reset, on the guest memory of `nested`,
    /// which must outlive it.
    pub fn new(index: u32, cpuid: Vec<Leaf>) -> Self {
        let mut vmcb = Vmcb::new();
        let maps = (IoMap::new(), MsrMap::new());
        // INTR, NMI, INIT, VINTR, RDPMC, CPUID, HLT, INVLPGA, IOIO, MSR, task
        // switch, shutdown; then those of SVM itself, MONITOR, MWAIT, XSETBV.
        let first = [0, 1, 3, 4, 15, 18, 24, 26, 27, 28, 29, 31];
        let second = [0, 1, 2, 3, 4, 5, 6, 10, 11, 12, 13];
        let bits = |list: &[u32]| list.iter().fold(0, |bits, bit| bits | 1 << bit);
        vmcb.set_long(CONTROL_INTERCEPTS, bits(&first));
        vmcb.set_long(MORE_INTERCEPTS, bits(&second));
        // All processors of all guests have the same registers.
        vmcb.set_long(DEBUG_INTERCEPTS, u32::MAX);
        vmcb.set(IO_MAP, maps.0.address());
        vmcb.set(MSR_MAP, maps.1.address());
        vmcb.set_long(ASID, 1);
        vmcb.set(VIRTUAL_INTERRUPT, MASKING);
        vmcb.set(NESTED_PAGING, 1);
        vmcb.set(PAT, RESET_PAT);
        let context = Context::new(vmcb.address());
        let bootstrap = if index == 0 { APIC_BOOTSTRAP } else { 0 };
        let mut vcpu = Self {
            context,
            vmcb,
            _maps: maps,
            cpuid,
            pending: Pending::Nothing,
            bytes: [0; 8],
            length: 0,
            value: 0,
            apic_base: APIC_ADDRESS | APIC_ENABLED | bootstrap,
            tsc_aux: 0,
            pat: RESET_PAT,
            mtrr: Mtrr::default(),
            nmi: false,
            injected: None,
            window: false,
            debug: Debug::default(),
            own: Own::default(),
            shares: Shares::default(),
            is_shared: true,
            is_watched: false,
            preferred: Vec::new(),
            absent: Vec::new(),
            forbidden: Vec::new(),
            passes: false,
            steps: false,
            since: None,
            status: 0,
            raised: 0,
        };
        vcpu.reset();
        vcpu
    }

    // AMD64 APM vol. 2, 14.1.3.
    fn reset(&mut self) {
        let vmcb = &mut self.vmcb;
        let data = SegmentValue { selector: 0, attributes: 0x93, limit: 0xffff, base: 0 };
        for segment in [Segment::Es, Segment::Ss, Segment::Ds, Segment::Fs, Segment::Gs] {
            vmcb.set_segment(segment, data);
        }
        let code = SegmentValue { selector: 0xf000, attributes: 0x9b, base: 0xffff_0000, ..data };
        vmcb.set_segment(Segment::Cs, code);
        let table = SegmentValue { attributes: 0, ..data };
        vmcb.set_segment(Segment::Gdtr, table);
        vmcb.set_segment(Segment::Idtr, table);
        vmcb.set_segment(Segment::Ldtr, SegmentValue { attributes: 0x82, ..data });
        vmcb.set_segment(Segment::Tr, SegmentValue { attributes: 0x8b, ..data });
        vmcb.set(EFER, SVME);
        vmcb.set(CR0, 0x6000_0010);
        vmcb.set(CR3, 0);
        vmcb.set(CR4, 0);
        vmcb.set(DR6, 0xffff_0ff0);
        vmcb.set(DR7, 0x400);
        vmcb.set(RFLAGS, 2);
        vmcb.set(RIP, 0xfff0);
        vmcb.set_long(CPL, 0);
        vmcb.set(INTERRUPT_SHADOW, 0);
        vmcb.set(EVENT, 0);
        self.context.registers = [0; 14];
        self.context.fs_base = 0;
        self.pending = Pending::Nothing;
        (self.injected, self.window) = (None, false);
        self.pass_none();
        if self.own != Own::default() || self.is_watched {
            self.own = Own::default();
            self.share_anew();
        }
        self.forget();
    }

    /// Forgets the last exit, and all that is pending in the processor.
    pub(super) fn clear_pending(&mut self) {
        self.pending = Pending::Nothing;
        (self.nmi, self.injected) = (false, None);
        self.pass_none();
        self.forget();
    }

    // Makes the next entry load the state that VMRUN does not from the control block.
    fn forget(&mut self) {
        let _ =
            CURRENT.compare_exchange(self.vmcb.address(), 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Starts in real mode at page `page`, as a start-up message requests.
    pub fn start_at_page(&mut self, page: u8) {
        self.reset();
        let mut code = self.vmcb.segment(Segment::Cs);
        (code.selector, code.base) = (u16::from(page) << 8, u64::from(page) << 12);
        self.vmcb.set_segment(Segment::Cs, code);
        self.vmcb.set(RIP, 0);
    }

    /// Puts the processor into 64-bit mode.
    pub fn start_in_long_mode(&mut self, mode: &LongMode) {
        const PG_NE_ET_PE: u64 = 1 << 31 | 1 << 5 | 1 << 4 | 1;
        const PAE: u64 = 1 << 5;
        const LME_LMA: u64 = 1 << 8 | 1 << 10;
        self.reset();
        let vmcb = &mut self.vmcb;
        let data = SegmentValue { selector: 0x18, attributes: 0xc93, limit: u32::MAX, base: 0 };
        for segment in [Segment::Es, Segment::Ss, Segment::Ds, Segment::Fs, Segment::Gs] {
            vmcb.set_segment(segment, data);
        }
        vmcb.set_segment(Segment::Cs, SegmentValue { selector: 0x10, attributes: 0xa9b, ..data });
        let table = |base, limit| SegmentValue { selector: 0, attributes: 0, limit, base };
        vmcb.set_segment(Segment::Gdtr, table(mode.gdt, 31));
        let limit = if mode.idt == 0 { 0 } else { 16 * 256 - 1 };
        vmcb.set_segment(Segment::Idtr, table(mode.idt, limit));
        vmcb.set(CR0, PG_NE_ET_PE);
        vmcb.set(CR3, mode.cr3);
        vmcb.set(CR4, PAE);
        vmcb.set(EFER, LME_LMA | SVME);
    }

    /// The general registers, RIP and RFLAGS.
    pub fn registers(&self) -> Registers {
        std::array::from_fn(|number| match number {
            16 => self.vmcb.get(RIP),
            17 => self.vmcb.get(RFLAGS),
            _ => registers::get(&self.context, &self.vmcb, number),
        })
    }

    /// Sets the general registers, RIP and RFLAGS.
    pub fn set_registers(&mut self, values: &Registers) {
        for (number, &value) in values[..16].iter().enumerate() {
            registers::set(&mut self.context, &mut self.vmcb, number, value);
        }
        self.vmcb.set(RIP, values[16]);
        self.vmcb.set(RFLAGS, values[17] | 2);
    }

    /// The address of the last page fault.
    pub fn fault_address(&self) -> u64 {
        self.vmcb.get(CR2)
    }

    /// Returns whether the local APIC is in x2APIC mode.
    pub fn x2apic(&self) -> bool {
        self.apic_base & APIC_X2 != 0
    }

    /// Returns whether an interrupt can be injected at the next entry.
    pub fn interruptible(&self) -> bool {
        let vmcb = &self.vmcb;
        vmcb.get(RFLAGS) & INTERRUPTS != 0
            && vmcb.get(INTERRUPT_SHADOW) & SHADOW == 0
            && vmcb.get(EVENT) & VALID == 0
            && self.injected.is_none()
    }

    /// Injects `vector` at the next entry.
    pub fn inject(&mut self, vector: u8) {
        self.injected = Some(vector);
    }

    /// Makes a non-maskable interrupt happen.
    pub fn nmi(&mut self) {
        self.nmi = true;
    }

    /// Asks for an exit as soon as an interrupt can be injected.
    pub fn request_window(&mut self, on: bool) {
        self.window = on;
    }

    /// Disables interrupts, as CLI does.
    pub(super) fn clear_interrupts(&mut self) {
        let flags = self.vmcb.get(RFLAGS);
        self.vmcb.set(RFLAGS, flags & !INTERRUPTS);
    }

    pub(super) fn raise(&mut self, exception: u64) {
        const EXCEPTION: u64 = 3 << 8;
        const ERROR_CODE: u64 = 1 << 11;
        let code = if exception == PROTECTION { ERROR_CODE } else { 0 };
        self.vmcb.set(EVENT, exception | EXCEPTION | code | VALID);
    }

    /// Runs the guest from its time `now` on, until `until` at the latest, and returns the reason
    /// and time of its exit. The time excludes costs.
    ///
    /// # Safety
    /// On the bare machine only. `nested` maps memory that lives as long as it
    /// and that nothing borrows during the call.
    pub unsafe fn run(
        &mut self,
        nested: &Nested,
        costs: &Costs,
        mut now: u64,
        until: u64,
    ) -> (Exit, u64) {
        if !self.finish(nested) {
            return (Exit::Unsupported("a device's bytes to no memory".into()), now);
        }
        self.take_processor(nested);
        loop {
            if self.nmi && self.vmcb.get(EVENT) & VALID == 0 {
                const NMI: u64 = 2 << 8 | 2;
                self.nmi = false;
                self.vmcb.set(EVENT, NMI | VALID);
            }
            if TIMER.has_passed() {
                TIMER.stop();
            }
            let injecting = self.vmcb.get(EVENT) & VALID != 0 || self.injected.is_some();
            self.request();
            // The window can be asked for once the interrupt is in.
            let both = self.injected.is_some() && self.window;
            let one = both || self.is_watched && self.arm(nested, now);
            let until_then = if one { until.min(now + 1) } else { until };
            let enter = costs.enter + if injecting { costs.inject } else { 0 };
            self.context.time = now.wrapping_sub(enter as u64);
            self.context.timer = TIMER.set(now, until_then, costs);
            // SAFETY: the control block and what it points to are this value's;
            // `nested` and its memory are the caller's promise.
            unsafe { stasis_enter(&mut *self.context) };
            if self.is_watched {
                self.disarm();
            }
            let asked = now.wrapping_sub(enter as u64);
            let entered = asked.wrapping_sub(self.context.time);
            TIMER.left(self.context.timer, entered, self.context.exit_tsc, costs);
            let code = self.vmcb.get(EXIT_CODE);
            let way = ExitPath::of(code);
            let exited = self.context.exit_tsc.wrapping_add(self.context.time);
            let before = now;
            now = now.max(exited.wrapping_sub(costs.leave[way as usize] as u64));
            self.event_again();
            match self.serve(nested, code) {
                Served::Inside => {}
                // The instruction that has left the guest is not executed yet.
                Served::Again => now = before.max(now.saturating_sub(1)),
                Served::Timer if now < until => {}
                Served::Timer => return (Exit::Interrupted, now),
                Served::Outside(exit) => return (exit, now),
                Served::Before(exit) => return (exit, before.max(now.saturating_sub(1))),
            }
            if now >= until {
                return (Exit::Interrupted, now);
            }
        }
    }

    // An event whose delivery an exit has cut short comes again.
    fn event_again(&mut self) {
        const SOFTWARE: u64 = 4 << 8;
        let event = self.vmcb.get(EXIT_EVENT);
        let again = event & VALID != 0 && event & 7 << 8 != SOFTWARE;
        self.vmcb.set(EVENT, if again { event } else { 0 });
        // A virtual interrupt that is not taken yet is still there.
        if self.vmcb.get(VIRTUAL_INTERRUPT) & REQUESTED == 0 {
            self.injected = None;
        }
    }

    /// Asks for the interrupt that is to be injected, or for the window, which
    /// are the same field.
    ///
    /// An interrupt goes in as a virtual one. By event injection it would come
    /// twice now and then: QEMU (7.2 to 11) keeps the vector as a pending
    /// exception after VMRUN, and delivers it again where its instruction count
    /// ends the guest's stay before anything else has cleared that.
    fn request(&mut self) {
        let mut first = self.vmcb.get_long(CONTROL_INTERCEPTS) | WINDOW_INTERCEPT;
        let field = match self.injected {
            Some(vector) => {
                first &= !WINDOW_INTERCEPT;
                MASKING | WINDOW | u64::from(vector) << 32
            }
            None if self.window => MASKING | WINDOW,
            None => MASKING,
        };
        self.vmcb.set_long(CONTROL_INTERCEPTS, first);
        self.vmcb.set(VIRTUAL_INTERRUPT, field);
    }

    fn take_processor(&mut self, nested: &Nested) {
        self.vmcb.set(NESTED_CR3, nested.root());
        let own = self.vmcb.address();
        let other = CURRENT.swap(own, Ordering::Relaxed);
        if other == own {
            return;
        }
        // SAFETY: the other one is alive: it leaves CURRENT when it is dropped.
        unsafe { stasis_switch(other, own, self.context.host_lstar) };
        // SAFETY: only the guest reads this register.
        unsafe { crate::host::write_msr(msr::TSC_AUX, self.tsc_aux) };
    }

    /// Applies the answer to the last exit to the guest.
    pub(super) fn finish(&mut self, nested: &Nested) -> bool {
        let Self { context, vmcb, bytes, .. } = self;
        match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Nothing => {}
            Pending::Port(size) => {
                let value = u64::from_le_bytes(*bytes);
                registers::set_sized(context, vmcb, RAX_NUMBER, size, value);
            }
            Pending::PortString(linear, size) => {
                return walk::write(vmcb, nested, linear, &bytes[..size]);
            }
            Pending::Memory(target, size) => {
                return access::finish(target, *bytes, size, context, vmcb, nested);
            }
            Pending::Msr => self.answer_msr(self.value),
        }
        true
    }

    fn answer_msr(&mut self, value: u64) {
        let Self { context, vmcb, .. } = self;
        registers::set(context, vmcb, RAX_NUMBER, value & 0xffff_ffff);
        registers::set(context, vmcb, RDX_NUMBER, value >> 32);
    }

    pub(super) fn skip(&mut self, length: u64) {
        let rip = self.vmcb.get(RIP);
        self.vmcb.set(RIP, rip.wrapping_add(length));
        self.vmcb.set(INTERRUPT_SHADOW, 0);
    }

    fn serve(&mut self, nested: &Nested, code: u64) -> Served {
        // AMD64 APM vol. 2, appendix C.
        const CR3_WRITE: u64 = 0x13;
        const DB: u64 = 0x41;
        const IRET: u64 = 0x74;
        const INTR: u64 = 0x60;
        const VINTR: u64 = 0x64;
        const RDPMC: u64 = 0x6f;
        const CPUID: u64 = 0x72;
        const HLT: u64 = 0x78;
        const IOIO: u64 = 0x7b;
        const MSR: u64 = 0x7c;
        const SHUTDOWN: u64 = 0x7f;
        const XSETBV: u64 = 0x8d;
        const NPF: u64 = 0x400;
        match code {
            INTR => {
                TIMER.stop();
                Served::Timer
            }
            VINTR => {
                self.request_window(false);
                Served::Outside(Exit::Window)
            }
            CPUID => {
                self.cpuid();
                Served::Inside
            }
            HLT => {
                self.skip(1);
                Served::Outside(Exit::Halt)
            }
            IOIO => self.port(nested),
            MSR => self.msr(),
            SHUTDOWN => Served::Outside(Exit::Shutdown),
            NPF => self.memory(nested),
            DB => self.debugged(nested),
            0x20..=0x3f => self.debug_register(nested, code),
            CR3_WRITE | IRET => self.step(),
            RDPMC => {
                self.raise(PROTECTION);
                Served::Inside
            }
            0x7a | 0x80..=0x87 | 0x8a..=0x8c | XSETBV => {
                self.raise(UNDEFINED);
                Served::Inside
            }
            _ => {
                let rip = self.vmcb.get(RIP);
                let text = format!("exit {code:#x} at {rip:#x}");
                Served::Outside(Exit::Unsupported(text))
            }
        }
    }

    fn cpuid(&mut self) {
        let Self { context, vmcb, cpuid, .. } = self;
        let function = registers::get(context, vmcb, RAX_NUMBER) as u32;
        let index = registers::get(context, vmcb, RCX_NUMBER) as u32;
        let answer = super::cpuid::answer(cpuid, function, index);
        let order = [RAX_NUMBER, RBX_NUMBER, RCX_NUMBER, RDX_NUMBER];
        for (number, value) in order.into_iter().zip(answer) {
            registers::set(context, vmcb, number, u64::from(value));
        }
        self.skip(2);
    }

    // AMD64 APM vol. 2, 15.10.2.
    fn port(&mut self, nested: &Nested) -> Served {
        const IN: u64 = 1;
        const STRING: u64 = 1 << 2;
        const REPEATED: u64 = 1 << 3;
        let (info, next) = (self.vmcb.get(EXIT_INFO_1), self.vmcb.get(EXIT_INFO_2));
        let port = (info >> 16) as u16;
        let size = match info >> 4 & 7 {
            1 => 1,
            2 => 2,
            _ => 4,
        };
        self.length = size;
        let mut bytes = [0; 8];
        if info & STRING != 0 {
            let Self { context, vmcb, .. } = self;
            let (pointer, input) =
                if info & IN != 0 { (RDI_NUMBER, true) } else { (RSI_NUMBER, false) };
            let linear = registers::get(context, vmcb, pointer);
            if !input && walk::read(vmcb, nested, linear, &mut bytes[..size]) != size {
                return Served::Outside(Exit::Unsupported("OUTS from no memory".into()));
            }
            let back = vmcb.get(RFLAGS) & 1 << 10 != 0;
            let step = if back { (size as u64).wrapping_neg() } else { size as u64 };
            registers::set(context, vmcb, pointer, linear.wrapping_add(step));
            let mut turns = 0;
            if info & REPEATED != 0 {
                turns = registers::get(context, vmcb, RCX_NUMBER).wrapping_sub(1);
                registers::set(context, vmcb, RCX_NUMBER, turns);
            }
            if turns == 0 {
                vmcb.set(RIP, next);
            }
            vmcb.set(INTERRUPT_SHADOW, 0);
            self.bytes = bytes;
            if input {
                self.pending = Pending::PortString(linear, size);
                return Served::Outside(Exit::PortRead { port });
            }
            return Served::Outside(Exit::PortWrite { port });
        }
        self.vmcb.set(RIP, next);
        self.vmcb.set(INTERRUPT_SHADOW, 0);
        if info & IN != 0 {
            self.bytes = [0xff; 8];
            self.pending = Pending::Port(size);
            return Served::Outside(Exit::PortRead { port });
        }
        self.bytes = self.vmcb.get(RAX).to_le_bytes();
        Served::Outside(Exit::PortWrite { port })
    }

    /// Serves an access to memory that the guest may not write, or that it cannot execute.
    #[cold]
    fn in_memory(&mut self, nested: &Nested, info: u64, address: u64) -> Option<Served> {
        if info & FETCH != 0 {
            return self.forbidden(nested, address);
        }
        let is_written = info & (PRESENT | WRITE) == PRESENT | WRITE;
        (is_written && nested.own(address..address.saturating_add(1))).then_some(Served::Again)
    }

    fn memory(&mut self, nested: &Nested) -> Served {
        let (info, address) = (self.vmcb.get(EXIT_INFO_1), self.vmcb.get(EXIT_INFO_2));
        if info & (PRESENT | FETCH) != 0 {
            if let Some(served) = self.in_memory(nested, info, address) {
                return served;
            }
        }
        let Self { context, vmcb, .. } = self;
        let rip = vmcb.get(RIP);
        let (code, writes) = (access::fetch(vmcb, nested), info & WRITE != 0);
        let access = code.plain_move(writes, context, vmcb).or_else(|| {
            let instruction = code.decode()?;
            access::access(&instruction, writes, context, vmcb, nested)
        });
        let Some(access) = access else {
            let instruction =
                code.decode().map_or("unreadable".into(), |i| format!("{:?}", i.code()));
            let text = format!("{instruction} at {rip:#x} on the device memory at {address:#x}");
            return Served::Outside(Exit::Unsupported(text));
        };
        vmcb.set(INTERRUPT_SHADOW, 0);
        match access {
            Access::Write(bytes, size) => {
                Served::Outside(Exit::MmioWrite { address, data: (bytes, size) })
            }
            Access::Read(size, target) => {
                (self.bytes, self.length) = ([0xff; 8], size);
                self.pending = Pending::Memory(target, size);
                Served::Outside(Exit::MmioRead { address })
            }
        }
    }

    fn msr(&mut self) -> Served {
        const APIC_BASE: u32 = 0x1b;
        const PAT_REGISTER: u32 = 0x277;
        let Self { context, vmcb, .. } = self;
        let number = registers::get(context, vmcb, RCX_NUMBER) as u32;
        let low = registers::get(context, vmcb, RAX_NUMBER) & 0xffff_ffff;
        let value = registers::get(context, vmcb, RDX_NUMBER) << 32 | low;
        let writes = vmcb.get(EXIT_INFO_1) & 1 != 0;
        self.skip(2);
        if !writes {
            let value = match number {
                msr::EFER => self.vmcb.get(EFER) & !SVME,
                APIC_BASE => self.apic_base,
                PAT_REGISTER => self.pat,
                _ => match self.mtrr.get(number) {
                    Some(value) => *value,
                    None => {
                        self.value = 0;
                        self.pending = Pending::Msr;
                        return Served::Outside(Exit::MsrRead { number });
                    }
                },
            };
            self.answer_msr(value);
            return Served::Inside;
        }
        match number {
            msr::EFER => {
                const WRITABLE: u64 = 1 | 1 << 8 | 1 << 11;
                let kept = self.vmcb.get(EFER) & !WRITABLE;
                self.vmcb.set(EFER, value & WRITABLE | kept | SVME);
            }
            msr::STAR => self.context.star = value,
            msr::LSTAR if is_canonical(value) => self.context.lstar = value,
            msr::LSTAR => {
                self.skip(2u64.wrapping_neg());
                self.raise(PROTECTION);
            }
            msr::SFMASK => self.context.sfmask = value & 0xffff_ffff,
            msr::TSC_AUX => {
                self.tsc_aux = value & 0xffff_ffff;
                // SAFETY: only the guest reads this register.
                unsafe { crate::host::write_msr(msr::TSC_AUX, self.tsc_aux) };
            }
            APIC_BASE => {
                self.apic_base = value & (APIC_ENABLED | APIC_X2)
                    | self.apic_base & APIC_BOOTSTRAP
                    | APIC_ADDRESS;
            }
            PAT_REGISTER => {
                self.pat = value;
                self.vmcb.set(PAT, value);
            }
            _ => match self.mtrr.get(number) {
                Some(place) => *place = value,
                None => return Served::Outside(Exit::MsrWrite { number, value }),
            },
        }
        Served::Inside
    }

    /// The bytes of the last exit for a port, or the answer to a load from a device's memory.
    pub fn data(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }

    /// Answers a read of a model-specific register.
    pub fn set_msr_answer(&mut self, value: u64) {
        self.value = value;
    }
}

impl Drop for Vcpu {
    fn drop(&mut self) {
        self.forget();
    }
}

pub(super) enum Served {
    /// The guest continues at once.
    Inside,
    /// The guest repeats the instruction.
    Again,
    /// Someone else serves it, before the instruction that has left is executed.
    Before(Exit),
    /// The timer, or an earlier setting of it.
    Timer,
    /// Someone else serves it.
    Outside(Exit),
}

const APIC_ADDRESS: u64 = 0xfee0_0000;
const APIC_BOOTSTRAP: u64 = 1 << 8;
const APIC_X2: u64 = 1 << 10;
const APIC_ENABLED: u64 = 1 << 11;
const RESET_PAT: u64 = 0x0007_0406_0007_0406;

/// Memory type range registers: kept for the guest, without effect.
#[derive(Clone)]
pub(super) struct Mtrr {
    capabilities: u64,
    default: u64,
    variable: [u64; 16],
    fixed: [u64; 11],
}

impl Default for Mtrr {
    fn default() -> Self {
        // 8 variable ranges, fixed ones, write-combining; on, write-back by
        // default, as firmware leaves it (AMD64 APM vol. 2, 7.7).
        Self { capabilities: 0x508, default: 1 << 11 | 6, variable: [0; 16], fixed: [0; 11] }
    }
}

impl Mtrr {
    fn get(&mut self, number: u32) -> Option<&mut u64> {
        Some(match number {
            0xfe => {
                self.capabilities = 0x508;
                &mut self.capabilities
            }
            0x2ff => &mut self.default,
            0x200..=0x20f => &mut self.variable[number as usize - 0x200],
            0x250 => &mut self.fixed[0],
            0x258 | 0x259 => &mut self.fixed[number as usize - 0x257],
            0x268..=0x26f => &mut self.fixed[number as usize - 0x265],
            _ => return None,
        })
    }
}

fn is_canonical(address: u64) -> bool {
    ((address << 16) as i64 >> 16) as u64 == address
}
