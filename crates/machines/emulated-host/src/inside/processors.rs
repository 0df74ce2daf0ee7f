//! The software host's processors: the second one starts when the kernel has changed its own code.
//!
//! Linux changes its code while it runs: a branch that is rarely taken is an instruction that does
//! nothing until the branch is wanted (static keys, Documentation/staging/static-keys.rst). Meanwhile a
//! breakpoint stands there, for processors that come by. With a thread for each processor, QEMU's TCG can
//! keep that breakpoint for ever: a write to a page with translated code first discards the translation,
//! and then writes; a processor that comes by between the two translates the old byte, which no later write
//! discards (seen with QEMU 7.2.22: `softmmu`'s `notdirty_write` before the store). Both processors then
//! take the exception again and again, about once in a hundred boots on a busy computer.
//!
//! So the kernel boots with one processor, where it can (`qemu.rs`), for which its own writes come in
//! order, and what KVM changes with its first virtual machine and processor is changed before there is a
//! second one.

use std::fs;
use std::io;
use std::path::Path;

use kvm_ioctls::Kvm;

/// Makes a virtual machine with a processor that never runs, and keeps it: with the first of each, KVM
/// changes the kernel's code (`preempt_notifier_key`, `kvm_has_noapic_vcpu`), and with the last again.
pub(super) fn hold_kvm_awake() -> io::Result<()> {
    let kvm = Kvm::new()?;
    let machine = kvm.create_vm()?;
    let processor = machine.create_vcpu(0)?;
    std::mem::forget((machine, processor));
    Ok(())
}

/// Starts the processors that the kernel has left alone.
pub(super) fn start_others() -> io::Result<()> {
    let all = Path::new("/sys/devices/system/cpu");
    for entry in fs::read_dir(all)?.flatten() {
        let switch = entry.path().join("online");
        // Folders of other things have none, nor has the first processor.
        if fs::read_to_string(&switch).is_ok_and(|state| state.trim() == "0") {
            fs::write(&switch, "1")?;
        }
    }
    Ok(())
}
