//! A driver and a carrier that follow a string of bytes, and the properties that must hold all the
//! same. Shared by the property test and the fuzz target.

use std::cell::RefCell;
use std::collections::HashMap;

use stasis_block::{Doorbells, Health, Operation, Request, Status, VendorError};
use stasis_nvme::{
    Config, EnduranceGroup, KeptState, KeyValue, Memory, Metadata, Namespace, Ocssd,
    OutOfMemoryRange, Placement, Programs, Protection, VendorRequest, Zones, Zrwa,
};

#[path = "../../../block/tests/common/hostile.rs"]
pub mod common;
use common::Script;
#[allow(dead_code)] // Each test file uses its part.
#[path = "one.rs"]
mod one;
use one::Controller;

/// Small, so that any address often hits something.
const RAM: usize = 256 << 10;
const BLOCKS: u64 = 4096;
/// Beginning of each namespace, with gaps between them.
const STARTS: [u64; 4] = {
    let each = BLOCKS * 512 + 8192;
    [0, each, 2 * each, 3 * each]
};
/// Blocks of a zone and of a chunk, and those of a zone that can be written.
const UNIT: u64 = 16;
const CAPACITY: u64 = 12;
/// The zoned and the Open-Channel namespace.
const ZONED: u8 = 3;
const OCSSD: u8 = 4;
/// Bytes of a segment of the key-value namespace's log.
const SEGMENT: u64 = 16_384;
const MAX_TRANSFER: u32 = 32 << 10;
const MAX_IN_FLIGHT: usize = 128 << 10;
const QUEUES: u16 = 3;
/// Steps between two looks at the kept state.
const LOOKS_EVERY: u32 = 8;

/// Bits of a script's first byte: zones and chunks; without those, a key-value namespace.
pub const OTHERS: u8 = 32;
pub const PAIRS: u8 = 128;
/// With pairs: computational programs too.
pub const PROGRAMS: u8 = 64;
/// Bytes of the memory namespace, and the namespaces of programs.
const MEMORY_BYTES: u32 = 4096;
const MEMORY: u8 = 4;
const COMPUTE: u8 = 5;

struct Ram(RefCell<Vec<u8>>);

impl Ram {
    fn range(address: u64, length: usize) -> Result<std::ops::Range<usize>, OutOfMemoryRange> {
        common::range(RAM, address, length).ok_or(OutOfMemoryRange { address, length })
    }
}

impl Memory for Ram {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfMemoryRange> {
        into.copy_from_slice(&self.0.borrow()[Self::range(address, into.len())?]);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfMemoryRange> {
        self.0.borrow_mut()[Self::range(address, from.len())?].copy_from_slice(from);
        Ok(())
    }
}

impl Script<'_> {
    /// Mostly a page of the memory, sometimes with an offset, sometimes
    /// anything.
    fn address(&mut self) -> u64 {
        let page = u64::from(self.u8()) % 72 * 4096;
        match self.u8() {
            0..=159 => page,
            160..=239 => page + u64::from(self.u16() % 1024) * 4,
            _ => u64::from(self.u32()) << 32 | u64::from(self.u32()),
        }
    }
}

/// The namespaces beside the first two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// None: the first may have metadata.
    Blocks,
    /// One of pairs.
    Pairs,
    /// The same, with computational programs behind it.
    Programs,
    /// A zoned one, and an Open-Channel one.
    Others,
}

/// Makes of a script one of a drive of a kind: `pairs`, `programs` (pairs, and computational
/// programs), or `protection` (metadata with protection information). Of another kind: `None`.
pub fn of_kind(kind: &str, mut script: Vec<u8>) -> Option<Vec<u8>> {
    let (without, with) = match kind {
        "pairs" => (OTHERS | PROGRAMS, PAIRS),
        "programs" => (OTHERS, PAIRS | PROGRAMS),
        "protection" => (OTHERS | PAIRS, 0),
        _ => return None,
    };
    if let Some(flags) = script.first_mut() {
        *flags = *flags & !without | with;
        // One bit at least of those that choose metadata and its protection.
        if kind == "protection" && *flags & 3 == 0 {
            *flags |= 1;
        }
    }
    Some(script)
}

