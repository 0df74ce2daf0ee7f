//! Programs against what the specification says of them, and against another interpreter.

use proptest::prelude::*;
use stasis_ebpf::{Ended, Execution, Fault, LoadError, Loader, Memory, Program, FRAME_SIZE, STACK};

/// Bytes at an address.
struct Bytes {
    at: u64,
    bytes: Vec<u8>,
    read_only: bool,
}

const AT: u64 = 3 << 40;

impl Bytes {
    fn new(bytes: Vec<u8>) -> Self {
        Self { at: AT, bytes, read_only: false }
    }

    fn range(&self, address: u64, width: usize) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(address.checked_sub(self.at)?).ok()?;
        let end = start.checked_add(width)?;
        (end <= self.bytes.len()).then_some(start..end)
    }
}

impl Memory for Bytes {
    fn load(&mut self, address: u64, width: usize) -> Option<u64> {
        let range = self.range(address, width)?;
        let mut raw = [0; 8];
        raw[..width].copy_from_slice(&self.bytes[range]);
        Some(u64::from_le_bytes(raw))
    }

    fn store(&mut self, address: u64, width: usize, value: u64) -> Option<()> {
        let range = self.range(address, width).filter(|_| !self.read_only)?;
        self.bytes[range].copy_from_slice(&value.to_le_bytes()[..width]);
        Some(())
    }
}

fn one(opcode: u8, dst: u8, src: u8, offset: i16, imm: i32) -> [u8; 8] {
    let mut raw = [opcode, src << 4 | dst, 0, 0, 0, 0, 0, 0];
    raw[2..4].copy_from_slice(&offset.to_le_bytes());
    raw[4..8].copy_from_slice(&imm.to_le_bytes());
    raw
}

const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];

fn run(code: &[[u8; 8]], bytes: &mut Bytes) -> Ended {
    Program::load(&code.concat()).unwrap().run(bytes, AT, 1 << 20)
}

fn result(code: &[[u8; 8]]) -> u64 {
    run(code, &mut Bytes::new(vec![0; 64])).result.unwrap()
}

/// r0 = `value`.
fn wide(register: u8, value: u64) -> [[u8; 8]; 2] {
    [one(0x18, register, 0, 0, value as i32), one(0, 0, 0, 0, (value >> 32) as i32)]
}

/// `opcode` of r0 = `left` and r1 = `right`.
fn of(opcode: u8, offset: i16, left: u64, right: u64) -> u64 {
    let [a, b] = wide(0, left);
    let [c, d] = wide(1, right);
    result(&[a, b, c, d, one(opcode, 0, 1, offset, 0), EXIT])
}

#[test]
fn arithmetic_at_its_borders() {
    const MIN: u64 = i64::MIN as u64;
    for (opcode, offset, left, right, expected) in [
        (0x0f, 0, u64::MAX, 2, 1),
        (0x0c, 0, u64::MAX, 2, 1), // 32 bits: the upper half is gone
        (0x3f, 0, 7, 0, 0),
        (0x9f, 0, 7, 0, 7),
        (0x9c, 0, 1 << 40 | 7, 0, 7),
        (0x3f, 1, MIN, u64::MAX, MIN),
        (0x9f, 1, MIN, u64::MAX, 0),
        (0x3f, 1, -7i64 as u64, 2, -3i64 as u64),
        (0x9f, 1, -7i64 as u64, 2, -1i64 as u64),
        (0x3c, 1, 0x8000_0000, 0xffff_ffff, 0x8000_0000),
        (0x6f, 0, 1, 65, 2),
        (0x6c, 0, 1, 33, 2),
        (0xcf, 0, MIN, 63, u64::MAX),
        (0xcc, 0, 0x8000_0000, 31, 0xffff_ffff),
        (0xbf, 8, 0, 0x80, -128i64 as u64),
        (0xbf, 32, 0, 0x8000_0000, 0xffff_ffff_8000_0000),
        (0xbc, 16, 0, 0x8000, 0xffff_8000),
    ] {
        assert_eq!(of(opcode, offset, left, right), expected, "{opcode:#x} {offset}");
    }
    let swap = |opcode, bits| {
        let [a, b] = wide(0, 0x0102_0304_0506_0708);
        result(&[a, b, one(opcode, 0, 0, 0, bits), EXIT])
    };
    assert_eq!(
        [16, 32, 64].map(|bits| swap(0xd4, bits)),
        [0x708, 0x506_0708, 0x102_0304_0506_0708]
    );
    assert_eq!(swap(0xdc, 16), 0x807);
    assert_eq!(swap(0xd7, 32), 0x807_0605);
    // The immediate value has its sign in 64 bits.
    assert_eq!(result(&[one(0xb7, 0, 0, 0, -1), EXIT]), u64::MAX);
    assert_eq!(result(&[one(0xb4, 0, 0, 0, -1), EXIT]), 0xffff_ffff);
    assert_eq!(result(&[one(0xb7, 0, 0, 0, 5), one(0x87, 0, 0, 0, 0), EXIT]), -5i64 as u64);
}

