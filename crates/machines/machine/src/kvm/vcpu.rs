//! A processor's KVM handle, and one entry into guest mode.

use std::os::fd::AsRawFd;

use kvm_bindings::{
    kvm_debugregs, kvm_device_attr, kvm_interrupt, kvm_msr_entry, kvm_regs, kvm_sregs,
    kvm_vcpu_events, CpuId, Msrs, KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET,
};
use kvm_ioctls::{VcpuExit, VcpuFd, VmFd};

use crate::error::Error;
use crate::exit::Exit;
use crate::freeze::{host_tsc, Clock};
use crate::layout;

/// The KVM side of a processor.
#[derive(Debug)]
pub struct Vcpu {
    fd: VcpuFd,
    /// Its registers after reset.
    reset: kvm_sregs,
}

// include/uapi/linux/kvm.h: _IOW(0xAE, 0x86, 4 bytes) and _IOW(0xAE, 0xe1, 24
// bytes); kvm-ioctls has neither for this use.
const KVM_INTERRUPT: libc::c_ulong = 0x4004_ae86;
const KVM_SET_DEVICE_ATTR: libc::c_ulong = 0x4018_aee1;

// KVM's APIC base register: enabled, bootstrap processor, x2APIC.
const APIC_ENABLED: u64 = 1 << 11;
const APIC_BOOTSTRAP: u64 = 1 << 8;
const APIC_X2: u64 = 1 << 10;

impl Vcpu {
    /// Processor `index`, in the state after reset.
    pub fn new(vm: &VmFd, index: u32, cpuid: &CpuId) -> Result<Self, Error> {
        let fd = vm.create_vcpu(u64::from(index)).map_err(Error::kvm("create a vCPU"))?;
        fd.set_cpuid2(cpuid).map_err(Error::kvm("set CPUID"))?;
        let mut sregs = fd.get_sregs().map_err(Error::kvm("read registers"))?;
        sregs.apic_base =
            layout::LOCAL_APIC | APIC_ENABLED | if index == 0 { APIC_BOOTSTRAP } else { 0 };
        fd.set_sregs(&sregs).map_err(Error::kvm("set registers"))?;
        // Memory is write-back by default, as firmware leaves it (MTRRdefType,
        // Intel SDM vol. 3A 12.11.2.1); Linux turns PAT off otherwise.
        const MTRR_DEFAULT_TYPE: u32 = 0x2ff;
        const MTRR_ENABLED_WRITE_BACK: u64 = 1 << 11 | 6;
        let entry = kvm_msr_entry {
            index: MTRR_DEFAULT_TYPE,
            data: MTRR_ENABLED_WRITE_BACK,
            ..Default::default()
        };
        let msrs = Msrs::from_entries(&[entry]).map_err(|_| Error::Internal("one MSR"))?;
        fd.set_msrs(&msrs).map_err(Error::kvm("set MSRs"))?;
        Ok(Self { fd, reset: sregs })
    }

    /// The KVM handle.
    pub fn fd(&mut self) -> &mut VcpuFd {
        &mut self.fd
    }

    /// Returns whether the APIC is in x2APIC mode.
    pub fn x2apic(&mut self) -> bool {
        self.fd.get_kvm_run().apic_base & APIC_X2 != 0
    }

    /// Applies an INIT message to the registers (Intel SDM vol. 3A, table 10-1): they are as after
    /// reset, except for the floating-point registers and the APIC's mode.
    pub fn initialize(&mut self) -> Result<(), Error> {
        let present = self.fd.get_sregs().map_err(Error::kvm("read registers"))?;
        self.reset_to(kvm_sregs { apic_base: present.apic_base, ..self.reset })
    }

