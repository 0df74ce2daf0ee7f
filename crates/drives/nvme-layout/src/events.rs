//! Persistent Event Log (NVMe 2.0 section 5.16.1.14): its head, the head of an event, and the data of
//! events.

use stasis_layout::{layout, U128, U16, U32, U64};

layout! {
    /// Persistent Event Log Header (NVMe 2.0 figure 222).
    pub struct EventLogHead: 512 {
        /// Log Identifier.
        [0] lid: u8,
        [1] reserved1: [u8; 3],
        /// Total Number of Events.
        [4] tnev: U32,
        /// Total Log Length, in bytes.
        [8] tll: U64,
        /// Log Revision.
        [16] revision: u8,
        [17] reserved17: u8,
        /// Log Header Length: bytes behind this field.
        [18] lhl: U16,
        /// Timestamp, as the feature has it.
        [20] timestamp: U64,
        /// Power on Hours.
        [28] power_on_hours: U128,
        /// Power Cycle Count.
        [44] power_cycles: U64,
        /// PCI Vendor ID.
        [52] vid: U16,
        /// PCI Subsystem Vendor ID.
        [54] ssvid: U16,
        /// Serial Number, padded with spaces.
        [56] sn: [u8; 20],
        /// Model Number, padded with spaces.
        [76] mn: [u8; 40],
        /// NVM Subsystem NVMe Qualified Name, which a zero ends.
        [116] subnqn: [u8; 256],
        /// Generation Number.
        [372] generation: U16,
        /// Reporting Context Information.
        [374] context: U32,
        [378] reserved378: [u8; 102],
        /// Supported Events Bitmap.
        [480] supported: [u8; 32],
    }
}

layout! {
    /// Persistent Event Header (NVMe 2.0 figure 224): the event's data lies behind it.
    pub struct EventHead: 24 {
        /// Event Type.
        [0] etype: u8,
        /// Event Type Revision.
        [1] revision: u8,
        /// Event Header Length: bytes behind this field.
        [2] ehl: u8,
        [3] reserved3: u8,
        /// Controller Identifier.
        [4] cntlid: U16,
        /// Event Timestamp, as the feature has it.
        [6] timestamp: U64,
        [14] reserved14: [u8; 6],
        /// Vendor Specific Information Length, in bytes.
        [20] vsil: U16,
        /// Event Length: bytes of vendor specific information and data.
        [22] el: U16,
    }
}

layout! {
    /// Firmware Commit Event.
    pub struct FirmwareCommitEvent: 22 {
        /// Old Firmware Revision.
        [0] old: [u8; 8],
        /// New Firmware Revision.
        [8] new: [u8; 8],
        /// Firmware Commit Action.
        [16] action: u8,
        /// Firmware Slot.
        [17] slot: u8,
        /// Status Code Type of the completion.
        [18] status_code_type: u8,
        /// Status Code of the completion.
        [19] status_code: u8,
        /// Vendor Assigned Firmware Commit Result Code.
        [20] vendor_code: U16,
    }
}

layout! {
    /// Timestamp Change Event.
    pub struct TimestampEvent: 16 {
        /// Previous Timestamp.
        [0] previous: U64,
        /// Milliseconds Since Reset.
        [8] since_reset: U64,
    }
}

layout! {
    /// Power-on or Reset Event, with one controller's reset information.
    pub struct PowerOnEvent: 44 {
        /// Firmware Revision.
        [0] fr: [u8; 8],
        /// Controller ID.
        [8] cntlid: U16,
        /// Firmware Activation: 1 if this reset has activated it.
        [10] activated: u8,
        /// Operation in Progress.
        [11] under_way: u8,
        [12] reserved12: [u8; 12],
        /// Controller Power Cycle.
        [24] power_cycle: U32,
        /// Power on milliseconds.
        [28] powered_on: U64,
        /// Controller Timestamp.
        [36] timestamp: U64,
    }
}

layout! {
    /// Head of NVM Subsystem Hardware Error Event: additional information lies behind it.
    pub struct HardwareErrorEvent: 4 {
        /// Hardware Error Event Code.
        [0] code: U16,
        [2] reserved2: [u8; 2],
    }
}

layout! {
    /// Additional information of a change of Critical Warning.
    pub struct CriticalWarningInfo: 4 {
        /// Bits of Critical Warning.
        [0] warning: u8,
        [1] reserved1: [u8; 3],
    }
}

layout! {
    /// Additional information of a media error.
    pub struct MediaErrorInfo: 16 {
        /// Status of the command.
        [0] status: U16,
        [2] reserved2: [u8; 2],
        /// Namespace Identifier.
        [4] nsid: U32,
        /// First block that is known to be concerned.
        [8] lba: U64,
    }
}

layout! {
    /// Change Namespace Event.
    pub struct NamespaceEvent: 48 {
        /// Namespace Management's Dword 10.
        [0] cdw10: U32,
        [4] reserved4: [u8; 4],
        /// Namespace Size, in blocks.
        [8] nsze: U64,
        [16] reserved16: [u8; 8],
        /// Namespace Capacity, in blocks.
        [24] ncap: U64,
        /// Formatted LBA Size.
        [32] flbas: u8,
        /// End-to-end Data Protection Type Settings.
        [33] dps: u8,
        /// Namespace Sharing Capabilities.
        [34] nmic: u8,
        [35] reserved35: u8,
        /// ANA Group Identifier.
        [36] anagrpid: U32,
        /// NVM Set Identifier.
        [40] nvmsetid: U16,
        /// Endurance Group Identifier.
        [42] endgid: U16,
        /// Namespace Identifier.
        [44] nsid: U32,
    }
}

layout! {
    /// Format NVM Start Event.
    pub struct FormatStartEvent: 12 {
        /// Namespace Identifier.
        [0] nsid: U32,
        /// Format NVM Attributes.
        [4] fna: u8,
        [5] reserved5: [u8; 3],
        /// Format NVM's Dword 10.
        [8] cdw10: U32,
    }
}

layout! {
    /// Format NVM Completion Event.
    pub struct FormatCompletionEvent: 12 {
        /// Namespace Identifier.
        [0] nsid: U32,
        /// Smallest Format Progress Indicator.
        [4] progress: u8,
        /// Format NVM Status: bit 0: it failed.
        [5] status: u8,
        /// Completion Information.
        [6] information: U16,
        /// Status Field of the completion, with the phase tag in bit 0.
        [8] status_field: U32,
    }
}

layout! {
    /// Sanitize Start Event.
    pub struct SanitizeStartEvent: 12 {
        /// Sanitize Capabilities.
        [0] sanicap: U32,
        /// Sanitize's Dword 10.
        [4] cdw10: U32,
        /// Sanitize's Dword 11.
        [8] cdw11: U32,
    }
}

layout! {
    /// Sanitize Completion Event.
    pub struct SanitizeCompletionEvent: 8 {
        /// Sanitize Progress.
        [0] sprog: U16,
        /// Sanitize Status.
        [2] sstat: U16,
        /// Completion Information.
        [4] information: U16,
        [6] reserved6: [u8; 2],
    }
}

layout! {
    /// Thermal Excursion Event.
    pub struct ThermalEvent: 2 {
        /// Degrees above the threshold.
        [0] degrees: u8,
        /// Threshold: 1: that of warnings, 2: the critical one.
        [1] threshold: u8,
    }
}
