//! Commands that move data, each with words that it refuses by itself: the order of checks of both
//! transports is tested by this one table.
//!
//! A controller judges a command so (NVMe 1.4 section 4.2 and NVMe-oF 1.1 section 3; where the
//! specification leaves the order open, as Linux's target does): its flags, whether its controller is
//! ready, the opcode, the namespace, the command's own fields, MDTS among them, and last the
//! descriptor of its data, which a command that fails before is never asked for.
#![allow(dead_code)]

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub admin: bool,
    pub opcode: u8,
    /// With these words it gets as far as its data.
    pub words: Words,
    /// Bytes of data that it asks for.
    pub bytes: u32,
    /// Words that it refuses by itself, and the status.
    pub refused: &'static [(Words, u16)],
}

/// The namespace, and Dwords 10 to 13.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words(pub u32, pub [u32; 4]);

const INVALID_FIELD: u16 = 0x002;
const INVALID_NAMESPACE: u16 = 0x00b;
const OUT_OF_RANGE: u16 = 0x080;
const INVALID_LOG_PAGE: u16 = 0x109;

/// Commands for a drive with one namespace of blocks of 512 bytes, and of transfers up to 512 KiB.
pub const CASES: [Case; 13] = [
    Case {
        name: "Read",
        admin: false,
        opcode: 0x02,
        words: Words(1, [0, 0, 7, 0]),
        bytes: 4096,
        refused: IO,
    },
    Case {
        name: "Write",
        admin: false,
        opcode: 0x01,
        words: Words(1, [0, 0, 7, 0]),
        bytes: 4096,
        refused: IO,
    },
    Case {
        name: "Compare",
        admin: false,
        opcode: 0x05,
        words: Words(1, [0, 0, 7, 0]),
        bytes: 4096,
        refused: IO,
    },
    Case {
        name: "Dataset Management",
        admin: false,
        opcode: 0x09,
        words: Words(1, [0, 4, 0, 0]),
        bytes: 16,
        refused: &[(Words(999, [0, 4, 0, 0]), INVALID_NAMESPACE)],
    },
    Case {
        name: "Copy",
        admin: false,
        opcode: 0x19,
        words: Words(1, [0, 0, 0, 0]),
        bytes: 32,
        refused: &[
            (Words(1, [0, 0, 1 << 8, 0]), INVALID_FIELD),
            (Words(999, [0; 4]), INVALID_NAMESPACE),
        ],
    },
    Case {
        name: "Identify",
        admin: true,
        opcode: 0x06,
        words: Words(0, [1, 0, 0, 0]),
        bytes: 4096,
        refused: &[
            (Words(0, [0xee, 0, 0, 0]), INVALID_FIELD),
            (Words(0, [0, 0, 0, 0]), INVALID_NAMESPACE),
        ],
    },
    Case {
        name: "Get Log Page",
        admin: true,
        opcode: 0x02,
        words: Words(u32::MAX, [2 | 127 << 16, 0, 0, 0]),
        bytes: 512,
        refused: &[
            (Words(u32::MAX, [0x7e | 127 << 16, 0, 0, 0]), INVALID_LOG_PAGE),
            // More than a transfer.
            (Words(u32::MAX, [2 | 0xffff << 16, 0xffff, 0, 0]), INVALID_FIELD),
            (Words(u32::MAX, [2 | 127 << 16, 0, 2, 0]), INVALID_FIELD),
        ],
    },
    Case {
        name: "Get Features, Timestamp",
        admin: true,
        opcode: 0x0a,
        words: Words(0, [0x0e, 0, 0, 0]),
        bytes: 8,
        refused: &[(Words(0, [0x7e, 0, 0, 0]), INVALID_FIELD)],
    },
    Case {
        name: "Set Features, Timestamp",
        admin: true,
        opcode: 0x09,
        words: Words(0, [0x0e, 0, 0, 0]),
        bytes: 8,
        refused: &[
            (Words(0, [0x7e, 0, 0, 0]), INVALID_FIELD),
            // It is not saveable.
            (Words(0, [0x0e | 1 << 31, 0, 0, 0]), 0x10d),
        ],
    },
    Case {
        name: "Namespace Management",
        admin: true,
        opcode: 0x0d,
        words: Words(0, [0, 0, 0, 0]),
        bytes: 4096,
        refused: &[(Words(0, [7, 0, 0, 0]), INVALID_FIELD)],
    },
    Case {
        name: "Namespace Attachment",
        admin: true,
        opcode: 0x15,
        words: Words(1, [0, 0, 0, 0]),
        bytes: 4096,
        refused: &[
            (Words(1, [7, 0, 0, 0]), INVALID_FIELD),
            (Words(999, [0; 4]), INVALID_NAMESPACE),
        ],
    },
    Case {
        name: "Firmware Image Download",
        admin: true,
        opcode: 0x11,
        words: Words(0, [1023, 0, 0, 0]),
        bytes: 4096,
        refused: &[(Words(0, [u32::MAX, 0, 0, 0]), INVALID_FIELD)],
    },
    Case {
        name: "Get LBA Status",
        admin: true,
        opcode: 0x86,
        words: Words(1, [0, 0, 1023, 0x11 << 24]),
        bytes: 4096,
        refused: &[
            (Words(1, [u32::MAX, 0, 1023, 0x11 << 24]), OUT_OF_RANGE),
            (Words(999, [0, 0, 1023, 0x11 << 24]), INVALID_NAMESPACE),
        ],
    },
];

/// Refusals of a transfer: above MDTS, beyond the end, of no namespace.
const IO: &[(Words, u16)] = &[
    (Words(1, [0, 0, 0x7ff, 0]), INVALID_FIELD),
    (Words(1, [u32::MAX, 0, 7, 0]), OUT_OF_RANGE),
    (Words(999, [0, 0, 7, 0]), INVALID_NAMESPACE),
];

impl Case {
    /// Returns whether its data goes to the host.
    pub fn to_host(self) -> bool {
        self.opcode & 2 != 0
    }
}
