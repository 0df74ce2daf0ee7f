//! NVMe over Fabrics: the data of Connect, and the discovery log.

use stasis_layout::{layout, U16, U64};

layout! {
    /// Data of Connect (NVMe-oF 1.1 section 3.3).
    pub struct ConnectData: 1024 {
        /// Host Identifier.
        [0] hostid: [u8; 16],
        /// Controller ID; FFFFh: any.
        [16] cntlid: U16,
        [18] reserved18: [u8; 238],
        /// NVM Subsystem NVMe Qualified Name, which a zero ends.
        [256] subnqn: [u8; 256],
        /// Host NVMe Qualified Name, which a zero ends.
        [512] hostnqn: [u8; 256],
        [768] reserved768: [u8; 256],
    }
}

layout! {
    /// Head of the discovery log (NVMe-oF 1.1 figure 38): its entries lie behind it.
    pub struct DiscoveryHead: 1024 {
        /// Generation Counter.
        [0] genctr: U64,
        /// Number of Records.
        [8] numrec: U64,
        /// Record Format.
        [16] recfmt: U16,
        [18] reserved18: [u8; 1006],
    }
}

layout! {
    /// Discovery Log Page Entry (NVMe-oF 1.1 figure 39).
    pub struct DiscoveryEntry: 1024 {
        /// Transport Type.
        [0] trtype: u8,
        /// Address Family.
        [1] adrfam: u8,
        /// Subsystem Type.
        [2] subtype: u8,
        /// Transport Requirements.
        [3] treq: u8,
        /// Port ID.
        [4] portid: U16,
        /// Controller ID; FFFFh: any.
        [6] cntlid: U16,
        /// Admin Max SQ Size.
        [8] asqsz: U16,
        [10] reserved10: [u8; 22],
        /// Transport Service Identifier, padded with spaces.
        [32] trsvcid: [u8; 32],
        [64] reserved64: [u8; 192],
        /// NVM Subsystem Qualified Name, which a zero ends.
        [256] subnqn: [u8; 256],
        /// Transport Address, padded with spaces.
        [512] traddr: [u8; 256],
        /// Transport Specific Address Subtype.
        [768] tsas: [u8; 256],
    }
}
