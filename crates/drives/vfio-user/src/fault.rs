//! Faults of a client: those that end its connection, and requests that are refused.

/// Why a connection ends: the stream has no next message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The first message is another one.
    #[error("its first message is not VFIO_USER_VERSION; is it a client of vhost-user? The device of QEMU is vfio-user-pci")]
    First,
    /// A version that is not supported.
    #[error("it wants version {0}.{1} of the protocol; this is version 0.0")]
    Version(u16, u16),
    /// A length that no message has.
    #[error("a message of {0} bytes; they have 16 to {most}", most = crate::MAX_MESSAGE)]
    Length(u32),
    /// A reply, or another kind of message that a client does not send.
    #[error("a message with flags {0:#x}, which is no command")]
    Kind(u32),
    /// More descriptors than were negotiated.
    #[error("a message with more than {most} descriptors", most = crate::MAX_DESCRIPTORS)]
    Descriptors,
}

/// Reason of a refused request. The client gets an errno.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// An unknown command.
    #[error("command {0} is not supported")]
    Command(u16),
    /// A message whose length or fields contradict each other.
    #[error("command {command}: {fault}")]
    Message {
        /// The command.
        command: u16,
        /// Its fault.
        fault: &'static str,
    },
    /// A missing region or kind of interrupt.
    #[error("command {command}: index {index}, which there is not")]
    Index {
        /// The command.
        command: u16,
        /// The index.
        index: u32,
    },
    /// An access beyond a region.
    #[error("an access of {count} bytes at {offset:#x}, beyond region {region}")]
    Range {
        /// The region.
        region: u32,
        /// The first byte.
        offset: u64,
        /// The bytes.
        count: u32,
    },
    /// Memory that overlaps other memory.
    #[error("memory at {0:#x} overlaps memory that is mapped")]
    Exists(u64),
    /// Memory that was not mapped so.
    #[error("no memory of {size} bytes is mapped at {address:#x}")]
    Missing {
        /// The first byte.
        address: u64,
        /// The bytes.
        size: u64,
    },
    /// Memory that the carrier cannot map, with the reason.
    #[error("{0}")]
    Memory(String),
    /// More pieces of memory than there can be.
    #[error("more than {0} pieces of memory")]
    TooMany(usize),
    /// A descriptor that is no eventfd.
    #[error("a descriptor that is no eventfd, for an interrupt")]
    NoEventfd,
}

impl Refusal {
    /// The errno of the reply (Linux, asm-generic/errno.h).
    pub fn errno(&self) -> u32 {
        const ENOENT: u32 = 2;
        const EEXIST: u32 = 17;
        const EINVAL: u32 = 22;
        const ENOSPC: u32 = 28;
        const EOPNOTSUPP: u32 = 95;
        match self {
            Self::Command(_) => EOPNOTSUPP,
            Self::Exists(_) => EEXIST,
            Self::Missing { .. } => ENOENT,
            Self::TooMany(_) => ENOSPC,
            _ => EINVAL,
        }
    }

    /// Returns whether clients that keep to the protocol ask so, to learn what there is.
    pub fn is_question(&self) -> bool {
        matches!(self, Self::Command(_) | Self::Index { .. })
    }
}