/// Carries out `script`.
///
/// # Panics
/// If the controller breaks a promise.
pub fn run(script: &[u8]) {
    let mut script = Script(script);
    let flags = script.u8();
    let kind = match flags {
        _ if flags & OTHERS != 0 => Kind::Others,
        _ if flags & PAIRS != 0 && flags & PROGRAMS != 0 => Kind::Programs,
        _ if flags & PAIRS != 0 => Kind::Pairs,
        _ => Kind::Blocks,
    };
    let mut config = Config {
        queue_pairs: QUEUES,
        queue_entries: 16,
        namespaces: vec![
            first(flags, kind),
            Namespace { start: STARTS[1], read_only: true, ..Namespace::new(BLOCKS / 8, 4096) },
        ],
        volatile_write_cache: flags & 1 != 0,
        shadow: if flags & 2 != 0 { Doorbells::Lazy } else { Doorbells::Exact },
        interrupt_coalescing: flags & 4 != 0,
        max_transfer: MAX_TRANSFER,
        max_in_flight_bytes: MAX_IN_FLIGHT,
        metadata: kind == Kind::Blocks,
        memory_buffer: Some(2 << 20),
        placement: match flags >> 3 & 3 {
            0 => Placement::Streams { max: 3 },
            1 => Placement::Fdp { reclaim_groups: 3, handles: 5, reclaim_unit: 8192 },
            _ => Placement::None,
        },
        ..Config::default()
    };
    // Each in an endurance group of its own, of which one places data.
    if kind == Kind::Blocks && flags >> 3 & 3 == 2 {
        let placement = Placement::Fdp { reclaim_groups: 2, handles: 3, reclaim_unit: 8192 };
        for (namespace, id) in config.namespaces.iter_mut().zip(1..) {
            (namespace.endurance_group, namespace.nvm_set) = (id, 3 - id);
            let placement = if id == 1 { placement } else { Placement::None };
            config.endurance_groups.push(EnduranceGroup { id, placement });
        }
    }
    if kind == Kind::Others {
        config.namespaces.extend(white_box(flags));
    } else if matches!(kind, Kind::Pairs | Kind::Programs) {
        // With few keys, or with memory for one page of their index.
        let (max_keys, index_cache) = if flags & 32 == 0 { (40, None) } else { (200, Some(1)) };
        let (segment, page) = (Some(SEGMENT), None);
        let log = KeyValue { segment, spare_percent: 0, max_keys, index_cache, page };
        // Few segments, so that a script comes to their collection.
        let namespace = Namespace { start: STARTS[2], ..Namespace::new(10 * SEGMENT / 512, 512) };
        config.namespaces.push(Namespace { key_value: Some(log), ..namespace });
        config.programs = (kind == Kind::Programs).then(|| Programs {
            processors: 2,
            memory: MEMORY_BYTES.into(),
            max_instructions: 200,
            ..Programs::default()
        });
    } else if flags & 64 != 0 {
        let word = "8W/3W:1us:1us/idle:50mW:1us:5us/idle:5mW:3us:9us".to_owned();
        config.power_states = word.try_into().expect("good states");
    }
    let ram = Ram(RefCell::new(vec![0; RAM]));
    let mut controller = Controller::new(config).expect("a good configuration");
    let mut held: HashMap<u32, Request> = HashMap::new();
    // A carrier that keeps the state before completions.
    if flags >> 3 & 3 == 3 {
        controller.pcie().hold_completions();
    }
    // Start enabled, or else most scripts would never get there.
    let mut tails = [0u16; 4];
    enable(&mut controller, &ram);
    let mut before = (controller.state_changes(), kept(&controller));
    for number in 1u32.. {
        if script.0.is_empty() {
            break;
        }
        step(&mut script, &mut controller, &ram, &mut held, (&mut tails, kind));
        // Most of the time went into this.
        if number.is_multiple_of(LOOKS_EVERY) || script.0.is_empty() {
            let after = (controller.state_changes(), kept(&controller));
            assert!(before.0 != after.0 || before.1 == after.1, "a change of the state is told");
            before = after;
        }
        // Each release posts completions, of which queues have only so many.
        let releases = (0..1000).take_while(|_| {
            let holds = controller.pcie().is_holding();
            controller.pcie().release(&ram);
            holds
        });
        assert!(releases.count() < 1000, "releases end");
        assert!(controller.in_flight() >= held.len());
        let bytes: usize = held.values().map(|request| request.data.len()).sum();
        assert!(bytes <= MAX_IN_FLIGHT);
    }
    // Whatever happened, the drive can give everything back, and a reset helps.
    for (_, request) in held.drain() {
        controller.complete(&ram, request.tag, Status::Ok, request.data);
    }
    // Collection goes on with what it had begun, and ends.
    if matches!(kind, Kind::Pairs | Kind::Programs) {
        let rest = std::iter::from_fn(|| controller.pop_request()).take(10_000);
        let rest: Vec<Request> = rest.collect();
        for request in rest {
            controller.complete(&ram, request.tag, Status::Ok, request.data);
        }
        let ends = (0..10_000).any(|_| match controller.pop_request() {
            Some(request) => {
                controller.complete(&ram, request.tag, Status::Ok, request.data);
                false
            }
            None => true,
        });
        assert!(ends, "collection ends");
    }
    controller.write_register(&ram, 0x14, &[0; 4]);
    assert_eq!(controller.in_flight(), 0);
    assert!(controller.pop_request().is_none());
    enable(&mut controller, &ram);
    assert!(!controller.pcie().has_failed());
}