    /// As [`Self::initialize`], with the APIC's mode.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.reset_to(self.reset)?;
        let run = self.fd.get_kvm_run();
        (run.apic_base, run.cr8) = (self.reset.apic_base, 0);
        (run.request_interrupt_window, run.immediate_exit) = (0, 0);
        Ok(())
    }

    fn reset_to(&mut self, sregs: kvm_sregs) -> Result<(), Error> {
        self.fd.set_sregs(&sregs).map_err(Error::kvm("set registers"))?;
        let regs = kvm_regs { rflags: 2, ..Default::default() };
        self.fd.set_regs(&regs).map_err(Error::kvm("set registers"))?;
        let events = kvm_vcpu_events::default();
        self.fd.set_vcpu_events(&events).map_err(Error::kvm("clear a vCPU's events"))?;
        // Intel SDM vol. 3B, 18.2.3 and 18.2.4: DR6 and DR7 with nothing set.
        let debug = kvm_debugregs { dr6: 0xffff_0ff0, dr7: 0x400, ..Default::default() };
        self.fd.set_debug_regs(&debug).map_err(Error::kvm("set debug registers"))
    }

    /// Starts in real mode at page `page`, as a start-up message requests.
    pub fn start_at_page(&mut self, page: u8) -> Result<(), Error> {
        let mut sregs = self.fd.get_sregs().map_err(Error::kvm("read registers"))?;
        sregs.cs.selector = u16::from(page) << 8;
        sregs.cs.base = u64::from(page) << 12;
        self.fd.set_sregs(&sregs).map_err(Error::kvm("set registers"))?;
        let regs = kvm_bindings::kvm_regs { rflags: 2, ..Default::default() };
        self.fd.set_regs(&regs).map_err(Error::kvm("set registers"))
    }

    /// Returns whether an interrupt can be injected on the next entry.
    pub fn interruptible(&mut self) -> bool {
        self.fd.get_kvm_run().ready_for_interrupt_injection != 0
    }

    /// Injects `vector` on the next entry.
    pub fn inject(&mut self, vector: u8) -> Result<(), Error> {
        let interrupt = kvm_interrupt { irq: u32::from(vector) };
        // SAFETY: a vCPU's file and the structure that this ioctl reads.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), KVM_INTERRUPT, &interrupt) };
        if result == 0 {
            Ok(())
        } else {
            Err(Error::Kvm("inject an interrupt", std::io::Error::last_os_error()))
        }
    }

    /// Asks for an exit as soon as an interrupt can be injected.
    pub fn request_window(&mut self, on: bool) {
        self.fd.get_kvm_run().request_interrupt_window = u8::from(on);
    }

    /// The byte that makes KVM_RUN return at once.
    pub fn immediate_exit(&mut self) -> *mut u8 {
        &mut self.fd.get_kvm_run().immediate_exit
    }

    /// Enters the guest with its TSC where `clock` stands; returns the exit and
    /// the host's TSC right after it. An interrupted entry is `Interrupted`.
    #[inline(never)]
    pub fn run(&mut self, clock: &mut Clock, injecting: bool) -> Result<(Exit, u64), Error> {
        let offset = clock.enter(injecting);
        let attribute = kvm_device_attr {
            group: KVM_VCPU_TSC_CTRL,
            attr: u64::from(KVM_VCPU_TSC_OFFSET),
            addr: std::ptr::from_ref(&offset) as u64,
            flags: 0,
        };
        // SAFETY: a vCPU's file; the attribute and what it points to live on
        // this stack for the call, which only reads them.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), KVM_SET_DEVICE_ATTR, &attribute) };
        if result != 0 {
            return Err(Error::Kvm("set the TSC offset", std::io::Error::last_os_error()));
        }
        let result = self.fd.run();
        let after = host_tsc();
        let exit = match result {
            Ok(exit) => exit,
            Err(error) if matches!(error.errno(), libc::EINTR | libc::EAGAIN) => VcpuExit::Intr,
            Err(error) => return Err(Error::kvm("run a vCPU")(error)),
        };
        Ok((owned(exit), after))
    }

    /// Returns the place of the data of an exit for a port, to read or to fill.
    pub fn port_data(&mut self) -> &mut [u8] {
        let run = self.fd.get_kvm_run();
        // SAFETY: only read after an exit for a port, which fills this member.
        let io = unsafe { run.__bindgen_anon_1.io };
        let length = usize::from(io.size) * io.count as usize;
        let start = std::ptr::from_mut(run).cast::<u8>();
        // SAFETY: KVM puts the data at this offset of the mapping that `run`
        // begins, and never more than that mapping holds (Linux,
        // Documentation/virt/kvm/api.rst, KVM_EXIT_IO). The borrow of this
        // vCPU keeps everyone else out.
        unsafe { std::slice::from_raw_parts_mut(start.add(io.data_offset as usize), length) }
    }

    /// Returns the place for the answer to a load from a device's memory.
    pub fn mmio_answer(&mut self) -> &mut [u8] {
        let run = self.fd.get_kvm_run();
        // SAFETY: only called after an exit for such a load, which fills this
        // member; any bytes are valid ones.
        let mmio = unsafe { &mut run.__bindgen_anon_1.mmio };
        let length = (mmio.len as usize).min(mmio.data.len());
        &mut mmio.data[..length]
    }

    /// Answers an RDMSR.
    pub fn answer_msr(&mut self, value: u64) {
        self.fd.get_kvm_run().__bindgen_anon_1.msr.data = value;
    }
}

/// An exit without borrows. All accesses to MSRs are taken.
fn owned(exit: VcpuExit) -> Exit {
    match exit {
        VcpuExit::Intr => Exit::Interrupted,
        VcpuExit::Hlt => Exit::Halt,
        VcpuExit::IrqWindowOpen => Exit::Window,
        VcpuExit::X86Wrmsr(write) => {
            *write.error = 0;
            Exit::MsrWrite { number: write.index, value: write.data }
        }
        VcpuExit::X86Rdmsr(read) => {
            *read.error = 0;
            Exit::MsrRead { number: read.index }
        }
        VcpuExit::MmioWrite(address, data) => {
            let (mut bytes, length) = ([0; 8], data.len().min(8));
            bytes[..length].copy_from_slice(&data[..length]);
            Exit::MmioWrite { address, data: (bytes, length) }
        }
        VcpuExit::MmioRead(address, _) => Exit::MmioRead { address },
        VcpuExit::IoOut(port, _) => Exit::PortWrite { port },
        VcpuExit::IoIn(port, _) => Exit::PortRead { port },
        VcpuExit::Shutdown => Exit::Shutdown,
        other => Exit::Unsupported(format!("{other:?}")),
    }
}
