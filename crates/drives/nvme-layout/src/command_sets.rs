//! Identify structures of one command set: of blocks, zones, pairs and programs.

use stasis_layout::{layout, U16, U32, U64};

layout! {
    /// Identify Namespace of the NVM command set, of CNS 05h (NVM Command Set 1.0 figure 100).
    pub struct NvmNamespace: 4096 {
        /// Logical Block Storage Tag Mask.
        [0] lbstm: U64,
        /// Protection Information Capabilities.
        [8] pic: u8,
        [9] reserved9: [u8; 3],
        /// Extended LBA Formats 0 to 63: the storage tag's size in bits 6:0, the guard in bits 8:7.
        [12] elbaf: [U32; 64],
        [268] reserved268: [u8; 3828],
    }
}

layout! {
    /// Identify Controller of the NVM command set, of CNS 06h (NVM Command Set 1.0 section 4.1.5.2).
    pub struct NvmController: 4096 {
        /// Verify Size Limit, as a power of two of the smallest memory page.
        [0] vsl: u8,
        /// Write Zeroes Size Limit, likewise.
        [1] wzsl: u8,
        /// Write Uncorrectable Size Limit, likewise.
        [2] wusl: u8,
        /// Dataset Management Ranges Limit.
        [3] dmrl: u8,
        /// Dataset Management Range Size Limit, in blocks.
        [4] dmrsl: U32,
        /// Dataset Management Size Limit, in blocks.
        [8] dmsl: U64,
        [16] reserved16: [u8; 4080],
    }
}

layout! {
    /// LBA Format Extension of zones (ZNS 1.1 section 4.1.5.1).
    pub struct ZonedLbaFormat: 16 {
        /// Zone Size, in blocks.
        [0] zsze: U64,
        /// Zone Descriptor Extension Size (64 bytes).
        [8] zdes: u8,
        [9] reserved9: [u8; 7],
    }
}

layout! {
    /// Identify Namespace of the Zoned Namespace command set (ZNS 1.1 section 4.1.5.1).
    pub struct ZonedNamespace: 4096 {
        /// Zone Operation Characteristics.
        [0] zoc: U16,
        /// Optional Zoned Command Support.
        [2] ozcs: U16,
        /// Maximum Active Resources, 0's based.
        [4] mar: U32,
        /// Maximum Open Resources, 0's based.
        [8] mor: U32,
        /// Reset Recommended Limit (s).
        [12] rrl: U32,
        /// Finish Recommended Limit (s).
        [16] frl: U32,
        /// Reset Recommended Limits 1 to 3 (s).
        [20] rrl_more: [U32; 3],
        /// Finish Recommended Limits 1 to 3 (s).
        [32] frl_more: [U32; 3],
        /// Number of ZRWA Resources, 0's based.
        [44] numzrwa: U32,
        /// ZRWA Flush Granularity, in blocks.
        [48] zrwafg: U16,
        /// ZRWA Size, in blocks.
        [50] zrwasz: U16,
        /// ZRWA Capability.
        [52] zrwacap: u8,
        [53] reserved53: [u8; 2763],
        /// LBA Format 0 to 63 Extensions.
        [2816] lbafe: [ZonedLbaFormat; 64],
        /// Vendor Specific.
        [3840] vs: [u8; 256],
    }
}

layout! {
    /// Identify Controller of the Zoned Namespace command set (ZNS 1.1 section 4.1.5.2).
    pub struct ZonedController: 4096 {
        /// Zone Append Size Limit, as a power of two of the smallest memory page.
        [0] zasl: u8,
        [1] reserved1: [u8; 4095],
    }
}

layout! {
    /// Key Value Format (KV 1.0 section 4.1.5).
    pub struct KeyValueFormat: 16 {
        /// Key Length maximum, in bytes.
        [0] kml: U16,
        [2] reserved2: u8,
        /// Formats' relative performance, in bits 1:0.
        [3] fopt: u8,
        /// Value Length maximum, in bytes.
        [4] vml: U32,
        /// Maximum Number of Keys; 0: no limit.
        [8] mnk: U32,
        [12] reserved12: [u8; 4],
    }
}

layout! {
    /// Identify Namespace of the Key Value command set (KV 1.0 section 4.1.5).
    pub struct KeyValueNamespace: 4096 {
        /// Namespace Size, in bytes.
        [0] nsze: U64,
        [8] reserved8: [u8; 8],
        /// Namespace Utilization, in bytes.
        [16] nuse: U64,
        /// Namespace Features.
        [24] nsfeat: u8,
        /// Number of Key Value Formats, 0's based.
        [25] nkvf: u8,
        /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
        [26] nmic: u8,
        /// Reservation Capabilities.
        [27] rescap: u8,
        /// Format Progress Indicator.
        [28] fpi: u8,
        [29] reserved29: [u8; 3],
        /// Namespace Optimal Value Granularity, in bytes.
        [32] novg: U32,
        /// ANA Group Identifier.
        [36] anagrpid: U32,
        [40] reserved40: [u8; 3],
        /// Namespace Attributes.
        [43] nsattr: u8,
        /// NVM Set Identifier.
        [44] nvmsetid: U16,
        /// Endurance Group Identifier.
        [46] endgid: U16,
        /// Namespace Globally Unique Identifier.
        [48] nguid: [u8; 16],
        /// IEEE Extended Unique Identifier.
        [64] eui64: [u8; 8],
        /// Key Value Formats 0 to 15.
        [72] kvf: [KeyValueFormat; 16],
        [328] reserved328: [u8; 3512],
        /// Vendor Specific.
        [3840] vs: [u8; 256],
    }
}

layout! {
    /// Identify Namespace of the Computational Programs command set (CP figure 36).
    pub struct ComputeNamespace: 4096 {
        /// Maximum number of active programs.
        [0] max_active_programs: U16,
        /// Maximum number of memory range sets.
        [2] max_range_sets: U16,
        /// Granularity of a memory range, as a power of two of bytes.
        [4] range_granularity: U16,
        /// Maximum number of memory ranges of a set.
        [6] max_ranges: u8,
        [7] reserved7: u8,
        /// Maximum number of bytes of programs (MiB).
        [8] max_program_mib: U64,
        [16] reserved16: [u8; 4080],
    }
}

layout! {
    /// Memory range of a set, as Memory Range Set Management creates it (CP figure 48).
    pub struct MemoryRange: 32 {
        /// Namespace Identifier of the memory.
        [0] nsid: U32,
        /// Length in bytes.
        [4] length: U32,
        /// First byte.
        [8] start: U64,
        [16] reserved16: [u8; 16],
    }
}
