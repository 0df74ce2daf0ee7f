//! Log pages of controllers, drives and endurance groups. Those of events, data placement, zones and
//! reservations have modules of their own.

use stasis_layout::{layout, U128, U16, U32, U64};

layout! {
    /// A dword for each of 256 identifiers: Supported Log Pages (NVMe 2.0 section 5.16.1.1), and
    /// Feature Identifiers Supported and Effects (NVMe 2.0 section 5.16.1.17).
    pub struct SupportedAndEffects: 1024 {
        /// By identifier.
        [0] dwords: [U32; 256],
    }
}

layout! {
    /// Error Information Log Entry (NVMe 1.4 section 5.14.1.1).
    pub struct ErrorEntry: 64 {
        /// Error Count; 0: no entry.
        [0] error_count: U64,
        /// Submission Queue ID.
        [8] sqid: U16,
        /// Command ID.
        [10] cid: U16,
        /// Status Field, with the phase tag in bit 0.
        [12] status: U16,
        /// Parameter Error Location: byte in bits 7:0, bit in bits 10:8.
        [14] location: U16,
        /// First LBA that has the error.
        [16] lba: U64,
        /// Namespace.
        [24] nsid: U32,
        /// Vendor Specific Information Available.
        [28] vendor_page: u8,
        /// Transport Type.
        [29] trtype: u8,
        [30] reserved30: [u8; 2],
        /// Command Specific Information.
        [32] command_specific: U64,
        /// Transport Type Specific Information.
        [40] transport_specific: U16,
        [42] reserved42: [u8; 22],
    }
}

layout! {
    /// SMART / Health Information (NVMe 1.4 section 5.14.1.2).
    pub struct SmartLog: 512 {
        /// Critical Warning.
        [0] critical_warning: u8,
        /// Composite Temperature (K).
        [1] composite_temperature: U16,
        /// Available Spare (%).
        [3] available_spare: u8,
        /// Available Spare Threshold (%).
        [4] available_spare_threshold: u8,
        /// Percentage Used.
        [5] percentage_used: u8,
        /// Endurance Group Critical Warning Summary.
        [6] endurance_group_warnings: u8,
        [7] reserved7: [u8; 25],
        /// Data Units Read (1000 units of 512 bytes).
        [32] data_units_read: U128,
        /// Data Units Written (1000 units of 512 bytes).
        [48] data_units_written: U128,
        /// Host Read Commands.
        [64] host_read_commands: U128,
        /// Host Write Commands.
        [80] host_write_commands: U128,
        /// Controller Busy Time (min).
        [96] controller_busy_time: U128,
        /// Power Cycles.
        [112] power_cycles: U128,
        /// Power On Hours.
        [128] power_on_hours: U128,
        /// Unsafe Shutdowns.
        [144] unsafe_shutdowns: U128,
        /// Media and Data Integrity Errors.
        [160] media_errors: U128,
        /// Number of Error Information Log Entries.
        [176] error_log_entries: U128,
        /// Warning Composite Temperature Time (min).
        [192] warning_temperature_time: U32,
        /// Critical Composite Temperature Time (min).
        [196] critical_temperature_time: U32,
        /// Temperature Sensors 1 to 8 (K).
        [200] temperature_sensors: [U16; 8],
        /// Thermal Management Temperature 1 and 2 Transition Count.
        [216] thermal_transitions: [U32; 2],
        /// Total Time For Thermal Management Temperature 1 and 2 (s).
        [224] thermal_times: [U32; 2],
        [232] reserved232: [u8; 280],
    }
}

layout! {
    /// Firmware Slot Information (NVMe 2.0 section 5.16.1.4).
    pub struct FirmwareSlots: 512 {
        /// Active Firmware Info: the active slot in bits 2:0, the next one in bits 6:4.
        [0] afi: u8,
        [1] reserved1: [u8; 7],
        /// Firmware Revision for Slots 1 to 7.
        [8] frs: [[u8; 8]; 7],
        [64] reserved64: [u8; 448],
    }
}

layout! {
    /// Commands Supported and Effects (NVMe 1.4 section 5.14.1.5).
    pub struct CommandEffects: 4096 {
        /// Admin Command Supported, by opcode.
        [0] acs: [U32; 256],
        /// I/O Command Supported, by opcode.
        [1024] iocs: [U32; 256],
        [2048] reserved2048: [u8; 2048],
    }
}

layout! {
    /// Self-test Result (NVMe 2.0 section 5.16.1.7).
    pub struct SelfTestResult: 28 {
        /// Result in bits 3:0 (0Fh: no entry), the code of the test in bits 7:4.
        [0] status: u8,
        /// Segment Number, of a failed segment.
        [1] segment: u8,
        /// Valid Diagnostic Information.
        [2] valid: u8,
        [3] reserved3: u8,
        /// Power On Hours.
        [4] power_on_hours: U64,
        /// Namespace Identifier.
        [12] nsid: U32,
        /// Failing LBA.
        [16] failing_lba: U64,
        /// Status Code Type.
        [24] status_code_type: u8,
        /// Status Code.
        [25] status_code: u8,
        /// Vendor Specific.
        [26] vs: [u8; 2],
    }
}

layout! {
    /// Device Self-test (NVMe 2.0 section 5.16.1.7).
    pub struct SelfTestLog: 564 {
        /// Current Device Self-Test Operation, by its code.
        [0] operation: u8,
        /// Current Device Self-Test Completion (%).
        [1] completion: u8,
        [2] reserved2: [u8; 2],
        /// Results, the newest first.
        [4] results: [SelfTestResult; 20],
    }
}

