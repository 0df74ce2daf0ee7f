//! Measures what leaving and entering guest mode costs, by running a few
//! instructions between two RDTSC in the guest, one exit between them.
//!
//! The same host code enters the guest here and during a run. Each cost is the
//! median of several samples, which bears a host's tick in a few of them.

use kvm_bindings::{kvm_msr_entry, Msrs};

use crate::boot;
use crate::error::Error;
use crate::exit::{self, Exit};
use crate::freeze::{host_tsc, Clock, Costs, ExitPath, Scale};
use crate::layout::{self, CALIBRATION, LOCAL_APIC};
use crate::memory::GuestMemory;

use super::kick::Kick;
use super::vcpu::Vcpu;

const SAMPLES: usize = 33;
const WARM_UP: usize = 8;
const CODE: u64 = CALIBRATION;
const IDT: u64 = CALIBRATION + 0x1000;
const STACK: u64 = CALIBRATION + 0x4000;
const VECTOR: u8 = 0x40;
/// Address of the interrupt handler's code.
const HANDLER: u64 = CALIBRATION + 0x800;

// rdtsc; shl rdx,32; or rax,rdx; mov r8,rax (r9 in the second form)
const FIRST: &[u8] = &[0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0x49, 0x89, 0xc0];
const SECOND: &[u8] = &[0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0x49, 0x89, 0xc1];
const HLT: &[u8] = &[0xf4];

/// EFER's SCE and NXE, as every kernel of x86-64 has them. With SCE kvm-intel loads the guest's
/// registers of SYSCALL at each entry from user space, and the host's at the way back, where they
/// differ.
const SYSCALL_AND_NO_EXECUTE: u64 = 1 | 1 << 11;
/// STAR, LSTAR and SFMASK as Linux 6.1 has them, but for LSTAR, which is an address that no host
/// has.
const SYSCALL: [(u32, u64); 3] =
    [(0xc000_0081, 0x23_0010 << 32), (0xc000_0082, CODE), (0xc000_0084, 0x25_7fd5)];
const NOP: &[u8] = &[0x90];

/// Measures the costs on `vcpu`. Uses guest memory that the kernel overwrites
/// later.
pub fn measure(memory: &GuestMemory, vcpu: &mut Vcpu, kick: &mut Kick) -> Result<Costs, Error> {
    let bench = Bench { memory };
    bench.prepare()?;
    set_syscall(vcpu, SYSCALL)?;
    let mut costs = Costs::default();
    let (nothing, _) = bench.gap(vcpu, &costs, NOP, false)?;
    costs.enter = bench.enter(vcpu)?;
    let paths: [(ExitPath, &[u8]); 6] = [
        (ExitPath::Port, &[0xe6, 0x80]),      // out 0x80, al
        (ExitPath::MmioWrite, &[0x89, 0x07]), // mov [rdi], eax
        (ExitPath::MmioRead, &[0x8b, 0x07]),  // mov eax, [rdi]
        (ExitPath::MsrWrite, &[0x0f, 0x30]),  // wrmsr
        (ExitPath::MsrRead, &[0x0f, 0x32]),   // rdmsr
        (ExitPath::Halt, HLT),
    ];
    for (path, instruction) in paths {
        let (gap, spread) = bench.gap(vcpu, &costs, instruction, false)?;
        if path == ExitPath::MsrWrite && !bench.left_by(vcpu, instruction, path)? {
            return Err(Error::Missing(
                "exits at writes of the TSC deadline (kvm_intel with preemption_timer=0 has them)",
            ));
        }
        costs.leave[path as usize] = gap - nothing;
        costs.spread = costs.spread.max(spread);
    }
    costs.leave[ExitPath::Other as usize] = costs.leave[ExitPath::Halt as usize];
    costs.inject = bench.gap(vcpu, &costs, HLT, true)?.0 - nothing;
    bench.kick(vcpu, kick, &mut costs)?;
    set_syscall(vcpu, SYSCALL.map(|(number, _)| (number, 0)))?;
    Ok(costs)
}

