//! The engine on KVM.

mod calibrate;
mod kick;
mod processor;
mod vcpu;

use std::ops::Range;
use std::sync::Arc;

use kvm_bindings::{
    kvm_enable_cap, kvm_userspace_memory_region, KVM_CAP_VCPU_ATTRIBUTES,
    KVM_CAP_X86_DISABLE_EXITS, KVM_CAP_X86_USER_SPACE_MSR, KVM_MAX_CPUID_ENTRIES,
    KVM_X86_DISABLE_EXITS_MWAIT, KVM_X86_DISABLE_EXITS_PAUSE,
};
use kvm_ioctls::{
    Cap, Kvm, MsrExitReason, MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags, VmFd,
};

use crate::engine::{Engine, MachineProcessors, Processors, Region};
use crate::error::Error;
use crate::freeze::Costs;
use crate::memory::GuestMemory;
use crate::{boot, cpuid, layout, pvclock, pveoi};

use kick::Kick;
use processor::{Host, Processor};
use vcpu::Vcpu;

/// With this in the environment, loops of PAUSE leave guest mode: for processors that a guest
/// can keep from leaving it by turning its interrupts off, as those that Bochs 2.7 emulates.
const PAUSE_EXITS: &str = "STASIS_PAUSE_EXITS";

/// KVM, and the objects made with it.
pub struct KvmEngine {
    kvm: Kvm,
    machines: Vec<(Arc<VmFd>, Vec<Vcpu>)>,
    host: Option<Host>,
}

impl KvmEngine {
    /// Opens KVM.
    pub fn open() -> Result<Self, Error> {
        let kvm = Kvm::new().map_err(Error::kvm("open /dev/kvm"))?;
        Ok(Self { kvm, machines: Vec::new(), host: None })
    }

    fn first(&mut self) -> Result<&mut Vcpu, Error> {
        let first = self.machines.first_mut().and_then(|(_, vcpus)| vcpus.first_mut());
        first.ok_or(Error::Internal("no processor"))
    }
}

impl Engine for KvmEngine {
    unsafe fn add_machine(
        &mut self,
        regions: &[Region],
        _code: &[Range<u64>],
        processors: MachineProcessors,
    ) -> Result<(), Error> {
        let MachineProcessors { count, reads, random, .. } = processors;
        let vm = self.kvm.create_vm().map_err(Error::kvm("create a virtual machine"))?;
        prepare_vm(&vm)?;
        for (slot, &(base, length, host)) in regions.iter().enumerate() {
            let region = kvm_userspace_memory_region {
                slot: slot as u32,
                guest_phys_addr: base,
                memory_size: length,
                userspace_addr: host,
                flags: 0,
            };
            // SAFETY: the caller's promise.
            unsafe { vm.set_user_memory_region(region) }.map_err(Error::kvm("set memory"))?;
        }
        let supported = self
            .kvm
            .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
            .map_err(Error::kvm("read the supported CPUID"))?;
        let mut vcpus = Vec::new();
        for index in 0..count {
            let cpuid = cpuid::filter(&supported, index, count, reads, random, false);
            vcpus.push(Vcpu::new(&vm, index, &cpuid)?);
        }
        self.machines.push((Arc::new(vm), vcpus));
        Ok(())
    }

    fn khz(&mut self) -> Result<u64, Error> {
        let khz = self.first()?.fd().get_tsc_khz();
        Ok(u64::from(khz.map_err(Error::kvm("read the TSC's frequency"))?))
    }

    fn calibrate(&mut self, memory: &GuestMemory) -> Result<Costs, Error> {
        let khz = self.khz()?;
        let mut kick = Kick::new(khz).map_err(Error::Timer)?;
        let mapped = boot::write_tables(memory).map_err(|_| boot::BootError::TooSmall)?;
        let vcpu = self.first()?;
        calibrate::touch(memory, vcpu, &mapped)?;
        let costs = calibrate::measure(memory, vcpu, &mut kick)?;
        self.host = Some(Host::new(khz, &costs));
        Ok(costs)
    }

    fn processors(&mut self) -> Result<Processors, Error> {
        let host = self.host.take().ok_or(Error::Internal("not calibrated"))?;
        let machines = self.machines.drain(..).map(|(vm, vcpus)| {
            let one = |vcpu| Processor::new(vcpu, Arc::clone(&vm), host);
            vcpus
                .into_iter()
                .map(|vcpu| Box::new(one(vcpu)) as Box<dyn crate::vcpu::Vcpu>)
                .collect()
        });
        Ok(machines.collect())
    }
}

fn prepare_vm(vm: &VmFd) -> Result<(), Error> {
    for (cap, name) in [
        (Cap::X86UserSpaceMsr, "MSR exits to user space"),
        (Cap::X86MsrFilter, "MSR filters"),
        (Cap::ImmediateExit, "immediate exits"),
    ] {
        if !vm.check_extension(cap) {
            return Err(Error::Missing(name));
        }
    }
    if vm.check_extension_raw(u64::from(KVM_CAP_VCPU_ATTRIBUTES)) <= 0 {
        return Err(Error::Missing("TSC offsets"));
    }
    let reasons = MsrExitReason::Inval | MsrExitReason::Unknown | MsrExitReason::Filter;
    let cap = kvm_enable_cap {
        cap: KVM_CAP_X86_USER_SPACE_MSR,
        args: [u64::from(reasons.bits()), 0, 0, 0],
        ..Default::default()
    };
    vm.enable_cap(&cap).map_err(Error::kvm("have MSR exits"))?;
    let deny_all = [0u8; 1];
    let ours = |base, msr_count| MsrFilterRange {
        flags: MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE,
        base,
        msr_count,
        bitmap: &deny_all,
    };
    let ours = [ours(layout::TSC_DEADLINE, 1), ours(pvclock::WALL_CLOCK, 2), ours(pveoi::WORD, 1)];
    vm.set_msr_filter(MsrFilterDefaultAction::ALLOW, &ours).map_err(Error::kvm("filter MSRs"))?;
    // A spinning processor exits at the end of its slice; exits on PAUSE would only take guest time
    // unseen, and are left on for [`PAUSE_EXITS`] alone. Those on MWAIT never come, as no guest is
    // offered it; but without them kvm-intel cannot use its preemption timer, with which it would
    // keep writes of the TSC deadline to itself, past the filter above (Linux,
    // `handle_fastpath_set_tscdeadline`). Not every host can turn them off.
    let possible = vm.check_extension_raw(u64::from(KVM_CAP_X86_DISABLE_EXITS));
    let pause = match std::env::var_os(PAUSE_EXITS) {
        Some(_) => 0,
        None => KVM_X86_DISABLE_EXITS_PAUSE,
    };
    let wanted = pause | KVM_X86_DISABLE_EXITS_MWAIT;
    let cap = kvm_enable_cap {
        cap: KVM_CAP_X86_DISABLE_EXITS,
        args: [u64::from(wanted & u32::try_from(possible).unwrap_or(0)), 0, 0, 0],
        ..Default::default()
    };
    let _ = vm.enable_cap(&cap);
    Ok(())
}
