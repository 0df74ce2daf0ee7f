//! An interpreter of eBPF programs, by "BPF Instruction Set Architecture (ISA)", RFC 9669 of
//! October 2024, cited with the section: all of its conformance groups but `packet`, and without
//! helper functions and maps.
//!
//! Promises:
//! - Pure: no threads, no wall clock, no I/O. The same program with the same memory has the same
//!   result, and takes the same number of instructions: addresses are of the program's own space,
//!   and none of the host's is ever seen.
//! - A program ends: after an `exit`, or after as many instructions as it is given.
//! - A program reaches its own stack, and what its [`Memory`] allows, and nothing else. Nothing
//!   that it does can panic.
//! - A program that [`Program::load`] accepts never jumps outside itself, nor into the middle of an
//!   instruction.

mod instruction;
mod program;
mod run;

pub use program::{LoadError, Loader, Program, MAX_INSTRUCTIONS};
pub use run::{Ended, Execution, Fault, Memory, FRAMES, FRAME_SIZE, STACK};