/// Touches every big page of guest memory from inside, so that the nested
/// page tables are filled before time is measured. `ranges` are mapped.
pub fn touch(memory: &GuestMemory, vcpu: &mut Vcpu, ranges: &[(u64, u64)]) -> Result<(), Error> {
    // again: mov al,[rdi]; mov [rdi],al; add rdi,0x200000; cmp rdi,rsi; jb again; hlt
    const LOOP: &[u8] = &[
        0x8a, 0x07, 0x88, 0x07, 0x48, 0x81, 0xc7, 0x00, 0x00, 0x20, 0x00, 0x48, 0x39, 0xf7, 0x72,
        0xf0, 0xf4,
    ];
    write(memory, CODE, LOOP)?;
    for &(start, end) in ranges {
        reset(vcpu, start, end)?;
        let mut clock = Clock::new(Scale::new(1_000_000));
        loop {
            match vcpu.run(&mut clock, false)?.0 {
                Exit::Halt => break,
                Exit::Interrupted => {}
                other => return Err(Error::Guest(format!("{other:?} while filling memory"))),
            }
        }
    }
    Ok(())
}

struct Bench<'a> {
    memory: &'a GuestMemory,
}

impl Bench<'_> {
    // An interrupt gate for VECTOR (AMD64 APM vol. 2, 4.8.4) and its handler.
    fn prepare(&self) -> Result<(), Error> {
        let mut gate = [0u8; 16];
        gate[0..2].copy_from_slice(&(HANDLER as u16).to_le_bytes());
        gate[2..4].copy_from_slice(&0x10u16.to_le_bytes());
        gate[5] = 0x8e;
        gate[6..8].copy_from_slice(&((HANDLER >> 16) as u16).to_le_bytes());
        write(self.memory, IDT + 16 * u64::from(VECTOR), &gate)?;
        write(self.memory, HANDLER, &[SECOND, HLT].concat())
    }

    /// Ticks between two RDTSC with `instruction` between them, as the guest
    /// sees them with `costs` taken off: the median, and from the first decile to the last.
    fn gap(
        &self,
        vcpu: &mut Vcpu,
        costs: &Costs,
        instruction: &[u8],
        inject: bool,
    ) -> Result<(i64, i64), Error> {
        let code = [FIRST, instruction, SECOND, HLT].concat();
        write(self.memory, CODE, &code)?;
        let samples = samples(|| {
            let mut clock = Clock::new(Scale::new(1_000_000));
            clock.costs = *costs;
            reset(vcpu, LOCAL_APIC, 0)?;
            let mut injected = false;
            let mut halts = if instruction == HLT { 2 } else { 1 };
            loop {
                let injecting = inject && halts == 1 && !injected;
                if injecting {
                    vcpu.inject(VECTOR)?;
                    injected = true;
                }
                let (exit, after) = vcpu.run(&mut clock, injecting)?;
                match exit {
                    Exit::Halt => {
                        halts -= 1;
                        if halts == 0 {
                            break;
                        }
                    }
                    Exit::MmioRead { .. } => vcpu.mmio_answer().fill(0),
                    Exit::MsrRead { .. } => vcpu.answer_msr(0),
                    Exit::Window | Exit::Shutdown | Exit::Unsupported(_) => {
                        return Err(Error::Guest(format!("{exit:?} while calibrating")));
                    }
                    _ => {}
                }
                clock.leave(exit::path(&exit), after);
            }
            let regs = vcpu.fd().get_regs().map_err(Error::kvm("read registers"))?;
            Ok(regs.r9.wrapping_sub(regs.r8) as i64)
        })?;
        Ok((samples[SAMPLES / 2], samples[SAMPLES * 9 / 10] - samples[SAMPLES / 10]))
    }

    /// Returns whether `instruction` leaves the guest by `path`, before the HLT behind it.
    fn left_by(&self, vcpu: &mut Vcpu, instruction: &[u8], path: ExitPath) -> Result<bool, Error> {
        write(self.memory, CODE, &[instruction, HLT].concat())?;
        let mut clock = Clock::new(Scale::new(1_000_000));
        reset(vcpu, LOCAL_APIC, 0)?;
        let mut has_left = false;
        // To the HLT, so that KVM has nothing left to complete at the next entry.
        loop {
            match vcpu.run(&mut clock, false)?.0 {
                Exit::Halt => return Ok(has_left),
                exit => has_left |= exit::path(&exit) == path,
            }
        }
    }

    /// Ticks from reading the host's TSC to the guest's first instruction.
    fn enter(&self, vcpu: &mut Vcpu) -> Result<i64, Error> {
        write(self.memory, CODE, &[FIRST, HLT].concat())?;
        median(|| {
            let mut clock = Clock::new(Scale::new(1_000_000));
            reset(vcpu, 0, 0)?;
            vcpu.run(&mut clock, false)?;
            let regs = vcpu.fd().get_regs().map_err(Error::kvm("read registers"))?;
            Ok(regs.r8 as i64)
        })
    }

    /// Measures the costs of setting the timer and of the path out of a kicked slice, and the
    /// longest delay of a slice's end.
    fn kick(&self, vcpu: &mut Vcpu, kick: &mut Kick, costs: &mut Costs) -> Result<(), Error> {
        // again: rdtsc...; mov r8,rax; jmp again
        write(self.memory, CODE, &[FIRST, &[0xeb, 0xf2]].concat())?;
        let mut slacks = Vec::new();
        let mut arms = Vec::new();
        let leave = median(|| {
            let mut clock = Clock::new(Scale::new(1_000_000));
            clock.costs = *costs;
            reset(vcpu, 0, 0)?;
            let aim = vcpu.immediate_exit();
            kick.aim(aim);
            let began = host_tsc();
            let due = began + 60_000;
            kick.arm(due);
            let (_, after) = vcpu.run(&mut clock, false)?;
            arms.push(clock.entry_began().wrapping_sub(began) as i64);
            while kick.take_fired(host_tsc()).is_none() {
                std::hint::spin_loop();
            }
            // SAFETY: the byte belongs to this vCPU, which is not running.
            unsafe { aim.write_volatile(0) };
            kick.rest();
            let regs = vcpu.fd().get_regs().map_err(Error::kvm("read registers"))?;
            let last = regs.r8;
            slacks.push(clock.host_at(last).wrapping_sub(due) as i64);
            Ok(after.wrapping_sub(clock.host_at(last)) as i64)
        })?;
        slacks.sort_unstable();
        // The loop is a few instructions long: the guest can have gone on for
        // one round after the last value that it kept.
        const ROUND: i64 = 8;
        let slack = slacks[slacks.len() * 9 / 10].max(0) + ROUND;
        arms.sort_unstable();
        costs.arm = arms[arms.len() / 2];
        costs.leave[ExitPath::Kick as usize] = leave;
        costs.slack = slack;
        Ok(())
    }
}