#[test]
fn jumps_compare_as_they_say() {
    // r0 = 1 if the jump is taken.
    let taken = |opcode: u8, left: u64, right: u64| {
        let ([a, b], [c, d]) = (wide(2, left), wide(3, right));
        let jump = one(opcode, 2, 3, 1, 0);
        result(&[a, b, c, d, one(0xb7, 0, 0, 0, 1), jump, one(0xb7, 0, 0, 0, 0), EXIT]) == 1
    };
    let minus = -1i64 as u64;
    for (opcode, left, right, expected) in [
        (0x1d, 5, 5, true),
        (0x2d, minus, 1, true),
        (0x6d, minus, 1, false),
        (0xcd, minus, 1, true),
        (0xdd, 1, 1, true),
        (0x4d, 6, 1, false),
        (0xad, 1, minus, true),
        // 32 bits.
        (0x1e, 1 << 32 | 5, 5, true),
        (0x6e, 0xffff_ffff, 1, false),
        (0x7e, 1, 0xffff_ffff, true),
    ] {
        assert_eq!(taken(opcode, left, right), expected, "{opcode:#x} {left} {right}");
    }
    // The long jump, over an instruction.
    let code = [one(0xb7, 0, 0, 0, 1), one(0x06, 0, 0, 0, 1), one(0xb7, 0, 0, 0, 0), EXIT];
    assert_eq!(result(&code), 1);
}

#[test]
fn memory_is_what_the_program_is_given() {
    let mut bytes = Bytes::new((0..16).collect());
    // *(u16 *)(r1 + 14), sign-extended from 0x80 bytes too.
    let ended = run(&[one(0x69, 0, 1, 14, 0), EXIT], &mut bytes);
    assert_eq!(ended, Ended { result: Ok(0x0f0e), instructions: 2 });
    bytes.bytes[3] = 0x80;
    assert_eq!(run(&[one(0x91, 0, 1, 3, 0), EXIT], &mut bytes).result, Ok(-128i64 as u64));
    for (offset, address) in [(15, AT + 15), (-1, AT - 1)] {
        let ended = run(&[one(0x69, 0, 1, offset, 0), EXIT], &mut bytes);
        assert_eq!(ended.result, Err(Fault::Access { at: 0, address }));
    }
    // Stores: immediate, register, and none where the memory may not be written.
    run(&[one(0x62, 1, 0, 4, -2), one(0x7b, 1, 1, 8, 0), EXIT], &mut bytes);
    assert_eq!(bytes.bytes[4..8], [0xfe, 0xff, 0xff, 0xff]);
    assert_eq!(bytes.bytes[8..], AT.to_le_bytes());
    bytes.read_only = true;
    let ended = run(&[one(0x72, 1, 0, 0, 7), EXIT], &mut bytes);
    assert_eq!(ended.result, Err(Fault::Access { at: 0, address: AT }));
    // The stack: the frame of the function below r10, and no byte above the last frame.
    let kept = [one(0x7b, 10, 1, -8, 0), one(0x79, 0, 10, -8, 0), EXIT];
    assert_eq!(result(&kept), AT);
    let above = [one(0x71, 0, 10, 7 * FRAME_SIZE as i16, 0), EXIT];
    let address = STACK + 8 * FRAME_SIZE as u64;
    let ended = run(&above, &mut bytes);
    assert_eq!(ended.result, Err(Fault::Access { at: 0, address }));
}

