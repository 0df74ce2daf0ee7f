//! Boots an uncompressed Linux kernel (vmlinux) at its 64-bit entry.
//!
//! Source: Linux, Documentation/arch/x86/boot.rst ("64-bit boot protocol") and
//! zero-page.rst, for every offset below.

use std::ops::Range;

use kvm_bindings::{kvm_regs, kvm_segment, kvm_sregs};
use stasis_layout::{u16_at, u64_at};

use crate::layout;
use crate::memory::{GuestMemory, OutOfMemoryRange, Purpose, HOLE_END, HOLE_START};

/// Why a kernel cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// Not the file it should be.
    #[error("the kernel is not a 64-bit x86 ELF file (an uncompressed vmlinux): {0}")]
    NotAKernel(&'static str),
    /// The memory is too small.
    #[error(
        "the guest's memory is too small for its kernel and initramfs: give it more with --memory"
    )]
    TooSmall,
    /// Linux would cut it off.
    #[error("the kernel command line has {0} bytes, more than the {limit} that Linux takes", limit = layout::MAX_COMMAND_LINE - 1)]
    CommandLine(usize),
}

impl From<OutOfMemoryRange> for BootError {
    fn from(_: OutOfMemoryRange) -> Self {
        Self::TooSmall
    }
}

/// The kernel to boot.
#[derive(Debug)]
pub struct Kernel<'a> {
    /// The vmlinux file.
    pub vmlinux: &'a [u8],
    /// The initramfs, as a cpio archive, compressed or not.
    pub initramfs: &'a [u8],
    /// The command line.
    pub command_line: &'a str,
    /// Seed of the guest's random number generator.
    pub seed: [u8; 32],
}

/// Loads `kernel` and its parameters; returns the address of its entry.
pub fn load(memory: &GuestMemory, kernel: &Kernel) -> Result<u64, BootError> {
    let entry = load_elf(memory, kernel.vmlinux)?;
    if kernel.command_line.len() >= layout::MAX_COMMAND_LINE {
        return Err(BootError::CommandLine(kernel.command_line.len()));
    }
    memory.write(layout::COMMAND_LINE, kernel.command_line.as_bytes())?;
    memory.write(layout::COMMAND_LINE + kernel.command_line.len() as u64, &[0])?;
    let low_end = memory.regions()[0].length;
    let ramdisk = low_end
        .checked_sub(kernel.initramfs.len() as u64)
        .filter(|at| *at > layout::HIGH_START)
        .ok_or(BootError::TooSmall)?
        & !0xfff;
    memory.write(ramdisk, kernel.initramfs)?;
    setup_data(memory, &kernel.seed)?;
    zero_page(memory, ramdisk, kernel.initramfs.len() as u32)?;
    Ok(entry)
}

/// A part of an ELF file that is loaded.
struct Segment<'a> {
    /// PF_X, PF_W and PF_R (System V ABI, program header, p_flags).
    flags: u32,
    physical: u64,
    bytes: &'a [u8],
}

fn segments(file: &[u8]) -> Result<(u64, Vec<Segment<'_>>), BootError> {
    // System V ABI, ELF-64 header and program header.
    const LOAD: u32 = 1;
    let short = |at: usize| -> Result<u16, BootError> {
        u16_at(file, at).ok_or(BootError::NotAKernel("it is cut off"))
    };
    let long = |at: usize| -> Result<u64, BootError> {
        u64_at(file, at).ok_or(BootError::NotAKernel("it is cut off"))
    };
    if !file.starts_with(b"\x7fELF\x02\x01") || short(18)? != 62 {
        return Err(BootError::NotAKernel("its header is another"));
    }
    let entry = long(24)?;
    let headers = long(32)? as usize;
    let (size, count) = (usize::from(short(54)?), usize::from(short(56)?));
    let mut segments = Vec::new();
    for index in 0..count {
        let at = headers.saturating_add(index * size);
        let kind = long(at)?;
        if kind as u32 != LOAD {
            continue;
        }
        let (offset, physical, length) = (long(at + 8)?, long(at + 24)?, long(at + 32)?);
        let end = offset.checked_add(length).ok_or(BootError::NotAKernel("it is damaged"))?;
        let bytes = file
            .get(offset as usize..end as usize)
            .ok_or(BootError::NotAKernel("it is cut off"))?;
        segments.push(Segment { flags: (kind >> 32) as u32, physical, bytes });
    }
    match segments.is_empty() {
        true => Err(BootError::NotAKernel("it loads nothing")),
        false => Ok((entry, segments)),
    }
}

