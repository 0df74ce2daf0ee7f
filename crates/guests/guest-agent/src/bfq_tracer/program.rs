//! The programs that watch BFQ, in the kernel's instructions for such programs
//! (Linux, Documentation/bpf/instruction-set.rst).
//!
//! The programs run after BFQ took requests in, after it handed one out, and after it was done with
//! a queue. They write down how many queues with something to do have a raised weight, in the slot
//! of the drive's request queue, where the machine looks, and ring for a process that waits for it
//! to change.
//!
//! One more runs after BFQ handed a request out, and writes down where that is on
//! the drive if its queue is raised as an interactive one.

use std::mem::offset_of;

use stasis_channel::application_hint::{self, Page};

/// Place of the slots in the page.
pub const SLOTS_OFFSET: usize = offset_of!(Page, slots);

/// From a slot to the number of times it was written, behind the slots and so
/// beyond what a machine reads.
pub const WRITTEN: usize = 128;
/// Place in the page of the times (ns of the monotonic clock) at which the slots last began or
/// ended to ask, eight bytes each.
pub const TIMES_OFFSET: usize = 256;

/// Places in the kernel's types that the programs read: offsets in bytes.
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
    /// `bfq_queue.bfqd`.
    pub bfq_data: i16,
    /// `bfq_data.queue`.
    pub owner: i16,
    /// `bfq_data.wr_busy_queues`.
    pub raised: i16,
    /// `request.__sector`.
    pub sector: i16,
    /// `request.elv.priv`, whose second word is BFQ's queue (`RQ_BFQQ`).
    pub private: i16,
    /// `bfq_queue.wr_coeff`.
    pub coefficient: i16,
    /// `bfq_queue.wr_start_at_switch_to_srt`.
    pub switch: i16,
}

/// BFQ multiplies an interactive queue's weight by 30 and one's that it takes for
/// soft real-time by 3000 (block/bfq-iosched.c, `bfq_wr_coeff` and
/// `BFQ_SOFTRT_WEIGHT_FACTOR`). A reader that is held up by others is easily taken
/// for the latter (vIrtical D3.6, 3.2): it is not urgent.
const INTERACTIVE: std::ops::RangeInclusive<i32> = 2..=100;
/// An interactive queue may be taken for soft real-time for a while. The time when it became
/// interactive distinguishes it from others; those have a time there (in jiffies) that is a quarter
/// of all times away (`bfq_smallest_from_now`), far beyond 2 to this.
const EVER: i32 = 48;

/// The first argument of a traced function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// The hardware queue's context, `blk_mq_hw_ctx`.
    Context,
    /// BFQ's own data, `bfq_data`.
    Data,
    /// One of its queues, `bfq_queue`.
    Queue,
}

// Classes, sizes, sources and operations (instruction-set.rst).
const LOAD_DOUBLE_WORD: u8 = 0x18;
const LOAD_64: u8 = 0x79;
const LOAD_32: u8 = 0x61;
const STORE_64: u8 = 0x7b;
const STORE_32: u8 = 0x63;
const MOVE: u8 = 0xbf;
const MOVE_VALUE: u8 = 0xb7;
const ADD: u8 = 0x0f;
const ADD_VALUE: u8 = 0x07;
const AND_VALUE: u8 = 0x57;
const SHIFT_LEFT_VALUE: u8 = 0x67;
const SHIFT_RIGHT_VALUE: u8 = 0x77;
const SUBTRACT: u8 = 0x1f;
const JUMP_EQUAL: u8 = 0x1d;
const JUMP_EQUAL_VALUE: u8 = 0x15;
const JUMP_NOT_EQUAL_VALUE: u8 = 0x55;
const JUMP_NOT_ABOVE_VALUE: u8 = 0xb5;
const JUMP_BELOW_VALUE: u8 = 0xa5;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The source registers that make a double word a map, or a map's value's
/// address.
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;
// Helpers (linux/bpf.h).
const KTIME_GET_NS: i32 = 5;
const JIFFIES: i32 = 118;
const PROBE_READ_KERNEL: i32 = 113;
const RINGBUF_OUTPUT: i32 = 130;
const FRAME: u8 = 10;

/// A program whose jumps all go to its end.
#[derive(Default)]
struct Code {
    bytes: Vec<u8>,
    to_the_end: Vec<usize>,
}

impl Code {
    fn add(&mut self, code: u8, to: u8, from: u8, offset: i16, value: i32) {
        self.bytes.push(code);
        self.bytes.push(to | from << 4);
        self.bytes.extend(offset.to_le_bytes());
        self.bytes.extend(value.to_le_bytes());
    }

