//! The stacks of guests' processors: of the kernel through its modules, and of the program below. Owns
//! the tables by which they are walked, and the names that have come up.

use super::linear::Words;
use super::names::Names;
use super::orc::{Context, Tables};

/// Which finds and names the frames of stacks.
pub(in super::super) struct Stacks {
    tables: Tables,
    names: Names,
}

impl Stacks {
    pub(super) fn new(tables: Tables, names: Names) -> Self {
        Self { tables, names }
    }

    /// Names that have come up since the last call, in the order of their numbers.
    pub(in super::super) fn take_names(&mut self) -> Vec<String> {
        self.names.take()
    }

    /// The instruction of `context` and the calls that led to it, the innermost first: of the kernel, and
    /// the context of the program's instruction, if one is below.
    fn of_kernel(
        &mut self,
        machine: usize,
        context: Context,
        memory: &mut impl Words,
    ) -> (Vec<u64>, Option<Context>) {
        let (mut frames, program) = loop {
            let modules = self.names.modules(machine);
            let tables_of = |at: u64| modules.known(at).map(|module| &module.tables);
            let found = self.tables.unwind_through(tables_of, context, |at| memory.quad(at));
            // A stack ends at a module that is not known.
            match found.0.last() {
                Some(&at) if self.names.learn(machine, at, memory) => {}
                _ => break found,
            }
        };
        self.names.name_modules(machine, &mut frames, memory);
        (frames, program)
    }

    /// Returns all frames of a processor: the kernel's, and those of the program below with its
    /// thread, if there is one. `gs`: the processor's bases of GS, the one in use first.
    pub(super) fn whole(
        &mut self,
        machine: usize,
        (context, gs): (Context, [u64; 2]),
        memory: &mut impl Words,
    ) -> (Vec<u64>, Vec<u64>) {
        let (kernel, program) = self.of_kernel(machine, context, memory);
        let mut frames = Vec::new();
        if let Some(program) = program {
            self.names.add_program(machine, (program, gs), &mut frames, memory);
        }
        (kernel, frames)
    }
}
