//! Each instruction takes its tick, whatever is watched: a guest that goes through instructions, exceptions
//! and ways into the kernel and out of it notes the time after each of them. The notes are the same under any
//! observer.

use std::arch::global_asm;

use stasis_bare::svm::{
    Breakpoint, Costs, Debug, LongMode, Nested, Vcpu, Watch, Watches, Watchpoint,
};
use stasis_bare::{DebugEvent, Exit};

// R14: place of the next note, which takes RAX and RDX. R12 counts traps, R13 faults; R15: where a fault goes on.
global_asm!(
    ".macro note",
    "rdtsc",
    "mov [r14], eax",
    "add r14, 4",
    ".endm",
    ".macro fault instruction:vararg",
    "lea r15, [rip + 9f]",
    "\\instruction",
    "9:",
    "note",
    ".endm",
    ".balign 4096",
    "every_start:",
    "lgdt [rbx + 32]",
    "lidt [rbx]",
    "mov eax, 0x38",
    "ltr ax",
    "note",
    // Every vector by INT n, and INT3. (QEMU 7.2 comes back to an INT1.)
    ".set every_vector, 0",
    ".rept 256",
    ".byte 0xcd, every_vector",
    ".set every_vector, every_vector + 1",
    ".endr",
    "note",
    ".byte 0xcc",
    "note",
    // Steps by the guest's own trap flag.
    "pushfq",
    "or qword ptr [rsp], 0x100",
    "popfq",
    "nop",
    "pushfq",
    "and qword ptr [rsp], ~0x100",
    "popfq",
    "note",
    // Faults, with and without an error code, of data and of instructions, and one within another's
    // handler.
    "lidt [rbx + 16]",
    "xor ecx, ecx",
    "fault div ecx",
    "fault ud2",
    "fault sysenter",
    "mov rbp, 0x800000000000",
    "mov rsi, rbp",
    "fault mov rcx, [rsi]",
    "fault mov rcx, [rbp]",
    "mov rsi, 0x200000000000",
    "fault mov rcx, [rsi]",
    "fault mov [rsi], rcx",
    "fault jmp rsi",
    "mov eax, 0x48",
    "fault mov ds, ax",
    "int 0x90",
    "note",
    // Strings.
    "mov rdi, [rbx + 96]",
    "mov ecx, 100",
    "rep stosb",
    "note",
    "mov rsi, [rbx + 96]",
    "mov ecx, 50",
    "every_string:",
    "rep movsb",
    "note",
    "mov rdi, [rbx + 96]",
    "mov ecx, 20",
    "repne scasb",
    "note",
    // Exits that the host serves.
    "mov r8, rbx",
    "xor eax, eax",
    "cpuid",
    "mov rbx, r8",
    "note",
    "mov ecx, 0xc0000080",
    "rdmsr",
    "or eax, 1",
    "wrmsr",
    "mov ecx, 0xc0000081",
    "xor eax, eax",
    "mov edx, 0x00230010",
    "wrmsr",
    "mov ecx, 0xc0000082",
    "mov eax, [rbx + 48]",
    "xor edx, edx",
    "wrmsr",
    "mov ecx, 0xc0000084",
    "mov eax, 0x300",
    "wrmsr",
    "note",
    "out 0x10, al",
    "note",
    "in al, 0x10",
    "note",
    "mov rsi, 0xd0000000",
    "mov [rsi], eax",
    "note",
    "mov eax, [rsi]",
    "note",
    // Debug registers: the guest's own watchpoint and breakpoint.
    "mov rax, [rbx + 96]",
    "mov dr0, rax",
    "lea rax, [rip + every_own]",
    "mov dr1, rax",
    "mov eax, 0x000d0405",
    "mov dr7, rax",
    "note",
    "mov rax, [rbx + 96]",
    "mov dword ptr [rax], 5",
    "note",
    "every_own:",
    "nop",
    "note",
    "mov rax, dr7",
    "mov [r14], eax",
    "add r14, 4",
    "mov eax, 0x400",
    "mov dr7, rax",
    "note",
    // Ring 3: SYSCALL, INT n, a fault, and 32-bit code.
    "push 0x2b",
    "push qword ptr [rbx + 80]",
    "push 2",
    "push 0x33",
    "push qword ptr [rbx + 72]",
    "iretq",
    "every_user:",
    "note",
    "mov ecx, 3",
    "2:",
    "mov r10d, ecx",
    "syscall",
    "mov ecx, r10d",
    "dec ecx",
    "jnz 2b",
    "note",
    "int 0x80",
    "note",
    "fault hlt",
    "fault sysenter",
    "mov edi, [rbx + 96]",
    "mov ecx, 30",
    "int 0x81",
    ".code32",
    "every_compat:",
    "inc eax",
    "push eax",
    "pop eax",
    "int 0x80",
    "rep stosd",
    "int 0x80",
    "int 0x82",
    ".code64",
    "every_done:",
    "note",
    "mov edx, 0x77",
    "out dx, al",
    "every_trap:",
    "inc r12",
    "every_trap_end:",
    "iretq",
    "every_code:",
    "add rsp, 8",
    "every_fault:",
    "inc r13",
    "mov [rsp], r15",
    "iretq",
    "every_debug:",
    "inc r12",
    "mov r8, dr6",
    "mov [r14], r8d",
    "add r14, 4",
    "mov r8d, 0xffff0ff0",
    "mov dr6, r8",
    "bts qword ptr [rsp + 16], 16",
    "iretq",
    "every_nested:",
    "push r15",
    "lea r15, [rip + 2f]",
    "ud2",
    "2:",
    "mov rax, 0x200000000000",
    "lea r15, [rip + 2f]",
    "mov rcx, [rax]",
    "2:",
    "pop r15",
    "iretq",
    "every_leave:",
    "mov rax, [rbx + 88]",
    "mov [rsp], rax",
    "mov qword ptr [rsp + 8], 0x23",
    "iretq",
    "every_system_call:",
    "inc r12",
    "sysretq",
    // Other pages of code.
    ".balign 4096",
    "every_end:",
    ".purgem note",
    ".purgem fault",
);