    fn double_word(&mut self, to: u8, kind: u8, value: i32, offset: i32) {
        self.add(LOAD_DOUBLE_WORD, to, kind, 0, value);
        self.add(0, 0, 0, 0, offset);
    }

    fn end_if(&mut self, code: u8, to: u8, from: u8, value: i32) {
        self.to_the_end.push(self.bytes.len());
        self.add(code, to, from, 0, value);
    }

    /// Adds code that reads `bytes` bytes at `offset` from the address in register `from`, a place
    /// without a type, to the frame.
    fn read(&mut self, from: u8, offset: i16, bytes: i32) {
        self.add(MOVE, 1, FRAME, 0, 0);
        self.add(ADD_VALUE, 1, 0, 0, -bytes);
        self.add(MOVE_VALUE, 2, 0, 0, bytes);
        self.add(MOVE, 3, from, 0, 0);
        self.add(ADD_VALUE, 3, 0, 0, offset.into());
        self.add(CALL, 0, 0, 0, PROBE_READ_KERNEL);
        self.end_if(JUMP_NOT_EQUAL_VALUE, 0, 0, 0);
    }

    /// Skips the instructions that `then` adds if the register is not above the value.
    fn if_above(&mut self, register: u8, value: i32, then: impl FnOnce(&mut Self)) {
        let jump = self.bytes.len();
        self.add(JUMP_NOT_ABOVE_VALUE, register, 0, 0, value);
        then(self);
        let distance = (self.bytes.len() / 8 - jump / 8 - 1) as i16;
        self.bytes[jump + 2..jump + 4].copy_from_slice(&distance.to_le_bytes());
    }

    fn finish(mut self) -> Vec<u8> {
        let end = self.bytes.len() / 8;
        self.add(MOVE_VALUE, 0, 0, 0, 0);
        self.add(EXIT, 0, 0, 0, 0);
        for jump in self.to_the_end {
            let distance = (end - jump / 8 - 1) as i16;
            self.bytes[jump + 2..jump + 4].copy_from_slice(&distance.to_le_bytes());
        }
        self.bytes
    }
}

/// Assembles the program that runs after a function with such a first argument, which is
/// the first word of its context, for the page and the ring whose descriptors
/// are given.
pub fn assemble(first: First, page: i32, ring: i32, offsets: &Offsets) -> Vec<u8> {
    let mut code = Code::default();
    // r7 = the request queue; r9 = its number; r2 = how many are raised.
    code.add(LOAD_64, 6, 1, 0, 0);
    match first {
        First::Context => {
            code.add(LOAD_64, 7, 6, offsets.queue, 0);
            code.add(LOAD_64, 8, 7, offsets.elevator, 0);
            code.add(LOAD_64, 8, 8, offsets.data, 0);
            code.add(LOAD_32, 9, 7, offsets.id, 0);
            // The data has no type there: it is read with a check.
            code.read(8, offsets.raised, 4);
            code.add(LOAD_32, 2, FRAME, -4, 0);
        }
        First::Data | First::Queue => {
            if first == First::Queue {
                code.add(LOAD_64, 6, 6, offsets.bfq_data, 0);
            }
            code.add(LOAD_64, 7, 6, offsets.owner, 0);
            code.add(LOAD_32, 9, 7, offsets.id, 0);
            code.add(LOAD_32, 2, 6, offsets.raised, 0);
        }
    }
    // r6 = the slot.
    code.double_word(6, MAP_VALUE, page, SLOTS_OFFSET as i32);
    code.add(AND_VALUE, 9, 0, 0, application_hint::SLOTS as i32 - 1);
    code.add(SHIFT_LEFT_VALUE, 9, 0, 0, 2);
    code.add(ADD, 6, 9, 0, 0);
    ring_if_changed(&mut code, page, ring);
    code.finish()
}

