//! Facts of the guest's kernel and of its drives, for the time of I/Os in the guest.
//!
//! The kernel's places are breakpoints, which leave the guest's memory and its time as they are.

use stasis_bare::svm::{Breakpoint, Debug, DebugRegisters};
use stasis_block::clock::Nanos;
use stasis_run_events::{
    BioPlaces, IoStatus, KernelPlaces, Tasks, Wait, WaitKind, Waker, BLOCK, THREAD_NAME,
};

use super::super::common::Common;
use super::super::guest_io::{Caller, GuestIos};
use super::super::vm::Machine;
use super::linear::{Linear, Words};
use super::orc::{Context, KERNEL};
use super::stacks::Stacks;
use crate::apic::{Delivery, Message};
use crate::memory::GuestMemory;
use crate::vcpu::DebugVcpu;

const RSP: usize = 4;
const RBP: usize = 5;
const RSI: usize = 6;
const RDI: usize = 7;

/// The places as breakpoints.
pub(super) fn watched(places: &KernelPlaces) -> Debug {
    let bios = places.bios.map(|bios| bios.submit);
    let all = [places.system_call, places.wake_up, places.switch].into_iter().chain(bios);
    let breakpoints = all.map(|linear| Breakpoint { linear, process: None });
    Debug { breakpoints: breakpoints.collect(), ..Debug::default() }
}

impl Machine {
    /// Processor `index` is at a place that is watched.
    #[cold]
    pub(super) fn guest_ios_at(&mut self, common: &mut Common, index: usize) {
        let Self { vcpus, memory, number, .. } = self;
        let Common { view, clock, .. } = common;
        let Some((ios, stacks, mut waits)) = view.all() else { return };
        let Some(vcpu) = vcpus[index].debug() else { return };
        let registers = vcpu.registers();
        let (now, processor) = (clock.now_ns(), (*number, index));
        let rip = registers.rip;
        let KernelPlaces { system_call, wake_up, switch, current, bios, .. } = ios.places;
        if rip == system_call {
            // SWAPGS is the first instruction there.
            let place = registers.kernel_gs_base.wrapping_add(current);
            if let Some(thread) = Linear::new(vcpu, memory).quad(place) {
                ios.called(processor, (*number, thread), now);
                if let Some(waits) = &mut waits {
                    waits.called((*number, thread), now);
                }
            }
        }
        if rip == wake_up {
            let woken = (*number, registers.general[RDI]);
            ios.woken(woken, now);
            if let Some(waits) = waits.as_mut().filter(|waits| waits.is_asleep(woken)) {
                let caller = caller((ios, stacks), vcpu, memory, processor, now);
                let waker = caller.map(|caller| {
                    let pid = caller.thread.1.wrapping_add(waits.tasks.pid);
                    Waker {
                        pid: Linear::new(vcpu, memory).long(pid).unwrap_or(0),
                        thread: caller.name,
                        in_interrupt: caller.in_interrupt,
                        frames: caller.calls(),
                    }
                });
                waits.woken(woken, waker, now);
            }
        }
        if bios.is_some_and(|bios| rip == bios.submit) {
            let bio = registers.general[RDI];
            if let Some(caller) = caller((ios, stacks), vcpu, memory, processor, now) {
                let about = bios.and_then(|all| about(all, bio, &mut Linear::new(vcpu, memory)));
                if let Some((disk, extent)) = about {
                    ios.queued(caller, disk, extent);
                }
            }
        }
        if rip == switch {
            if let Some(waits) = &mut waits {
                if let Some(caller) = caller((ios, stacks), vcpu, memory, processor, now) {
                    let called =
                        ios.is_in_call(&caller).then(|| waits.call(caller.thread)).flatten();
                    let (tasks, thread) = (waits.tasks, caller.thread);
                    let mut memory = Linear::new(vcpu, memory);
                    if let Some(wait) = leaves(&tasks, caller, called, &mut memory) {
                        waits.left(thread, wait);
                    }
                }
                waits.ran((*number, registers.general[RSI]), now);
            }
            ios.switched(processor, (*number, registers.general[RSI]), now);
        }
    }

    /// Processor `index` has rung a doorbell of a drive that had `before` commands.
    pub(in super::super) fn guest_ios_rung(
        &mut self,
        common: &mut Common,
        index: usize,
        (drive, path): (usize, usize),
        before: u64,
    ) {
        let orders = before..self.drives[drive].submitted();
        let Common { view, clock, .. } = common;
        let Some((ios, stacks)) = view.both() else { return };
        if orders.is_empty() {
            return;
        }
        let Self { vcpus, memory, number, drives, .. } = self;
        let Some(vcpu) = vcpus[index].debug() else { return };
        let now = clock.now_ns();
        if let Some(doorbell) = caller((ios, stacks), vcpu, memory, (*number, index), now) {
            ios.rung((drives[drive].index(), path), orders, &doorbell);
        }
    }

