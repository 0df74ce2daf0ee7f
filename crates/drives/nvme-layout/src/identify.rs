//! Identify: structures of controllers, namespaces, and lists of them.

use zerocopy::little_endian::{U128, U16, U32, U64};

use crate::layout::layout;

layout! {
    /// Power State Descriptor (NVMe 2.0 figure 276).
    pub struct PowerStateDescriptor: 32 {
        /// Maximum Power, in 10 mW, or in 0.1 mW where `flags` says so.
        [0] pub mp: U16,
        [2] reserved2: u8,
        /// Max Power Scale (MXPS) in bit 0, Non-Operational State (NOPS) in bit 1.
        [3] pub flags: u8,
        /// Entry Latency (us).
        [4] pub enlat: U32,
        /// Exit Latency (us).
        [8] pub exlat: U32,
        /// Relative Read Throughput.
        [12] pub rrt: u8,
        /// Relative Read Latency.
        [13] pub rrl: u8,
        /// Relative Write Throughput.
        [14] pub rwt: u8,
        /// Relative Write Latency.
        [15] pub rwl: u8,
        /// Idle Power.
        [16] pub idlp: U16,
        /// Idle Power Scale, in bits 7:6.
        [18] pub ips: u8,
        [19] reserved19: u8,
        /// Active Power.
        [20] pub actp: U16,
        /// Active Power Workload in bits 2:0, Active Power Scale in bits 7:6.
        [22] pub apws: u8,
        [23] reserved23: [u8; 9],
    }
}

