//! The ACPI tables of the machine: hardware-reduced, processors, one I/O APIC
//! (present so that Linux uses its usual interrupt mode; nothing is wired to
//! it) and one PCI host bridge.
//!
//! Sources: ACPI Specification 6.5, sections 5.2 (tables) and 6.2 (resources).

use acpi_tables::aml::{
    AddressSpace, AddressSpaceCacheable, Device, EISAName, Name, Path, ResourceTemplate, Scope, IO,
    ZERO,
};
use acpi_tables::madt::{
    EnabledStatus, IoApic, LocalInterruptController, ProcessorLocalApic, MADT,
};
use acpi_tables::rsdp::Rsdp;
use acpi_tables::sdt::Sdt;
use acpi_tables::xsdt::XSDT;
use acpi_tables::Aml;

use crate::layout;
use crate::memory::{GuestMemory, OutOfMemoryRange};
use crate::pci;

const OEM: [u8; 6] = *b"STASIS";
const TABLE: [u8; 8] = *b"STASISVM";

/// Writes all tables for `processors` processors; [`layout::ACPI`] holds the
/// root pointer.
pub fn write(memory: &GuestMemory, processors: u8) -> Result<(), OutOfMemoryRange> {
    let mut next = layout::ACPI + 64;
    let mut place = |table: &dyn Aml| -> Result<u64, OutOfMemoryRange> {
        let mut bytes = Vec::new();
        table.to_aml_bytes(&mut bytes);
        let at = next;
        memory.write(at, &bytes)?;
        next = (at + bytes.len() as u64).next_multiple_of(16);
        Ok(at)
    };
    let dsdt = place(&dsdt())?;
    let fadt = place(&fadt(dsdt))?;
    let madt = place(&madt(processors))?;
    let mut xsdt = XSDT::new(OEM, TABLE, 1);
    xsdt.add_entry(fadt);
    xsdt.add_entry(madt);
    let xsdt = place(&xsdt)?;
    let mut rsdp = Vec::new();
    Rsdp::new(OEM, xsdt).to_aml_bytes(&mut rsdp);
    memory.write(layout::ACPI, &rsdp)
}

fn dsdt() -> Sdt {
    let bus = AddressSpace::new_bus_number(0u16, u16::from(pci::LAST_BUS));
    let ports = IO::new(0xcf8, 0xcf8, 1, 8);
    let window = AddressSpace::new_memory(
        AddressSpaceCacheable::NotCacheable,
        true,
        layout::PCI_MEMORY.start as u32,
        (layout::PCI_MEMORY.end - 1) as u32,
        None,
    );
    let resources = ResourceTemplate::new(vec![&bus, &ports, &window]);
    let hid = Name::new(Path::new("_HID"), &EISAName::new("PNP0A03")).to_owned_bytes();
    let uid = Name::new(Path::new("_UID"), &ZERO).to_owned_bytes();
    let crs = Name::new(Path::new("_CRS"), &resources).to_owned_bytes();
    let bridge = Device::new(Path::new("PCI0"), vec![&hid, &uid, &crs]);
    let scope = Scope::new(Path::new("_SB_"), vec![&bridge]);
    let mut sdt = Sdt::new(*b"DSDT", 36, 2, OEM, TABLE, 1);
    let mut bytes = Vec::new();
    scope.to_aml_bytes(&mut bytes);
    sdt.append_slice(&bytes);
    sdt
}

/// Finished AML, so that a list of children can borrow it.
struct Bytes(Vec<u8>);

impl Aml for Bytes {
    fn to_aml_bytes(&self, sink: &mut dyn acpi_tables::AmlSink) {
        sink.vec(&self.0);
    }
}

trait ToOwnedBytes {
    fn to_owned_bytes(&self) -> Bytes;
}

impl<T: Aml> ToOwnedBytes for T {
    fn to_owned_bytes(&self) -> Bytes {
        let mut bytes = Vec::new();
        self.to_aml_bytes(&mut bytes);
        Bytes(bytes)
    }
}

fn fadt(dsdt: u64) -> Sdt {
    // Table 5.9: offsets of the fields that are not zero.
    const LENGTH: u32 = 276;
    const BOOT_FLAGS: usize = 109;
    const FLAGS: usize = 112;
    const MINOR: usize = 131;
    const X_DSDT: usize = 140;
    // Table 5.11: no VGA, no CMOS clock (the host sets the guest's clock).
    const NO_VGA: u16 = 1 << 2;
    const NO_CMOS_CLOCK: u16 = 1 << 5;
    // Table 5.10: WBINVD works, hardware-reduced.
    const WBINVD: u32 = 1;
    const HARDWARE_REDUCED: u32 = 1 << 20;
    let mut fadt = Sdt::new(*b"FACP", LENGTH, 6, OEM, TABLE, 1);
    fadt.write_u16(BOOT_FLAGS, NO_VGA | NO_CMOS_CLOCK);
    fadt.write_u32(FLAGS, WBINVD | HARDWARE_REDUCED);
    fadt.write_u8(MINOR, 5);
    fadt.write_u64(X_DSDT, dsdt);
    fadt.update_checksum();
    fadt
}

/// Processors that a machine has room for at least.
///
/// Linux gives a drive as many queues as processors are possible, and to a drive of
/// one queue the scheduler `mq-deadline`: a worker thread and two context switches for
/// each I/O, 4,500 instructions that no real machine with such a drive takes.
const ROOM: u8 = 2;

fn madt(processors: u8) -> MADT {
    let mut madt =
        MADT::new(OEM, TABLE, 1, LocalInterruptController::Address(layout::LOCAL_APIC as u32));
    let all = processors.max(ROOM);
    for id in 0..all {
        // Those that are not there could be plugged in.
        let status = match id < processors {
            true => EnabledStatus::Enabled,
            false => EnabledStatus::DisabledOnlineCapable,
        };
        madt.add_structure(ProcessorLocalApic::new(id, id, status));
    }
    madt.add_structure(IoApic::new(all, layout::IO_APIC as u32, 0));
    madt
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags and numbers of the processors' entries (ACPI 6.5, table 5.21).
    fn processors(count: u8) -> Vec<(u8, u8)> {
        let mut bytes = Vec::new();
        madt(count).to_aml_bytes(&mut bytes);
        // The header, then entries that begin with their type and length.
        let (mut at, mut found) = (44, Vec::new());
        while at < bytes.len() {
            if bytes[at] == 0 {
                found.push((bytes[at + 3], bytes[at + 4]));
            }
            at += usize::from(bytes[at + 1]);
        }
        found
    }

    #[test]
    fn one_processor_has_room_for_another() {
        const ENABLED: u8 = 1;
        const ONLINE_CAPABLE: u8 = 2;
        assert_eq!(processors(1), [(0, ENABLED), (1, ONLINE_CAPABLE)]);
        assert_eq!(processors(3), [(0, ENABLED), (1, ENABLED), (2, ENABLED)]);
    }
}