/// The kept state, but for the bytes that Flexible Data Placement counts, and for pairs, which are kept
/// at the end of a run.
fn kept(controller: &Controller) -> KeptState {
    let mut state = controller.kept_state();
    state.namespaces.iter_mut().for_each(|namespace| namespace.pairs = None);
    for fdp in state.fdp.iter_mut().chain(state.groups.iter_mut().map(|group| &mut group.fdp)) {
        fdp.room.clear();
        (fdp.host_written, fdp.media_written, fdp.media_erased) = (0, 0, 0);
    }
    state
}

/// The first namespace: with metadata in most cases where that is offered.
fn first(flags: u8, kind: Kind) -> Namespace {
    let plain = Namespace::new(BLOCKS, 512);
    let choice = flags & 7;
    if kind != Kind::Blocks || choice == 0 {
        return plain;
    }
    let protection = Protection::try_from(choice % 4).expect("0 to 3");
    let (block, size) = [(512, 8), (512, 64), (4096, 8), (4096, 64)][usize::from(flags >> 6)];
    let first = flags & 8 != 0 && protection != Protection::None;
    let metadata = Metadata { extended: flags & 16 != 0, protection, first, ..Metadata::new(size) };
    let blocks = BLOCKS * 512 / u64::from(block + 512);
    Namespace { metadata: Some(metadata), ..Namespace::new(blocks, block) }
}

/// A zoned and an Open-Channel namespace.
fn white_box(flags: u8) -> [Namespace; 2] {
    let zoned = Zones {
        capacity: Some(CAPACITY * 512),
        max_open: Some(3),
        max_active: Some(5),
        extension_size: 64,
        zrwa: (flags & 64 != 0).then_some(Zrwa { size: 2048, granularity: 1024, count: 2 }),
        reads_cross_zones: flags & 128 != 0,
        ..Zones::new(UNIT * 512)
    };
    let ocssd = Ocssd {
        write_min: if flags & 64 != 0 { 2 } else { 1 },
        write_optimal: Some(4),
        cached: if flags & 128 != 0 { 4 } else { 0 },
        max_open: Some(6),
        max_open_per_unit: Some(2),
        ..Ocssd::new(2, 2, 64, UNIT as u32)
    };
    let namespace = |start| Namespace { start, ..Namespace::new(BLOCKS, 512) };
    [
        Namespace { zoned: Some(zoned), ..namespace(STARTS[2]) },
        Namespace { ocssd: Some(ocssd), ..namespace(STARTS[3]) },
    ]
}

/// The admin queues in pages 1 and 2.
fn enable(controller: &mut Controller, ram: &Ram) {
    let mut raw = [0; 4];
    controller.read_register(4, &mut raw);
    // All command sets, where there are several.
    let sets = if raw[1] & 8 != 0 { 6 << 4 } else { 0 };
    let mut write = |offset, value: u32| {
        controller.write_register(ram, offset, &value.to_le_bytes());
    };
    for (offset, value) in [(0x14, 0), (0x24, 15 << 16 | 15), (0x28, 4096), (0x30, 8192)] {
        write(offset, value);
    }
    write(0x2c, 0);
    write(0x34, 0);
    write(0x14, 4 << 20 | 6 << 16 | sets | 1);
}

