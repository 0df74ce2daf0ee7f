//! The agent alone, as a guest's `/init`.
//!
//! With `stasis_test=ivshmem` on the kernel's command line it talks through
//! stock QEMU's shared-memory device instead of the channel's, so that the
//! agent can be tried without a Stasis machine (`crates/guests/guest-image/tests/boot.rs`).

use std::fs::OpenOptions;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{fence, Ordering};

use nix::sys::mman::{mmap, MapFlags, ProtFlags};
use stasis_channel::{Transport, MAILBOX_SIZE};
use stasis_guest_agent::AgentError;

/// Behind the mailbox: how often the guest has rung, and how often the test has
/// answered.
const RUNG: usize = MAILBOX_SIZE;
const ANSWERED: usize = MAILBOX_SIZE + 64;
const SIZE: usize = 2 * MAILBOX_SIZE;

struct SharedMemory {
    memory: *mut u8,
    rings: u32,
}

impl SharedMemory {
    fn find() -> Result<Self, AgentError> {
        let devices = std::fs::read_dir("/sys/bus/pci/devices");
        let device = devices
            .map_err(|_| AgentError::NoChannel)?
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|path| has(path, "vendor", "0x1af4") && has(path, "device", "0x1110"))
            .ok_or(AgentError::NoChannel)?;
        std::fs::write(device.join("enable"), "1").map_err(|_| AgentError::NoChannel)?;
        let file = OpenOptions::new().read(true).write(true).open(device.join("resource2"));
        let file = file.map_err(|e| AgentError::new("open", "the shared memory", e))?;
        let size = NonZeroUsize::new(SIZE).unwrap_or(NonZeroUsize::MIN);
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address the kernel chooses.
        let memory = unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, &file, 0) };
        let memory = memory.map_err(|e| AgentError::new("map", "the shared memory", e))?;
        Ok(Self { memory: memory.cast().as_ptr(), rings: 0 })
    }
}

fn has(device: &Path, file: &str, value: &str) -> bool {
    std::fs::read_to_string(device.join(file)).is_ok_and(|text| text.trim() == value)
}

impl Transport for SharedMemory {
    fn mailbox(&mut self) -> &mut [u8] {
        // SAFETY: mapped for good; the test writes only inside `ring`.
        unsafe { std::slice::from_raw_parts_mut(self.memory, MAILBOX_SIZE) }
    }

    fn ring(&mut self) {
        self.rings += 1;
        fence(Ordering::SeqCst);
        // SAFETY: both words lie in the mapping and are aligned.
        unsafe { self.memory.add(RUNG).cast::<u32>().write_volatile(self.rings) };
        // SAFETY: as above.
        while unsafe { self.memory.add(ANSWERED).cast::<u32>().read_volatile() } != self.rings {
            std::thread::yield_now();
        }
        fence(Ordering::SeqCst);
    }
}

fn main() {
    // `/proc` is not mounted yet; the kernel passes unknown parameters of its command line to
    // `/init` as its environment.
    if std::env::var_os("stasis_test").is_some() {
        stasis_guest_agent::run(SharedMemory::find)
    }
    stasis_guest_agent::main()
}
