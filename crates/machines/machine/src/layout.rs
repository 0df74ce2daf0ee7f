//! Layout of the guest's physical address space, and of its model-specific registers.

use std::ops::{Range, RangeInclusive};

/// The descriptor table at boot.
pub const GDT: u64 = 0x500;
/// The kernel's boot parameters ("zero page").
pub const ZERO_PAGE: u64 = 0x7000;
/// Page tables at boot, up to [`PAGE_TABLES_END`]: an identity map.
pub const PAGE_TABLES: u64 = 0x4_0000;
/// End of the room for page tables.
pub const PAGE_TABLES_END: u64 = 0x9_f000;
/// Code and data of the calibration, before the kernel is loaded.
pub const CALIBRATION: u64 = 0x10_0000;
/// The kernel's command line.
pub const COMMAND_LINE: u64 = 0x2_0000;
/// Longest command line (x86 Linux: COMMAND_LINE_SIZE).
pub const MAX_COMMAND_LINE: usize = 2048;
/// The seed of the guest's random numbers (boot protocol: setup_data).
pub const SETUP_DATA: u64 = 0x3_0000;
/// End of conventional memory.
pub const LOW_END: u64 = 0x9_fc00;
/// ACPI tables, the root pointer first; in the area where kernels look for it.
pub const ACPI: u64 = 0xe_0000;
/// Start of memory above the first mebibyte.
pub const HIGH_START: u64 = 0x10_0000;
/// The window for PCI memory.
pub const PCI_MEMORY: Range<u64> = 0xc000_0000..0xfe00_0000;
/// The I/O APIC's registers.
pub const IO_APIC: u64 = 0xfec0_0000;
/// The local APICs' registers.
pub const LOCAL_APIC: u64 = 0xfee0_0000;
/// Size of the registers of a local APIC, and of the I/O APIC.
pub const APIC_SIZE: u64 = 0x1000;
/// Slot of the channel on the PCI bus, behind the host bridge in slot 0.
pub const CHANNEL_SLOT: usize = 1;
/// Slot of the first drive; the others follow.
pub const FIRST_DRIVE_SLOT: usize = 2;
/// BAR of a device's registers, as NVMe and virtio's PCI transport have it here.
pub const DEVICE_BAR: usize = 0;
/// MSR of the local APIC's TSC deadline (Intel SDM vol. 4, table 2-2).
pub const TSC_DEADLINE: u32 = 0x6e0;
/// First and last MSR of the x2APIC's registers.
pub const X2APIC: RangeInclusive<u32> = 0x800..=0x8ff;
