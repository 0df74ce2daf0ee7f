//! Identify: structures of controllers, namespaces, and lists of them.

use stasis_layout::{layout, U128, U16, U32, U64};

layout! {
    /// Power State Descriptor (NVMe 2.0 figure 276).
    pub struct PowerStateDescriptor: 32 {
        /// Maximum Power, in 10 mW, or in 0.1 mW where `flags` says so.
        [0] mp: U16,
        [2] reserved2: u8,
        /// Max Power Scale (MXPS) in bit 0, Non-Operational State (NOPS) in bit 1.
        [3] flags: u8,
        /// Entry Latency (us).
        [4] enlat: U32,
        /// Exit Latency (us).
        [8] exlat: U32,
        /// Relative Read Throughput.
        [12] rrt: u8,
        /// Relative Read Latency.
        [13] rrl: u8,
        /// Relative Write Throughput.
        [14] rwt: u8,
        /// Relative Write Latency.
        [15] rwl: u8,
        /// Idle Power.
        [16] idlp: U16,
        /// Idle Power Scale, in bits 7:6.
        [18] ips: u8,
        [19] reserved19: u8,
        /// Active Power.
        [20] actp: U16,
        /// Active Power Workload in bits 2:0, Active Power Scale in bits 7:6.
        [22] apws: u8,
        [23] reserved23: [u8; 9],
    }
}