fn load_elf(memory: &GuestMemory, file: &[u8]) -> Result<u64, BootError> {
    let (entry, segments) = segments(file)?;
    for segment in segments {
        memory.write(segment.physical, segment.bytes)?;
    }
    Ok(entry)
}

/// The guest-physical addresses of a kernel's code that it does not change or give away as it runs, in
/// whole pages.
///
/// # Errors
/// The file is not a kernel.
pub fn code(vmlinux: &[u8]) -> Result<Vec<Range<u64>>, BootError> {
    const EXECUTABLE: u32 = 1;
    const WRITABLE: u32 = 2;
    const PAGE: u64 = 4096;
    let (_, segments) = segments(vmlinux)?;
    let code = segments.iter().filter(|one| one.flags & (EXECUTABLE | WRITABLE) == EXECUTABLE);
    Ok(code
        .filter_map(|one| {
            let end = one.physical.saturating_add(one.bytes.len() as u64);
            Some(one.physical.checked_next_multiple_of(PAGE)?..end & !(PAGE - 1))
        })
        .collect())
}

fn setup_data(memory: &GuestMemory, seed: &[u8; 32]) -> Result<(), OutOfMemoryRange> {
    const RNG_SEED: u32 = 9;
    let mut data = Vec::with_capacity(48);
    data.extend_from_slice(&0u64.to_le_bytes());
    data.extend_from_slice(&RNG_SEED.to_le_bytes());
    data.extend_from_slice(&(seed.len() as u32).to_le_bytes());
    data.extend_from_slice(seed);
    memory.write(layout::SETUP_DATA, &data)
}

fn zero_page(memory: &GuestMemory, ramdisk: u64, ramdisk_size: u32) -> Result<(), BootError> {
    const ACPI_RSDP: usize = 0x70;
    const E820_COUNT: usize = 0x1e8;
    const BOOT_FLAG: usize = 0x1fe;
    const HEADER: usize = 0x202;
    const VERSION: usize = 0x206;
    const LOADER: usize = 0x210;
    const LOAD_FLAGS: usize = 0x211;
    const RAMDISK: usize = 0x218;
    const RAMDISK_SIZE: usize = 0x21c;
    const COMMAND_LINE: usize = 0x228;
    const ALIGNMENT: usize = 0x230;
    const COMMAND_LINE_SIZE: usize = 0x238;
    const SETUP_DATA: usize = 0x250;
    const E820_TABLE: usize = 0x2d0;
    const E820_RAM: u32 = 1;
    const E820_RESERVED: u32 = 2;
    // Persistent memory without NFIT ("type 12", Linux: E820_TYPE_PRAM).
    const E820_PRAM: u32 = 12;

    let mut page = [0u8; 4096];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(ACPI_RSDP, &layout::ACPI.to_le_bytes());
    put(BOOT_FLAG, &0xaa55u16.to_le_bytes());
    put(HEADER, b"HdrS");
    put(VERSION, &0x020fu16.to_le_bytes());
    put(LOADER, &[0xff]);
    put(LOAD_FLAGS, &[1]);
    put(RAMDISK, &(ramdisk as u32).to_le_bytes());
    put(RAMDISK_SIZE, &ramdisk_size.to_le_bytes());
    put(COMMAND_LINE, &(layout::COMMAND_LINE as u32).to_le_bytes());
    put(ALIGNMENT, &0x20_0000u32.to_le_bytes());
    put(COMMAND_LINE_SIZE, &(layout::MAX_COMMAND_LINE as u32 - 1).to_le_bytes());
    put(SETUP_DATA, &layout::SETUP_DATA.to_le_bytes());
    let mut map = vec![
        (0, layout::LOW_END, E820_RAM),
        (layout::LOW_END, layout::HIGH_START - layout::LOW_END, E820_RESERVED),
    ];
    for region in memory.regions() {
        match region.purpose {
            Purpose::Ram if region.base == 0 => {
                map.push((layout::HIGH_START, region.length - layout::HIGH_START, E820_RAM))
            }
            Purpose::Ram => map.push((region.base, region.length, E820_RAM)),
            Purpose::Root => map.push((region.base, region.length, E820_PRAM)),
            // Found by its BAR.
            Purpose::Device => {}
        }
    }
    put(E820_COUNT, &[map.len() as u8]);
    for (index, (base, length, kind)) in map.iter().enumerate() {
        let at = E820_TABLE + 20 * index;
        put(at, &base.to_le_bytes());
        put(at + 8, &length.to_le_bytes());
        put(at + 16, &kind.to_le_bytes());
    }
    Ok(memory.write(layout::ZERO_PAGE, &page)?)
}

