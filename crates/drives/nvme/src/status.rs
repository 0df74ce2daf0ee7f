//! Failures of commands: status codes (NVMe 1.4 section 4.6.1.2).

/// Do Not Retry: bit 14 of the status field without its phase bit.
pub const DNR: u16 = 1 << 14;
/// More: the error log has an entry on it.
pub const MORE: u16 = 1 << 13;

/// A status: code type in bits 10:8, code in bits 7:0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum StatusCode {
    InvalidOpcode = 0x001,
    InvalidField = 0x002,
    DataTransferError = 0x004,
    InternalError = 0x006,
    AbortRequested = 0x007,
    AbortedBySubmissionQueueDeletion = 0x008,
    FailedFusedCommand = 0x009,
    MissingFusedCommand = 0x00a,
    InvalidNamespace = 0x00b,
    CommandSequenceError = 0x00c,
    InvalidSglSegment = 0x00d,
    InvalidSglCount = 0x00e,
    DataSglLengthInvalid = 0x00f,
    SglDescriptorTypeInvalid = 0x011,
    InvalidPrpOffset = 0x013,
    AtomicWriteUnitExceeded = 0x014,
    OperationDenied = 0x015,
    SglOffsetInvalid = 0x016,
    HostIdentifierFormat = 0x018,
    AbortedByPreemption = 0x01b,
    SanitizeFailed = 0x01c,
    SanitizeInProgress = 0x01d,
    NamespaceWriteProtected = 0x020,
    TransientTransportError = 0x022,
    /// Flexible Data Placement is off in the endurance group (NVMe TP4146).
    FdpDisabled = 0x029,
    /// The list of a namespace to be created cannot be (NVMe TP4146).
    InvalidPlacementHandles = 0x02a,
    InvalidCommandSet = 0x02c,
    LbaOutOfRange = 0x080,
    CapacityExceeded = 0x081,
    ReservationConflict = 0x083,
    FormatInProgress = 0x084,
    /// These are of the Key Value command set (KV 1.0 section 2.2).
    InvalidValueSize = 0x085,
    InvalidKeySize = 0x086,
    KeyDoesNotExist = 0x087,
    UnrecoveredError = 0x088,
    KeyExists = 0x089,
    InvalidCompletionQueue = 0x100,
    InvalidQueueIdentifier = 0x101,
    InvalidQueueSize = 0x102,
    ConnectIncompatibleFormat = 0x180,
    AsynchronousEventLimitExceeded = 0x105,
    InvalidFirmwareSlot = 0x106,
    InvalidFirmwareImage = 0x107,
    InvalidInterruptVector = 0x108,
    InvalidLogPage = 0x109,
    InvalidFormat = 0x10a,
    InvalidQueueDeletion = 0x10c,
    FeatureNotSaveable = 0x10d,
    FeatureNotChangeable = 0x10e,
    FeatureNotNamespaceSpecific = 0x10f,
    OverlappingFirmwareRange = 0x114,
    NamespaceInsufficientCapacity = 0x115,
    NamespaceIdentifierUnavailable = 0x116,
    NamespaceAlreadyAttached = 0x118,
    NamespaceIsPrivate = 0x119,
    NamespaceNotAttached = 0x11a,
    ThinProvisioningNotSupported = 0x11b,
    ControllerListInvalid = 0x11c,
    SelfTestInProgress = 0x11d,
    AnaGroupIdentifierInvalid = 0x124,
    CommandSetNotSupported = 0x129,
    CommandSetCombinationRejected = 0x12b,
    StreamAllocationFailed = 0x17f,
    InvalidProtectionInformation = 0x181,
    ConnectInvalidParameters = 0x182,
    CommandSizeLimitExceeded = 0x183,
    ConnectInvalidHost = 0x184,
    IncompatibleNamespace = 0x185,
    FastCopyNotPossible = 0x186,
    OverlappingRange = 0x187,
    /// These are of computational programs (NVMe 2.1 figure 104).
    InvalidMemoryNamespace = 0x18b,
    InvalidMemoryRangeSet = 0x18c,
    InvalidMemoryRangeSetIdentifier = 0x18d,
    InvalidProgramData = 0x18e,
    InvalidProgramIndex = 0x18f,
    InvalidProgramType = 0x190,
    /// NVMe 2.0 section 8.13; computational programs have given the number to a code of their own.
    AuthenticationRequired = 0x191,
    MaximumMemoryRangeSetsExceeded = 0x192,
    MaximumProgramBytesExceeded = 0x194,
    MemoryRangeSetInUse = 0x195,
    NoProgram = 0x196,
    OverlappingMemoryRanges = 0x197,
    ProgramNotActivated = 0x198,
    ProgramInUse = 0x199,
    ProgramTooBig = 0x19b,
    InvalidZoneOperation = 0x1b6,
    NoZrwaResources = 0x1b7,
    ZoneBoundaryError = 0x1b8,
    ZoneIsFull = 0x1b9,
    ZoneIsReadOnly = 0x1ba,
    ZoneIsOffline = 0x1bb,
    ZoneInvalidWrite = 0x1bc,
    TooManyActiveZones = 0x1bd,
    TooManyOpenZones = 0x1be,
    InvalidZoneStateTransition = 0x1bf,
    WriteFault = 0x280,
    UnrecoveredReadError = 0x281,
    GuardCheckError = 0x282,
    ApplicationTagCheckError = 0x283,
    ReferenceTagCheckError = 0x284,
    CompareFailure = 0x285,
    AnaPersistentLoss = 0x301,
    AnaInaccessible = 0x302,
    AnaTransition = 0x303,
    /// OCSSD 2.0 section 4: the chunk is, or has just become, offline.
    OfflineChunk = 0x2c0,
    InvalidReset = 0x2c1,
    /// The write failed, and the chunk is closed.
    ChunkEarlyClose = 0x2f1,
    OutOfOrderWrite = 0x2f2,
}

