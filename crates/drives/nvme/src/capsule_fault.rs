//! Faults of command capsules that their transport finds.

use crate::status::StatusCode;

/// Why a transport does not hand a command over, or refuses it itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapsuleFault {
    /// Its data was damaged on the way.
    Damaged,
    /// Its data block is of a type that the transport does not have.
    BlockType,
    /// Its data block is longer than the capsule's data, or no Connect's.
    BlockLength,
    /// Its data block begins behind the capsule's data.
    BlockOffset,
    /// The host has not authenticated on this queue.
    Unauthenticated,
    /// A field of an authentication command is invalid.
    Field,
    /// There is no message for the host to take.
    Sequence,
}

impl CapsuleFault {
    /// The status field of the completion, without its phase bit.
    pub fn field(self) -> u16 {
        self.status().field()
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Damaged => StatusCode::TransientTransportError,
            Self::BlockType => StatusCode::SglDescriptorTypeInvalid,
            Self::BlockLength => StatusCode::DataSglLengthInvalid,
            Self::BlockOffset => StatusCode::SglOffsetInvalid,
            Self::Unauthenticated => StatusCode::AuthenticationRequired,
            Self::Field => StatusCode::InvalidField,
            Self::Sequence => StatusCode::CommandSequenceError,
        }
    }
}
