//! The names of programs and of modules of the kernel in samples.

use std::collections::HashMap;

use stasis_run_events::{Modules, Threads, MAX_NAMES, NAMED, THREAD_NAME};

use super::linear::Linear;
use super::orc::KERNEL;

/// From there on addresses are those of modules (Linux, Documentation/arch/x86/x86_64/mm.rst).
const MODULES: u64 = 0xffff_ffff_c000_0000;
/// Bytes of a module's name (Linux, MODULE_NAME_LEN on 64 bits).
const MODULE_NAME: usize = 56;
/// Limit on the modules of a kernel.
const MAX_MODULES: usize = 1024;

/// The modules of a machine, as they were read last.
#[derive(Debug, Default)]
struct Loaded {
    /// First address, the address after the last, and the name's number.
    ranges: Vec<(u64, u64, u64)>,
    /// Addresses that were in none.
    missed: u64,
}

/// The names that have come up.
#[derive(Debug, Default)]
pub(super) struct Names {
    threads: Option<Threads>,
    modules: Option<Modules>,
    numbers: HashMap<String, u64>,
    /// By machine.
    loaded: HashMap<usize, Loaded>,
    /// Names that have not been told.
    new: Vec<String>,
}

impl Names {
    pub(super) fn new(threads: Option<Threads>, modules: Option<Modules>) -> Self {
        Self { threads, modules, ..Self::default() }
    }

    /// Names that have come up since the last call.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new)
    }

    /// The frame of a name; None where there are too many.
    fn frame(&mut self, name: &[u8]) -> Option<u64> {
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        // A folded stack has semicolons and lines of its own.
        let plain = |c: char| if c == ';' || c.is_control() { '_' } else { c };
        let name: String = String::from_utf8_lossy(&name[..end]).chars().map(plain).collect();
        let next = self.numbers.len() as u64;
        if let Some(&known) = self.numbers.get(&name) {
            return Some(NAMED + known);
        }
        if next >= MAX_NAMES {
            return None;
        }
        self.new.push(format!("[{name}]"));
        self.numbers.insert(name, next);
        Some(NAMED + next)
    }

    /// Puts names in the place of a stack's addresses that are no function's of the kernel. `gs`:
    /// the processor's bases of GS, the one in use first.
    pub(super) fn name(
        &mut self,
        machine: usize,
        gs: [u64; 2],
        frames: &mut [u64],
        memory: &mut Linear<'_>,
    ) {
        for frame in frames {
            let named = match *frame {
                at if at & KERNEL == 0 => self.program(gs, memory),
                at if at >= MODULES => self.module(machine, at, memory),
                _ => None,
            };
            *frame = named.unwrap_or(*frame);
        }
    }

    fn program(&mut self, gs: [u64; 2], memory: &mut Linear<'_>) -> Option<u64> {
        let Threads { current, comm } = self.threads?;
        let base = gs.into_iter().find(|base| base & KERNEL != 0)?;
        let thread = memory.quad(base.wrapping_add(current))?;
        let mut name = [0; THREAD_NAME];
        memory.read(thread.wrapping_add(comm), &mut name).then(|| self.frame(&name))?
    }

    fn module(&mut self, machine: usize, at: u64, memory: &mut Linear<'_>) -> Option<u64> {
        let loaded = self.loaded.entry(machine).or_default();
        let find = |loaded: &Loaded| {
            let its = |&&(first, end, _): &&(u64, u64, u64)| (first..end).contains(&at);
            loaded.ranges.iter().find(its).map(|&(_, _, name)| name)
        };
        if let Some(known) = find(loaded) {
            return Some(known);
        }
        // Code that is no module's, such as BPF's, is never found: the list is read seldom then.
        loaded.missed += 1;
        if loaded.missed.is_power_of_two() {
            let ranges = self.read(memory).unwrap_or_default();
            self.loaded.entry(machine).or_default().ranges = ranges;
        }
        find(self.loaded.get(&machine)?)
    }

    /// The modules that the kernel lists.
    fn read(&mut self, memory: &mut Linear<'_>) -> Option<Vec<(u64, u64, u64)>> {
        let modules = self.modules?;
        let mut ranges = Vec::new();
        let mut entry = memory.quad(modules.head)?;
        while entry != modules.head && ranges.len() < MAX_MODULES {
            let module = entry.wrapping_sub(modules.list);
            let mut name = [0; MODULE_NAME];
            let base = memory.quad(module.wrapping_add(modules.base))?;
            let size = memory.long(module.wrapping_add(modules.size))?;
            if !memory.read(module.wrapping_add(modules.name), &mut name) {
                return None;
            }
            let end = base.saturating_add(size.into());
            ranges.extend(self.frame(&name).map(|name| (base, end, name)));
            entry = memory.quad(entry)?;
        }
        Some(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_once_and_fit_a_folded_stack() {
        let mut names = Names::default();
        assert_eq!(names.frame(b"fio\0rest"), Some(NAMED));
        assert_eq!(names.frame(b"a;b\n"), Some(NAMED + 1));
        assert_eq!(names.frame(b"fio"), Some(NAMED));
        assert_eq!(names.take(), ["[fio]", "[a_b_]"]);
        for number in 2..MAX_NAMES {
            assert_eq!(names.frame(number.to_string().as_bytes()), Some(NAMED + number));
        }
        assert_eq!(names.frame(b"one too many"), None);
        assert_eq!(names.frame(b"7"), Some(NAMED + 7));
    }
}