layout! {
    /// Identify Controller (NVMe 2.0 figure 275; NVMe 1.4 section 5.15.2.2).
    pub struct IdentifyController: 4096 {
        /// PCI Vendor ID.
        [0] pub vid: U16,
        /// PCI Subsystem Vendor ID.
        [2] pub ssvid: U16,
        /// Serial Number, padded with spaces.
        [4] pub sn: [u8; 20],
        /// Model Number, padded with spaces.
        [24] pub mn: [u8; 40],
        /// Firmware Revision, padded with spaces.
        [64] pub fr: [u8; 8],
        /// Recommended Arbitration Burst.
        [72] pub rab: u8,
        /// IEEE OUI Identifier.
        [73] pub ieee: [u8; 3],
        /// Controller Multi-Path I/O and Namespace Sharing Capabilities.
        [76] pub cmic: u8,
        /// Maximum Data Transfer Size, as a power of two of the smallest memory page.
        [77] pub mdts: u8,
        /// Controller ID.
        [78] pub cntlid: U16,
        /// Version.
        [80] pub ver: U32,
        /// RTD3 Resume Latency (us).
        [84] pub rtd3r: U32,
        /// RTD3 Entry Latency (us).
        [88] pub rtd3e: U32,
        /// Optional Asynchronous Events Supported.
        [92] pub oaes: U32,
        /// Controller Attributes.
        [96] pub ctratt: U32,
        /// Read Recovery Levels Supported.
        [100] pub rrls: U16,
        [102] reserved102: [u8; 9],
        /// Controller Type.
        [111] pub cntrltype: u8,
        /// FRU Globally Unique Identifier.
        [112] pub fguid: [u8; 16],
        /// Command Retry Delay Time 1 (100 ms).
        [128] pub crdt1: U16,
        /// Command Retry Delay Time 2 (100 ms).
        [130] pub crdt2: U16,
        /// Command Retry Delay Time 3 (100 ms).
        [132] pub crdt3: U16,
        [134] reserved134: [u8; 119],
        /// NVM Subsystem Report.
        [253] pub nvmsr: u8,
        /// VPD Write Cycle Information.
        [254] pub vwci: u8,
        /// Management Endpoint Capabilities.
        [255] pub mec: u8,
        /// Optional Admin Command Support.
        [256] pub oacs: U16,
        /// Abort Command Limit, 0's based.
        [258] pub acl: u8,
        /// Asynchronous Event Request Limit, 0's based.
        [259] pub aerl: u8,
        /// Firmware Updates.
        [260] pub frmw: u8,
        /// Log Page Attributes.
        [261] pub lpa: u8,
        /// Error Log Page Entries, 0's based.
        [262] pub elpe: u8,
        /// Number of Power States Support, 0's based.
        [263] pub npss: u8,
        /// Admin Vendor Specific Command Configuration.
        [264] pub avscc: u8,
        /// Autonomous Power State Transition Attributes.
        [265] pub apsta: u8,
        /// Warning Composite Temperature Threshold (K).
        [266] pub wctemp: U16,
        /// Critical Composite Temperature Threshold (K).
        [268] pub cctemp: U16,
        /// Maximum Time for Firmware Activation (100 ms).
        [270] pub mtfa: U16,
        /// Host Memory Buffer Preferred Size (4 KiB).
        [272] pub hmpre: U32,
        /// Host Memory Buffer Minimum Size (4 KiB).
        [276] pub hmmin: U32,
        /// Total NVM Capacity, in bytes.
        [280] pub tnvmcap: U128,
        /// Unallocated NVM Capacity, in bytes.
        [296] pub unvmcap: U128,
        /// Replay Protected Memory Block Support.
        [312] pub rpmbs: U32,
        /// Extended Device Self-test Time (min).
        [316] pub edstt: U16,
        /// Device Self-test Options.
        [318] pub dsto: u8,
        /// Firmware Update Granularity (4 KiB).
        [319] pub fwug: u8,
        /// Keep Alive Support: its granularity (100 ms).
        [320] pub kas: U16,
        /// Host Controlled Thermal Management Attributes.
        [322] pub hctma: U16,
        /// Minimum Thermal Management Temperature (K).
        [324] pub mntmt: U16,
        /// Maximum Thermal Management Temperature (K).
        [326] pub mxtmt: U16,
        /// Sanitize Capabilities.
        [328] pub sanicap: U32,
        /// Host Memory Buffer Minimum Descriptor Entry Size (4 KiB).
        [332] pub hmminds: U32,
        /// Host Memory Maximum Descriptors Entries.
        [336] pub hmmaxd: U16,
        /// NVM Set Identifier Maximum.
        [338] pub nsetidmax: U16,
        /// Endurance Group Identifier Maximum.
        [340] pub endgidmax: U16,
        /// ANA Transition Time (s).
        [342] pub anatt: u8,
        /// Asymmetric Namespace Access Capabilities.
        [343] pub anacap: u8,
        /// ANA Group Identifier Maximum.
        [344] pub anagrpmax: U32,
        /// Number of ANA Group Identifiers.
        [348] pub nanagrpid: U32,
        /// Persistent Event Log Size (64 KiB).
        [352] pub pels: U32,
        /// Domain Identifier.
        [356] pub domain: U16,
        [358] reserved358: [u8; 10],
        /// Max Endurance Group Capacity, in bytes.
        [368] pub megcap: U128,
        [384] reserved384: [u8; 128],
        /// Submission Queue Entry Size: log2 of the smallest in bits 3:0, of the largest in bits 7:4.
        [512] pub sqes: u8,
        /// Completion Queue Entry Size, likewise.
        [513] pub cqes: u8,
        /// Maximum Outstanding Commands.
        [514] pub maxcmd: U16,
        /// Number of Namespaces.
        [516] pub nn: U32,
        /// Optional NVM Command Support.
        [520] pub oncs: U16,
        /// Fused Operation Support.
        [522] pub fuses: U16,
        /// Format NVM Attributes.
        [524] pub fna: u8,
        /// Volatile Write Cache.
        [525] pub vwc: u8,
        /// Atomic Write Unit Normal, 0's based.
        [526] pub awun: U16,
        /// Atomic Write Unit Power Fail, 0's based.
        [528] pub awupf: U16,
        /// I/O Command Set Vendor Specific Command Configuration.
        [530] pub icsvscc: u8,
        /// Namespace Write Protection Capabilities.
        [531] pub nwpc: u8,
        /// Atomic Compare & Write Unit, 0's based.
        [532] pub acwu: U16,
        /// Optional Copy Formats Supported.
        [534] pub ocfs: U16,
        /// SGL Support.
        [536] pub sgls: U32,
        /// Maximum Number of Allowed Namespaces.
        [540] pub mnan: U32,
        /// Maximum Domain Namespace Attachments.
        [544] pub maxdna: U128,
        /// Maximum I/O Controller Namespace Attachments.
        [560] pub maxcna: U32,
        [564] reserved564: [u8; 204],
        /// NVM Subsystem NVMe Qualified Name, which a zero ends.
        [768] pub subnqn: [u8; 256],
        [1024] reserved1024: [u8; 768],
        /// I/O Queue Command Capsule Supported Size (16 bytes).
        [1792] pub ioccsz: U32,
        /// I/O Queue Response Capsule Supported Size (16 bytes).
        [1796] pub iorcsz: U32,
        /// In Capsule Data Offset (16 bytes).
        [1800] pub icdoff: U16,
        /// Fabrics Controller Attributes.
        [1802] pub fcatt: u8,
        /// Maximum SGL Data Block Descriptors of a capsule.
        [1803] pub msdbd: u8,
        /// Optional Fabric Commands Support.
        [1804] pub ofcs: U16,
        [1806] reserved1806: [u8; 242],
        /// Power State 0 to 31 Descriptors.
        [2048] pub psd: [PowerStateDescriptor; 32],
        /// Vendor Specific.
        [3072] pub vs: [u8; 1024],
    }
}