fn write(memory: &GuestMemory, at: u64, bytes: &[u8]) -> Result<(), Error> {
    memory.write(at, bytes).map_err(|_| Error::Internal("calibration lies outside memory"))
}

fn reset(vcpu: &mut Vcpu, rdi: u64, rsi: u64) -> Result<(), Error> {
    const INTERRUPTS_ON: u64 = 1 << 9;
    // Filtered, so that it comes to user space.
    const MSR: u64 = layout::TSC_DEADLINE as u64;
    let mut sregs = vcpu.fd().get_sregs().map_err(Error::kvm("read registers"))?;
    boot::long_mode(&mut sregs);
    sregs.efer |= SYSCALL_AND_NO_EXECUTE;
    sregs.idt.base = IDT;
    sregs.idt.limit = 16 * 256 - 1;
    vcpu.fd().set_sregs(&sregs).map_err(Error::kvm("set registers"))?;
    let regs = kvm_bindings::kvm_regs {
        rip: CODE,
        rsp: STACK,
        rcx: MSR,
        rdi,
        rsi,
        rflags: 2 | INTERRUPTS_ON,
        ..Default::default()
    };
    vcpu.fd().set_regs(&regs).map_err(Error::kvm("set registers"))
}

/// Sets the registers of SYSCALL.
fn set_syscall(vcpu: &mut Vcpu, registers: [(u32, u64); 3]) -> Result<(), Error> {
    let entries =
        registers.map(|(index, data)| kvm_msr_entry { index, data, ..Default::default() });
    let msrs = Msrs::from_entries(&entries).map_err(|_| Error::Internal("three MSRs"))?;
    vcpu.fd().set_msrs(&msrs).map_err(Error::kvm("set MSRs"))?;
    Ok(())
}

fn median(sample: impl FnMut() -> Result<i64, Error>) -> Result<i64, Error> {
    Ok(samples(sample)?[SAMPLES / 2])
}

/// Returns `SAMPLES` samples, the smallest first.
fn samples(mut sample: impl FnMut() -> Result<i64, Error>) -> Result<Vec<i64>, Error> {
    for _ in 0..WARM_UP {
        sample()?;
    }
    let mut samples = (0..SAMPLES).map(|_| sample()).collect::<Result<Vec<_>, _>>()?;
    samples.sort_unstable();
    Ok(samples)
}
