//! Files of symbols for gdb: of code that has no file of its own there, such as a kernel's.

use std::ops::Range;

/// A symbol, as nm(1) and `/proc/kallsyms` have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Linear address.
    pub address: u64,
    /// Kind, in a letter.
    pub kind: char,
    /// Name.
    pub name: String,
}

// The ELF format (System V ABI, chapter 4, and its x86-64 supplement).
const HEADER: usize = 64;
const SECTION: usize = 64;
const SYMBOL: usize = 24;
const ABSOLUTE: u16 = 0xfff1;
const NAMES: [&str; 6] = [".text", ".data", ".symtab", ".strtab", ".shstrtab", ".debug_frame"];

/// Makes an ELF file that has the symbols, the frames of functions (`.debug_frame`) and no code: two sections say what
/// is `code` and what is `data`.
pub fn symbol_file(
    symbols: &[Symbol],
    code: Range<u64>,
    data: Range<u64>,
    frames: &[u8],
) -> Vec<u8> {
    // Each behind and before a zero.
    let names: Vec<u8> = NAMES
        .iter()
        .flat_map(|name| [&[0], name.as_bytes()])
        .flatten()
        .copied()
        .chain([0])
        .collect();
    let mut strings = vec![0u8];
    let mut table = vec![0u8; SYMBOL];
    for symbol in symbols {
        const FUNCTION: u8 = 2;
        const OBJECT: u8 = 1;
        const GLOBAL: u8 = 1 << 4;
        let is_code = matches!(symbol.kind.to_ascii_lowercase(), 't' | 'w');
        let section = match symbol.address {
            at if code.contains(&at) => 1,
            at if data.contains(&at) => 2,
            _ => ABSOLUTE,
        };
        let global = if symbol.kind.is_ascii_uppercase() { GLOBAL } else { 0 };
        table.extend_from_slice(&(strings.len() as u32).to_le_bytes());
        table.push(global | if is_code { FUNCTION } else { OBJECT });
        table.push(0);
        table.extend_from_slice(&section.to_le_bytes());
        table.extend_from_slice(&symbol.address.to_le_bytes());
        table.extend_from_slice(&[0; 8]);
        strings.extend_from_slice(symbol.name.as_bytes());
        strings.push(0);
    }
    let locals = (symbols.len() + 1) as u32;
    let (symbols_at, strings_at) = (HEADER, HEADER + table.len());
    let names_at = strings_at + strings.len();
    let frames_at = (names_at + names.len()).next_multiple_of(8);
    let sections_at = (frames_at + frames.len()).next_multiple_of(8);
    let mut file = Vec::with_capacity(sections_at + 7 * SECTION);
    // 64 bits, little endian; an executable for x86-64.
    file.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    for half in [2u16, 62] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    file.extend_from_slice(&1u32.to_le_bytes());
    for quad in [code.start, 0, sections_at as u64] {
        file.extend_from_slice(&quad.to_le_bytes());
    }
    file.extend_from_slice(&0u32.to_le_bytes());
    for half in [HEADER as u16, 0, 0, SECTION as u16, 7, 5] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    file.extend_from_slice(&table);
    file.extend_from_slice(&strings);
    file.extend_from_slice(&names);
    file.resize(frames_at, 0);
    file.extend_from_slice(frames);
    file.resize(sections_at, 0);
    // The place of a section's name.
    let name =
        |number: usize| 1 + NAMES[..number].iter().map(|name| name.len() as u32 + 1).sum::<u32>();
    let parts = [code, data].map(|part| [part.start, 0, part.end.saturating_sub(part.start)]);
    let mut section = |name: u32, kind: u32, flags: u64, quads: [u64; 3], link: u32, entry: u64| {
        file.extend_from_slice(&name.to_le_bytes());
        file.extend_from_slice(&kind.to_le_bytes());
        file.extend_from_slice(&flags.to_le_bytes());
        quads.iter().for_each(|quad| file.extend_from_slice(&quad.to_le_bytes()));
        file.extend_from_slice(&link.to_le_bytes());
        // All symbols count as local: gdb does not mind, and the kernel's order is kept.
        file.extend_from_slice(&if entry > 0 { locals } else { 0 }.to_le_bytes());
        file.extend_from_slice(&1u64.to_le_bytes());
        file.extend_from_slice(&entry.to_le_bytes());
    };
    // Flags: writable 1, in memory 2, executable 4. Kinds: bytes 1, symbols 2, strings 3, no bytes 8.
    section(0, 0, 0, [0; 3], 0, 0);
    section(name(0), 8, 2 | 4, parts[0], 0, 0);
    section(name(1), 8, 1 | 2, parts[1], 0, 0);
    let length = table.len() as u64;
    section(name(2), 2, 0, [0, symbols_at as u64, length], 4, SYMBOL as u64);
    let length = strings.len() as u64;
    section(name(3), 3, 0, [0, strings_at as u64, length], 0, 0);
    section(name(4), 3, 0, [0, names_at as u64, names.len() as u64], 0, 0);
    section(name(5), 1, 0, [0, frames_at as u64, frames.len() as u64], 0, 0);
    file
}
