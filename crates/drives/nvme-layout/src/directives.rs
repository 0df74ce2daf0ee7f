//! Data of Directive Receive (NVMe 1.4 section 9).

use stasis_layout::{layout, U16, U32};

layout! {
    /// Return Parameters of the Identify directive: a bit for each directive type.
    pub struct DirectiveParameters: 4096 {
        /// Directives Supported.
        [0] supported: [u8; 32],
        /// Directives Enabled.
        [32] enabled: [u8; 32],
        /// Directives Persistent Across Controller Level Resets.
        [64] persistent: [u8; 32],
        [96] reserved96: [u8; 4000],
    }
}

layout! {
    /// Return Parameters of the Streams directive.
    pub struct StreamParameters: 32 {
        /// Max Streams Limit.
        [0] msl: U16,
        /// NVM Subsystem Streams Available.
        [2] nssa: U16,
        /// NVM Subsystem Streams Open.
        [4] nsso: U16,
        /// NVM Subsystem Stream Capability.
        [6] nssc: u8,
        [7] reserved7: [u8; 9],
        /// Stream Write Size, in blocks.
        [16] sws: U32,
        /// Stream Granularity Size, in stream write sizes.
        [20] sgs: U16,
        /// Namespace Streams Allocated.
        [22] nsa: U16,
        /// Namespace Streams Open.
        [24] nso: U16,
        [26] reserved26: [u8; 6],
    }
}