fn step(
    script: &mut Script<'_>,
    controller: &mut Controller,
    ram: &Ram,
    held: &mut HashMap<u32, Request>,
    (tails, kind): (&mut [u16; 4], Kind),
) {
    match script.u8() % 18 {
        0 => {
            let (offset, width) = (u64::from(script.u16() % 0x1100), script.u8() % 17);
            let data: Vec<u8> = (0..width).map(|_| script.u8()).collect();
            controller.write_register(ram, offset, &data);
        }
        1 => {
            let offsets = [0x14, 0x24, 0x28, 0x2c, 0x30, 0x34, 0x50, 0x54];
            let offset = offsets[usize::from(script.u8() % 8)];
            controller.write_register(ram, offset, &script.u32().to_le_bytes());
        }
        2 => {
            let mut raw = vec![0; usize::from(script.u8() % 17)];
            controller.read_register(script.u16().into(), &mut raw);
        }
        3 => {
            let address = script.address();
            let value = script.address().to_le_bytes();
            let _ = ram.write(address, &value.repeat(usize::from(script.u8() % 64)));
        }
        4 => {
            let queue = u64::from(script.u8() % 5);
            let value = if script.u8() < 240 { u32::from(script.u8() % 17) } else { script.u32() };
            let _ = ram.write(3 * 4096 + queue * 4, &value.to_le_bytes());
            controller.write_register(ram, 0x1000 + queue * 4, &value.to_le_bytes());
        }
        5 => controller.pcie().poll_shadow(ram),
        6 => {
            if script.u8() < 16 {
                *tails = [0; 4];
                enable(controller, ram);
            }
        }
        7 => {
            controller.set_time(script.u32().into());
            controller.end_work(ram);
        }
        8 => controller.set_temperature(ram, script.u16()),
        9 => while controller.pop_interrupt().is_some() {},
        10 => take(controller, held, matches!(kind, Kind::Pairs | Kind::Programs)),
        16 => {
            let (available_spare, percentage_used) = (script.u8(), script.u8());
            let read_only = script.u8() & 1 != 0;
            let health =
                Health { available_spare, percentage_used, read_only, ..Health::default() };
            controller.set_health(ram, health);
            controller.set_parts_health(ram, &[Health::default(), health]);
        }
        17 => {
            if let Some(VendorRequest { tag, command }) = controller.pop_vendor() {
                assert!(command.data.len() <= MAX_TRANSFER as usize);
                let answer = [Ok(7), Err(VendorError::Opcode), Err(VendorError::Field)];
                let answer = answer[usize::from(script.u8() % 3)];
                // Sometimes never answered, or more than once.
                for _ in 0..script.u8() % 3 {
                    controller.complete_vendor(ram, tag, answer, &command.data);
                }
            }
        }
        11 => {
            let tag = u32::from(script.u8());
            let status =
                [Status::Ok, Status::ReadError, Status::WriteError][usize::from(script.u8() % 3)];
            match held.remove(&tag) {
                Some(request) => {
                    controller.complete(ram, tag, status, request.data);
                }
                // Not in flight, at least not at the drive: a broken carrier.
                None if script.u8() == 0 => {
                    controller.complete(ram, u32::MAX - tag, status, vec![1; 77]);
                }
                None => {}
            }
        }
        _ => command(script, controller, ram, (tails, kind)),
    }
}

