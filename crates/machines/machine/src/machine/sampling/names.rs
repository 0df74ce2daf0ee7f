//! The names of samples: of programs' threads and functions, and of functions of the kernel's modules.

use std::collections::HashMap;

use stasis_run_events::{Modules, Threads, MAX_NAMES, NAMED, THREAD_NAME};

use super::linear::Words;
use super::maps::{Files, Place};
use super::modules::{plain, Loaded, MODULES};
use super::orc::{Context, KERNEL};

/// Limit on the frames of a program in a stack.
const MAX_FRAMES: usize = 64;
/// The largest frame of a function (bytes); a chain of frames that leaps farther is none.
const MAX_FRAME: u64 = 1 << 20;

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
#[derive(Debug, Default)]
pub(super) struct Names {
    threads: Option<Threads>,
    modules: Option<Modules>,
    from_6_4: bool,
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
    pub(super) fn new(threads: Option<Threads>, modules: Option<Modules>, from_6_4: bool) -> Self {
        let files = threads.and_then(|threads| threads.maps).map(Files::new);
        Self { threads, modules, from_6_4, files, ..Self::default() }
    }

    /// Names that have come up since the last call.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new)
    }

    /// The modules of a machine, as far as they are known.
    pub(super) fn modules(&mut self, machine: usize) -> &Loaded {
        self.loaded.entry(machine).or_default()
    }

    /// Learns the module of an address of the kernel's; whether there is more to know now.
    pub(super) fn learn(&mut self, machine: usize, at: u64, memory: &mut impl Words) -> bool {
        let Some(places) = &self.modules else { return false };
        self.loaded.entry(machine).or_default().learn(at, (places, self.from_6_4), memory)
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
        for Place { file, offset } in self.places(machine, thread, context, memory) {
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

    /// The places of a program's instruction and of the calls that led to it, as far as functions keep
    /// frame pointers (System V ABI for x86-64, 3.2.2).
    fn places(
        &mut self,
        machine: usize,
        thread: u64,
        context: Context,
        memory: &mut impl Words,
    ) -> Vec<Place> {
        let mut places = Vec::new();
        let Some(files) = &mut self.files else { return places };
        let Context { rip, rsp, rbp } = context;
        let (mut at, mut frame, mut above) = (rip, rbp, rsp);
        while let Some(place) = files.place(machine, thread, at, memory) {
            places.push(place);
            let is_frame =
                frame % 8 == 0 && (above..above.saturating_add(MAX_FRAME)).contains(&frame);
            if !is_frame || places.len() == MAX_FRAMES {
                break;
            }
            let returns = memory.quad(frame.wrapping_add(8)).filter(|at| *at != 0);
            let (Some(returns), Some(next)) = (returns, memory.quad(frame)) else { break };
            // The call is before the instruction that it returns to.
            (at, above, frame) = (returns - 1, frame + 16, next);
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
