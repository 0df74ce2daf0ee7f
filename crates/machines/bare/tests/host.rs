//! This test's own program on the bare machine, under stock QEMU.
//!
//! Outside, it starts QEMU for each check and looks at its output; inside, it does the check.
//! `STASIS_BARE_EXITS` gives the number of exits of each kind (3,000), `STASIS_QEMU` names another
//! QEMU.

#[path = "host/observers.rs"]
mod observers;

use stasis_bare::svm::{calibrate, Alike, Costs, Leaf, LongMode, Nested, Vcpu};
use stasis_bare::Exit;
use std::arch::global_asm;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

const MEMORY: u64 = 4 << 30;
const SUCCESS: u8 = 0x10;

fn main() {
    if stasis_bare::is_here() {
        inside();
        println!("done");
        stasis_bare::end(SUCCESS);
    }
    let exits = std::env::var("STASIS_BARE_EXITS").map_or(3_000, |text| text.parse().unwrap());
    let first = run(exits);
    print!("{first}");
    assert_eq!(first, run(exits), "two runs differ");
}

/// Runs the program on the bare machine, and returns its output.
fn run(exits: u32) -> String {
    let folder = tempfile::tempdir().unwrap();
    let elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let stasis_bare::Image { memory: mut image, firmware } =
        stasis_bare::image(&elf, MEMORY).unwrap();
    // The one word that the check depends on, where nothing else is.
    let place = (stasis_bare::layout::PARAMETERS - stasis_bare::IMAGE) as usize + 0x800;
    image[place..place + 4].copy_from_slice(&exits.to_le_bytes());
    std::fs::write(folder.path().join("image"), image).unwrap();
    std::fs::write(folder.path().join("firmware"), firmware).unwrap();
    if let Some(keep) = std::env::var_os("STASIS_KEEP") {
        for name in ["image", "firmware"] {
            std::fs::copy(folder.path().join(name), Path::new(&keep).join(name)).unwrap();
        }
    }
    let mut child = qemu(folder.path());
    let (mut printed, mut before) = (String::new(), 0.0);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let now = processor_seconds(child.id());
        if line.contains("instructions of the host") {
            let each = (now - before) * 1e6 / f64::from(exits);
            eprintln!("{line}, {each:.1} us of processor time");
        }
        before = now;
        printed += &format!("{line}\n");
    }
    let status = i32::from(SUCCESS) << 1 | 1;
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{printed}\n{log}");
    printed
}

/// Processor time that the process has used (proc(5)), in seconds; the kernel counts
/// ticks of 10 ms.
fn processor_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn qemu(folder: &Path) -> std::process::Child {
    let program = std::env::var("STASIS_QEMU").unwrap_or("qemu-system-x86_64".into());
    let options = "-accel tcg,thread=single -icount shift=0,sleep=off -cpu EPYC,+svm,+npt,-rdrand,-rdseed,-erms \
        -machine microvm,pic=off,pit=off,rtc=off -nodefaults -no-user-config -display none \
        -no-reboot -serial stdio -device isa-debug-exit,iobase=0x501,iosize=1 -bios firmware";
    let more = std::env::var("STASIS_QEMU_MORE").unwrap_or_default();
    Command::new(program)
        .args(options.split_whitespace())
        .args(["-m", &format!("{}M", MEMORY >> 20)])
        .args([
            "-device",
            &format!("loader,file=image,addr={:#x},force-raw=on", stasis_bare::IMAGE),
        ])
        .args(more.split_whitespace())
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("qemu-system-x86_64 starts")
}

fn inside() {
    the_standard_library_works();
    // SAFETY: on the bare machine, once.
    let costs = unsafe {
        stasis_bare::start();
        calibrate()
    };
    let costs = costs.unwrap();
    println!("{costs:?}");
    // SAFETY: the word that `run` has put there.
    let exits = unsafe { ((stasis_bare::layout::PARAMETERS + 0x800) as *const u32).read() };
    exits_take_no_time(&costs, exits);
    observers::each_instruction_takes_its_tick_whatever_is_watched(&costs);
    an_exit_takes_few_instructions(&costs, exits);
    each_interrupt_comes_once(&costs, exits);
    memory_that_guests_have_alike_is_each_ones_own(&costs);
}

