//! A host of our own on a bare emulated machine: the program once more, without
//! an operating system below it, and guests by AMD's SVM.
//!
//! QEMU emulates the machine and counts its instructions. A firmware of 64 KiB
//! (`firmware`) enters 64-bit mode and jumps into this same static executable,
//! which QEMU has put into memory ([`image`](fn@image)). It runs in ring 0; the few system
//! calls of its C library are answered in the executable itself (`system`). So
//! everything above runs unchanged, with the standard library. There is one
//! thread, no paging, no file but the machine's disks (`disk`), and one
//! interrupt: the timer that ends a guest's stay (`host`).
//!
//! Any computer makes the image; all else is for x86-64 Linux, for which the
//! executable is built.
//!
//! Promises:
//! - A guest's time (`svm`) counts its instructions: one tick an instruction, those that leave the
//!   guest included. The host's work between them, of any kind and however it was compiled, is not
//!   in that time.
//! - A guest leaves at the tick at which it was to leave.
//! - No access of a guest reaches memory that [`svm::Nested`] does not map, and
//!   nothing that a guest does panics.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod console;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod disk;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod exit;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod firmware;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod host;
mod image;
pub mod layout;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod port;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod start;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod svm;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod system;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use console::{end, ABORTED, EXIT_PORT};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use exit::{DebugEvent, Exit};
pub use image::{image, Image, ImageError, IMAGE, MARK};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use start::{pausing, start};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use system::{disk_path, is_here};
