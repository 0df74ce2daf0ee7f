//! Data of features.

use stasis_layout::{layout, U32};

layout! {
    /// Host Behavior Support (NVMe 1.4 section 5.21.1.22, NVMe 2.0 section 5.27.1.18).
    pub struct HostBehavior: 512 {
        /// Advanced Command Retry Enable.
        [0] acre: u8,
        /// Extended Telemetry Data Area 4 Supported.
        [1] etdas: u8,
        /// LBA Format Extension Enable.
        [2] lbafee: u8,
        [3] reserved3: [u8; 509],
    }
}

layout! {
    /// Autonomous Power State Transition entry (NVMe 2.0 figure 328).
    pub struct TransitionEntry: 8 {
        /// Idle Transition Power State in bits 7:3, Idle Time Prior to Transition (ms) in bits 31:8.
        [0] entry: U32,
        [4] reserved4: [u8; 4],
    }
}