extern "C" {
    fn every_start();
    fn every_string();
    fn every_user();
    fn every_compat();
    fn every_done();
    fn every_trap();
    fn every_trap_end();
    fn every_code();
    fn every_fault();
    fn every_debug();
    fn every_nested();
    fn every_leave();
    fn every_system_call();
}

fn address(code: unsafe extern "C" fn()) -> u64 {
    code as *const () as u64
}

const NOTES: usize = 64;

/// The guest's memory beside its code.
#[repr(C, align(4096))]
struct Memory {
    top: [u64; 512],
    below: [u64; 512],
    traps: [u64; 512],
    faults: [u64; 512],
    words: [u64; 32],
    segments: [u64; 16],
    task: [u64; 16],
    buffer: [u8; 512],
    notes: [u32; NOTES],
    stack: [u64; 256],
    user_stack: [u64; 256],
}

impl Memory {
    fn new() -> Box<Self> {
        const PRESENT_WRITABLE_USER: u64 = 7;
        const BIG: u64 = 1 << 7;
        // SAFETY: all of it is numbers.
        let mut all: Box<Self> = unsafe { Box::new(std::mem::zeroed()) };
        all.top[0] = all.below.as_ptr() as u64 | PRESENT_WRITABLE_USER;
        for (gibibyte, entry) in all.below.iter_mut().enumerate() {
            *entry = (gibibyte as u64) << 30 | PRESENT_WRITABLE_USER | BIG;
        }
        for vector in 0..256 {
            gate(&mut all.traps, vector, every_trap, 3);
            let has_code = matches!(vector, 8 | 10..=14 | 17);
            gate(&mut all.faults, vector, if has_code { every_code } else { every_fault }, 0);
        }
        gate(&mut all.faults, 1, every_debug, 0);
        gate(&mut all.faults, 0x80, every_trap, 3);
        gate(&mut all.faults, 0x81, every_leave, 3);
        gate(&mut all.faults, 0x82, every_done, 3);
        gate(&mut all.faults, 0x90, every_nested, 0);
        let task = all.task.as_ptr() as u64;
        all.segments[..10].copy_from_slice(&[
            0,
            0,
            0x00af_9b00_0000_ffff,
            0x00cf_9300_0000_ffff,
            0x00cf_fb00_0000_ffff,
            0x00cf_f300_0000_ffff,
            0x00af_fb00_0000_ffff,
            0x67 | (task & 0xff_ffff) << 16 | 0x89 << 40 | (task >> 24 & 0xff) << 56,
            task >> 32,
            // Not present.
            0x00cf_1300_0000_ffff,
        ]);
        let stack = all.stack.as_ptr_range().end as u64 & !15;
        // RSP0 is at byte 4.
        (all.task[0], all.task[1]) = (stack << 32, stack >> 32);
        let pointer = |limit: u64, base: u64| [limit | base << 16, base >> 48];
        let [traps, faults] = [all.traps.as_ptr() as u64, all.faults.as_ptr() as u64];
        let segments = all.segments.as_ptr() as u64;
        all.words[0..2].copy_from_slice(&pointer(4095, traps));
        all.words[2..4].copy_from_slice(&pointer(4095, faults));
        all.words[4..6].copy_from_slice(&pointer(127, segments));
        all.words[6] = address(every_system_call);
        all.words[9] = address(every_user);
        all.words[10] = all.user_stack.as_ptr_range().end as u64 & !15;
        all.words[11] = address(every_compat);
        all.words[12] = all.buffer.as_ptr() as u64;
        all
    }
}