layout! {
    /// Identify Controller (NVMe 2.0 figure 275; NVMe 1.4 section 5.15.2.2).
    pub struct IdentifyController: 4096 {
        /// PCI Vendor ID.
        [0] vid: U16,
        /// PCI Subsystem Vendor ID.
        [2] ssvid: U16,
        /// Serial Number, padded with spaces.
        [4] sn: [u8; 20],
        /// Model Number, padded with spaces.
        [24] mn: [u8; 40],
        /// Firmware Revision, padded with spaces.
        [64] fr: [u8; 8],
        /// Recommended Arbitration Burst.
        [72] rab: u8,
        /// IEEE OUI Identifier.
        [73] ieee: [u8; 3],
        /// Controller Multi-Path I/O and Namespace Sharing Capabilities.
        [76] cmic: u8,
        /// Maximum Data Transfer Size, as a power of two of the smallest memory page.
        [77] mdts: u8,
        /// Controller ID.
        [78] cntlid: U16,
        /// Version.
        [80] ver: U32,
        /// RTD3 Resume Latency (us).
        [84] rtd3r: U32,
        /// RTD3 Entry Latency (us).
        [88] rtd3e: U32,
        /// Optional Asynchronous Events Supported.
        [92] oaes: U32,
        /// Controller Attributes.
        [96] ctratt: U32,
        /// Read Recovery Levels Supported.
        [100] rrls: U16,
        [102] reserved102: [u8; 9],
        /// Controller Type.
        [111] cntrltype: u8,
        /// FRU Globally Unique Identifier.
        [112] fguid: [u8; 16],
        /// Command Retry Delay Time 1 (100 ms).
        [128] crdt1: U16,
        /// Command Retry Delay Time 2 (100 ms).
        [130] crdt2: U16,
        /// Command Retry Delay Time 3 (100 ms).
        [132] crdt3: U16,
        [134] reserved134: [u8; 119],
        /// NVM Subsystem Report.
        [253] nvmsr: u8,
        /// VPD Write Cycle Information.
        [254] vwci: u8,
        /// Management Endpoint Capabilities.
        [255] mec: u8,
        /// Optional Admin Command Support.
        [256] oacs: U16,
        /// Abort Command Limit, 0's based.
        [258] acl: u8,
        /// Asynchronous Event Request Limit, 0's based.
        [259] aerl: u8,
        /// Firmware Updates.
        [260] frmw: u8,
        /// Log Page Attributes.
        [261] lpa: u8,
        /// Error Log Page Entries, 0's based.
        [262] elpe: u8,
        /// Number of Power States Support, 0's based.
        [263] npss: u8,
        /// Admin Vendor Specific Command Configuration.
        [264] avscc: u8,
        /// Autonomous Power State Transition Attributes.
        [265] apsta: u8,
        /// Warning Composite Temperature Threshold (K).
        [266] wctemp: U16,
        /// Critical Composite Temperature Threshold (K).
        [268] cctemp: U16,
        /// Maximum Time for Firmware Activation (100 ms).
        [270] mtfa: U16,
        /// Host Memory Buffer Preferred Size (4 KiB).
        [272] hmpre: U32,
        /// Host Memory Buffer Minimum Size (4 KiB).
        [276] hmmin: U32,
        /// Total NVM Capacity, in bytes.
        [280] tnvmcap: U128,
        /// Unallocated NVM Capacity, in bytes.
        [296] unvmcap: U128,
        /// Replay Protected Memory Block Support.
        [312] rpmbs: U32,
        /// Extended Device Self-test Time (min).
        [316] edstt: U16,
        /// Device Self-test Options.
        [318] dsto: u8,
        /// Firmware Update Granularity (4 KiB).
        [319] fwug: u8,
        /// Keep Alive Support: its granularity (100 ms).
        [320] kas: U16,
        /// Host Controlled Thermal Management Attributes.
        [322] hctma: U16,
        /// Minimum Thermal Management Temperature (K).
        [324] mntmt: U16,
        /// Maximum Thermal Management Temperature (K).
        [326] mxtmt: U16,
        /// Sanitize Capabilities.
        [328] sanicap: U32,
        /// Host Memory Buffer Minimum Descriptor Entry Size (4 KiB).
        [332] hmminds: U32,
        /// Host Memory Maximum Descriptors Entries.
        [336] hmmaxd: U16,
        /// NVM Set Identifier Maximum.
        [338] nsetidmax: U16,
        /// Endurance Group Identifier Maximum.
        [340] endgidmax: U16,
        /// ANA Transition Time (s).
        [342] anatt: u8,
        /// Asymmetric Namespace Access Capabilities.
        [343] anacap: u8,
        /// ANA Group Identifier Maximum.
        [344] anagrpmax: U32,
        /// Number of ANA Group Identifiers.
        [348] nanagrpid: U32,
        /// Persistent Event Log Size (64 KiB).
        [352] pels: U32,
        /// Domain Identifier.
        [356] domain: U16,
        [358] reserved358: [u8; 10],
        /// Max Endurance Group Capacity, in bytes.
        [368] megcap: U128,
        [384] reserved384: [u8; 128],
        /// Submission Queue Entry Size: log2 of the smallest in bits 3:0, of the largest in bits 7:4.
        [512] sqes: u8,
        /// Completion Queue Entry Size, likewise.
        [513] cqes: u8,
        /// Maximum Outstanding Commands.
        [514] maxcmd: U16,
        /// Number of Namespaces.
        [516] nn: U32,
        /// Optional NVM Command Support.
        [520] oncs: U16,
        /// Fused Operation Support.
        [522] fuses: U16,
        /// Format NVM Attributes.
        [524] fna: u8,
        /// Volatile Write Cache.
        [525] vwc: u8,
        /// Atomic Write Unit Normal, 0's based.
        [526] awun: U16,
        /// Atomic Write Unit Power Fail, 0's based.
        [528] awupf: U16,
        /// I/O Command Set Vendor Specific Command Configuration.
        [530] icsvscc: u8,
        /// Namespace Write Protection Capabilities.
        [531] nwpc: u8,
        /// Atomic Compare & Write Unit, 0's based.
        [532] acwu: U16,
        /// Optional Copy Formats Supported.
        [534] ocfs: U16,
        /// SGL Support.
        [536] sgls: U32,
        /// Maximum Number of Allowed Namespaces.
        [540] mnan: U32,
        /// Maximum Domain Namespace Attachments.
        [544] maxdna: U128,
        /// Maximum I/O Controller Namespace Attachments.
        [560] maxcna: U32,
        [564] reserved564: [u8; 204],
        /// NVM Subsystem NVMe Qualified Name, which a zero ends.
        [768] subnqn: [u8; 256],
        [1024] reserved1024: [u8; 768],
        /// I/O Queue Command Capsule Supported Size (16 bytes).
        [1792] ioccsz: U32,
        /// I/O Queue Response Capsule Supported Size (16 bytes).
        [1796] iorcsz: U32,
        /// In Capsule Data Offset (16 bytes).
        [1800] icdoff: U16,
        /// Fabrics Controller Attributes.
        [1802] fcatt: u8,
        /// Maximum SGL Data Block Descriptors of a capsule.
        [1803] msdbd: u8,
        /// Optional Fabric Commands Support.
        [1804] ofcs: U16,
        [1806] reserved1806: [u8; 242],
        /// Power State 0 to 31 Descriptors.
        [2048] psd: [PowerStateDescriptor; 32],
        /// Vendor Specific.
        [3072] vs: [u8; 1024],
    }
}

