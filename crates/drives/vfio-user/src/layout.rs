//! Regions and interrupts of the device (`<linux/vfio.h>`, `VFIO_PCI_*`), and the layout of BAR 0.

/// Region of BAR 0.
pub const BAR0: u32 = 0;
/// Region of the configuration space.
pub const CONFIG: u32 = 7;
/// Regions of a PCI device: six BARs, the ROM, the configuration space, VGA.
pub const REGIONS: u32 = 9;
/// Kinds of interrupts: INTx, MSI and MSI-X. Those of errors and of requests to release a device
/// are not there.
pub const INTERRUPTS: u32 = 3;
/// MSI-X.
pub const MSIX: u32 = 2;

/// Bytes of BAR 0: a page of registers, one of doorbells, one of the MSI-X table, one of its
/// pending bits. What a client maps is pages of 4 KiB.
pub const BAR0_SIZE: u64 = 0x4000;
/// Offset in BAR 0 of the page of doorbells (NVMe 1.4 section 3.1).
pub const DOORBELLS: u64 = 0x1000;
/// Bytes of the page of doorbells.
pub const DOORBELLS_SIZE: u64 = 0x1000;
/// Offset in BAR 0 of the MSI-X table.
pub const TABLE: u64 = 0x2000;
/// Offset in BAR 0 of the pending bits.
pub const PENDING: u64 = 0x3000;
/// Bytes of an entry of the MSI-X table (PCI Express Base Specification 6.0, 7.7.2).
pub const TABLE_ENTRY: usize = 16;
