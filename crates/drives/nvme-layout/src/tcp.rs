//! Headers of NVMe/TCP's protocol data units (NVMe/TCP 1.0 section 3.6).

use stasis_layout::{layout, U16, U32};

use crate::queue::{CompletionEntry, SubmissionEntry};

layout! {
    /// Common Header.
    pub struct CommonHeader: 8 {
        /// PDU-Type.
        [0] kind: u8,
        /// FLAGS.
        [1] flags: u8,
        /// Header Length, in bytes.
        [2] hlen: u8,
        /// PDU Data Offset, in bytes.
        [3] pdo: u8,
        /// PDU Length, in bytes.
        [4] plen: U32,
    }
}

layout! {
    /// Initialize Connection Request.
    pub struct InitializeRequest: 128 {
        /// The common header.
        [0] common: CommonHeader,
        /// PDU Format Version.
        [8] pfv: U16,
        /// Host PDU Data Alignment, in dwords, 0's based.
        [10] hpda: u8,
        /// Digests: of headers in bit 0, of data in bit 1.
        [11] dgst: u8,
        /// Maximum Number of Outstanding R2T, 0's based.
        [12] maxr2t: U32,
        [16] reserved16: [u8; 112],
    }
}

layout! {
    /// Initialize Connection Response.
    pub struct InitializeResponse: 128 {
        /// The common header.
        [0] common: CommonHeader,
        /// PDU Format Version.
        [8] pfv: U16,
        /// Controller PDU Data Alignment, in dwords, 0's based.
        [10] cpda: u8,
        /// Digests: of headers in bit 0, of data in bit 1.
        [11] dgst: u8,
        /// Maximum Host to Controller Data Length, in bytes.
        [12] maxh2cdata: U32,
        [16] reserved16: [u8; 112],
    }
}

layout! {
    /// Header of Terminate Connection Requests: a part of the PDU at fault lies behind it.
    pub struct Termination: 24 {
        /// The common header.
        [0] common: CommonHeader,
        /// Fatal Error Status.
        [8] fes: U16,
        /// Fatal Error Information.
        [10] fei: U32,
        [14] reserved14: [u8; 10],
    }
}

layout! {
    /// Header of a command capsule.
    pub struct CommandCapsule: 72 {
        /// The common header.
        [0] common: CommonHeader,
        /// The command.
        [8] entry: SubmissionEntry,
    }
}

layout! {
    /// Response capsule.
    pub struct ResponseCapsule: 24 {
        /// The common header.
        [0] common: CommonHeader,
        /// The completion.
        [8] entry: CompletionEntry,
    }
}

layout! {
    /// Header of data to and from the controller (H2CData, C2HData), and of Ready to Transfer.
    pub struct DataHeader: 24 {
        /// The common header.
        [0] common: CommonHeader,
        /// Command Capsule CID.
        [8] cccid: U16,
        /// Transfer Tag; of data from the controller 0.
        [10] ttag: U16,
        /// Data Offset, in bytes.
        [12] datao: U32,
        /// Data Length, in bytes.
        [16] datal: U32,
        [20] reserved20: [u8; 4],
    }
}
