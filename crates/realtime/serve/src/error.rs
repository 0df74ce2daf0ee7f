//! Everything that can go wrong when drives are served.

use std::io;
use std::path::PathBuf;

use stasis_virtio::{ConfigError, Fault};

/// Reason why a drive or a server cannot work.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A client's memory cannot be used.
    #[error("a client shares memory that cannot be: {0}")]
    Memory(String),
    /// A client's memory cannot be mapped.
    #[error("cannot map {size} bytes of guest memory at {guest:#x}: {source}; the VMM has to share the guest's memory (QEMU: memory-backend-memfd,share=on)")]
    Map {
        /// Its address in the guest.
        guest: u64,
        /// Bytes.
        size: u64,
        /// The cause.
        source: io::Error,
    },
    /// The buffer of requests under way cannot be made or mapped.
    #[error("the buffer of requests under way cannot be used: {source}")]
    Inflight {
        /// The cause.
        source: io::Error,
    },
    /// A queue of a wrong size.
    #[error("a client gave a queue {size} entries, but it must be a power of two up to {most}; say queue-size={most} to the VMM")]
    QueueSize {
        /// Its entries.
        size: u32,
        /// Limit on the entries.
        most: u16,
    },
    /// There is no such queue.
    #[error("there is no queue {0}; say queues = N in the drive's table to have more")]
    NoQueue(u16),
    /// A queue cannot be begun.
    #[error("queue {queue} cannot be served: {fault}")]
    Queue {
        /// Number of the queue.
        queue: u16,
        /// The cause.
        fault: Fault,
    },
    /// A descriptor that is no eventfd.
    #[error("a client gave something that is no eventfd to ring a queue with")]
    NotEventfd,
    /// The device cannot be as wished.
    #[error("drive {name}: {source}")]
    Device {
        /// Its name.
        name: String,
        /// The cause.
        source: ConfigError,
    },
    /// A thread or descriptor to wait with cannot be had.
    #[error("cannot start a polling thread: {source}; see `ulimit -n` and `ulimit -u`")]
    Wait {
        /// The cause.
        source: io::Error,
    },
    /// A socket or block device that another process serves.
    #[error(
        "{0}: another program serves this; stop it, take its place with --replace, or give this one a folder of \
         its own with --sockets DIR (and places of its own with --vfio-user)"
    )]
    InUse(PathBuf),
    /// A file at a socket's place.
    #[error("{0}: this is no socket; remove it or choose another folder for the sockets")]
    NoSocket(PathBuf),
    /// A socket cannot be made.
    #[error("cannot listen on {path}: {source}")]
    Listen {
        /// Path of the socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The drive's bytes cannot be reached.
    #[error("drive {name}: {message}")]
    Store {
        /// Its name.
        name: String,
        /// The cause.
        message: String,
    },
    /// There is a drive of that name.
    #[error("there is a drive `{0}` already")]
    Exists(String),
    /// There is no such drive.
    #[error("there is no drive `{0}`")]
    Missing(String),
    /// Its bytes are in this process.
    #[error("drive {0} is in memory, which another server does not get; detach it first")]
    Fleeting(String),
    /// The request to the drive is not possible.
    #[error("drive {name}: {message}")]
    Impossible {
        /// Its name.
        name: String,
        /// The cause.
        message: String,
    },
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The cause.
        source: io::Error,
    },
}
