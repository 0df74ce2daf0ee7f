//! Data of reservations (NVMe 1.4 sections 6.10 to 6.13), and their log.

use stasis_layout::{layout, U16, U32, U64};

layout! {
    /// Head of Reservation Status Extended: registered controllers lie behind it.
    pub struct ReservationStatus: 64 {
        /// Generation.
        [0] generation: U32,
        /// Reservation Type.
        [4] rtype: u8,
        /// Number of Registered Controllers.
        [5] regctl: U16,
        [7] reserved7: [u8; 2],
        /// Persist Through Power Loss State.
        [9] ptpls: u8,
        [10] reserved10: [u8; 54],
    }
}

layout! {
    /// Registered Controller Extended.
    pub struct RegisteredController: 64 {
        /// Controller ID; FFFFh: not bound to one.
        [0] cntlid: U16,
        /// Reservation Status: bit 0: it holds the reservation.
        [2] rcsts: u8,
        [3] reserved3: [u8; 5],
        /// Reservation Key.
        [8] rkey: U64,
        /// Host Identifier.
        [16] hostid: [u8; 16],
        [32] reserved32: [u8; 32],
    }
}

layout! {
    /// Reservation Notification (NVMe 1.4 section 5.14.1.16.1).
    pub struct ReservationNotice: 64 {
        /// Log Page Count.
        [0] count: U64,
        /// Reservation Notification Log Page Type.
        [8] notice: u8,
        /// Number of Available Log Pages.
        [9] available: u8,
        [10] reserved10: [u8; 2],
        /// Namespace ID.
        [12] nsid: U32,
        [16] reserved16: [u8; 48],
    }
}