impl StatusCode {
    /// Connect's (NVMe over Fabrics 1.1 section 3.3), by the number that the NVM command set has given
    /// to a code of its own.
    pub const CONNECT_CONTROLLER_BUSY: Self = Self::InvalidProtectionInformation;

    /// Too many ranges of memory, with the number that Connect's authentication has.
    pub const MEMORY_RANGES_EXCEEDED: Self = Self::AuthenticationRequired;

    /// The status field without its phase bit. It has Do Not Retry set if repeating the command
    /// cannot help.
    pub fn field(self) -> u16 {
        let again = matches!(
            self,
            Self::DataTransferError
                | Self::InternalError
                | Self::FormatInProgress
                | Self::SanitizeInProgress
                | Self::AbortRequested
                | Self::AbortedBySubmissionQueueDeletion
                | Self::TransientTransportError
                | Self::WriteFault
                | Self::UnrecoveredReadError
                | Self::UnrecoveredError
                | Self::GuardCheckError
                | Self::ApplicationTagCheckError
                | Self::ReferenceTagCheckError
                | Self::AnaPersistentLoss
                | Self::AnaInaccessible
                | Self::AnaTransition
        );
        self as u16 | if again { 0 } else { DNR }
    }

    /// Returns whether protection information was found wrong.
    pub fn is_protection(self) -> bool {
        matches!(
            self,
            Self::GuardCheckError | Self::ApplicationTagCheckError | Self::ReferenceTagCheckError
        )
    }

    /// The failure of this code, for the reason of byte `location` of the
    /// submission queue entry.
    pub fn at(self, location: u16) -> Failure {
        Failure { status: self, location, lba: None }
    }
}

/// Why a command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The status of the completion.
    pub status: StatusCode,
    /// Parameter Error Location of the error log (section 5.14.1.1).
    pub location: u16,
    /// LBA of the error log: the first block that is concerned, where one is.
    pub lba: Option<u64>,
}

impl Failure {
    /// Returns the failure with `lba` as the first block concerned.
    pub fn of_block(self, lba: u64) -> Self {
        Self { lba: Some(lba), ..self }
    }
}

/// Parameter Error Location where no one parameter is at fault.
pub const NO_LOCATION: u16 = 0xffff;

impl From<StatusCode> for Failure {
    fn from(status: StatusCode) -> Self {
        Self { status, location: NO_LOCATION, lba: None }
    }
}

impl From<crate::OutOfMemoryRange> for Failure {
    fn from(_: crate::OutOfMemoryRange) -> Self {
        StatusCode::DataTransferError.into()
    }
}

/// The outcome of executing a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done, with Dwords 0 and 1 of the completion.
    Done(u64),
    /// The command completes later.
    Pending,
    /// Failed, with Dwords 0 and 1 of the completion.
    Failed {
        failure: Failure,
        result: u64,
        /// The LBA of the error log entry.
        lba: u64,
    },
}
