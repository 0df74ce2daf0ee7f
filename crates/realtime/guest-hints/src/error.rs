//! Reasons why guests cannot be coordinated.

use std::io;
use std::path::PathBuf;

use stasis_guest_agent::bfq_tracer::TraceError;

/// Reason why guests cannot be coordinated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// BFQ cannot be traced.
    #[error(transparent)]
    Watch(#[from] TraceError),
    /// The guest has no such port.
    #[error(
        "this guest has no virtio port {0}: start QEMU with -device virtio-serial-pci \
         -chardev socket,id=help,path=SOCKET,server=on,wait=off -device virtserialport,chardev=help,name={0}"
    )]
    NoPort(String),
    /// The port cannot be opened.
    #[error("cannot open the virtio port {path}: {source}; another program may have it open")]
    Port {
        /// Its device.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The port is gone.
    #[error("cannot write to the virtio port {path}: {source}; it may have been unplugged")]
    PortLost {
        /// Its device.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There is no such cgroup.
    #[error("there is no cgroup {0}: give its folder, such as /sys/fs/cgroup/machine.slice/guest.scope; /proc/PID/cgroup names a process's")]
    NoCgroup(PathBuf),
    /// A folder that is no cgroup.
    #[error("{0} is no cgroup: it has no cgroup.procs")]
    NotCgroup(PathBuf),
    /// The uppermost cgroup.
    #[error("{0} is the root of its hierarchy, which has no weight: put the guest into a cgroup of its own")]
    Root(PathBuf),
    /// Its parent does not hand the I/O controller on.
    #[error("the cgroup {path} is without the io controller: echo +io > {parent}/cgroup.subtree_control", parent = .path.parent().unwrap_or(.path).display())]
    NoController {
        /// The cgroup.
        path: PathBuf,
    },
    /// A cgroup v1 of other controllers.
    #[error("the cgroup {0} is of another hierarchy than blkio's: give the one below /sys/fs/cgroup/blkio")]
    OtherHierarchy(PathBuf),
    /// BFQ has no weights for cgroups.
    #[error("the cgroup {0} has no weight for bfq: the kernel's bfq is not loaded (modprobe bfq), or was built without CONFIG_BFQ_GROUP_IOSCHED")]
    NoWeight(PathBuf),
    /// A weight, or a setting of bfq's, cannot be read or written.
    #[error("cannot {action} {path}: {source}{hint}", hint = hint(.source))]
    Weight {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A weight that is not understood.
    #[error("{path} says `{text}`, which is no weight of bfq's as Linux tells it")]
    NotWeight {
        /// The file.
        path: PathBuf,
        /// Its content.
        text: String,
    },
    /// A cgroup or drive that another process has.
    #[error("{0} is coordinated by another process already: stop that one, or give it all guests")]
    Coordinated(PathBuf),
    /// A cgroup or socket that was given twice.
    #[error("{0} is named twice: each guest has a socket and a cgroup of its own")]
    Twice(PathBuf),
    /// Weights cannot be saved.
    #[error("cannot save weights in {path}: {source}; choose another folder with --state")]
    SavedState {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The drive has another scheduler.
    #[error("{drive} has the scheduler {scheduler}, and only bfq knows weights: echo bfq > /sys/block/{drive}/queue/scheduler")]
    Scheduler {
        /// The drive.
        drive: String,
        /// Its scheduler.
        scheduler: String,
    },
    /// There is no such drive.
    #[error("there is no drive {0}: give its name below /sys/block, such as sda or nvme0n1")]
    NoDrive(String),
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "; run it as root, or as whoever the cgroup is delegated to"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; cgroups are mounted read-only here",
        _ => "",
    }
}