layout! {
    /// LBA Format (NVM Command Set 1.0 figure 98).
    pub struct LbaFormat: 4 {
        /// Metadata Size, in bytes.
        [0] pub ms: U16,
        /// LBA Data Size, as a power of two.
        [2] pub lbads: u8,
        /// Relative Performance, in bits 1:0.
        [3] pub rp: u8,
    }
}

layout! {
    /// Identify Namespace of the NVM command set (NVM Command Set 1.0 figure 97).
    pub struct IdentifyNamespace: 4096 {
        /// Namespace Size, in blocks.
        [0] pub nsze: U64,
        /// Namespace Capacity, in blocks.
        [8] pub ncap: U64,
        /// Namespace Utilization, in blocks.
        [16] pub nuse: U64,
        /// Namespace Features.
        [24] pub nsfeat: u8,
        /// Number of LBA Formats, 0's based.
        [25] pub nlbaf: u8,
        /// Formatted LBA Size: the format's number in bits 6:5 and 3:0; metadata behind the data in
        /// bit 4.
        [26] pub flbas: u8,
        /// Metadata Capabilities.
        [27] pub mc: u8,
        /// End-to-end Data Protection Capabilities.
        [28] pub dpc: u8,
        /// End-to-end Data Protection Type Settings.
        [29] pub dps: u8,
        /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
        [30] pub nmic: u8,
        /// Reservation Capabilities.
        [31] pub rescap: u8,
        /// Format Progress Indicator.
        [32] pub fpi: u8,
        /// Deallocate Logical Block Features.
        [33] pub dlfeat: u8,
        /// Namespace Atomic Write Unit Normal, 0's based.
        [34] pub nawun: U16,
        /// Namespace Atomic Write Unit Power Fail, 0's based.
        [36] pub nawupf: U16,
        /// Namespace Atomic Compare & Write Unit, 0's based.
        [38] pub nacwu: U16,
        /// Namespace Atomic Boundary Size Normal, 0's based.
        [40] pub nabsn: U16,
        /// Namespace Atomic Boundary Offset.
        [42] pub nabo: U16,
        /// Namespace Atomic Boundary Size Power Fail, 0's based.
        [44] pub nabspf: U16,
        /// Namespace Optimal I/O Boundary, in blocks.
        [46] pub noiob: U16,
        /// NVM Capacity, in bytes.
        [48] pub nvmcap: U128,
        /// Namespace Preferred Write Granularity, 0's based.
        [64] pub npwg: U16,
        /// Namespace Preferred Write Alignment, 0's based.
        [66] pub npwa: U16,
        /// Namespace Preferred Deallocate Granularity, 0's based.
        [68] pub npdg: U16,
        /// Namespace Preferred Deallocate Alignment, 0's based.
        [70] pub npda: U16,
        /// Namespace Optimal Write Size, 0's based.
        [72] pub nows: U16,
        /// Maximum Single Source Range Length of Copy, in blocks.
        [74] pub mssrl: U16,
        /// Maximum Copy Length, in blocks.
        [76] pub mcl: U32,
        /// Maximum Source Range Count, 0's based.
        [80] pub msrc: u8,
        [81] reserved81: [u8; 11],
        /// ANA Group Identifier.
        [92] pub anagrpid: U32,
        [96] reserved96: [u8; 3],
        /// Namespace Attributes.
        [99] pub nsattr: u8,
        /// NVM Set Identifier.
        [100] pub nvmsetid: U16,
        /// Endurance Group Identifier.
        [102] pub endgid: U16,
        /// Namespace Globally Unique Identifier.
        [104] pub nguid: [u8; 16],
        /// IEEE Extended Unique Identifier.
        [120] pub eui64: [u8; 8],
        /// LBA Formats 0 to 63.
        [128] pub lbaf: [LbaFormat; 64],
        /// Vendor Specific.
        [384] pub vs: [u8; 3712],
    }
}

