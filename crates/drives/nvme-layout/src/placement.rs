//! Flexible Data Placement (NVMe TP4146): log pages, and the data of I/O Management Receive.

use stasis_layout::{layout, U128, U16, U32, U64};

layout! {
    /// Head of FDP Configurations: descriptors lie behind it.
    pub struct FdpConfigurationsHead: 16 {
        /// Number of FDP Configurations, 0's based.
        [0] count: U16,
        /// Version.
        [2] version: u8,
        [3] reserved3: u8,
        /// Size of the log in bytes.
        [4] size: U32,
        [8] reserved8: [u8; 8],
    }
}

layout! {
    /// FDP Configuration Descriptor: descriptors of its handles lie behind it.
    pub struct FdpConfiguration: 64 {
        /// Descriptor Size, in bytes.
        [0] size: U16,
        /// FDP Attributes: reclaim group identifier format in bits 3:0, valid in bit 7.
        [2] fdpa: u8,
        /// Vendor Specific Size, in bytes.
        [3] vss: u8,
        /// Number of Reclaim Groups.
        [4] nrg: U32,
        /// Number of Reclaim Unit Handles.
        [8] nruh: U16,
        /// Max Placement Identifiers, 0's based.
        [10] maxpids: U16,
        /// Number of Namespaces Supported.
        [12] nnss: U32,
        /// Reclaim Unit Nominal Size, in bytes.
        [16] runs: U64,
        /// Estimated Reclaim Unit Time Limit (s).
        [24] erutl: U32,
        [28] reserved28: [u8; 36],
    }
}

layout! {
    /// Reclaim Unit Handle Descriptor.
    pub struct ReclaimUnitHandle: 4 {
        /// Reclaim Unit Handle Type.
        [0] ruht: u8,
        [1] reserved1: [u8; 3],
    }
}

layout! {
    /// Head of Reclaim Unit Handle Usage: descriptors lie behind it.
    pub struct HandleUsageHead: 8 {
        /// Number of Reclaim Unit Handles.
        [0] nruh: U16,
        [2] reserved2: [u8; 6],
    }
}

layout! {
    /// Reclaim Unit Handle Usage Descriptor.
    pub struct HandleUsage: 8 {
        /// Reclaim Unit Handle Attributes.
        [0] ruha: u8,
        [1] reserved1: [u8; 7],
    }
}

layout! {
    /// FDP Statistics.
    pub struct FdpStatistics: 64 {
        /// Host Bytes with Metadata Written.
        [0] hbmw: U128,
        /// Media Bytes with Metadata Written.
        [16] mbmw: U128,
        /// Media Bytes Erased.
        [32] mbe: U128,
        [48] reserved48: [u8; 16],
    }
}

layout! {
    /// Head of FDP Events: events lie behind it.
    pub struct FdpEventsHead: 64 {
        /// Number of FDP Events.
        [0] count: U32,
        [4] reserved4: [u8; 60],
    }
}

layout! {
    /// FDP Event.
    pub struct FdpEvent: 64 {
        /// FDP Event Type.
        [0] etype: u8,
        /// Valid fields: PID in bit 0, NSID in bit 1, location in bit 2.
        [1] valid: u8,
        /// Placement Identifier.
        [2] pid: U16,
        /// Event Timestamp, as the feature has it.
        [4] timestamp: U64,
        /// Namespace Identifier.
        [12] nsid: U32,
        /// Event Type Specific.
        [16] specific: [u8; 16],
        /// Reclaim Group Identifier.
        [32] rgid: U16,
        /// Reclaim Unit Handle Identifier.
        [34] ruhid: u8,
        [35] reserved35: [u8; 5],
        /// Vendor Specific.
        [40] vs: [u8; 24],
    }
}

layout! {
    /// Head of Reclaim Unit Handle Status: descriptors lie behind it.
    pub struct HandleStatusHead: 16 {
        [0] reserved0: [u8; 14],
        /// Number of Reclaim Unit Handle Status Descriptors.
        [14] nruhsd: U16,
    }
}

layout! {
    /// Reclaim Unit Handle Status Descriptor.
    pub struct HandleStatus: 32 {
        /// Placement Identifier.
        [0] pid: U16,
        /// Reclaim Unit Handle Identifier.
        [2] ruhid: U16,
        /// Estimated Active Reclaim Unit Time Remaining (s).
        [4] earutr: U32,
        /// Reclaim Unit Available Media Writes, in blocks.
        [8] ruamw: U64,
        [16] reserved16: [u8; 16],
    }
}
