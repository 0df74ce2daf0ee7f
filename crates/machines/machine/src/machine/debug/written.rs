//! The program that has written a line of output: a run that repeats one looks at the kernel's entries of
//! write(2) and writev(2), up to where the line had arrived.
//!
//! Source: Linux, arch/x86/include/asm/ptrace.h (`pt_regs`) and syscall_wrapper.h: each such entry has the
//! program's registers as its argument.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use stasis_layout::u64_at;
use stasis_run_events::WriteEntry;

use super::super::sampling::Words;
use super::super::triggers::MAX_LINE;

/// Length of `pt_regs`, and places in it.
const REGISTERS: usize = 168;
const RBX: usize = 40;
const RCX: usize = 88;
const RDX: usize = 96;
const RSI: usize = 104;
const RDI: usize = 112;
const RIP: usize = 128;
/// Length of the instruction by which a program calls the kernel: SYSCALL, SYSENTER, INT n.
const CALL: u64 = 2;
/// Limit on the bytes of a write that are looked at.
const MAX_WRITE: usize = 1 << 20;
/// Limit on the parts of a writev(2): UIO_MAXIOV (include/uapi/linux/uio.h).
const MAX_PARTS: u64 = 1024;
/// Limit on the files of processes whose lines are known.
const MAX_FILES: usize = 4096;

/// A line that a program has written, which is looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Written {
    /// The kernel's entries.
    pub entries: Vec<WriteEntry>,
    /// The line, without its end.
    pub line: Vec<u8>,
}

/// A file of a process: the machine, the process's top page table, the file's number there.
pub(super) type File = (usize, u64, u32);

/// A call of a program's that writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    /// The number of the file.
    pub file: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Linear address of the program's instruction that has called the kernel.
    pub instruction: u64,
}

impl Call {
    /// Reads the call at `entry`, to which `registers` point.
    pub(super) fn read(entry: WriteEntry, registers: u64, memory: &mut impl Words) -> Option<Self> {
        let mut saved = [0; REGISTERS];
        if !memory.read(registers, &mut saved) {
            return None;
        }
        let saved_at = |place| u64_at(&saved, place).unwrap_or(0);
        let [file, start, length] = match entry.is_compat {
            true => [RBX, RCX, RDX].map(|place| saved_at(place) & u64::from(u32::MAX)),
            false => [RDI, RSI, RDX].map(saved_at),
        };
        let mut bytes = Vec::new();
        match entry.is_vector {
            false => append(&mut bytes, start, length, memory)?,
            true => {
                let word = if entry.is_compat { 4 } else { 8 };
                for part in 0..length.min(MAX_PARTS) {
                    let at = start.wrapping_add(part * 2 * word);
                    let mut next = |at| match entry.is_compat {
                        true => memory.long(at).map(u64::from),
                        false => memory.quad(at),
                    };
                    let (from, length) = (next(at)?, next(at.wrapping_add(word))?);
                    append(&mut bytes, from, length, memory)?;
                }
            }
        }
        let instruction = saved_at(RIP).wrapping_sub(CALL);
        Some(Self { file: file as u32, bytes, instruction })
    }
}

/// Appends `length` bytes from `start` on, as far as they are looked at.
fn append(bytes: &mut Vec<u8>, start: u64, length: u64, memory: &mut impl Words) -> Option<()> {
    let room = MAX_WRITE - bytes.len();
    let length = usize::try_from(length).map_or(room, |length| length.min(room));
    let before = bytes.len();
    bytes.resize(before + length, 0);
    memory.read(start, &mut bytes[before..]).then_some(())
}

/// The lines that programs have begun, and the file that has had the looked-for one.
#[derive(Debug, Default)]
pub(super) struct Lines {
    begun: HashMap<File, Vec<u8>>,
    found: Option<File>,
}

impl Lines {
    /// A process writes `bytes` to `file`. Returns whether that ends `line`, and the file has not had it
    /// before: of several programs that hand a line on the last one counts, and of its lines the first.
    pub(super) fn ends(&mut self, file: File, bytes: &[u8], line: &[u8]) -> bool {
        if self.begun.len() >= MAX_FILES {
            self.begun.clear();
        }
        let begun = self.begun.entry(file).or_default();
        let mut is_there = false;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            begun.extend_from_slice(&text[..text.len().min(MAX_LINE - begun.len())]);
            if text.len() < piece.len() {
                is_there |= begun.strip_suffix(b"\r").unwrap_or(begun) == line;
                begun.clear();
            }
        }
        is_there && self.found.replace(file) != Some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory from address 0 on.
    struct Memory(Vec<u8>);

