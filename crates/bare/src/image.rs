//! The image: an executable as it lies in the bare machine's memory when it
//! starts, with everything that an operating system would have given it.

use crate::layout::{Parameters, PAGE_TABLES, PARAMETERS, PROGRAM, STACK, WORDS, WORDS_LENGTH};
use crate::system;

/// Set in the program's environment on the bare machine.
pub const MARK: &str = "STASIS_BARE";
/// Where QEMU is to load the image.
pub const IMAGE: u64 = WORDS;

/// Why there is no image of an executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// It is not this program.
    #[error("the executable is not the one that runs: start it again")]
    NotThis,
    /// Not a static one, position-independent, for x86-64.
    #[error("the executable is not static, position-independent and for x86-64: build it with the repository's .cargo/config.toml")]
    Form,
    /// Its file is cut off.
    #[error("the executable's file is damaged")]
    Damaged,
}

/// The image of `elf`, this program's own file, on a machine with `memory` bytes.
///
/// # Errors
/// Where it is another file, or not a static executable.
pub fn image(elf: &[u8], memory: u64) -> Result<Vec<u8>, ImageError> {
    // System V ABI, ELF-64 header and program header.
    const DYNAMIC_EXECUTABLE: u64 = 3;
    const X86_64: u64 = 62;
    const LOAD: u64 = 1;
    const INTERPRETER: u64 = 3;
    if !elf.starts_with(b"\x7fELF\x02\x01")
        || number(elf, 16, 2)? != DYNAMIC_EXECUTABLE
        || number(elf, 18, 2)? != X86_64
    {
        return Err(ImageError::Form);
    }
    let (entry, headers) = (number(elf, 24, 8)?, number(elf, 32, 8)?);
    let (size, count) = (number(elf, 54, 2)?, number(elf, 56, 2)?);
    let mut image = vec![0; (PROGRAM - IMAGE) as usize];
    let mut end = PROGRAM;
    for index in 0..count {
        let at = headers.checked_add(index * size).ok_or(ImageError::Damaged)?;
        let kind = number(elf, at, 4)?;
        if kind == INTERPRETER {
            return Err(ImageError::Form);
        }
        if kind != LOAD {
            continue;
        }
        let field = |offset| number(elf, at + offset, 8);
        let (offset, address, length, whole) = (field(8)?, field(16)?, field(32)?, field(40)?);
        let bytes = usize::try_from(offset)
            .ok()
            .zip(usize::try_from(length).ok())
            .and_then(|(offset, length)| elf.get(offset..offset.checked_add(length)?))
            .ok_or(ImageError::Damaged)?;
        // A program of this size fits: its own process has it in memory.
        let start = (PROGRAM - IMAGE + address) as usize;
        image.resize(image.len().max(start + bytes.len()), 0);
        image[start..start + bytes.len()].copy_from_slice(bytes);
        end = end.max(PROGRAM + address + whole);
    }
    let own_entry = system::entry_offset();
    let here = (PROGRAM - IMAGE + own_entry) as usize;
    if image.get(here..here + 16) != Some(system::entry_bytes()) {
        return Err(ImageError::NotThis);
    }
    let stack = words(&mut image, entry, headers, size, count)?;
    tables(&mut image);
    let parameters = Parameters {
        entry: PROGRAM + entry,
        stack,
        system_call: PROGRAM + own_entry,
        program_end: end,
        memory,
    };
    let Parameters { entry, stack, system_call, program_end, memory } = parameters;
    for (index, word) in [entry, stack, system_call, program_end, memory].iter().enumerate() {
        put(&mut image, PARAMETERS + 8 * index as u64, *word);
    }
    Ok(image)
}

/// What a program finds on its stack (System V ABI, AMD64 supplement, 3.4.1):
/// arguments, environment, and the auxiliary vector.
fn words(
    image: &mut [u8],
    entry: u64,
    headers: u64,
    size: u64,
    count: u64,
) -> Result<u64, ImageError> {
    // <elf.h>, AT_*.
    const PHDR: u64 = 3;
    const PHENT: u64 = 4;
    const PHNUM: u64 = 5;
    const PAGESZ: u64 = 6;
    const ENTRY: u64 = 9;
    const IDS: [u64; 4] = [11, 12, 13, 14];
    const CLKTCK: u64 = 17;
    const SECURE: u64 = 23;
    const RANDOM: u64 = 25;
    let mut strings = WORDS + WORDS_LENGTH / 2;
    let mut string = |image: &mut [u8], text: &str| {
        let at = strings;
        let place = (at - IMAGE) as usize;
        image[place..place + text.len()].copy_from_slice(text.as_bytes());
        strings += text.len() as u64 + 1;
        at
    };
    let name = string(image, "/init");
    let mark = string(image, &format!("{MARK}=1"));
    let seed = string(image, "0123456789abcdef");
    let words = [1, name, 0, mark, 0];
    let auxiliary = [
        (PHDR, PROGRAM + headers),
        (PHENT, size),
        (PHNUM, count),
        (PAGESZ, 4096),
        (ENTRY, PROGRAM + entry),
        (IDS[0], 0),
        (IDS[1], 0),
        (IDS[2], 0),
        (IDS[3], 0),
        (CLKTCK, 100),
        (SECURE, 0),
        (RANDOM, seed),
        (0, 0),
    ];
    let all =
        words.into_iter().chain(auxiliary.into_iter().flat_map(|(kind, value)| [kind, value]));
    for (index, word) in all.enumerate() {
        put(image, WORDS + 8 * index as u64, word);
    }
    const { assert!(STACK < WORDS && WORDS.is_multiple_of(16)) };
    Ok(WORDS)
}

/// An identity map of 512 GiB in pages of 1 GiB (AMD64 APM vol. 2, 5.3.5).
fn tables(image: &mut [u8]) {
    const PRESENT_WRITABLE: u64 = 3;
    const ACCESSED_DIRTY: u64 = 3 << 5;
    const BIG: u64 = 1 << 7;
    let below = PAGE_TABLES + 0x1000;
    put(image, PAGE_TABLES, below | PRESENT_WRITABLE | ACCESSED_DIRTY);
    for gibibyte in 0..512 {
        let entry = gibibyte << 30 | PRESENT_WRITABLE | ACCESSED_DIRTY | BIG;
        put(image, below + 8 * gibibyte, entry);
    }
}

fn put(image: &mut [u8], address: u64, value: u64) {
    let at = (address - IMAGE) as usize;
    image[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn number(elf: &[u8], at: u64, length: usize) -> Result<u64, ImageError> {
    let at = usize::try_from(at).map_err(|_| ImageError::Damaged)?;
    let bytes = at.checked_add(length).and_then(|end| elf.get(at..end));
    let bytes = bytes.ok_or(ImageError::Damaged)?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