/// The program that runs after `bfq_dispatch_request`, whose context is its one
/// argument and what it gives back: a request, or nothing.
pub fn assemble_urgent(page: i32, offsets: &Offsets) -> Vec<u8> {
    let mut code = Code::default();
    // r6 = the request; r7 = BFQ's queue.
    code.add(LOAD_64, 6, 1, 8, 0);
    code.end_if(JUMP_EQUAL_VALUE, 6, 0, 0);
    code.add(LOAD_64, 7, 6, offsets.private + 8, 0);
    code.end_if(JUMP_EQUAL_VALUE, 7, 0, 0);
    code.read(7, offsets.coefficient, 4);
    code.add(LOAD_32, 2, FRAME, -4, 0);
    code.end_if(JUMP_BELOW_VALUE, 2, 0, *INTERACTIVE.start());
    code.if_above(2, *INTERACTIVE.end(), |code| {
        code.read(7, offsets.switch, 8);
        code.add(CALL, 0, 0, 0, JIFFIES);
        code.add(LOAD_64, 1, FRAME, -8, 0);
        code.add(SUBTRACT, 0, 1, 0, 0);
        code.add(SHIFT_RIGHT_VALUE, 0, 0, 0, EVER);
        code.end_if(JUMP_NOT_EQUAL_VALUE, 0, 0, 0);
    });
    code.add(LOAD_64, 8, 6, offsets.sector, 0);
    // r1 = where the number is; r5 = the place in the ring.
    code.double_word(1, MAP_VALUE, page, offset_of!(Page, count) as i32);
    code.add(LOAD_32, 3, 1, 0, 0);
    code.add(MOVE, 4, 3, 0, 0);
    code.add(AND_VALUE, 4, 0, 0, application_hint::RING as i32 - 1);
    code.add(SHIFT_LEFT_VALUE, 4, 0, 0, 3);
    code.double_word(5, MAP_VALUE, page, application_hint::RING_OFFSET as i32);
    code.add(ADD, 5, 4, 0, 0);
    code.add(STORE_64, 5, 8, 0, 0);
    // Two processors can take one place: one request then is not urgent.
    code.add(ADD_VALUE, 3, 0, 0, 1);
    code.add(STORE_32, 1, 3, 0, 0);
    code.finish()
}

/// Writes r2 into r6's slot, and if it is 0 now and was not, or the other way
/// round, its time, and rings.
fn ring_if_changed(code: &mut Code, page: i32, ring: i32) {
    code.add(LOAD_32, 3, 6, 0, 0);
    code.add(STORE_32, 6, 2, 0, 0);
    code.add(LOAD_32, 4, 6, WRITTEN as i16, 0);
    code.add(ADD_VALUE, 4, 0, 0, 1);
    code.add(STORE_32, 6, 4, WRITTEN as i16, 0);
    for register in [2, 3] {
        code.add(JUMP_EQUAL_VALUE, register, 0, 1, 0);
        code.add(MOVE_VALUE, register, 0, 0, 1);
    }
    code.end_if(JUMP_EQUAL, 2, 3, 0);
    code.add(CALL, 0, 0, 0, KTIME_GET_NS);
    code.double_word(1, MAP_VALUE, page, TIMES_OFFSET as i32);
    code.add(ADD, 1, 9, 0, 0);
    code.add(ADD, 1, 9, 0, 0);
    code.add(STORE_64, 1, 0, 0, 0);
    code.add(STORE_64, FRAME, 0, -8, 0);
    code.double_word(1, MAP, ring, 0);
    code.add(MOVE, 2, FRAME, 0, 0);
    code.add(ADD_VALUE, 2, 0, 0, -8);
    code.add(MOVE_VALUE, 3, 0, 0, 8);
    code.add(MOVE_VALUE, 4, 0, 0, 0);
    code.add(CALL, 0, 0, 0, RINGBUF_OUTPUT);
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUMPS: [u8; 4] = [JUMP_EQUAL, JUMP_EQUAL_VALUE, JUMP_NOT_EQUAL_VALUE, JUMP_BELOW_VALUE];

    #[test]
    fn jumps_end_at_the_end() {
        let offsets = Offsets {
            queue: 1,
            elevator: 2,
            id: 3,
            data: 4,
            bfq_data: 5,
            owner: 6,
            raised: 7,
            sector: 8,
            private: 9,
            coefficient: 10,
            switch: 11,
        };
        let program = |first| assemble(first, 7, 8, &offsets);
        for (code, jumps) in [
            (program(First::Context), 2),
            (program(First::Data), 1),
            (program(First::Queue), 1),
            (assemble_urgent(7, &offsets), 6),
        ] {
            let count = code.len() / 8;
            let of_end = |at: &usize| {
                let jump = JUMPS.contains(&code[at * 8]);
                jump && at + 1 + usize::from(code[at * 8 + 2]) == count - 2
            };
            assert_eq!((0..count).filter(of_end).count(), jumps);
            // The result is set to 0 before the exit.
            assert_eq!(code[(count - 2) * 8], MOVE_VALUE);
        }
        assert_eq!(
            (application_hint::SLOTS.count_ones(), application_hint::RING.count_ones()),
            (1, 1)
        );
        // Memory behind the slots is not read as a slot.
        const { assert!(SLOTS_OFFSET + WRITTEN >= size_of::<Page>()) };
    }
}