fn gate(table: &mut [u64; 512], vector: usize, code: unsafe extern "C" fn(), ring: u64) {
    let code = address(code);
    let kind = 0x8e00 | ring << 13;
    table[2 * vector] = code & 0xffff | 0x10 << 16 | kind << 32 | (code >> 16 & 0xffff) << 48;
    table[2 * vector + 1] = code >> 32;
}

/// The result of a run: its notes, the end's time, its counts of traps and faults, and its buffer.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    notes: Vec<u32>,
    end: u64,
    counts: [u64; 2],
    buffer: Vec<u8>,
}

/// A guest on its way through all of it.
struct Guest {
    memory: Box<Memory>,
    nested: Nested,
    vcpu: Vcpu,
    now: u64,
    /// Numbers of stops at a breakpoint and at a watchpoint.
    stops: [u32; 2],
}

impl Guest {
    fn new(debug: &Debug) -> Self {
        let memory = Memory::new();
        let mut nested = Nested::new();
        nested.map(0, 0, 3 << 30).unwrap();
        let mut vcpu = Vcpu::new(0, Vec::new());
        let gdt = memory.segments.as_ptr() as u64;
        let cr3 = memory.top.as_ptr() as u64;
        vcpu.start_in_long_mode(&LongMode { cr3, gdt, idt: memory.faults.as_ptr() as u64 });
        let mut registers = [0; 18];
        registers[3] = memory.words.as_ptr() as u64;
        registers[4] = memory.stack.as_ptr_range().end as u64 & !15;
        registers[14] = memory.notes.as_ptr() as u64;
        registers[16] = address(every_start);
        vcpu.set_registers(&registers);
        let its =
            |one: &Breakpoint| Breakpoint { process: one.process.map(|own| own | cr3), ..*one };
        let breakpoints = debug.breakpoints.iter().map(its).collect();
        // The watched place is in the buffer.
        let watched = memory.buffer.as_ptr() as u64;
        let watches = debug.watches.map(|watch| {
            watch.map(|one| Watchpoint {
                linear: one.linear + watched,
                process: one.process.map(|own| own | cr3),
                ..one
            })
        });
        vcpu.set_debug(&Debug { breakpoints, watches });
        Self { memory, nested, vcpu, now: 1_000_000, stops: [0; 2] }
    }

    /// Goes on for `slice` ticks at most; whether it is at its end.
    fn goes_on(&mut self, costs: &Costs, slice: u64) -> bool {
        let (now, until) = (self.now, self.now + slice);
        // SAFETY: on the bare machine; the guest writes to its memory, which nothing reads meanwhile.
        let (exit, then) = unsafe { self.vcpu.run(&self.nested, costs, now, until) };
        assert!(then >= now);
        self.now = then;
        let registers = || self.vcpu.registers();
        assert!(then < 1_100_000, "it goes round: {:x?} {:x?}", registers(), self.memory.notes);
        match exit {
            Exit::PortWrite { port: 0x77 } => return true,
            Exit::Debug(DebugEvent::Breakpoint) => {
                self.stops[0] += 1;
                assert!(self.stops[0] < 5000, "{:x?} {}", registers(), self.now);
                self.vcpu.pass_breakpoint();
            }
            Exit::Debug(DebugEvent::Watch(_)) => self.stops[1] += 1,
            Exit::PortRead { .. } | Exit::MmioRead { .. } => self.vcpu.data().fill(7),
            Exit::PortWrite { port: 0x10 } | Exit::MmioWrite { .. } | Exit::Interrupted => {}
            other => panic!("{other:?} at {:#x}", self.vcpu.registers()[16]),
        }
        false
    }

    fn left(self) -> (Left, [u32; 2]) {
        let registers = self.vcpu.registers();
        let memory = std::hint::black_box(&self.memory);
        let result = Left {
            notes: memory.notes.to_vec(),
            end: self.now,
            counts: [registers[12], registers[13]],
            buffer: memory.buffer.to_vec(),
        };
        (result, self.stops)
    }
}