layout! {
    /// Namespace Management's data to create a namespace (NVM Command Set 1.0 section 4.1.6): fields
    /// of [`IdentifyNamespace`] that a host gives, and its own behind those.
    pub struct NamespaceCreation: 4096 {
        /// Namespace Size, in blocks.
        [0] pub nsze: U64,
        /// Namespace Capacity, in blocks.
        [8] pub ncap: U64,
        [16] reserved16: [u8; 10],
        /// Formatted LBA Size.
        [26] pub flbas: u8,
        [27] reserved27: [u8; 2],
        /// End-to-end Data Protection Type Settings.
        [29] pub dps: u8,
        /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
        [30] pub nmic: u8,
        [31] reserved31: [u8; 61],
        /// ANA Group Identifier.
        [92] pub anagrpid: U32,
        [96] reserved96: [u8; 4],
        /// NVM Set Identifier.
        [100] pub nvmsetid: U16,
        /// Endurance Group Identifier.
        [102] pub endgid: U16,
        [104] reserved104: [u8; 280],
        /// Logical Block Storage Tag Mask.
        [384] pub lbstm: U64,
        /// Number of Placement Handles (NVMe TP4146).
        [392] pub nphndls: U16,
        [394] reserved394: [u8; 3702],
    }
}

layout! {
    /// I/O Command Set Independent Identify Namespace (NVMe 2.0 figure 280).
    pub struct IndependentNamespace: 4096 {
        /// Common Namespace Features.
        [0] pub nsfeat: u8,
        /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
        [1] pub nmic: u8,
        /// Reservation Capabilities.
        [2] pub rescap: u8,
        /// Format Progress Indicator.
        [3] pub fpi: u8,
        /// ANA Group Identifier.
        [4] pub anagrpid: U32,
        /// Namespace Attributes.
        [8] pub nsattr: u8,
        [9] reserved9: u8,
        /// NVM Set Identifier.
        [10] pub nvmsetid: U16,
        /// Endurance Group Identifier.
        [12] pub endgid: U16,
        /// Namespace Status.
        [14] pub nstat: u8,
        [15] reserved15: [u8; 4081],
    }
}

layout! {
    /// Head of a Namespace Identification Descriptor (NVMe 1.4 section 5.15.2.3): the identifier lies behind it.
    pub struct NamespaceIdHead: 4 {
        /// Namespace Identifier Type.
        [0] pub nidt: u8,
        /// Namespace Identifier Length, in bytes.
        [1] pub nidl: u8,
        [2] reserved2: [u8; 2],
    }
}

layout! {
    /// Namespace List (NVMe 2.0 section 4.4.2): identifiers that ascend, then zeroes. Changed Namespace List
    /// has the same form.
    pub struct NamespaceList: 4096 {
        /// Namespace Identifiers.
        [0] pub nsids: [U32; 1024],
    }
}

layout! {
    /// Controller List (NVMe 2.0 section 4.4.1). Endurance Group List has the same form.
    pub struct IdList: 4096 {
        /// Number of Identifiers.
        [0] pub count: U16,
        /// Identifiers, which ascend.
        [2] pub ids: [U16; 2047],
    }
}

layout! {
    /// NVM Set Attributes Entry (NVMe 1.4 section 5.15.2.4).
    pub struct NvmSetEntry: 128 {
        /// NVM Set Identifier.
        [0] pub nvmsetid: U16,
        /// Endurance Group Identifier.
        [2] pub endgid: U16,
        [4] reserved4: [u8; 4],
        /// Random 4 KiB Read Typical (100 ns).
        [8] pub random_read_typical: U32,
        /// Optimal Write Size, in bytes.
        [12] pub optimal_write_size: U32,
        /// Total NVM Set Capacity, in bytes.
        [16] pub total_capacity: U128,
        /// Unallocated NVM Set Capacity, in bytes.
        [32] pub unallocated_capacity: U128,
        [48] reserved48: [u8; 80],
    }
}

layout! {
    /// NVM Set List (NVMe 1.4 section 5.15.2.4).
    pub struct NvmSetList: 4096 {
        /// Number of Identifiers.
        [0] pub count: u8,
        [1] reserved1: [u8; 127],
        /// Entries.
        [128] pub entries: [NvmSetEntry; 31],
    }
}

layout! {
    /// I/O Command Set data structure, of CNS 1Ch (NVMe 2.0 section 5.17.2).
    pub struct CommandSets: 4096 {
        /// Combinations of command sets, a bit for each set.
        [0] pub combinations: [U64; 512],
    }
}
