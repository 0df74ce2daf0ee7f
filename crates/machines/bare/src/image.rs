//! The image: an executable as it lies in the bare machine's memory when it
//! starts, with everything that an operating system would have given it.

use crate::layout::{
    Parameters, FIRMWARE_LENGTH, PAGE_TABLES, PARAMETERS, PROGRAM, STACK, WORDS, WORDS_LENGTH,
};
use object::elf::{FileHeader64, EM_X86_64, ET_DYN, PT_INTERP, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::LittleEndian;
use stasis_layout::{FromBytes, IntoBytes, I32};

/// Set in the program's environment on the bare machine.
pub const MARK: &str = "STASIS_BARE";
/// Address at which QEMU is to load the image.
pub const IMAGE: u64 = WORDS;
/// The executable's section with the firmware.
const FIRMWARE_SECTION: &[u8] = b"stasis_firmware";
/// Limit on the bytes of a program in memory: the program lies below the guest's own.
const MAX_PROGRAM: u64 = 1 << 30;

/// Why there is no image of an executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The file is not this program.
    #[error("the executable has no firmware for the bare machine: it is not Stasis, or one of another version")]
    NotThis,
    /// Not a static one, position-independent, for x86-64.
    #[error("the executable is not static, position-independent and for x86-64: build it with the repository's .cargo/config.toml")]
    Form,
    /// Its file is cut off.
    #[error("the executable's file is damaged")]
    Damaged,
}

impl From<object::Error> for ImageError {
    fn from(_: object::Error) -> Self {
        Self::Damaged
    }
}

/// A program in the form that QEMU takes.
#[derive(Debug)]
pub struct Image<'a> {
    /// For the machine's memory at [`IMAGE`].
    pub memory: Vec<u8>,
    /// For QEMU's option `-bios`.
    pub firmware: &'a [u8],
}

/// The image of `elf`, a static executable of this program for x86-64, on a machine with `memory`
/// bytes.
///
/// # Errors
/// The file is not a static executable.
pub fn image(elf: &[u8], memory: u64) -> Result<Image<'_>, ImageError> {
    let endian = LittleEndian;
    let header = FileHeader64::<LittleEndian>::parse(elf).map_err(|_| ImageError::Form)?;
    let little = header.is_little_endian() && header.is_class_64();
    if !little || header.e_type(endian) != ET_DYN || header.e_machine(endian) != EM_X86_64 {
        return Err(ImageError::Form);
    }
    let mut image = vec![0; (PROGRAM - IMAGE) as usize];
    let mut end = PROGRAM;
    let segments = header.program_headers(endian, elf)?;
    for segment in segments {
        match segment.p_type(endian) {
            PT_INTERP => return Err(ImageError::Form),
            PT_LOAD => (),
            _ => continue,
        }
        let bytes = segment.data(endian, elf).map_err(|()| ImageError::Damaged)?;
        let (address, whole) = (segment.p_vaddr(endian), segment.p_memsz(endian));
        let past = address.checked_add(whole.max(bytes.len() as u64));
        let past = past.filter(|&past| past <= MAX_PROGRAM).ok_or(ImageError::Damaged)?;
        let start = (PROGRAM - IMAGE + address) as usize;
        image.resize(image.len().max(start + bytes.len()), 0);
        image[start..start + bytes.len()].copy_from_slice(bytes);
        end = end.max(PROGRAM + past);
    }
    let sections = header.sections(endian, elf)?;
    let (_, section) =
        sections.section_by_name(endian, FIRMWARE_SECTION).ok_or(ImageError::NotThis)?;
    let (firmware, rest) = section
        .data(endian, elf)?
        .split_at_checked(FIRMWARE_LENGTH as usize)
        .ok_or(ImageError::NotThis)?;
    let (handler, _) = I32::read_from_prefix(rest).map_err(|_| ImageError::NotThis)?;
    let handler = section.sh_addr(endian).wrapping_add_signed(handler.get().into());

    let entry = PROGRAM + header.e_entry(endian);
    let headers = Headers {
        at: PROGRAM + header.e_phoff(endian),
        size: header.e_phentsize(endian).into(),
        count: segments.len() as u64,
    };
    let stack = words(&mut image, entry, &headers)?;
    tables(&mut image);
    let parameters = Parameters {
        entry: entry.into(),
        stack: stack.into(),
        system_call: (PROGRAM + handler).into(),
        program_end: end.into(),
        memory: memory.into(),
    };
    put(&mut image, PARAMETERS, parameters.as_bytes());
    Ok(Image { memory: image, firmware })
}

/// Place of a program's headers: their address, the size of one (bytes) and their number.
struct Headers {
    at: u64,
    size: u64,
    count: u64,
}

/// The words on a program's stack at its start (System V ABI, AMD64 supplement, 3.4.1): arguments,
/// environment, and the auxiliary vector.
fn words(image: &mut [u8], entry: u64, headers: &Headers) -> Result<u64, ImageError> {
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
        (PHDR, headers.at),
        (PHENT, headers.size),
        (PHNUM, headers.count),
        (PAGESZ, 4096),
        (ENTRY, entry),
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
        put(image, WORDS + 8 * index as u64, &word.to_le_bytes());
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
    let entry = below | PRESENT_WRITABLE | ACCESSED_DIRTY;
    put(image, PAGE_TABLES, &entry.to_le_bytes());
    for gibibyte in 0..512 {
        let entry = gibibyte << 30 | PRESENT_WRITABLE | ACCESSED_DIRTY | BIG;
        put(image, below + 8 * gibibyte, &entry.to_le_bytes());
    }
}

fn put(image: &mut [u8], address: u64, bytes: &[u8]) {
    let at = (address - IMAGE) as usize;
    image[at..at + bytes.len()].copy_from_slice(bytes);
}