/// Takes a request, as the drive does.
fn take(controller: &mut Controller, held: &mut HashMap<u32, Request>, has_pairs: bool) {
    let Some(request) = controller.pop_request() else { return };
    let command = request.command;
    let index = STARTS.iter().rposition(|&start| start <= command.offset).unwrap();
    let (namespace, start) = (index as u32 + 1, STARTS[index]);
    if command.operation != Operation::Flush {
        let inside = start..start + BLOCKS * 512;
        let end = command.offset + command.length;
        assert!(inside.contains(&command.offset) && end <= inside.end, "inside the namespace");
        if command.operation == Operation::Copy {
            let source = command.source..command.source + command.length;
            assert!(inside.contains(&source.start) && source.end <= inside.end);
            assert!(source.end <= command.offset || end <= source.start, "apart: {request:?}");
        }
        let writes = [Operation::Write, Operation::WriteZeroes, Operation::Copy];
        // A format erases a namespace in pieces, whatever its zones are.
        let formats = request.queue == 0;
        if has_pairs && namespace == 3 && !matches!(command.operation, Operation::Discard) {
            let within = (command.offset - start) % SEGMENT + command.length;
            assert!(formats || within <= SEGMENT, "inside one segment: {request:?}");
        } else if namespace > 2 && !formats && writes.contains(&command.operation) {
            let most = if namespace == u32::from(ZONED) { CAPACITY } else { UNIT };
            let within = (command.offset - start) % (UNIT * 512) + command.length;
            assert!(within <= most * 512, "inside one zone or chunk: {request:?}");
        }
    }
    assert!(request.queue <= QUEUES);
    match command.operation {
        Operation::Read | Operation::Write => {
            assert_eq!(request.data.len() as u64, command.length);
            assert!(command.length > 0 && command.length <= 2 * u64::from(MAX_TRANSFER));
        }
        Operation::Verify if !request.data.is_empty() => {
            assert_eq!(request.data.len() as u64, command.length);
        }
        _ => assert!(request.data.is_empty()),
    }
    let reads = matches!(command.operation, Operation::Read | Operation::Verify | Operation::Flush);
    assert!(reads || namespace != 2, "protected");
    assert!(held.insert(request.tag, request).is_none(), "a tag in flight twice");
}

/// Puts a command that makes some sense into a queue, and rings.
fn command(
    script: &mut Script<'_>,
    controller: &mut Controller,
    ram: &Ram,
    (tails, kind): (&mut [u16; 4], Kind),
) {
    const ADMIN: [u8; 21] = [
        0, 1, 1, 2, 4, 5, 5, 6, 8, 9, 10, 0x0c, 0x80, 0x80, 0xc5, 0xc6, 0x19, 0x19, 0x1a, 0x1a,
        0xe2,
    ];
    const IO: [u8; 18] =
        [0, 1, 1, 1, 2, 2, 4, 5, 5, 8, 9, 0x0c, 0x12, 0x1d, 0x19, 0x19, 0x19, 0x55];
    /// Firmware Commit and Download, Get LBA Status, logs and features of their own.
    const TOOLS: [u8; 5] = [0x10, 0x11, 0x86, 2, 9];
    let queue = script.u8() % 4;
    let choice = usize::from(script.u8());
    let mut raw = [0; 64];
    raw[0] = match queue {
        0 if choice >= 220 => TOOLS[choice % TOOLS.len()],
        0 if choice % 22 == 21 => 0x7c,
        0 => ADMIN[choice % 22],
        _ => IO[choice % 18],
    };
    raw[1] = match script.u8() {
        0..=179 => 0,
        180..=249 if queue != 0 => 0x40,
        180..=249 => 0,
        _ => script.u8(),
    };
    raw[2] = script.u8();
    raw[4] = if script.u8() < 240 { script.u8() % 5 } else { 0xff };
    if kind == Kind::Pairs && queue != 0 && script.u8() < 160 {
        raw[4] = 3;
    }
    if kind == Kind::Programs && script.u8() < 160 {
        raw[4] = if queue == 0 { COMPUTE } else { MEMORY + script.u8() % 2 };
    }
    if raw[4] == 0xff {
        raw[5..8].fill(0xff);
    }
    raw[24..32].copy_from_slice(&script.address().to_le_bytes());
    raw[32..40].copy_from_slice(&script.address().to_le_bytes());
    if raw[1] == 0x40 {
        // A list, its length and type such that some are right.
        let length = [16, 32, 512, 4096, 8192][usize::from(script.u8() % 5)];
        raw[32..36].copy_from_slice(&u32::to_le_bytes(length));
        raw[36..39].fill(0);
        raw[39] = (script.u8() % 5) << 4;
    }
    let mut dword = |at: usize, value: u32| raw[at..at + 4].copy_from_slice(&value.to_le_bytes());
    if script.u8() < 220 {
        // Small numbers: queue identifiers and sizes, blocks, features.
        let (low, high) = (script.u8(), script.u8());
        dword(40, u32::from(low % 20) | u32::from(high % 18) << 16);
        let (low, high) = (script.u8(), script.u8());
        let dword11 = if queue == 0 { u32::from(low) | u32::from(high % 5) << 16 } else { 0 };
        dword(44, if script.u8() < 128 { dword11 } else { 4 });
        let flags = u32::from(script.u8());
        let placement = if flags & 4 != 0 { flags >> 4 & 3 } else { 0 };
        dword(48, u32::from(script.u8()) | flags << 24 & 0x4000_0000 | placement << 20);
        dword(52, u32::from(script.u8() % 8) << 16);
    } else {
        for at in [40, 44, 48, 52] {
            dword(at, script.u32());
        }
    }
    match raw[4] {
        _ if queue == 0 && choice >= 220 => tool(script, &mut raw),
        3 if matches!(kind, Kind::Pairs | Kind::Programs) && queue != 0 && script.u8() < 240 => {
            pair_command(script, &mut raw)
        }
        MEMORY | COMPUTE if kind == Kind::Programs && script.u8() < 240 => {
            computing_command(script, ram, queue == 0, &mut raw);
        }
        1 if kind == Kind::Blocks && queue != 0 => protected_command(script, &mut raw),
        ZONED | OCSSD if queue != 0 && script.u8() < 220 => {
            white_box_command(script, ram, &mut raw);
        }
        // Changed zones, chunk states and their changes.
        1..=4 if raw[0] == 2 && script.u8() < 128 => {
            let log = [0xbf, 0xca, 0xd0][usize::from(script.u8() % 3)];
            raw[40..44].copy_from_slice(&[log, script.u8() & 0x80, script.u8(), 0]);
        }
        _ => {}
    }
    // A queue that is not what this takes it for is hostile too.
    let tail = &mut tails[usize::from(queue)];
    let base = [4096, 16 * 4096, 17 * 4096, 18 * 4096][usize::from(queue)];
    if queue != 0 && script.u8() < 64 {
        // Create the pair first: without it the command goes nowhere.
        create(controller, ram, queue, base);
        *tail = 0;
    }
    let _ = ram.write(base + u64::from(*tail) * 64, &raw);
    *tail = (*tail + 1) % 16;
    let value = u32::from(*tail);
    let doorbell = u64::from(queue) * 8;
    let _ = ram.write(3 * 4096 + doorbell, &value.to_le_bytes());
    controller.write_register(ram, 0x1000 + doorbell, &value.to_le_bytes());
}

