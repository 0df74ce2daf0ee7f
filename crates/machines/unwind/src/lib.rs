//! The callers of a program's functions, by the call frame information of its file (`.eh_frame`).
//!
//! A file becomes a [`Table`] once, of a few bytes for each place at which the frame changes. A step
//! from a function to its caller is one look-up there, and three reads of the stack at most. The stack
//! and the file may be anybody's: nothing panics, and each step and each table has a limit. A kernel's own
//! tables are in [`orc`]. [`symbol_file`] makes a file for gdb of what has none.
//!
//! Source: DWARF 5, 6.4 (call frame information); Linux Standard Base 5.0, 10.6 (`.eh_frame`); System V
//! ABI for x86-64, 3.7 (numbers of registers).

mod file;
pub mod orc;
mod rule;
mod symbol_file;
mod table;

pub use rule::{by_frame_pointer, Caller, Registers, Rule};
pub use symbol_file::{symbol_file, Symbol};
pub use table::Table;
