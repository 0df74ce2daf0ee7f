//! The program that watches BFQ, in the kernel's instructions for such
//! programs (Linux, Documentation/bpf/instruction-set.rst).
//!
//! It runs after BFQ took requests in and after it handed one out. It writes
//! down how many queues with something to do have a raised weight, in the slot
//! of the drive's request queue, where the machine looks.

use stasis_channel::help;

/// What the program has to know of the kernel's types: offsets in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offsets {
    /// `blk_mq_hw_ctx.queue`.
    pub queue: i16,
    /// `request_queue.elevator`.
    pub elevator: i16,
    /// `request_queue.id`.
    pub id: i16,
    /// `elevator_queue.elevator_data`.
    pub data: i16,
    /// `bfq_data.wr_busy_queues`.
    pub raised: i16,
}

// Classes, sizes, sources and operations (instruction-set.rst).
const LOAD_DOUBLE_WORD: u8 = 0x18;
const LOAD_64: u8 = 0x79;
const LOAD_32: u8 = 0x61;
const STORE_32: u8 = 0x63;
const MOVE: u8 = 0xbf;
const MOVE_VALUE: u8 = 0xb7;
const ADD: u8 = 0x0f;
const ADD_VALUE: u8 = 0x07;
const AND_VALUE: u8 = 0x57;
const SHIFT_LEFT_VALUE: u8 = 0x67;
const JUMP_NOT_EQUAL_VALUE: u8 = 0x55;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The source register that makes a double word a map's value's address.
const MAP_VALUE: u8 = 2;
/// The helper `bpf_probe_read_kernel` (linux/bpf.h).
const PROBE_READ_KERNEL: i32 = 113;
const FRAME: u8 = 10;

fn put(out: &mut Vec<u8>, code: u8, to: u8, from: u8, offset: i16, value: i32) {
    out.push(code);
    out.push(to | from << 4);
    out.extend(offset.to_le_bytes());
    out.extend(value.to_le_bytes());
}

/// The program, for the map whose descriptor is `map`. Its context's first
/// word is BFQ's first argument, the hardware queue's context.
pub fn assemble(map: i32, offsets: &Offsets) -> Vec<u8> {
    let mut out = Vec::new();
    let mut add = |code, to, from, offset, value| put(&mut out, code, to, from, offset, value);
    // r7 = context->queue; r8 = its BFQ's data; r9 = its number.
    add(LOAD_64, 6, 1, 0, 0);
    add(LOAD_64, 7, 6, offsets.queue, 0);
    add(LOAD_64, 8, 7, offsets.elevator, 0);
    add(LOAD_64, 8, 8, offsets.data, 0);
    add(LOAD_32, 9, 7, offsets.id, 0);
    // The data has no type there: it is read with a check.
    add(MOVE, 1, FRAME, 0, 0);
    add(ADD_VALUE, 1, 0, 0, -4);
    add(MOVE_VALUE, 2, 0, 0, 4);
    add(MOVE, 3, 8, 0, 0);
    add(ADD_VALUE, 3, 0, 0, offsets.raised.into());
    add(CALL, 0, 0, 0, PROBE_READ_KERNEL);
    add(JUMP_NOT_EQUAL_VALUE, 0, 0, 7, 0);
    add(LOAD_32, 2, FRAME, -4, 0);
    add(LOAD_DOUBLE_WORD, 1, MAP_VALUE, 0, map);
    add(0, 0, 0, 0, help::SLOTS_OFFSET as i32);
    add(AND_VALUE, 9, 0, 0, help::SLOTS as i32 - 1);
    add(SHIFT_LEFT_VALUE, 9, 0, 0, 2);
    add(ADD, 1, 9, 0, 0);
    add(STORE_32, 1, 2, 0, 0);
    add(MOVE_VALUE, 0, 0, 0, 0);
    add(EXIT, 0, 0, 0, 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jump_ends_at_the_end() {
        let offsets = Offsets { queue: 1, elevator: 2, id: 3, data: 4, raised: 5 };
        let code = assemble(7, &offsets);
        let count = code.len() / 8;
        let jump = (0..count).find(|at| code[at * 8] == JUMP_NOT_EQUAL_VALUE).unwrap();
        let target = jump + 1 + usize::from(code[jump * 8 + 2]);
        // Where the result is set to 0, before the exit.
        assert_eq!((code[target * 8], target), (MOVE_VALUE, count - 2));
        assert_eq!(help::SLOTS.count_ones(), 1);
    }
}