    /// The I/Os from number `from` on among those that are to be recorded were delivered by a drive.
    pub(in super::super) fn guest_ios_delivered(
        &self,
        common: &mut Common,
        drive: usize,
        from: usize,
        now: Nanos,
    ) {
        let Common { view, stream, .. } = common;
        let Some(ios) = view.ios() else { return };
        for record in stream.records()[from..].iter().filter(|io| io.status != IoStatus::Refused) {
            let Some(path) = ios.path_of((record.drive, record.order)) else { continue };
            let entry = self.drives[drive].entry_of(path, record.queue);
            let interrupt = entry.map(|entry| (self.number, drive, path, entry));
            let sectors = record.offset / BLOCK..(record.offset + record.bytes) / BLOCK;
            let io = (record.drive, record.order);
            ios.delivered(self.number, io, sectors, (interrupt, now));
        }
    }

    /// A drive's interrupt goes to the processors.
    pub(in super::super) fn guest_ios_signalled(
        &self,
        common: &mut Common,
        (drive, path, entry): (usize, usize, u16),
        message: Message,
    ) {
        let mut targets = (0..self.processors.len())
            .filter(|&index| self.is_for(index, None, message.destination));
        let target = targets.next().filter(|_| message.delivery == Delivery::Fixed);
        if let (Some(ios), Some(index)) = (common.view.ios(), target) {
            ios.signalled((self.number, drive, path, entry), (self.number, index), message.vector);
        }
    }
}

/// The wait that begins as a program's thread leaves its processor; None for one that ends, and for one of
/// the kernel's.
fn leaves(
    tasks: &Tasks,
    caller: Caller,
    called: Option<Nanos>,
    memory: &mut Linear<'_>,
) -> Option<Wait> {
    /// Nothing but what it waits for wakes a task (include/linux/sched.h).
    const UNINTERRUPTIBLE: u32 = 2;
    let task = caller.thread.1;
    if memory.quad(task.wrapping_add(tasks.space))? == 0 {
        return None;
    }
    let mut long = |offset: u64| memory.long(task.wrapping_add(offset));
    let (pid, group) = (long(tasks.pid)?, long(tasks.group)?);
    let (state, exit_state) = (long(tasks.state)?, long(tasks.exit_state)?);
    let kind = match state {
        0 => WaitKind::Preempted,
        state if state & UNINTERRUPTIBLE != 0 => WaitKind::Block,
        _ => WaitKind::Sleep,
    };
    (exit_state == 0).then(|| Wait {
        machine: caller.thread.0,
        pid,
        group,
        thread: caller.name,
        kind,
        called,
        begun: caller.now,
        woken: None,
        waker: None,
        ran: caller.now,
        frames: caller.calls(),
    })
}

/// The disk of a `struct bio`, its first sector and its bytes.
fn about(places: BioPlaces, bio: u64, memory: &mut Linear<'_>) -> Option<(u64, (u64, u32))> {
    let device = memory.quad(bio.wrapping_add(places.device))?;
    let disk = memory.quad(device.wrapping_add(places.disk))?;
    let sector = memory.quad(bio.wrapping_add(places.sector))?;
    Some((disk, (sector, memory.long(bio.wrapping_add(places.size))?)))
}

/// Returns the owner of the present instruction of a processor, in the kernel.
fn caller(
    (ios, stacks): (&GuestIos, &mut Stacks),
    vcpu: &mut dyn DebugVcpu,
    memory: &GuestMemory,
    processor: (u16, usize),
    now: Nanos,
) -> Option<Caller> {
    /// Within an interrupt that can be masked or not, or a soft one that is served (Linux,
    /// include/linux/preempt.h).
    const IN_INTERRUPT: u32 = 0xf0_0000 | 0xf_0000 | 0x100;
    let DebugRegisters { rip, general, gs_base, kernel_gs_base, .. } = vcpu.registers();
    if rip & KERNEL == 0 {
        return None;
    }
    let mut memory = Linear::new(vcpu, memory);
    let thread = memory.quad(gs_base.wrapping_add(ios.places.current))?;
    let count = memory.long(gs_base.wrapping_add(ios.places.preempt_count))?;
    let mut name = [0; THREAD_NAME];
    if let Some(comm) = ios.places.comm {
        memory.read(thread.wrapping_add(comm), &mut name);
    }
    let context = Context { rip, rsp: general[RSP], rbp: general[RBP] };
    let gs = [gs_base, kernel_gs_base];
    let (frames, program) = stacks.whole(processor.0.into(), (context, gs), &mut memory);
    let (thread, in_interrupt) = ((processor.0, thread), count & IN_INTERRUPT != 0);
    Some(Caller { processor, thread, name, in_interrupt, now, frames, program })
}