/// Goes through all of it in slices of `slice` ticks.
fn run(costs: &Costs, debug: &Debug, slice: u64) -> (Left, [u32; 2]) {
    let mut guest = Guest::new(debug);
    while !guest.goes_on(costs, slice.min(50_000)) {}
    guest.left()
}

fn breakpoints(all: &[unsafe extern "C" fn()], process: Option<u64>) -> Debug {
    let one = |&code: &unsafe extern "C" fn()| Breakpoint { linear: address(code), process };
    Debug { breakpoints: all.iter().map(one).collect(), ..Debug::default() }
}

pub(crate) fn each_instruction_takes_its_tick_whatever_is_watched(costs: &Costs) {
    const LONG: u64 = 1 << 40;
    let (alone, _) = run(costs, &Debug::default(), LONG);
    let ticks = |from: usize| alone.notes[from + 1].wrapping_sub(alone.notes[from]);
    // INT n, INC and IRET of each vector, and three instructions of a note.
    assert_eq!(ticks(0), 256 * 3 + 3, "{:?}", alone.notes);
    assert_eq!(ticks(1), 6, "INT3");
    // The traps of INT n, INT3, four steps, the guest's own watchpoint and breakpoint, three system
    // calls, and three INT n of ring 3.
    assert_eq!(alone.counts, [256 + 1 + 4 + 2 + 3 + 3, 13], "{:?}", alone.notes);

    let often: [unsafe extern "C" fn(); 3] = [every_trap_end, every_string, every_user];
    let many: [unsafe extern "C" fn(); 8] = [
        every_trap_end,
        every_string,
        every_user,
        every_compat,
        every_fault,
        every_nested,
        every_leave,
        every_system_call,
    ];
    // Watchpoints of places that are not accessed, which leave no register for breakpoints.
    let place = |linear, kind, length| Some(Watchpoint { linear, kind, length, process: None });
    let all = [place(256, Watch::Write, 8), place(264, Watch::Write, 8)];
    let full = [all[0], all[1], place(272, Watch::Access, 8), place(280, Watch::Write, 1)];
    let watch = |process| {
        let watches = [None, place(0, Watch::Write, 4), None, None];
        watches.map(|one| one.map(|one| Watchpoint { process, ..one }))
    };
    let with = |debug: Debug, watches: Watches| Debug { watches, ..debug };
    let mut hits = Vec::new();
    for (name, debug) in [
        ("a breakpoint that is not hit", breakpoints(&[every_start], Some(1 << 40))),
        ("three breakpoints", breakpoints(&often, None)),
        ("three of this process", breakpoints(&often, Some(0))),
        ("three of another process", breakpoints(&often, Some(1 << 40))),
        ("three without a register", with(breakpoints(&often, None), full)),
        ("eight breakpoints", breakpoints(&many, None)),
        ("eight without a register", with(breakpoints(&many, Some(0)), full)),
        ("a watchpoint", with(Debug::default(), watch(None))),
        ("a watchpoint and eight breakpoints", with(breakpoints(&many, None), watch(None))),
        ("a watchpoint of this process", with(Debug::default(), watch(Some(0)))),
        ("a watchpoint of another process", with(Debug::default(), watch(Some(1 << 40)))),
    ] {
        for slice in [LONG, 1000, 7, 1] {
            let (result, stops) = run(costs, &debug, slice);
            assert_eq!(result, alone, "{name}, slices of {slice} ticks");
            if slice == LONG {
                println!("{name}: {} and {} stops, the same ticks", stops[0], stops[1]);
                hits.push(stops);
            }
        }
    }
    let [none, three, its, others, waiting, eight, eight_waiting, watched, both, own, foreign] =
        hits[..]
    else {
        panic!("{hits:?}");
    };
    assert_eq!((none, others), ([0, 0], [0, 0]));
    assert!(three[0] > 256 && three == its && three == waiting, "{hits:?}");
    assert!(eight[0] > three[0] && eight == eight_waiting, "{hits:?}");
    assert!(watched[1] > 0 && both == [eight[0], watched[1]], "{hits:?}");
    assert_eq!((own, foreign), (watched, [0, 0]));
    let (result, _) = run(costs, &Debug::default(), 1);
    assert_eq!(result, alone, "steps");

    // Each processor has its own debug registers.
    let debugs = [Debug::default(), with(breakpoints(&many, None), watch(None))];
    let mut guests = debugs.map(|debug| (Guest::new(&debug), false));
    while guests.iter().any(|(_, is_over)| !is_over) {
        for (guest, is_over) in &mut guests {
            *is_over = *is_over || guest.goes_on(costs, 7);
        }
    }
    for (guest, _) in guests {
        assert_eq!(guest.left().0, alone, "two processors in turn");
    }
}