/// Makes of a command one that a tool sends.
fn tool(script: &mut Script<'_>, raw: &mut [u8; 64]) {
    let choice = script.u8();
    let (dword10, dword11) = match raw[0] {
        // Telemetry, persistent events with each action, blocks that may be unreadable.
        2 => {
            let log = [7, 8, 13, 14][usize::from(choice % 4)];
            (127 << 16 | u32::from(script.u8() % 4) << 8 | log, 0)
        }
        9 => ([2, 12][usize::from(choice % 2)], u32::from(script.u8() % 5)),
        // All actions and slots; pieces of an image, of which many overlap.
        0x10 => (u32::from(choice & 0x3f), 0),
        0x11 => (u32::from(choice % 64), u32::from(script.u8() % 96)),
        // A scan, or what is known.
        _ => (u32::from(choice), 0),
    };
    raw[40..44].copy_from_slice(&dword10.to_le_bytes());
    raw[44..48].copy_from_slice(&dword11.to_le_bytes());
    raw[55] = 0x10 + script.u8() % 3;
}

/// Makes of a command one for pairs: of few keys, and of values that fill the namespace.
fn pair_command(script: &mut Script<'_>, raw: &mut [u8; 64]) {
    const COMMANDS: [u8; 10] = [1, 1, 1, 1, 1, 2, 2, 6, 0x10, 0x14];
    raw[0] = COMMANDS[usize::from(script.u8() % 10)];
    let key = script.u8();
    raw[8..16].fill(0);
    raw[8] = key % 64;
    raw[56..64].fill(0);
    let length = if script.u8() < 240 { 1 + key % 2 } else { script.u8() };
    let options = [0, 0, 0, 1, 2, 3][usize::from(script.u8() % 6)];
    raw[44..48].copy_from_slice(&[length, options, 0, 0]);
    let bytes = match script.u8() {
        0..=39 => u32::from(script.u16() % 1100),
        40..=229 => 1024 - u32::from(script.u8()),
        _ => script.u32() >> (script.u8() % 32),
    };
    raw[40..44].copy_from_slice(&bytes.to_le_bytes());
}

