//! The names of samples: of programs' threads and functions, and of functions of the kernel's modules.

use std::collections::HashMap;

use stasis_run_events::{Modules, Threads, MAX_NAMES, NAMED, THREAD_NAME};
use stasis_unwind::Registers;

use super::super::program_source::ProgramSource;
use super::linear::Words;
use super::maps::{Files, Owner, Place};
use super::modules::{plain, Loaded};
use super::orc::{Context, KERNEL, MODULES};

/// Limit on the frames of a program in a stack.
const MAX_FRAMES: usize = 128;
/// The names of code that is of no file.
const IMAGE: &str = "vdso";
const NO_FILE: &str = "no file";

/// The key of a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// A thread or a function of a module, by its name.
    Word(String),
    /// A place in a program's file.
    Place(usize, u64),
    /// A place in a module, by its machine.
    Module(usize, u64),
}

/// The names that have come up.
#[derive(Default)]
pub(super) struct Names {
    threads: Option<Threads>,
    modules: Option<Modules>,
    files: Option<Files>,
    /// The number of each, which is known by several keys.
    numbers: HashMap<Key, u64>,
    count: u64,
    /// By machine.
    loaded: HashMap<usize, Loaded>,
    /// Names that have not been told.
    new: Vec<String>,
}

impl Names {
    /// Makes names of kernels that have them there; `source` has the files of programs.
    pub(super) fn new(
        threads: Option<Threads>,
        modules: Option<Modules>,
        source: Option<ProgramSource>,
    ) -> Self {
        let maps = threads.and_then(|threads| threads.maps);
        let files = maps.map(|maps| Files::new(maps, source));
        Self { threads, modules, files, ..Self::default() }
    }