    impl Words for Memory {
        fn read(&mut self, start: u64, into: &mut [u8]) -> bool {
            let start = usize::try_from(start).unwrap_or(usize::MAX);
            let part = self.0.get(start..).and_then(|rest| rest.get(..into.len()));
            part.inspect(|part| into.copy_from_slice(part)).is_some()
        }
    }

    fn memory(words: &[(usize, u64)], bytes: &[(usize, &[u8])]) -> Memory {
        let mut all = vec![0; 4096];
        for (place, word) in words {
            all[*place..place + 8].copy_from_slice(&word.to_le_bytes());
        }
        for (place, bytes) in bytes {
            all[*place..place + bytes.len()].copy_from_slice(bytes);
        }
        Memory(all)
    }

    #[test]
    fn calls_are_read_in_each_form() {
        let entry = |is_vector, is_compat| WriteEntry { address: 0, is_vector, is_compat };
        let text = (1024, &b"one\ntwo\n"[..]);
        let plain = [(RDI, 1), (RSI, 1024), (RDX, 8), (RIP, 0x1002)];
        let call = Call::read(entry(false, false), 0, &mut memory(&plain, &[text])).unwrap();
        assert_eq!(call, Call { file: 1, bytes: text.1.to_vec(), instruction: 0x1000 });
        let compat = [(RBX, 1), (RCX, 1024), (RDX, 4), (RIP, 0x1002)];
        let call = Call::read(entry(false, true), 0, &mut memory(&compat, &[text])).unwrap();
        assert_eq!(call.bytes, b"one\n");
        let parts = [(2048, 1028), (2056, 4), (2064, 1024), (2072, 3)];
        let vector = [&[(RDI, 2), (RSI, 2048), (RDX, 2), (RIP, 2)][..], &parts].concat();
        let call = Call::read(entry(true, false), 0, &mut memory(&vector, &[text])).unwrap();
        assert_eq!((call.file, call.bytes), (2, b"two\none".to_vec()));
        let parts = [(2048, 4 << 32 | 1024), (2056, 4 << 32 | 1028)];
        let vector = [&[(RBX, 2), (RCX, 2048), (RDX, 2), (RIP, 2)][..], &parts].concat();
        let call = Call::read(entry(true, true), 0, &mut memory(&vector, &[text])).unwrap();
        assert_eq!(call.bytes, text.1);
    }

    #[test]
    fn what_a_program_names_is_bounded() {
        let entry = WriteEntry { address: 0, is_vector: false, is_compat: false };
        for length in [u64::MAX, 4096, 1 << 40] {
            let words = [(RDI, 1), (RSI, 1024), (RDX, length)];
            assert_eq!(Call::read(entry, 0, &mut memory(&words, &[])), None, "{length}");
        }
        assert_eq!(Call::read(entry, u64::MAX - 8, &mut memory(&[], &[])), None);
        let entry = WriteEntry { is_vector: true, ..entry };
        let words = [(RSI, 1 << 50), (RDX, u64::MAX)];
        assert_eq!(Call::read(entry, 0, &mut memory(&words, &[])), None);
    }

    #[test]
    fn the_last_program_of_a_pipe_has_printed_its_first_such_line() {
        let mut lines = Lines::default();
        let (first, last) = ((0, 0x1000, 1), (0, 0x2000, 1));
        assert!(!lines.ends(first, b"rea", b"ready"));
        assert!(!lines.ends(last, b"dy\n", b"ready"), "another process's line");
        assert!(lines.ends(first, b"dy\r\nmore", b"ready"));
        assert!(!lines.ends(first, b"\nready\n", b"ready"), "it was there before");
        assert!(lines.ends(last, b"x\nready\n", b"ready"));
        assert!(!lines.ends(last, b"ready", b"ready"), "a line that has no end yet");
    }

    #[test]
    fn lines_and_files_are_bounded() {
        let mut lines = Lines::default();
        for number in 0..2 * MAX_FILES as u32 {
            lines.ends((0, 0, number), &[b'x'; 2 * MAX_LINE / 1024], b"");
        }
        assert!(lines.begun.len() <= MAX_FILES);
        (0..3).for_each(|_| _ = lines.ends((0, 1, 0), &[b'x'; MAX_LINE], b""));
        assert!(lines.begun.values().all(|line| line.len() <= MAX_LINE));
    }
}