/// Makes of a command one for programs and their memory: of few programs and sets, and of descriptors
/// and code of which some are right.
fn computing_command(script: &mut Script<'_>, ram: &Ram, is_admin: bool, raw: &mut [u8; 64]) {
    const PLACE: u64 = 42 * 4096;
    raw[1] = 0;
    raw[24..32].copy_from_slice(&PLACE.to_le_bytes());
    let mut dword = |at: usize, value: u32| raw[at..at + 4].copy_from_slice(&value.to_le_bytes());
    for at in [8, 12, 16, 40, 44, 48, 52, 56, 60] {
        dword(at, 0);
    }
    let (index, choice) = (u32::from(script.u8() % 3), script.u8());
    let place = u32::from(script.u16()) % (MEMORY_BYTES + 64) / 4 * 4;
    let bytes = u32::from(script.u8()) * 4;
    if is_admin && choice < 90 {
        // Code: an instruction of any kind, one that is no more than its end, and that.
        raw[0] = 0x85;
        let mut code: Vec<u8> = (0..8 * (script.u8() % 4)).map(|_| script.u8()).collect();
        code.extend([0x79, 0x12, 40, 0, 0, 0, 0, 0, 0x79, 0x20, script.u8(), 0, 0, 0, 0, 0]);
        code.extend([0x7b, 0x02, script.u8(), 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0]);
        let _ = ram.write(PLACE, &code);
        let unload = u32::from(choice < 12) << 24;
        raw[40..44].copy_from_slice(&(index | 0xc0 << 16 | unload).to_le_bytes());
        let size = code.len() as u32;
        raw[44..48].copy_from_slice(&size.to_le_bytes());
        raw[56..60].copy_from_slice(&(size - u32::from(choice % 16 / 15) * 8).to_le_bytes());
        return;
    }
    if is_admin && choice < 150 {
        raw[0] = 0x88;
        raw[40..44].copy_from_slice(&(index | u32::from(choice < 140) << 16).to_le_bytes());
        return;
    }
    let mut entries = Vec::new();
    for _ in 0..1 + script.u8() % 2 {
        let mut entry = [0; 32];
        let near = u64::from(script.u8()) * 16;
        let nsid = if script.u8() < 200 { MEMORY } else { script.u8() % 7 };
        entry[0] = nsid;
        if is_admin {
            entry[4..8].copy_from_slice(&bytes.to_le_bytes());
            entry[8..16].copy_from_slice(&near.to_le_bytes());
        } else {
            let of_blocks = choice % 2 == 0;
            entry[0] = if of_blocks && script.u8() < 200 { 1 } else { nsid };
            entry[8..16].copy_from_slice(&near.to_le_bytes());
            let count = if of_blocks { bytes % 5 } else { bytes };
            entry[16..20].copy_from_slice(&count.to_le_bytes());
        }
        entries.push(entry);
    }
    let count = entries.len() as u32;
    let _ = ram.write(PLACE, &entries.concat());
    if is_admin {
        raw[0] = 0x89;
        let deletes = u32::from(choice >= 240);
        raw[40..44].copy_from_slice(&(deletes | index << 16).to_le_bytes());
        raw[44..48].copy_from_slice(&count.to_le_bytes());
        return;
    }
    if raw[4] == COMPUTE {
        raw[0] = 1;
        raw[8..12].copy_from_slice(&(index | u32::from(choice % 3) << 16).to_le_bytes());
        raw[16] = choice / 128 * 64;
        return;
    }
    raw[0] = [1, 1, 2, 4, 5][usize::from(script.u8() % 5)];
    raw[40..44].copy_from_slice(&place.to_le_bytes());
    raw[48..52].copy_from_slice(&bytes.to_le_bytes());
    if raw[0] == 1 {
        let of_blocks = choice % 2 == 0;
        let each = if of_blocks { (bytes % 5 + 1) * 512 } else { bytes };
        raw[8..12].copy_from_slice(&(each * count).to_le_bytes());
        let format = if of_blocks { 2 } else { 4 };
        raw[48..52].copy_from_slice(&(format << 8 | (count - 1)).to_le_bytes());
    }
}

