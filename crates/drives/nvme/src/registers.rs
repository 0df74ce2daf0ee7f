//! The controller's registers: offsets and fields (NVMe 1.4 section 3.1).

use crate::command::Dword;
use crate::config::Config;
use crate::memory_buffer::MemoryBuffer;
use crate::narrow::dwords;

/// Controller Capabilities, 8 bytes.
pub const CAP: u64 = 0x00;
/// Version, 4 bytes.
pub const VS: u64 = 0x08;
/// Controller Configuration, 4 bytes.
pub const CC: u64 = 0x14;
/// Controller Status, 4 bytes.
pub const CSTS: u64 = 0x1c;
/// Admin Queue Attributes, 4 bytes.
pub const AQA: u64 = 0x24;
/// Admin Submission Queue Base Address, 8 bytes.
pub const ASQ: u64 = 0x28;
/// Admin Completion Queue Base Address, 8 bytes.
pub const ACQ: u64 = 0x30;
/// First doorbell: tail of submission queue 0. Stride is 4 bytes
/// (`CAP.DSTRD` = 0), tails and heads alternate.
pub const DOORBELLS: u64 = 0x1000;

/// Size of the registers and doorbells in bytes, for their base address register, a power of two as that
/// needs it: one page of registers, and doorbells with room to spare. The MSI-X table is the carrier's.
pub const BAR_SIZE: u64 = 0x4000;

/// Returns whether the register at `offset` is a doorbell.
pub fn is_doorbell(offset: u64) -> bool {
    offset >= DOORBELLS
}

/// Returns whether a write to the register at `offset` announces admin commands, before which the carrier
/// is to call [`crate::Subsystem::set_health`].
pub fn is_admin_doorbell(offset: u64) -> bool {
    offset == DOORBELLS
}

/// Revision 1.4, as VS (section 3.1.2) and Identify Controller spell it.
pub const VERSION: u32 = 0x0001_0400;

/// `CC.EN`: enable (section 3.1.5).
pub const CC_EN: u32 = 1;
/// `CSTS.RDY`: ready (section 3.1.6).
pub const CSTS_RDY: u32 = 1;
/// `CSTS.CFS`: controller fatal status.
pub const CSTS_CFS: u32 = 1 << 1;
/// `CSTS.SHST`: shutdown status, all its bits.
pub const CSTS_SHST: u32 = 3 << 2;
/// `CSTS.SHST`: shutdown processing occurring.
pub const CSTS_SHST_OCCURRING: u32 = 1 << 2;
/// `CSTS.SHST`: shutdown processing complete.
pub const CSTS_SHST_COMPLETE: u32 = 2 << 2;

/// `CC.CSS`: all supported I/O command sets (NVM Express Base Specification
/// 2.0 section 3.1.3.5).
const CSS_ALL: u32 = 6;

/// The fields of CC that a host can write: everything but the reserved bits.
const CC_WRITABLE: u32 = 0x00ff_fff1;

/// log2 of the size of a submission queue entry in bytes (section 4.2).
pub const SQES: u8 = 6;
/// log2 of the size of a completion queue entry in bytes (section 4.6).
pub const CQES: u8 = 4;

/// The registers that keep the host's values.
#[derive(Debug, Clone, Default)]
pub struct Registers {
    pub cc: u32,
    pub csts: u32,
    pub aqa: u32,
    pub asq: u64,
    pub acq: u64,
    pub memory_buffer: MemoryBuffer,
}

impl Registers {
    /// The 4-byte register at `offset`; reserved and write-only ones read 0.
    pub fn read(&self, offset: u64, config: &Config) -> u32 {
        match offset {
            CAP => dwords(capabilities(config))[0],
            0x04 => dwords(capabilities(config))[1],
            VS => VERSION,
            CC => self.cc,
            CSTS => self.csts,
            AQA => self.aqa,
            ASQ => dwords(self.asq)[0],
            0x2c => dwords(self.asq)[1],
            ACQ => dwords(self.acq)[0],
            0x34 => dwords(self.acq)[1],
            _ => {
                let size = config.memory_buffer;
                size.and_then(|size| self.memory_buffer.read(offset, size)).unwrap_or(0)
            }
        }
    }