    /// Names that have come up since the last call.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new)
    }

    /// The modules of a machine, as far as they are known.
    pub(super) fn modules(&mut self, machine: usize) -> &Loaded {
        self.loaded.entry(machine).or_default()
    }

    /// Learns the module of an address of the kernel's. Returns whether more is known now.
    pub(super) fn learn(&mut self, machine: usize, at: u64, memory: &mut impl Words) -> bool {
        let Some(places) = &self.modules else { return false };
        self.loaded.entry(machine).or_default().learn(at, places, memory)
    }

    /// The frame of a name that `make` makes where it is new; None where there are too many.
    fn frame(&mut self, key: Key, make: impl FnOnce() -> String) -> Option<u64> {
        if let Some(&known) = self.numbers.get(&key) {
            return Some(NAMED + known);
        }
        if self.count >= MAX_NAMES {
            return None;
        }
        let number = self.count;
        self.count += 1;
        self.new.push(make());
        self.numbers.insert(key, number);
        Some(NAMED + number)
    }

    /// The frame of a name in brackets.
    fn word(&mut self, name: String) -> Option<u64> {
        self.frame(Key::Word(name.clone()), || format!("[{name}]"))
    }

    /// Puts names in the place of a stack's addresses that are a module's.
    pub(super) fn name_modules(
        &mut self,
        machine: usize,
        frames: &mut [u64],
        memory: &mut impl Words,
    ) {
        for frame in frames.iter_mut().filter(|frame| **frame >= MODULES) {
            let at = *frame;
            let key = Key::Module(machine, at);
            if let Some(&known) = self.numbers.get(&key) {
                *frame = NAMED + known;
                continue;
            }
            let loaded = self.loaded.entry(machine).or_default();
            let Some(module) = loaded.known(at) else { continue };
            let name = module.function(at, memory);
            let Some(named) = self.frame(Key::Word(name.clone()), || name) else { continue };
            self.numbers.insert(key, named - NAMED);
            *frame = named;
        }
    }

    /// Appends the frames of the program that a processor runs, the innermost first, and its thread. `gs`:
    /// the processor's bases of GS, the one in use first.
    pub(super) fn add_program(
        &mut self,
        machine: usize,
        (context, gs): (Context, [u64; 2]),
        frames: &mut Vec<u64>,
        memory: &mut impl Words,
    ) {
        // Without a name it is a program's address.
        let fallback = context.rip;
        let Some((thread, name)) = self.thread(gs, memory) else { return frames.push(fallback) };
        for Place { owner, offset } in self.places((machine, thread), context, memory) {
            let file = match owner {
                Owner::File(file) => file,
                Owner::Image(_) | Owner::Nothing => {
                    let is_image = owner != Owner::Nothing;
                    frames.extend(self.word(if is_image { IMAGE } else { NO_FILE }.to_owned()));
                    continue;
                }
            };
            let key = Key::Place(file, offset);
            let named = match (self.numbers.get(&key), &self.files) {
                (Some(&known), _) => Some(NAMED + known),
                (None, Some(files)) => {
                    let name = format!("{}+{offset:#x}", files.path(file));
                    self.frame(key, || name)
                }
                (None, None) => None,
            };
            frames.extend(named);
        }
        frames.push(self.word(name).unwrap_or(fallback));
    }

    /// The thread that a processor runs, and its name.
    fn thread(&self, gs: [u64; 2], memory: &mut impl Words) -> Option<(u64, String)> {
        let Threads { current, comm, .. } = self.threads?;
        let base = gs.into_iter().find(|base| base & KERNEL != 0)?;
        let thread = memory.quad(base.wrapping_add(current))?;
        let mut name = [0; THREAD_NAME];
        memory.read(thread.wrapping_add(comm), &mut name).then(|| (thread, plain(&name)))
    }

    /// The places of a program's instruction and of the calls that led to it.
    fn places(
        &mut self,
        thread: (usize, u64),
        Context { rip, rsp, rbp }: Context,
        memory: &mut impl Words,
    ) -> Vec<Place> {
        let (mut places, mut mappings) = (Vec::new(), Vec::new());
        let Some(files) = &mut self.files else { return places };
        let (mut registers, mut exact) = (Registers { rip, rsp, rbp }, true);
        while places.len() < MAX_FRAMES {
            // The call is before the instruction that it returns to.
            let at = if exact { registers.rip } else { registers.rip - 1 };
            let Some(place) = files.place(thread, at, &mut mappings, memory) else { break };
            places.push(place);
            match files.caller(place, registers, memory) {
                Some(caller) => (registers, exact) = (caller.registers, caller.is_interrupted),
                None => break,
            }
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::super::maps::tests::{tree, Memory, MAPS};
    use super::*;
    use stasis_unwind::Table;
    use std::sync::{Arc, Mutex};

    const THREAD: u64 = 0xffff_8880_0001_0000;
    const SPACE: u64 = 0xffff_8880_0002_0000;
    const GS: u64 = 0xffff_8880_0003_0000;
    const STACK: u64 = 0x7ffe_0000_0000;
    /// Addresses at which a test's program, a library, and code of no file are mapped.
    const PROGRAM: u64 = 0x40_0000;
    const LIBRARY: u64 = 0x7f00_0000_0000;
    const NO_FILES: u64 = 0x7fff_0000_0000;

    /// A thread with these mappings of a page each, whose files are in `/usr/bin`.
    fn memory() -> Memory {
        let mut memory = Memory::default();
        memory.put_quad(GS + 8, THREAD);
        memory.put_quad(THREAD + MAPS.space, SPACE);
        memory.put(THREAD + 0x100, b"a thread\0\0\0\0\0\0\0\0");
        let entry = |number: u64| 0xffff_8880_0004_0000 + 0x1000 * number;
        let names = [b"/\0\0\0\0\0\0\0", b"usr\0\0\0\0\0", b"bin\0\0\0\0\0"];
        let names = names.into_iter().chain([b"program\0", b"library\0"]);
        for (number, name) in (0..).zip(names) {
            let parent = entry(if number > 2 { 2 } else { number.max(1) - 1 });
            memory.put_quad(entry(number) + MAPS.parent, parent);
            memory.put_quad(entry(number) + MAPS.hash, number);
            memory.put_quad(entry(number) + MAPS.name, entry(number) + 0x100);
            memory.put(entry(number) + 0x100, name);
        }
        let mut ranges = Vec::new();
        for (number, begin) in (0..).zip([PROGRAM, LIBRARY, NO_FILES]) {
            let mapping = 0xffff_8880_0005_0000 + 0x1000 * number;
            let file = mapping + 0x200;
            memory.put_quad(mapping + MAPS.begin, begin);
            memory.put_quad(mapping + MAPS.end, begin + 0x1000);
            memory.put_quad(mapping + MAPS.flags, 5);
            memory.put_quad(mapping + MAPS.page, number);
            memory.put_quad(mapping + MAPS.file, if begin == NO_FILES { 0 } else { file });
            memory.put_quad(file + MAPS.entry, entry(3 + number));
            ranges.extend([(begin - 1, 0), (begin + 0xfff, mapping)]);
        }
        ranges.push((u64::MAX, 0));
        let root = tree(&mut memory, &ranges, (4, true, false));
        memory.put_quad(SPACE + MAPS.root, root);
        memory
    }

    /// The table of an object with one function at byte 0x1000 of its file, as readelf has its rows: at
    /// its begin the frame is at RSP + 8, and from its fourth byte on at RSP + 0x20.
    fn table() -> Vec<u8> {
        let row = |base: u8, offset: i32| {
            let [a, b, c, d] = offset.to_le_bytes();
            [base, a, b, c, d]
        };
        let mut stream = [2u32, 3].map(u32::to_le_bytes).concat();
        for offset in [8, 0x20] {
            stream.extend(row(1, offset).into_iter().chain(row(3, -8)).chain(row(0, 0)));
            stream.extend([0, 0]);
        }
        stream.extend([0x1000u32, 0x1004, 0x1100].map(u32::to_le_bytes).concat());
        stream.extend([0u16, 1, u16::MAX].map(u16::to_le_bytes).concat());
        assert!(Table::decode(&stream).is_some());
        stream
    }

    /// A library without frame pointers is called by a program that keeps them, which was called by code
    /// of no file.
    #[test]
    fn a_stack_is_followed_by_tables_and_by_frame_pointers() {
        let mut memory = memory();
        memory.put_quad(STACK + 0x18, PROGRAM + 0x50);
        memory.put_quad(STACK + 0x30, STACK + 0x60);
        memory.put_quad(STACK + 0x38, NO_FILES + 0x80);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let source = {
            let asked = Arc::clone(&asked);
            Arc::new(move |path: &str| {
                asked.lock().unwrap().push(path.to_owned());
                path.ends_with("library").then(table)
            })
        };
        let threads = Threads { current: 8, comm: 0x100, maps: Some(MAPS) };
        let mut names = Names::new(Some(threads), None, Some(source));
        let context = Context { rip: LIBRARY + 5, rsp: STACK, rbp: STACK + 0x30 };
        let mut all_names = Vec::new();
        for _ in 0..2 {
            let mut frames = Vec::new();
            names.add_program(0, (context, [GS, 0]), &mut frames, &mut memory);
            all_names.extend(names.take());
            let own: Vec<&str> =
                frames.iter().map(|frame| all_names[(frame - NAMED) as usize].as_str()).collect();
            let expected =
                ["/usr/bin/library+0x1005", "/usr/bin/program+0x4f", "[no file]", "[a thread]"];
            assert_eq!(own, expected);
        }
        assert_eq!(*asked.lock().unwrap(), ["/usr/bin/library", "/usr/bin/program"]);
        // A mapping that begins as an ELF file does is an image, though it be damaged.
        memory.put(NO_FILES, &[0; 0x1000]);
        memory.put(NO_FILES, b"\x7fELF\x02\x01\x01");
        for _ in 0..2 {
            let mut frames = Vec::new();
            names.add_program(0, (context, [GS, 0]), &mut frames, &mut memory);
            all_names.extend(names.take());
            assert_eq!(all_names[(frames[2] - NAMED) as usize], "[vdso]");
        }
        // A thread whose mappings are gone has its name.
        memory.put_quad(THREAD + MAPS.space, 0);
        let mut frames = Vec::new();
        names.add_program(0, (context, [GS, 0]), &mut frames, &mut memory);
        assert_eq!(frames.len(), 1);
    }

    #[test]
    fn names_are_told_once_and_have_a_limit() {
        let mut names = Names::default();
        let word = |names: &mut Names, name: &str| names.word(name.to_owned());
        assert_eq!(word(&mut names, "fio"), Some(NAMED));
        assert_eq!(word(&mut names, &plain(b"a;b\n\0rest")), Some(NAMED + 1));
        assert_eq!(word(&mut names, "fio"), Some(NAMED));
        assert_eq!(names.take(), ["[fio]", "[a_b_]"]);
        for number in 2..MAX_NAMES {
            assert_eq!(word(&mut names, &number.to_string()), Some(NAMED + number));
        }
        assert_eq!(word(&mut names, "one too many"), None);
        assert_eq!(word(&mut names, "7"), Some(NAMED + 7));
    }
}