/// Makes of a command one with metadata: a place for it, and what is to be checked.
fn protected_command(script: &mut Script<'_>, raw: &mut [u8; 64]) {
    raw[16..24].copy_from_slice(&script.address().to_le_bytes());
    if script.u8() < 32 {
        raw[1] = [0x40, 0x80][usize::from(script.u8() % 2)];
    }
    // PRINFO, and tags of which some are right.
    raw[51] |= (script.u8() & 0xf) << 2;
    let reference = if script.u8() < 160 { [raw[40], raw[41], 0, 0] } else { [script.u8(); 4] };
    raw[56..60].copy_from_slice(&reference);
    raw[60..64].copy_from_slice(&[script.u8() & 0x81, 0, script.u8() & 0x81, 0xff]);
}

/// Makes of a command one for zones or chunks, near those that are used.
fn white_box_command(script: &mut Script<'_>, ram: &Ram, raw: &mut [u8; 64]) {
    const ZONES: [u8; 10] = [1, 1, 2, 8, 0x19, 0x79, 0x79, 0x7a, 0x7d, 0x7d];
    const CHUNKS: [u8; 11] = [1, 1, 2, 5, 8, 9, 0x90, 0x91, 0x91, 0x92, 0x93];
    const ACTIONS: [u8; 9] = [0, 1, 2, 3, 3, 4, 5, 0x10, 0x11];
    /// Addresses of lists of addresses, and of those that a copy writes.
    const LISTS: [u32; 2] = [40 * 4096, 41 * 4096];
    let mut dword = |at: usize, value: u32| raw[at..at + 4].copy_from_slice(&value.to_le_bytes());
    let near = |script: &mut Script<'_>| {
        let inside = if script.u8() < 96 { script.u8() % UNIT as u8 } else { 0 };
        u32::from(script.u8() % 4) * UNIT as u32 + u32::from(inside)
    };
    let (lba, target) = (near(script), near(script));
    let blocks = [1, 2, 4, 8, 12, 16][usize::from(script.u8() % 6)];
    let choice = usize::from(script.u8());
    let action = ACTIONS[usize::from(script.u8()) % ACTIONS.len()];
    for at in [44, 48, 52, 56, 60] {
        dword(at, 0);
    }
    dword(40, lba);
    dword(48, blocks - 1);
    dword(52, u32::from(action) | u32::from(script.u8() % 16 / 13) << 8);
    if raw[4] == ZONED {
        raw[0] = ZONES[choice % ZONES.len()];
        return;
    }
    raw[0] = CHUNKS[choice % CHUNKS.len()];
    if !(0x90..=0x93).contains(&raw[0]) {
        return;
    }
    for (list, lba) in LISTS.into_iter().zip([lba, target]) {
        for element in 0..blocks {
            let address = u64::from(list + element * 8);
            let _ = ram.write(address, &u64::from(lba + element).to_le_bytes());
        }
    }
    let [first, second] = if blocks == 1 { [lba, target] } else { LISTS };
    raw[40..44].copy_from_slice(&first.to_le_bytes());
    raw[56..60].copy_from_slice(&second.to_le_bytes());
}

/// Resets, and makes one I/O queue pair, as an honest driver would.
fn create(controller: &mut Controller, ram: &Ram, queue: u8, base: u64) {
    enable(controller, ram);
    for (index, opcode) in [5u8, 1, 0x7c].into_iter().enumerate() {
        let mut raw = [0; 64];
        raw[0] = opcode;
        let prp1 = match opcode {
            5 => base + 8 * 4096,
            1 => base,
            _ => 3 * 4096,
        };
        raw[24..32].copy_from_slice(&prp1.to_le_bytes());
        raw[32..40].copy_from_slice(&(4u64 * 4096).to_le_bytes());
        raw[40..44].copy_from_slice(&(15 << 16 | u32::from(queue)).to_le_bytes());
        raw[44..48].copy_from_slice(&(u32::from(queue) << 16 | 3).to_le_bytes());
        let _ = ram.write(4096 + index as u64 * 64, &raw);
        controller.write_register(ram, 0x1000, &(index as u32 + 1).to_le_bytes());
        // Without shadow doorbells in half of the cases.
        if opcode == 1 && base & 4096 != 0 {
            break;
        }
    }
}