layout! {
    /// LBA Format (NVM Command Set 1.0 figure 98).
    pub struct LbaFormat: 4 {
        /// Metadata Size, in bytes.
        [0] ms: U16,
        /// LBA Data Size, as a power of two.
        [2] lbads: u8,
        /// Relative Performance, in bits 1:0.
        [3] rp: u8,
    }
}

layout! {
    /// Identify Namespace of the NVM command set (NVM Command Set 1.0 figure 97).
    pub struct IdentifyNamespace: 4096 {
        /// Namespace Size, in blocks.
        [0] nsze: U64,
        /// Namespace Capacity, in blocks.
        [8] ncap: U64,
        /// Namespace Utilization, in blocks.
        [16] nuse: U64,
        /// Namespace Features.
        [24] nsfeat: u8,
        /// Number of LBA Formats, 0's based.
        [25] nlbaf: u8,
        /// Formatted LBA Size: the format's number in bits 6:5 and 3:0; metadata behind the data in
        /// bit 4.
        [26] flbas: u8,
        /// Metadata Capabilities.
        [27] mc: u8,
        /// End-to-end Data Protection Capabilities.
        [28] dpc: u8,
        /// End-to-end Data Protection Type Settings.
        [29] dps: u8,
        /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
        [30] nmic: u8,
        /// Reservation Capabilities.
        [31] rescap: u8,
        /// Format Progress Indicator.
        [32] fpi: u8,
        /// Deallocate Logical Block Features.
        [33] dlfeat: u8,
        /// Namespace Atomic Write Unit Normal, 0's based.
        [34] nawun: U16,
        /// Namespace Atomic Write Unit Power Fail, 0's based.
        [36] nawupf: U16,
        /// Namespace Atomic Compare & Write Unit, 0's based.
        [38] nacwu: U16,
        /// Namespace Atomic Boundary Size Normal, 0's based.
        [40] nabsn: U16,
        /// Namespace Atomic Boundary Offset.
        [42] nabo: U16,
        /// Namespace Atomic Boundary Size Power Fail, 0's based.
        [44] nabspf: U16,
        /// Namespace Optimal I/O Boundary, in blocks.
        [46] noiob: U16,
        /// NVM Capacity, in bytes.
        [48] nvmcap: U128,
        /// Namespace Preferred Write Granularity, 0's based.
        [64] npwg: U16,
        /// Namespace Preferred Write Alignment, 0's based.
        [66] npwa: U16,
        /// Namespace Preferred Deallocate Granularity, 0's based.
        [68] npdg: U16,
        /// Namespace Preferred Deallocate Alignment, 0's based.
        [70] npda: U16,
        /// Namespace Optimal Write Size, 0's based.
        [72] nows: U16,
        /// Maximum Single Source Range Length of Copy, in blocks.
        [74] mssrl: U16,
        /// Maximum Copy Length, in blocks.
        [76] mcl: U32,
        /// Maximum Source Range Count, 0's based.
        [80] msrc: u8,
        [81] reserved81: [u8; 11],
        /// ANA Group Identifier.
        [92] anagrpid: U32,
        [96] reserved96: [u8; 3],
        /// Namespace Attributes.
        [99] nsattr: u8,
        /// NVM Set Identifier.
        [100] nvmsetid: U16,
        /// Endurance Group Identifier.
        [102] endgid: U16,
        /// Namespace Globally Unique Identifier.
        [104] nguid: [u8; 16],
        /// IEEE Extended Unique Identifier.
        [120] eui64: [u8; 8],
        /// LBA Formats 0 to 63.
        [128] lbaf: [LbaFormat; 64],
        /// Vendor Specific.
        [384] vs: [u8; 3712],
    }
}