#[test]
fn atomic_operations_read_and_write_at_once() {
    let mut bytes = Bytes::new(vec![0; 8]);
    let mut done = |imm, operand, r0| {
        let code = [
            one(0xb7, 2, 0, 0, operand),
            one(0xb7, 0, 0, 0, r0),
            one(0xdb, 1, 2, 0, imm),
            one(0x0f, 0, 2, 0, 0),
            EXIT,
        ];
        // r0 + r2: what was fetched, and the operand or what was fetched of it.
        let sum = run(&code, &mut bytes).result.unwrap();
        (u64::from_le_bytes(bytes.bytes[..8].try_into().unwrap()), sum)
    };
    assert_eq!(done(0x00, 5, 0), (5, 5));
    assert_eq!(done(0x01, 3, 0), (8, 5));
    assert_eq!(done(0x41, 0x17, 0), (0x1f, 8));
    assert_eq!(done(0x50, 0x13, 0), (0x13, 0x13));
    assert_eq!(done(0xa0, 0x10, 0), (3, 0x10));
    assert_eq!(done(0xe1, 9, 0), (9, 3));
    assert_eq!(done(0xf1, 4, 8), (9, 9 + 4), "it is 9");
    assert_eq!(done(0xf1, 4, 9), (4, 9 + 4));
    // An operation of 32 bits touches nothing above.
    bytes.bytes.copy_from_slice(&u64::MAX.to_le_bytes());
    run(&[one(0xb7, 2, 0, 0, 1), one(0xc3, 1, 2, 0, 0), EXIT], &mut bytes);
    assert_eq!(bytes.bytes, [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
}

#[test]
fn functions_call_one_another_and_come_back() {
    // f(n) = n == 0 ? 0 : n + f(n - 1), with n kept in r6 over the call.
    let sum = |n| {
        vec![
            one(0xb7, 1, 0, 0, n),
            one(0x85, 0, 1, 0, 1),
            EXIT,
            one(0xb7, 0, 0, 0, 0),
            one(0x15, 1, 0, 5, 0),
            one(0xbf, 6, 1, 0, 0),
            one(0x7b, 10, 6, -8, 0),
            one(0x07, 1, 0, 0, -1),
            one(0x85, 0, 1, 0, -6),
            one(0x0f, 0, 6, 0, 0),
            EXIT,
        ]
    };
    assert_eq!(result(&sum(6)), 21);
    let ended = run(&sum(7), &mut Bytes::new(Vec::new()));
    assert_eq!(ended.result, Err(Fault::Depth { at: 8 }));
}

#[test]
fn a_program_ends_with_its_budget() {
    let forever = Program::load(&one(0x05, 0, 0, -1, 0)).unwrap();
    let ended = forever.run(&mut Bytes::new(Vec::new()), 0, 1000);
    assert_eq!(ended, Ended { result: Err(Fault::Budget), instructions: 1000 });
    // Exactly enough.
    let two = Program::load(&[one(0xb7, 0, 0, 0, 9), EXIT].concat()).unwrap();
    assert_eq!(two.run(&mut Bytes::new(Vec::new()), 0, 2).result, Ok(9));
    assert_eq!(two.run(&mut Bytes::new(Vec::new()), 0, 1).result, Err(Fault::Budget));
}

#[test]
fn what_cannot_be_is_refused() {
    // Some instructions at a time, the outcome is the same.
    let in_slices = |code: &[[u8; 8]]| {
        let mut loader = Loader::new(code.concat())?;
        loop {
            if let Some(program) = loader.go_on(3)? {
                return Ok::<Program, LoadError>(program);
            }
        }
    };
    let reason = |code: &[[u8; 8]]| {
        let error = Program::load(&code.concat()).unwrap_err();
        assert_eq!(in_slices(code).unwrap_err(), error);
        error.to_string()
    };
    for (code, expected) in [
        (one(0x05, 0, 0, 1, 0), "outside the program"),
        (one(0x05, 0, 0, -2, 0), "outside the program"),
        (one(0x85, 0, 0, 0, 1), "no helper functions"),
        (one(0x85, 0, 1, 0, 9), "outside the program"),
        (one(0xb7, 10, 0, 0, 1), "r10 cannot be written"),
        (one(0xb7, 11, 0, 0, 1), "no such register"),
        (one(0x61, 10, 1, 0, 0), "r10 cannot be written"),
        (one(0x20, 0, 0, 0, 0), "no such operation"), // of the packet group
        (one(0xe7, 0, 0, 0, 0), "no such operation"),
        (one(0xf5, 0, 0, 0, 0), "no such operation"),
        (one(0x3f, 0, 1, 2, 0), "no such operation"),
        (one(0xbc, 0, 1, 32, 0), "no such operation"),
        (one(0xd4, 0, 0, 0, 24), "no such operation"),
        (one(0xdb, 1, 2, 0, 0x11), "no such operation"),
        (one(0xd3, 1, 2, 0, 0), "no such operation"),
        (one(0x18, 0, 0, 0, 0), "second half"),
    ] {
        let reason = reason(&[code, EXIT]);
        assert!(reason.starts_with("instruction 0: ") && reason.contains(expected), "{reason}");
    }
    let [low, high] = wide(0, 7);
    let into = reason(&[one(0x05, 0, 0, 1, 0), low, high, EXIT]);
    assert!(into.contains("middle of an instruction"), "{into}");
    assert!(reason(&[low, high]).contains("behind its last instruction"));
    assert!(reason(&[one(0x18, 0, 1, 0, 0), one(0, 0, 0, 0, 0), EXIT]).contains("no maps"));
    for size in [0, 7, 8 * ((1 << 16) + 1)] {
        assert_eq!(Program::load(&vec![0; size]).unwrap_err(), LoadError::Size(size));
    }
}

/// Instructions without loops: arithmetic, forward jumps, and accesses to the given memory, that the
/// other interpreter has as well. Two of its results are not the specification's, and are left out:
/// it compares 64 bits with immediate values without their sign, and leaves the upper half as it is
/// where 32 bits are divided by zero for the remainder.
fn instructions() -> impl Strategy<Value = Vec<[u8; 8]>> {
    let registers = || prop::sample::select(vec![0u8, 2, 3, 4, 5, 6, 7, 8, 9]);
    let operation = prop::sample::select(vec![
        0x00u8, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x90, 0xa0, 0xb0, 0xc0,
    ]);
    let classes = prop::sample::select(vec![4u8, 7]);
    let arithmetic = (operation, classes, any::<bool>(), registers(), registers(), any::<i32>());
    let arithmetic = arithmetic.prop_map(|(operation, class, register, dst, src, imm)| {
        // The other one refuses divisions by an immediate zero, and shifts beyond the width.
        let imm = match operation {
            0x30 | 0x90 => imm | 1,
            0x60 | 0x70 | 0xc0 => imm & 31,
            _ => imm,
        };
        let register = register && !(operation == 0x90 && class == 4);
        let src = if register { src } else { 0 };
        one(operation | class | u8::from(register) << 3, dst, src, 0, imm)
    });
    let test = prop::sample::select(vec![
        0x10u8, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0, 0xd0,
    ]);
    let jumps =
        (test, any::<bool>(), any::<bool>(), registers(), registers(), 0..4i16, any::<i8>());
    let jumps = jumps.prop_map(|(test, narrow, register, dst, src, over, imm)| {
        let class = if narrow { 6 } else { 5 };
        let src = if register { src } else { 0 };
        let imm = if narrow { imm } else { imm & i8::MAX };
        one(test | class | u8::from(register) << 3, dst, src, over, imm.into())
    });
    let width = prop::sample::select(vec![0x61u8, 0x69, 0x71, 0x79]);
    let accesses = (width, 0..3u8, registers(), 0..57i16, any::<i32>());
    let accesses = accesses.prop_map(|(load, kind, register, offset, imm)| match kind {
        0 => one(load, register, 1, offset, 0),
        1 => one(load + 2, 1, register, offset, 0),
        _ => one(load + 1, 1, 0, offset, imm),
    });
    prop::collection::vec(prop_oneof![4 => arithmetic, 1 => jumps, 2 => accesses], 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn another_interpreter_has_the_same_results(
        body in instructions(),
        seeds in prop::array::uniform9(any::<u64>()),
        bytes in prop::collection::vec(any::<u8>(), 64),
    ) {
        let registers = [0u8, 2, 3, 4, 5, 6, 7, 8, 9];
        let mut code: Vec<[u8; 8]> = Vec::new();
        for (register, seed) in registers.into_iter().zip(seeds) {
            code.extend(wide(register, seed));
        }
        code.extend(&body);
        // Jumps over the last instructions land here.
        code.extend([one(0xbf, 0, 0, 0, 0); 4]);
        // All registers matter.
        code.extend(registers.map(|register| one(0xaf, 0, register, 0, 0)));
        code.push(one(0x67, 0, 0, 0, 0));
        code.push(EXIT);
        let mut ours = Bytes::new(bytes.clone());
        let ended = run(&code, &mut ours);
        let program = code.concat();
        let vm = rbpf::EbpfVmRaw::new(Some(&program)).unwrap();
        let mut theirs = bytes;
        let expected = vm.execute_program(&mut theirs).unwrap();
        prop_assert_eq!(ended.result, Ok(expected));
        prop_assert_eq!(&ours.bytes, &theirs);
    }

    #[test]
    fn whatever_is_loaded_ends_and_stays_within_its_memory(
        raw in prop::collection::vec(any::<[u8; 8]>(), 1..40),
        body in instructions(),
        argument in prop_oneof![Just(AT), any::<u64>()],
    ) {
        let mut code = raw;
        code.extend(body);
        code.push(EXIT);
        // Most are refused; the rest of each is tried behind it.
        for first in 0..code.len() {
            if let Ok(program) = Program::load(&code[first..].concat()) {
                let mut memory = Bytes::new(vec![0; 16]);
                let ended = program.run(&mut memory, argument, 5000);
                prop_assert!(ended.instructions <= 5000);
                // In slices it is the same run.
                let mut execution = Execution::new(argument);
                let mut other = Bytes::new(vec![0; 16]);
                let mut slices = 0;
                let sliced = loop {
                    slices += 1;
                    if let Some(end) = program.go_on(&mut execution, &mut other, 7, 5000) {
                        break end;
                    }
                    prop_assert_eq!(execution.instructions(), slices * 7);
                };
                prop_assert_eq!((sliced, other.bytes), (ended, memory.bytes));
            }
        }
    }
}
