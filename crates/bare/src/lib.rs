//! A host of our own on a bare emulated machine: the program once more, without
//! an operating system below it, and guests by AMD's SVM.
//!
//! QEMU emulates the machine and counts its instructions. A firmware of 64 KiB
//! (`firmware`) enters 64-bit mode and jumps into this same static executable,
//! which QEMU has put into memory (`image`). It runs in ring 0; the few system
//! calls of its C library are answered in the executable itself (`system`). So
//! everything above runs unchanged, with the standard library. There is one
//! thread, no paging, no file but the machine's disks (`disk`), and one
//! interrupt: the timer that ends a guest's stay (`host`).
//!
//! Promises:
//! - A guest's time (`svm`) is what it has executed: one tick an instruction,
//!   those that leave it included. What the host does between, whatever it is
//!   and however it was compiled, is not in it.
//! - A guest leaves at the tick at which it was to leave.
//! - No access of a guest reaches memory that [`svm::Nested`] does not map, and
//!   nothing that a guest does panics.

mod disk;
mod firmware;
mod host;
mod image;
pub mod layout;
pub mod port;
mod start;
pub mod svm;
mod system;

pub use disk::MOST as DISKS;
pub use firmware::firmware;
pub use image::{image, ImageError, IMAGE, MARK};
pub use start::{pausing, start};
pub use system::{disk_path, end, is_here, ABORTED, EXIT_PORT};