layout! {
    /// Namespace Management's data to create a namespace (NVM Command Set 1.0 section 4.1.6): fields
    /// of [`IdentifyNamespace`] that a host gives, and its own behind those.
    pub struct NamespaceCreation: 4096 {
        /// Namespace Size, in blocks.
        [0] nsze: U64,
        /// Namespace Capacity, in blocks.
        [8] ncap: U64,
        [16] reserved16: [u8; 10],
        /// Formatted LBA Size.
        [26] flbas: u8,
        [27] reserved27: [u8; 2],
        /// End-to-end Data Protection Type Settings.
        [29] dps: u8,
        /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
        [30] nmic: u8,
        [31] reserved31: [u8; 61],
        /// ANA Group Identifier.
        [92] anagrpid: U32,
        [96] reserved96: [u8; 4],
        /// NVM Set Identifier.
        [100] nvmsetid: U16,
        /// Endurance Group Identifier.
        [102] endgid: U16,
        [104] reserved104: [u8; 280],
        /// Logical Block Storage Tag Mask.
        [384] lbstm: U64,
        /// Number of Placement Handles (NVMe TP4146).
        [392] nphndls: U16,
        [394] reserved394: [u8; 118],
        /// Placement Handle List: the reclaim unit handle of each placement handle (NVMe TP4146).
        [512] phndl: [U16; 128],
        [768] reserved768: [u8; 3328],
    }
}

layout! {
    /// I/O Command Set Independent Identify Namespace (NVMe 2.0 figure 280).
    pub struct IndependentNamespace: 4096 {
        /// Common Namespace Features.
        [0] nsfeat: u8,
        /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
        [1] nmic: u8,
        /// Reservation Capabilities.
        [2] rescap: u8,
        /// Format Progress Indicator.
        [3] fpi: u8,
        /// ANA Group Identifier.
        [4] anagrpid: U32,
        /// Namespace Attributes.
        [8] nsattr: u8,
        [9] reserved9: u8,
        /// NVM Set Identifier.
        [10] nvmsetid: U16,
        /// Endurance Group Identifier.
        [12] endgid: U16,
        /// Namespace Status.
        [14] nstat: u8,
        [15] reserved15: [u8; 4081],
    }
}

layout! {
    /// Head of a Namespace Identification Descriptor (NVMe 1.4 section 5.15.2.3): the identifier lies behind it.
    pub struct NamespaceIdHead: 4 {
        /// Namespace Identifier Type.
        [0] nidt: u8,
        /// Namespace Identifier Length, in bytes.
        [1] nidl: u8,
        [2] reserved2: [u8; 2],
    }
}

layout! {
    /// Namespace List (NVMe 2.0 section 4.4.2): identifiers that ascend, then zeroes. Changed Namespace List
    /// has the same form.
    pub struct NamespaceList: 4096 {
        /// Namespace Identifiers.
        [0] nsids: [U32; 1024],
    }
}

layout! {
    /// Controller List (NVMe 2.0 section 4.4.1). Endurance Group List has the same form.
    pub struct IdList: 4096 {
        /// Number of Identifiers.
        [0] count: U16,
        /// Identifiers, which ascend.
        [2] ids: [U16; 2047],
    }
}

layout! {
    /// NVM Set Attributes Entry (NVMe 1.4 section 5.15.2.4).
    pub struct NvmSetEntry: 128 {
        /// NVM Set Identifier.
        [0] nvmsetid: U16,
        /// Endurance Group Identifier.
        [2] endgid: U16,
        [4] reserved4: [u8; 4],
        /// Random 4 KiB Read Typical (100 ns).
        [8] random_read_typical: U32,
        /// Optimal Write Size, in bytes.
        [12] optimal_write_size: U32,
        /// Total NVM Set Capacity, in bytes.
        [16] total_capacity: U128,
        /// Unallocated NVM Set Capacity, in bytes.
        [32] unallocated_capacity: U128,
        [48] reserved48: [u8; 80],
    }
}

layout! {
    /// NVM Set List (NVMe 1.4 section 5.15.2.4).
    pub struct NvmSetList: 4096 {
        /// Number of Identifiers.
        [0] count: u8,
        [1] reserved1: [u8; 127],
        /// Entries.
        [128] entries: [NvmSetEntry; 31],
    }
}

layout! {
    /// I/O Command Set data structure, of CNS 1Ch (NVMe 2.0 section 5.17.2).
    pub struct CommandSets: 4096 {
        /// Combinations of command sets, a bit for each set.
        [0] combinations: [U64; 512],
    }
}
