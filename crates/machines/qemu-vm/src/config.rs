//! Configuration of a virtual machine under stock QEMU.

use stasis_guest_image::Guest;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

/// The engine that runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accelerator {
    /// KVM where [`crate::probe`] finds that it works, else emulation.
    #[default]
    Best,
    /// KVM; an error where it does not work.
    Kvm,
    /// QEMU's TCG, a thread for each vCPU.
    Emulation,
    /// QEMU's TCG with instructions as its clock, 1 ns each while the guest works: how busy the host
    /// is does not matter. All vCPUs have one thread.
    Instructions,
}

/// The host's cache of a drive's file (QEMU's `cache=` of the same names).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cache {
    /// The host's page cache; a guest's flush is an `fdatasync`.
    #[default]
    Writeback,
    /// `O_DIRECT`; a guest's flush is an `fdatasync`.
    None,
    /// The host's page cache; a guest's flush does nothing.
    Unsafe,
}

/// The storage of a drive's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// A file or block device.
    Raw {
        /// The file.
        path: PathBuf,
        /// Its cache.
        cache: Cache,
        /// True if the guest may only read it.
        read_only: bool,
        /// True if QEMU locks it against others' use. Off for a file that this program changes
        /// while the guest does not use the drive.
        locking: bool,
    },
    /// An image that QEMU's own qcow2 driver reads and writes.
    Qcow2 {
        /// The image.
        path: PathBuf,
        /// Cache of its file.
        cache: Cache,
    },
    /// Whoever serves vhost-user-blk on this socket; needs
    /// [`Config::shared_memory`].
    VhostUser {
        /// The socket.
        socket: PathBuf,
    },
    /// The argument of `-blockdev`, without a `node-name`.
    Other(String),
}

/// A drive of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    /// The storage of the bytes.
    pub backend: Backend,
    /// QEMU's device. `None`: `virtio-blk-pci`, or `vhost-user-blk-pci`.
    pub device: Option<String>,
    /// Its serial number; `None`: `stasis-0` and so on.
    pub serial: Option<String>,
    /// Options of the device, such as `num-queues=4`.
    pub options: String,
    /// True if QEMU serves it on a separate thread (`iothread`).
    pub own_thread: bool,
}

impl Drive {
    /// A virtio drive on `backend`.
    pub fn new(backend: Backend) -> Self {
        Self { backend, device: None, serial: None, options: String::new(), own_thread: false }
    }

    /// A virtio drive on a file.
    pub fn raw(path: impl Into<PathBuf>, cache: Cache) -> Self {
        let path = path.into();
        Self::new(Backend::Raw { path, cache, read_only: false, locking: true })
    }
}

/// A virtual machine.
#[derive(Debug, Clone)]
pub struct Config {
    /// Kernel, initramfs and root file system.
    pub guest: Guest,
    /// The engine that runs its instructions.
    pub accelerator: Accelerator,
    /// Number of vCPUs.
    pub vcpus: u32,
    /// vCPUs that there may be besides, for the guest's kernel to make room for: Linux'
    /// drivers give a device no more queues than there may be processors.
    pub spare_vcpus: u32,
    /// Memory in bytes, the root file system's image not counted.
    pub memory: u64,
    /// True if the memory is a memfd that others can map, as vhost-user needs.
    pub shared_memory: bool,
    /// True if the memory is of huge pages (2 MiB); then it is shared as well.
    pub huge_pages: bool,
    /// Added to the kernel's command line.
    pub kernel_arguments: String,
    /// NVMe controllers, each as the argument of `-device`, for drives with the device `nvme-ns`.
    pub controllers: Vec<String>,
    /// The drives: with the default device `/dev/vda` and so on, in this order.
    pub drives: Vec<Drive>,
    /// Further arguments of QEMU, for example `-device` and its value.
    pub arguments: Vec<OsString>,
    /// Longest time until the guest can run a command.
    pub boot_limit: Duration,
    /// Longest time for what is not the command itself: to unpack input, to end what is left, to
    /// greet again.
    pub timeout: Duration,
    /// Set to stop the present work; the work ends with [`crate::Error::Stopped`].
    pub stop: Arc<AtomicBool>,
}

/// Minimum memory of a guest (bytes): its kernel, and room to unpack the agent and to work.
pub const MIN_MEMORY: u64 = 192 << 20;

impl Config {
    /// A machine with one vCPU, 512 MiB and no drives.
    pub fn new(guest: Guest) -> Self {
        Self {
            guest,
            accelerator: Accelerator::Best,
            vcpus: 1,
            spare_vcpus: 0,
            memory: 512 << 20,
            shared_memory: false,
            huge_pages: false,
            kernel_arguments: String::new(),
            controllers: Vec::new(),
            drives: Vec::new(),
            arguments: Vec::new(),
            // Under emulation it takes 3 to 4 s on an idle host.
            boot_limit: Duration::from_secs(120),
            timeout: Duration::from_secs(60),
            stop: Arc::default(),
        }
    }
}