/// Writes an identity map of all guest memory in 2 MiB pages, as far as the
/// room for its tables goes (some 90 GiB), and flat 64-bit segments;
/// [`long_mode`] uses them. Returns the mapped ranges.
pub fn write_tables(memory: &GuestMemory) -> Result<Vec<(u64, u64)>, OutOfMemoryRange> {
    const PRESENT_WRITABLE: u64 = 3;
    const BIG: u64 = 1 << 7;
    const GIB: u64 = 1 << 30;
    let (level4, level3) = (layout::PAGE_TABLES, layout::PAGE_TABLES + 0x1000);
    memory.write(level4, &(level3 | PRESENT_WRITABLE).to_le_bytes())?;
    let mut next = level3 + 0x1000;
    let mut mapped = Vec::new();
    // The hole's devices too, for the calibration.
    let hole = (HOLE_START, HOLE_END);
    let own = memory.regions().iter().filter(|region| region.purpose != Purpose::Device);
    let ranges = own.map(|region| (region.base, region.base + region.length));
    for (base, end) in ranges.chain([hole]) {
        let mut gibibyte = base / GIB;
        // One third-level table covers 512 GiB.
        while gibibyte * GIB < end && next < layout::PAGE_TABLES_END && gibibyte < 512 {
            memory.write(level3 + gibibyte * 8, &(next | PRESENT_WRITABLE).to_le_bytes())?;
            for page in 0..512u64 {
                let address = (gibibyte * GIB) | (page << 21);
                memory.write(next + page * 8, &(address | PRESENT_WRITABLE | BIG).to_le_bytes())?;
            }
            next += 0x1000;
            gibibyte += 1;
        }
        mapped.push((base, end.min(gibibyte * GIB)));
    }
    mapped.pop(); // the hole is not memory
    let descriptors: [u64; 4] = [0, 0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];
    for (index, descriptor) in descriptors.iter().enumerate() {
        memory.write(layout::GDT + 8 * index as u64, &descriptor.to_le_bytes())?;
    }
    Ok(mapped)
}

/// Puts `sregs` into 64-bit mode on the tables of [`write_tables`].
pub fn long_mode(sregs: &mut kvm_sregs) {
    const PE: u64 = 1;
    const ET_NE: u64 = 1 << 4 | 1 << 5;
    const PG: u64 = 1 << 31;
    const PAE: u64 = 1 << 5;
    const LME_LMA: u64 = 1 << 8 | 1 << 10;
    let data = kvm_segment {
        base: 0,
        limit: 0xffff_ffff,
        selector: 0x18,
        type_: 3,
        present: 1,
        db: 1,
        s: 1,
        g: 1,
        ..Default::default()
    };
    let code = kvm_segment { selector: 0x10, type_: 11, db: 0, l: 1, ..data };
    sregs.cs = code;
    (sregs.ds, sregs.es, sregs.fs, sregs.gs, sregs.ss) = (data, data, data, data, data);
    sregs.gdt.base = layout::GDT;
    sregs.gdt.limit = 31;
    sregs.idt.limit = 0;
    sregs.cr0 = PE | ET_NE | PG;
    sregs.cr3 = layout::PAGE_TABLES;
    sregs.cr4 = PAE;
    sregs.efer = LME_LMA;
}

/// Registers at the kernel's entry.
pub fn entry_registers(entry: u64) -> kvm_regs {
    kvm_regs { rip: entry, rsi: layout::ZERO_PAGE, rflags: 2, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_kernels_are_refused() {
        let memory = GuestMemory::new(4 << 20, 0).unwrap();
        for length in 0..200 {
            let mut file = vec![0xff; length];
            for (at, byte) in b"\x7fELF\x02\x01".iter().enumerate() {
                if at < length {
                    file[at] = *byte;
                }
            }
            if length > 19 {
                file[18] = 62;
                file[19] = 0;
            }
            assert!(load_elf(&memory, &file).is_err() && code(&file).is_err());
        }
    }
}
