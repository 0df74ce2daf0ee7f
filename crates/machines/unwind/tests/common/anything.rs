//! Bytes that may be anything, taken for a file, for its call frame information, and for a table.

use stasis_unwind::{Registers, Table};

/// Addresses at which the file is mapped, and its code.
const FILE: u64 = 0x40_0000;
const CODE: u64 = 0x40_1000;
const CODE_BYTES: u64 = 0x1_0000;

/// A program for x86-64 without sections, whose call frame information is `frames` (System V ABI,
/// chapters 4 and 5; Linux Standard Base 5.0, 10.6.2).
pub fn as_file(frames: &[u8]) -> Vec<u8> {
    const LOAD: u32 = 1;
    const EH_FRAME: u32 = 0x6474_e550;
    const HEADERS: u64 = 64 + 3 * 56;
    let whole = HEADERS + 8 + frames.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // A program, x86-64, version 1; entry, program headers, no sections; flags and sizes.
    for half in [2u16, 62, 1, 0] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    for word in [CODE, 64, 0] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for half in [0u16, 0, 64, 56, 3, 64, 0, 0] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    for (kind, from, at, bytes) in [
        (LOAD, 0, FILE, whole),
        (LOAD, 0, CODE, CODE_BYTES),
        (EH_FRAME, HEADERS, FILE + HEADERS, 8),
    ] {
        file.extend_from_slice(&[kind, 5].map(u32::to_le_bytes).concat());
        for word in [from, at, at, bytes, bytes, 1] {
            file.extend_from_slice(&u64::to_le_bytes(word));
        }
    }
    // Version 1; the frames are behind this pointer, relative to itself; no table to search in.
    file.extend_from_slice(&[1, 0x1b, 0xff, 0xff, 4, 0, 0, 0]);
    file.extend_from_slice(frames);
    file
}

/// Makes a table of the bytes behind the first, which says what they are, and steps by it; returns
/// whether there is one.
pub fn exercise(bytes: &[u8]) -> bool {
    let Some((kind, rest)) = bytes.split_first() else { return false };
    let table = match kind % 3 {
        0 => Table::of(&as_file(rest)),
        1 => Table::of(rest),
        _ => Table::decode(rest),
    };
    let Some(table) = table else { return false };
    assert!(Table::decode(&table.encode()).as_ref() == Some(&table), "a stream is the table");
    let word = |at: u64| {
        let from = (at % (rest.len() as u64 + 1)) as usize;
        rest.get(from..from + 8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
    };
    for first in (0..CODE_BYTES).step_by(64) {
        let mut at = Registers { rip: CODE + first, rsp: first, rbp: u64::MAX - first };
        for _ in 0..16 {
            let Some(rule) = table.rule(at.rip % CODE_BYTES) else { break };
            let Some(caller) = rule.caller(at, word) else { break };
            at = caller.registers;
        }
    }
    true
}
