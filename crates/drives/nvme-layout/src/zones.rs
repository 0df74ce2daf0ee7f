//! Zones (ZNS 1.1): the data of Zone Management Receive, and the log of changed zones.

use stasis_layout::{layout, U16, U64};

layout! {
    /// Head of Report Zones (ZNS 1.1 section 3.4.2.2): descriptors lie behind it.
    pub struct ZoneReportHead: 64 {
        /// Number of Zones.
        [0] nzones: U64,
        [8] reserved8: [u8; 56],
    }
}

layout! {
    /// Zone Descriptor (ZNS 1.1 section 3.4.2.2.3).
    pub struct ZoneDescriptor: 64 {
        /// Zone Type, in bits 3:0.
        [0] zt: u8,
        /// Zone State, in bits 7:4.
        [1] zs: u8,
        /// Zone Attributes.
        [2] za: u8,
        /// Zone Attributes Information.
        [3] zai: u8,
        [4] reserved4: [u8; 4],
        /// Zone Capacity, in blocks.
        [8] zcap: U64,
        /// Zone Start LBA.
        [16] zslba: U64,
        /// Write Pointer.
        [24] wp: U64,
        [32] reserved32: [u8; 32],
    }
}

layout! {
    /// Changed Zone List (ZNS 1.1 section 4.1.4.2).
    pub struct ChangedZoneList: 4096 {
        /// Number of Zone Identifiers; FFFFh: more than there is room for.
        [0] nrzid: U16,
        [2] reserved2: [u8; 6],
        /// Zone Identifiers: the first blocks of zones.
        [8] zids: [U64; 511],
    }
}