fn the_standard_library_works() {
    let map: HashMap<u64, String> = (0..1000).map(|n| (n, n.to_string())).collect();
    assert_eq!(map[&77], "77");
    // Larger than what the break holds, and given back.
    let big: Vec<Vec<u8>> = (0..3).map(|n| vec![n; 40 << 20]).collect();
    assert!(big.iter().enumerate().all(|(n, bytes)| bytes[n << 20] == n as u8));
    drop(big);
    assert!(vec![0u8; 60 << 20].iter().step_by(4096).all(|&byte| byte == 0));
    assert!(std::panic::catch_unwind(|| panic!("caught")).is_err());
    assert!(std::thread::Builder::new().spawn(|| ()).is_err());
    assert!(std::fs::File::open("/etc/passwd").is_err());
}

// RBX turns. R9 is the least, R10 the largest number of ticks between two readings of the TSC
// around the instruction.
macro_rules! guest {
    ($name:literal, $($instruction:literal),+) => {
        global_asm!(
            concat!(".globl ", $name),
            concat!($name, ":"),
            "mov r9, -1",
            "xor r10d, r10d",
            "2:",
            "rdtsc",
            "mov r8, rax",
            $($instruction,)+
            "rdtsc",
            "sub rax, r8",
            "cmp rax, r9",
            "cmovb r9, rax",
            "cmp rax, r10",
            "cmova r10, rax",
            "dec rbx",
            "jnz 2b",
            "mov edx, 1",
            "mov dx, 0x77",
            "out dx, al",
        );
    };
}

guest!("test_port_write", "out 0x10, al");
guest!("test_port_read", "in al, 0x10");
guest!("test_store", "mov [rsi], ebx");
guest!("test_load", "mov eax, [rsi]");
guest!("test_wrmsr", "mov ecx, 0x6e0", "wrmsr");
guest!("test_rdmsr", "mov ecx, 0x6e0", "rdmsr");
guest!("test_cpuid", "mov r11, rbx", "cpuid", "mov rbx, r11");
guest!("test_halt", "hlt");
guest!("test_debug_read", "mov rcx, dr7");
guest!("test_debug_write", "mov dr2, rcx");
guest!("test_nothing", "nop");

extern "C" {
    fn test_port_write();
    fn test_port_read();
    fn test_store();
    fn test_load();
    fn test_wrmsr();
    fn test_rdmsr();
    fn test_cpuid();
    fn test_halt();
    fn test_debug_read();
    fn test_debug_write();
    fn test_nothing();
}

/// A turn takes the guest the same ticks, for any work of the host between.
fn exits_take_no_time(costs: &Costs, exits: u32) {
    for (name, code, ticks, ways) in [
        ("nothing", test_nothing as unsafe extern "C" fn(), 3, 0),
        ("a port written", test_port_write, 3, 1),
        ("a port read", test_port_read, 3, 1),
        ("a store", test_store, 3, 1),
        ("a load", test_load, 3, 1),
        ("WRMSR", test_wrmsr, 4, 1),
        ("RDMSR", test_rdmsr, 4, 1),
        ("CPUID", test_cpuid, 5, 0),
        ("HLT", test_halt, 3, 1),
        ("a debug register read", test_debug_read, 3, 0),
        ("a debug register written", test_debug_write, 3, 0),
    ] {
        let (nested, mut vcpu) = guest(code, exits.into());
        let (mut now, mut count, mut noise) = (1_000_000, 0u32, 1u64);
        loop {
            // A slice's end now and then, at any instruction.
            noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1);
            let until = now + 1 + (noise >> 56);
            // SAFETY: on the bare machine; the guest writes to no memory.
            let (exit, then) = unsafe { vcpu.run(&nested, costs, now, until) };
            assert!(then >= now);
            now = then;
            match exit {
                Exit::PortWrite { port: 0x77 } => break,
                Exit::Interrupted => {
                    assert_eq!(now, until, "{name}: a slice ends where it should");
                    continue;
                }
                Exit::Unsupported(description) => panic!("{name}: {description}"),
                Exit::Shutdown => panic!("{name}: shut down"),
                Exit::PortRead { .. } | Exit::MmioRead { .. } => vcpu.data().fill(count as u8),
                Exit::MmioWrite { address, data } => {
                    assert_eq!((address, data.1), (0xd000_0000, 4));
                }
                _ => {}
            }
            count += 1;
            // The host takes its time.
            (0..noise >> 58).for_each(|n| {
                std::hint::black_box(n);
            });
        }
        let registers = vcpu.registers();
        assert_eq!(count, exits * ways, "{name}");
        assert_eq!((registers[9], registers[10]), (ticks, ticks), "{name}: least and most");
        println!("{name}: {exits} turns, {ticks} ticks each");
    }
}

