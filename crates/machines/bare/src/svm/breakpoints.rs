//! Breakpoints and the pages that the guest cannot execute.
//!
//! Where there are more breakpoints than debug registers, the pages of those without one cannot be
//! executed. A guest that comes to such a page leaves: at a breakpoint, the debugger has it. Else the
//! page's breakpoints get registers, and the pages of those that had them cannot be executed any more: a
//! guest that stays in the same few pages leaves no more than without breakpoints. Where a page has more
//! breakpoints than there are registers, its instructions are executed one at a time.

use super::debug::Breakpoint;
use super::nested::Nested;
use super::shares::Shares;
use super::vcpu::{Served, Vcpu};
use super::vmcb::{Segment, CONTROL_INTERCEPTS, CR3, REGISTER_INTERCEPTS, RIP};
use super::walk::{self, ADDRESS};
use crate::exit::{DebugEvent, Exit};

/// Linear addresses from here on are the kernel's, which all processes have.
const KERNEL: u64 = 1 << 63;
const PAGE: u64 = 1 << 12;
/// Intercept of a write to CR3, in the word of intercepts for registers.
const CR3_INTERCEPT: u32 = 1 << (16 + 3);
/// Intercept of IRET, in the first word of the others.
const IRET_INTERCEPT: u32 = 1 << 20;

impl Vcpu {
    /// Linear address of the instruction that is next.
    pub(super) fn instruction(&self) -> u64 {
        const LONG: u16 = 1 << 9;
        let (code, rip) = (self.vmcb.segment(Segment::Cs), self.vmcb.get(RIP));
        match code.attributes & LONG {
            0 => code.base.wrapping_add(rip) & 0xffff_ffff,
            _ => rip,
        }
    }

    /// Returns whether the process that runs has a breakpoint at `linear`.
    pub(super) fn is_its(&self, linear: u64) -> bool {
        let process = self.vmcb.get(CR3) & ADDRESS;
        let mut breakpoints = self.debug.breakpoints.iter();
        breakpoints.any(|one| one.linear == linear && one.process.is_none_or(|its| its == process))
    }

    /// Gives the debug registers out.
    pub(super) fn share(&mut self, nested: &Nested) {
        let breakpoints = &self.debug.breakpoints;
        let rank = |number: usize| {
            let linear = breakpoints.get(number).map_or(0, |one| one.linear);
            // The code of the kernel is in memory, and stays where it is.
            let is_settled =
                linear >= KERNEL && walk::translate(&self.vmcb, nested, linear).is_some();
            (!self.preferred.contains(&number), is_settled)
        };
        let mut order: Vec<usize> = (0..breakpoints.len()).collect();
        order.sort_by_cached_key(|&number| rank(number));
        // The program's own way into the guest must not stop.
        let entry = super::enter::stasis_enter as *const () as u64 & !(PAGE - 1);
        let can_have = |number: usize| {
            let is_own = |one: &Breakpoint| (entry..entry + PAGE).contains(&one.linear);
            !self.absent.contains(&number) && !breakpoints.get(number).is_some_and(is_own)
        };
        self.shares = Shares::new(&self.own, &self.debug, order, can_have);
        self.is_shared = true;
        self.intercept_debug();
    }

    /// Keeps the guest from executing the pages of the breakpoints that wait, but for one instruction
    /// where that is to pass.
    pub(super) fn forbid(&mut self, nested: &Nested) {
        self.forbidden.clear();
        let waits_for_programs = self.shares.waiting.iter().any(|&number| {
            self.debug.breakpoints.get(number).is_some_and(|one| one.linear < KERNEL)
        });
        // Their pages come and go with processes and page faults.
        let intercepts = waits_for_programs && !self.steps && !self.passes;
        let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        let first = self.vmcb.get_long(CONTROL_INTERCEPTS) & !IRET_INTERCEPT;
        self.vmcb.set_long(CONTROL_INTERCEPTS, first | bit(intercepts, IRET_INTERCEPT));
        self.vmcb.set_long(REGISTER_INTERCEPTS, bit(intercepts, CR3_INTERCEPT));
        if !self.passes {
            let process = self.vmcb.get(CR3) & ADDRESS;
            for &number in &self.shares.waiting {
                let Some(one) = self.debug.breakpoints.get(number) else { continue };
                if one.process.is_none_or(|its| its == process) {
                    let place = walk::translate(&self.vmcb, nested, one.linear);
                    self.forbidden.extend(place.map(|(at, _)| (at & !(PAGE - 1), number)));
                }
            }
        }
        nested.forbid(self.forbidden.iter().map(|(page, _)| *page));
    }

    /// The processor is at this breakpoint of a register's. Returns whether it is one, and its code is in
    /// memory. Else the guest brings the page in, and the page cannot be executed then: after a fault
    /// an instruction runs whatever register is set for it (RF; AMD64 APM vol. 2, 13.1.1).
    pub(super) fn is_there(&mut self, nested: &Nested, number: usize) -> bool {
        let linear = self.instruction();
        if !self.is_its(linear) {
            self.pass_breakpoint();
            return false;
        }
        let is_there = walk::translate(&self.vmcb, nested, linear).is_some();
        if !is_there {
            self.absent.push(number);
            self.share_anew();
        }
        is_there
    }

    /// The guest cannot execute what is at `address`, guest-physical; None where no breakpoint is the
    /// reason.
    pub(super) fn forbidden(&mut self, nested: &Nested, address: u64) -> Option<Served> {
        let page = address & !(PAGE - 1);
        if !self.forbidden.iter().any(|(at, _)| *at == page) {
            return None;
        }
        if self.is_its(self.instruction()) {
            if !self.absent.is_empty() {
                self.absent.clear();
                self.share_anew();
            }
            return Some(Served::Before(Exit::Debug(DebugEvent::Breakpoint)));
        }
        // All of the page have registers, or none: else it could not be executed for the others.
        let all = self.debug.breakpoints.iter().enumerate();
        let here = all.filter(|(_, one)| {
            let place = walk::translate(&self.vmcb, nested, one.linear);
            place.is_some_and(|(at, _)| at & !(PAGE - 1) == page)
        });
        let here: Vec<usize> = here.map(|(number, _)| number).collect();
        if here.len() <= self.shares.room() {
            self.preferred = here;
            self.share_anew();
        } else {
            self.pass_breakpoint();
        }
        Some(Served::Again)
    }
}
