//! Durable or ordered, write by write: what a program in a stock guest asks of
//! a disk image with `durability = "ordered"` (docs/reference/disk-images.md).
//!
//! ```sh
//! rustc -O -C target-feature=+crt-static --target x86_64-unknown-linux-gnu examples/durable.rs
//! stasis image create disk.qcow2 1GiB
//! stasis run --drive model=850-pro,medium=qcow2:disk.qcow2,durability=ordered,interface=virtio-blk \
//!     --file durable -- /root/durable ordered /dev/vda 100
//! ```
//!
//! - `ordered`: a write and `fdatasync`. The flush is an order: it ends at once,
//!   and a crash undoes at most what came after an earlier one.
//! - `priority`: a direct write of the real-time class of I/O priority. Linux
//!   gives the class to virtio-blk with each request: the write, and all before
//!   it, is durable when it ends. Nothing has to be flushed.
//! - `dsync`: a direct write with `RWF_DSYNC`. On NVMe Linux makes a write with FUA
//!   of it, which is durable when it ends (and on a block device itself a flush,
//!   which is an order). virtio-blk has no FUA, so that there it is a write and a
//!   flush, and the flush an order.
//!
//! It prints how long each write took on average (us).

use std::fs::{File, OpenOptions};
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Instant;

/// Bytes of a write, and what direct I/O asks its memory to be aligned to.
const BLOCK: usize = 4096;
/// open(2).
const O_DIRECT: i32 = 0o40000;
/// pwritev2(2), linux/fs.h.
const RWF_DSYNC: i32 = 2;
/// ioprio_set(2): its number on x86-64, "this thread", and the class's place.
const IOPRIO_SET: i64 = 251;
const IOPRIO_WHO_PROCESS: i32 = 1;
const IOPRIO_CLASS_SHIFT: i32 = 13;
const IOPRIO_CLASS_RT: i32 = 1;

#[repr(C)]
struct IoVec {
    base: *const u8,
    length: usize,
}

extern "C" {
    fn syscall(number: i64, ...) -> i64;
    fn pwritev2(fd: i32, iov: *const IoVec, count: i32, offset: i64, flags: i32) -> isize;
}

#[repr(C, align(4096))]
struct Block([u8; BLOCK]);

fn real_time() -> Result<()> {
    let priority = IOPRIO_CLASS_RT << IOPRIO_CLASS_SHIFT;
    // SAFETY: takes three numbers.
    match unsafe { syscall(IOPRIO_SET, IOPRIO_WHO_PROCESS, 0, priority) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

fn write_dsync(file: &File, block: &Block, offset: u64) -> Result<()> {
    let iov = IoVec { base: block.0.as_ptr(), length: BLOCK };
    // SAFETY: the vector and what it points to live as long as the call.
    let written = unsafe { pwritev2(file.as_raw_fd(), &iov, 1, offset as i64, RWF_DSYNC) };
    match usize::try_from(written) {
        Ok(BLOCK) => Ok(()),
        Ok(_) => Err(Error::other("a short write")),
        Err(_) => Err(Error::last_os_error()),
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, way, path, count] = &arguments[..] else {
        return Err(Error::other("usage: durable ordered|priority|dsync FILE COUNT"));
    };
    let count: u64 = count.parse().map_err(Error::other)?;
    let file = OpenOptions::new().write(true).custom_flags(O_DIRECT).open(path)?;
    if way == "priority" {
        real_time()?;
    }
    let mut block = Block([0; BLOCK]);
    let begun = Instant::now();
    for number in 0..count {
        block.0[..8].copy_from_slice(&number.to_le_bytes());
        let offset = number * BLOCK as u64;
        match way.as_str() {
            "ordered" => {
                file.write_all_at(&block.0, offset)?;
                file.sync_data()?;
            }
            "priority" => file.write_all_at(&block.0, offset)?,
            "dsync" => write_dsync(&file, &block, offset)?,
            _ => return Err(Error::other("the ways are ordered, priority and dsync")),
        }
    }
    println!("{}", begun.elapsed().as_micros() / u128::from(count.max(1)));
    Ok(())
}