/// The host's instructions for an exit and the way back, decoding included and before any
/// device has done anything. QEMU's TSC counts instructions under `-icount shift=0`.
fn an_exit_takes_few_instructions(costs: &Costs, exits: u32) {
    let turns = u64::from(exits);
    let turn = |code: unsafe extern "C" fn()| {
        let (nested, mut vcpu) = guest(code, turns);
        // SAFETY: reads a register.
        let begun = unsafe { std::arch::x86_64::_rdtsc() };
        loop {
            // SAFETY: on the bare machine; the guest writes to no memory.
            match unsafe { vcpu.run(&nested, costs, 1_000_000, u64::MAX >> 1) }.0 {
                Exit::PortWrite { port: 0x77 } => break,
                Exit::PortRead { .. } | Exit::MmioRead { .. } => vcpu.data().fill(1),
                Exit::Interrupted => panic!("no slice ends"),
                _ => {}
            }
        }
        // SAFETY: as above.
        (unsafe { std::arch::x86_64::_rdtsc() } - begun) / turns
    };
    let own = turn(test_nothing);
    // A store rings a doorbell: the way that counts.
    for (name, code, most) in [
        ("a store", test_store as unsafe extern "C" fn(), 600),
        ("a load", test_load, 700),
        ("a port read", test_port_read, 500),
        ("WRMSR", test_wrmsr, 500),
        ("CPUID", test_cpuid, 500),
        ("HLT", test_halt, 500),
    ] {
        let instructions = turn(code) - own;
        println!("{name}: {instructions} instructions of the host");
        assert!(instructions <= most, "{name}: at most {most}");
    }
}

/// A processor in long mode that makes `turns` turns of `code`, with 3 GiB of memory.
fn guest(code: unsafe extern "C" fn(), turns: u64) -> (Nested, Vcpu) {
    static SEGMENTS: [u64; 4] = [0, 0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];
    let mut nested = Nested::new();
    nested.map(0, 0, 3 << 30).unwrap();
    let leaves = vec![Leaf { function: 0, index: None, values: [1, 2, 3, 4] }];
    let mut vcpu = Vcpu::new(0, leaves);
    let mode =
        LongMode { cr3: stasis_bare::layout::PAGE_TABLES, gdt: SEGMENTS.as_ptr() as u64, idt: 0 };
    vcpu.start_in_long_mode(&mode);
    let mut registers = [0; 18];
    registers[3] = turns;
    registers[6] = 0xd000_0000;
    registers[16] = code as *const () as u64;
    vcpu.set_registers(&registers);
    (nested, vcpu)
}

// Writes a word to each of RBX pages from RSI on, then some pages by one string instruction.
global_asm!(
    "test_writes:",
    "mov rdi, rsi",
    "2:",
    "add [rsi], rbx",
    "add rsi, 4096",
    "dec rbx",
    "jnz 2b",
    "mov eax, 9",
    "mov ecx, 10000",
    "rep stosb",
    "mov dx, 0x77",
    "out dx, al",
);

extern "C" {
    fn test_writes();
}

