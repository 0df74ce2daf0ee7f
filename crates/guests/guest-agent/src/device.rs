//! The channel's PCI device, mapped through sysfs.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{compiler_fence, fence, Ordering};

use nix::sys::mman::{mmap, MapFlags, ProtFlags};
use stasis_channel::{
    Transport, DEVICE_ID, DOORBELL_OFFSET, MAILBOX_BAR, MAILBOX_SIZE, REGISTERS_BAR,
    REGISTERS_SIZE, VENDOR_ID,
};

use crate::AgentError;

/// The mapped device. The mappings last as long as the process.
pub(crate) struct Device {
    mailbox: NonNull<u8>,
    doorbell: NonNull<u32>,
}

impl Device {
    /// Finds the device in sysfs and maps it.
    pub(crate) fn find() -> Result<Self, AgentError> {
        let device = devices()
            .find(|path| {
                number(path.join("vendor")) == Some(VENDOR_ID)
                    && number(path.join("device")) == Some(DEVICE_ID)
            })
            .ok_or(AgentError::NoChannel)?;
        // Turns on the decoding of its memory, which a driver would do.
        let enable = device.join("enable");
        fs::write(&enable, "1").map_err(|e| AgentError::new("write", path_name(&enable), e))?;
        // Write-combining where the kernel offers it: uncached writes go out
        // one by one on a real processor.
        let cached = device.join(format!("resource{MAILBOX_BAR}_wc"));
        let plain = device.join(format!("resource{MAILBOX_BAR}"));
        let mailbox = map(if cached.exists() { &cached } else { &plain }, MAILBOX_SIZE)?;
        let registers = map(&device.join(format!("resource{REGISTERS_BAR}")), REGISTERS_SIZE)?;
        // SAFETY: the doorbell lies within the registers' mapping, and a
        // mapping is aligned to a page.
        let doorbell = unsafe { registers.byte_add(DOORBELL_OFFSET as usize) }.cast();
        Ok(Self { mailbox, doorbell })
    }
}

impl Transport for Device {
    fn mailbox(&mut self) -> &mut [u8] {
        // SAFETY: mapped for MAILBOX_SIZE bytes for good, and only through
        // this; the machine writes to it only inside `ring`, which takes
        // `&mut self` and so ends this borrow.
        unsafe { std::slice::from_raw_parts_mut(self.mailbox.as_ptr(), MAILBOX_SIZE) }
    }

    fn ring(&mut self) {
        // Drains the write-combining buffers before the doorbell.
        fence(Ordering::SeqCst);
        // SAFETY: mapped device register, aligned, for good.
        unsafe { self.doorbell.as_ptr().write_volatile(1) };
        compiler_fence(Ordering::SeqCst);
    }
}

/// Makes the kernel look anew for devices: before the agent greeted, its drives and networks may not have been
/// there (Linux, Documentation/ABI/testing/sysfs-bus-pci).
pub(crate) fn uncover() -> Result<(), AgentError> {
    let file = Path::new("/sys/bus/pci/rescan");
    match fs::write(file, "1") {
        // A kernel without PCI has none.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(AgentError::new("write", path_name(file), error))
        }
        _ => Ok(()),
    }
}

/// The vendors of this machine's PCI devices.
pub(crate) fn vendors() -> BTreeSet<u16> {
    devices().filter_map(|device| number(device.join("vendor"))).collect()
}

/// The PCI devices' folders in sysfs; none where there is no PCI.
fn devices() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/sys/bus/pci/devices").into_iter().flatten();
    entries.filter_map(Result::ok).map(|entry| entry.path())
}

fn number(file: PathBuf) -> Option<u16> {
    let text = fs::read_to_string(file).ok()?;
    u16::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

fn map(file: &Path, size: usize) -> Result<NonNull<u8>, AgentError> {
    let error = |e: std::io::Error| AgentError::new("map", path_name(file), e);
    let opened: File = OpenOptions::new().read(true).write(true).open(file).map_err(error)?;
    let size = NonZeroUsize::new(size).unwrap_or(NonZeroUsize::MIN);
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping at an address the kernel chooses.
    let mapping = unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, &opened, 0) };
    mapping.map(NonNull::cast).map_err(|e| error(e.into()))
}

fn path_name(path: &Path) -> String {
    path.display().to_string()
}