    /// Resets the registers, as a reset of the function does.
    pub fn reset(&mut self) {
        *self = Self { memory_buffer: self.memory_buffer, ..Self::default() };
    }

    /// Writes one of the admin queue's registers; others are left alone.
    ///
    /// They are not to change while the controller is enabled (section 3.1.8
    /// to 3.1.10), and do not.
    pub fn write_admin_queue(&mut self, offset: u64, value: u32) {
        if self.cc & CC_EN != 0 {
            return;
        }
        let low = |old: u64| old & !0xffff_ffff | u64::from(value & !0xfff);
        let high = |old: u64| old & 0xffff_ffff | u64::from(value) << 32;
        match offset {
            AQA => self.aqa = value & 0x0fff_0fff,
            ASQ => self.asq = low(self.asq),
            0x2c => self.asq = high(self.asq),
            ACQ => self.acq = low(self.acq),
            0x34 => self.acq = high(self.acq),
            _ => {}
        }
    }

    /// Sets CC but for its reserved bits, and returns the value before.
    pub fn write_configuration(&mut self, value: u32) -> u32 {
        std::mem::replace(&mut self.cc, value & CC_WRITABLE)
    }

    /// Returns whether CC asks for something that CAP does not offer: an I/O command set, a memory
    /// page size or an arbitration other than 0, or queue entry sizes that the host may set later
    /// but not to a wrong value.
    pub fn configuration_is_supported(&self, config: &Config) -> bool {
        let css = self.cc >> 4 & 7;
        let mps = self.cc >> 7 & 0xf;
        let ams = self.cc >> 11 & 7;
        let size_is = |size: u32, right: u8| size == 0 || size == u32::from(right);
        (css == 0 || css == CSS_ALL && config.has_command_sets())
            && mps == 0
            && ams == 0
            && size_is(self.cc >> 16 & 0xf, SQES)
            && size_is(self.cc >> 20 & 0xf, CQES)
    }

    /// Returns whether the host has chosen all I/O command sets there are: without it there is the
    /// NVM command set only.
    pub fn has_all_command_sets(&self) -> bool {
        self.cc >> 4 & 7 == CSS_ALL
    }

    /// Returns whether both entry sizes are set, as creating I/O queues needs them.
    pub fn entry_sizes_are_set(&self) -> bool {
        self.cc >> 16 & 0xff == u32::from(CQES) << 4 | u32::from(SQES)
    }

    /// `CC.SHN`: whether the host asks for a shutdown, normal or abrupt.
    pub fn asks_for_shutdown(cc: u32) -> bool {
        matches!(cc >> 14 & 3, 1 | 2)
    }

    /// Entries of the admin submission and completion queue.
    pub fn admin_queue_sizes(&self) -> (u16, u16) {
        ((self.aqa.low() & 0xfff) + 1, (self.aqa.high() & 0xfff) + 1)
    }
}

/// CAP (section 3.1.1): queues must be contiguous, round robin only, doorbells
/// 4 bytes apart, the NVM command set, pages of 4 KiB.
fn capabilities(config: &Config) -> u64 {
    // Longest time to become ready, in units of 500 ms. It is at once here;
    // a driver on a slow machine still gets the time to look.
    const TIMEOUT: u64 = 20;
    const CONTIGUOUS_QUEUES_REQUIRED: u64 = 1 << 16;
    const NVM_COMMAND_SET: u64 = 1 << 37;
    // One or more I/O command sets, which Identify lists.
    const ALL_COMMAND_SETS: u64 = 1 << 43;
    // CAP.CMBS.
    const MEMORY_BUFFER: u64 = 1 << 57;
    let sets = if config.has_command_sets() { ALL_COMMAND_SETS } else { 0 };
    let memory_buffer = if config.memory_buffer.is_some() { MEMORY_BUFFER } else { 0 };
    u64::from(config.queue_entries - 1)
        | sets
        | memory_buffer
        | CONTIGUOUS_QUEUES_REQUIRED
        | TIMEOUT << 24
        | NVM_COMMAND_SET
}