/// A guest that writes to memory which it shares with another writes to its own, in the time that it
/// takes where nothing is shared.
fn memory_that_guests_have_alike_is_each_ones_own(costs: &Costs) {
    const PAGE: usize = 4096;
    const PAGES: usize = 8;
    const LENGTH: u64 = (PAGE * PAGES) as u64;
    let run = |shares: bool, writer: usize, step: u64| {
        let mut memory = vec![5u8; PAGE * (2 * PAGES + 1)];
        let place = (memory.as_mut_ptr() as u64).next_multiple_of(PAGE as u64);
        let alike = Arc::new(Alike::default());
        let tables = [0, LENGTH].map(|offset| {
            let mut nested = Nested::new();
            nested.set_fine(std::slice::from_ref(&(place..place + LENGTH)));
            nested.map(0, 0, place).unwrap();
            nested.map(place, place + offset, LENGTH).unwrap();
            let end = place + LENGTH;
            nested.map(end, end, (3 << 30) - end).unwrap();
            let nested = Arc::new(nested);
            alike.add(&nested);
            nested
        });
        if shares {
            // SAFETY: on the bare machine; the memory is this function's own.
            unsafe { alike.share(place..place + LENGTH, false) };
        }
        let (_, mut vcpu) = guest(test_writes, PAGES as u64);
        let mut registers = vcpu.registers();
        registers[6] = place;
        vcpu.set_registers(&registers);
        let mut now = 1_000_000;
        loop {
            // SAFETY: on the bare machine; the guest writes to the memory that is its own.
            let (exit, then) = unsafe { vcpu.run(&tables[writer], costs, now, now + step) };
            now = then;
            match exit {
                Exit::PortWrite { port: 0x77 } => break,
                Exit::Interrupted => {}
                other => panic!("{other:?}"),
            }
        }
        let skip = (place - memory.as_ptr() as u64) as usize;
        (now, memory[skip..skip + 2 * PAGE * PAGES].to_vec())
    };
    for (writer, step) in [(0, 1 << 40), (1, 1 << 40), (0, 7), (1, 7), (1, 1)] {
        let alone = run(false, writer, step);
        let (time, memory) = run(true, writer, step);
        assert!((time, &memory) == (alone.0, &alone.1), "until {time} and {}", alone.0);
        let others = (1 - writer) * PAGE * PAGES;
        assert!(memory[others..others + PAGE * PAGES].iter().all(|byte| *byte == 5));
        println!("guest {writer} wrote by steps of {step} until {time}");
    }
}

// R12 counts interrupts that came, R13 those that came while another was served.
global_asm!(
    "test_waits:",
    "sti",
    "2:",
    "inc rbx",
    "nop",
    "hlt",
    "nop",
    "jmp 2b",
    "test_interrupt:",
    "inc r12",
    "add r13, r14",
    "mov r14d, 1",
    "nop",
    "nop",
    "nop",
    "nop",
    "out 0x20, al",
    "nop",
    "nop",
    "nop",
    "nop",
    "xor r14d, r14d",
    "iretq",
);

extern "C" {
    fn test_waits();
    fn test_interrupt();
}

/// An interrupt comes once and not into another's service, wherever slices end.
fn each_interrupt_comes_once(costs: &Costs, count: u32) {
    const VECTOR: u8 = 0x30;
    const GATE: u64 = 0x8e00 << 32 | 0x10 << 16;
    static SEGMENTS: [u64; 4] = [0, 0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];
    let mut idt = vec![0u64; 512];
    let handler = test_interrupt as *const () as u64;
    idt[2 * usize::from(VECTOR)] = handler & 0xffff | GATE | (handler >> 16 & 0xffff) << 48;
    idt[2 * usize::from(VECTOR) + 1] = handler >> 32;
    let stack = vec![0u64; 512];
    let mut nested = Nested::new();
    nested.map(0, 0, 3 << 30).unwrap();
    let mut vcpu = Vcpu::new(0, Vec::new());
    let mode = LongMode {
        cr3: stasis_bare::layout::PAGE_TABLES,
        gdt: SEGMENTS.as_ptr() as u64,
        idt: idt.as_ptr() as u64,
    };
    vcpu.start_in_long_mode(&mode);
    let mut registers = [0; 18];
    registers[4] = (stack.as_ptr() as u64 + 4096) & !15;
    registers[16] = test_waits as *const () as u64;
    vcpu.set_registers(&registers);
    let (mut now, mut injected, mut noise, mut served) = (1_000_000, 0u64, 1u64, true);
    while injected < u64::from(count) {
        noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1);
        if served && vcpu.interruptible() {
            vcpu.inject(VECTOR);
            served = false;
            injected += 1;
        }
        vcpu.request_window(served && noise >> 40 & 1 == 0);
        let until = now + 1 + (noise >> 59);
        // SAFETY: on the bare machine; the guest writes to its stack only.
        let (exit, then) = unsafe { vcpu.run(&nested, costs, now, until) };
        now = then;
        match exit {
            Exit::PortWrite { port: 0x20 } => served = true,
            Exit::Interrupted | Exit::Window | Exit::Halt => {}
            other => panic!("{other:?}"),
        }
    }
    while !served {
        // SAFETY: as above.
        let (exit, then) = unsafe { vcpu.run(&nested, costs, now, now + 1000) };
        now = then;
        served = matches!(exit, Exit::PortWrite { port: 0x20 });
    }
    let registers = vcpu.registers();
    assert_eq!((registers[12], registers[13]), (injected, 0), "came, came in another's service");
    println!("{injected} interrupts came once each");
}