layout! {
    /// Head of Telemetry Host-Initiated and Controller-Initiated (NVMe 2.0 figures 207 and 208).
    pub struct TelemetryHead: 512 {
        /// Log Identifier.
        [0] lid: u8,
        [1] reserved1: [u8; 4],
        /// IEEE OUI Identifier.
        [5] ieee: [u8; 3],
        /// Telemetry Data Areas 1 to 3 Last Block.
        [8] last_blocks: [U16; 3],
        [14] reserved14: [u8; 2],
        /// Telemetry Data Area 4 Last Block.
        [16] last_block_of_area_4: U32,
        [20] reserved20: [u8; 361],
        /// Telemetry Host-Initiated Data Generation Number.
        [381] host_generation: u8,
        /// Telemetry Controller-Initiated Data Available.
        [382] controller_available: u8,
        /// Telemetry Controller-Initiated Data Generation Number.
        [383] controller_generation: u8,
        /// Reason Identifier.
        [384] reason: [u8; 128],
    }
}

layout! {
    /// Endurance Group Information (NVMe 1.4 section 5.14.1.9).
    pub struct EnduranceGroupLog: 512 {
        /// Critical Warning.
        [0] critical_warning: u8,
        [1] reserved1: [u8; 2],
        /// Available Spare (%).
        [3] available_spare: u8,
        /// Available Spare Threshold (%).
        [4] available_spare_threshold: u8,
        /// Percentage Used.
        [5] percentage_used: u8,
        /// Domain Identifier.
        [6] domain: U16,
        [8] reserved8: [u8; 24],
        /// Endurance Estimate (10^9 bytes).
        [32] endurance_estimate: U128,
        /// Data Units Read (10^9 bytes).
        [48] data_units_read: U128,
        /// Data Units Written (10^9 bytes).
        [64] data_units_written: U128,
        /// Media Units Written (10^9 bytes).
        [80] media_units_written: U128,
        /// Host Read Commands.
        [96] host_read_commands: U128,
        /// Host Write Commands.
        [112] host_write_commands: U128,
        /// Media and Data Integrity Errors.
        [128] media_errors: U128,
        /// Number of Error Information Log Entries.
        [144] error_log_entries: U128,
        /// Total Endurance Group Capacity, in bytes.
        [160] tegcap: U128,
        /// Unallocated Endurance Group Capacity, in bytes.
        [176] uegcap: U128,
        [192] reserved192: [u8; 320],
    }
}

layout! {
    /// Head of Asymmetric Namespace Access (NVMe 1.4 section 5.14.1.12).
    pub struct AnaHead: 16 {
        /// Change Count.
        [0] chgcnt: U64,
        /// Number of ANA Group Descriptors.
        [8] nagd: U16,
        [10] reserved10: [u8; 6],
    }
}

layout! {
    /// ANA Group Descriptor (NVMe 1.4 section 5.14.1.12): Namespace Identifiers lie behind it.
    pub struct AnaGroup: 32 {
        /// ANA Group ID.
        [0] agid: U32,
        /// Number of NSID Values.
        [4] nnsids: U32,
        /// Change Count.
        [8] chgcnt: U64,
        /// Asymmetric Namespace Access State, in bits 3:0.
        [16] state: u8,
        [17] reserved17: [u8; 15],
    }
}

layout! {
    /// Head of LBA Status Information (NVM Command Set 1.0 section 4.1.4.1).
    pub struct LbaStatusLogHead: 16 {
        /// LBA Status Log Page Length, in bytes.
        [0] lslplen: U32,
        /// Number of LBA Status Log Namespace Elements.
        [4] nlslne: U32,
        /// Estimate of Unrecoverable Logical Blocks.
        [8] estulb: U32,
        [12] reserved12: [u8; 2],
        /// LBA Status Generation Counter.
        [14] lsgc: U16,
    }
}

layout! {
    /// LBA Status Log Namespace Element: its ranges lie behind it.
    pub struct LbaStatusNamespace: 16 {
        /// Namespace Identifier.
        [0] nsid: U32,
        /// Number of LBA Range Descriptors.
        [4] nlrd: U32,
        /// Recommended Action Type of Get LBA Status.
        [8] ratype: u8,
        [9] reserved9: [u8; 7],
    }
}

layout! {
    /// LBA Range Descriptor of LBA Status Information.
    pub struct LbaStatusRange: 16 {
        /// Range Starting LBA.
        [0] rslba: U64,
        /// Range Number of Logical Blocks.
        [8] rnlb: U32,
        [12] reserved12: [u8; 4],
    }
}

layout! {
    /// Sanitize Status (NVMe 2.0 section 5.16.1.25).
    pub struct SanitizeLog: 512 {
        /// Sanitize Progress, in 1/65536.
        [0] sprog: U16,
        /// Sanitize Status.
        [2] sstat: U16,
        /// Sanitize Command Dword 10 Information.
        [4] scdw10: U32,
        /// Estimated Time For Overwrite (s).
        [8] eto: U32,
        /// Estimated Time For Block Erase (s).
        [12] etbe: U32,
        /// Estimated Time For Crypto Erase (s).
        [16] etce: U32,
        /// Estimated Time For Overwrite With No-Deallocate (s).
        [20] etond: U32,
        /// Estimated Time For Block Erase With No-Deallocate (s).
        [24] etbend: U32,
        /// Estimated Time For Crypto Erase With No-Deallocate (s).
        [28] etcend: U32,
        [32] reserved32: [u8; 480],
    }
}
