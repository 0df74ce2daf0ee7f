//! The files that there are: the machine's disks, as block devices.
//!
//! `/dev/stasis-N` is the disk in slot N, and a file of Linux's /sys shows whether the device
//! zeroes ranges by itself.

use crate::disk::{Disk, Request, MAX_DISKS, SECTOR};
use std::ffi::CStr;

/// Descriptors of the disks begin here, those of their files in /sys here.
const FIRST: u64 = 16;
const TOLD: u64 = FIRST + MAX_DISKS as u64;
/// Limit on the bytes of a request: longer ones go in pieces.
const PIECE: u64 = 1 << 20;
/// Size in bytes of the buffer for reads that are not of whole sectors.
const BOUNCE: usize = 16 << 10;

/// The path of the disk in slot `index`.
pub fn disk_path(index: usize) -> String {
    format!("/dev/stasis-{index}")
}

#[repr(C, align(4096))]
struct Bounce([u8; BOUNCE]);

static mut BUFFER: Bounce = Bounce([0; BOUNCE]);
static mut TOLD_ALREADY: [bool; MAX_DISKS] = [false; MAX_DISKS];

type Answer = Result<u64, i32>;

fn disk(descriptor: u64) -> Result<Disk, i32> {
    let index = descriptor.wrapping_sub(FIRST);
    Disk::find(usize::try_from(index).unwrap_or(MAX_DISKS)).ok_or(libc::EBADF)
}

/// The descriptor of the file at `path`.
///
/// # Safety
/// `path` is a string that a 0 ends.
pub(super) unsafe fn open(path: u64) -> Answer {
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path as *const libc::c_char) }.to_bytes();
    let number = |rest: &[u8]| match rest {
        [digit @ b'0'..=b'9'] => Some(usize::from(digit - b'0')),
        _ => None,
    };
    let setting = path
        .strip_prefix(b"/sys/dev/block/0:")
        .and_then(|rest| rest.strip_suffix(b"/queue/write_zeroes_max_bytes"));
    let (first, index) = match (path.strip_prefix(b"/dev/stasis-"), setting) {
        (Some(rest), _) => (FIRST, number(rest)),
        (_, Some(rest)) => (TOLD, number(rest)),
        _ => return Err(libc::ENOENT),
    };
    let index = index.filter(|&index| Disk::find(index).is_some()).ok_or(libc::ENOENT)?;
    if first == TOLD {
        // SAFETY: one thread; an index below MAX_DISKS, as a disk was found.
        unsafe { TOLD_ALREADY[index] = false };
    }
    Ok(first + index as u64)
}

/// The answer of stat(2) for a descriptor.
///
/// # Safety
/// `into` is a `stat` structure.
pub(super) unsafe fn status(descriptor: u64, into: u64) -> Answer {
    let index = match descriptor {
        TOLD.. => return Err(libc::EBADF),
        _ => disk(descriptor).map(|_| descriptor - FIRST)?,
    };
    // SAFETY: a structure of integers.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    found.st_mode = libc::S_IFBLK | 0o600;
    found.st_rdev = libc::makedev(0, index as u32);
    found.st_blksize = 4096;
    // SAFETY: the caller's promise.
    unsafe { (into as *mut libc::stat).write(found) };
    Ok(0)
}

/// Reads a file of /sys, once for each opening; a read of any other descriptor without a position
/// returns nothing.
///
/// # Safety
/// `into` has room for `length` bytes.
pub(super) unsafe fn read(descriptor: u64, into: u64, length: u64) -> Answer {
    let Some(index) = descriptor.checked_sub(TOLD).map(|index| index as usize) else {
        return Ok(0);
    };
    let Some(disk) = Disk::find(index) else { return Ok(0) };
    let text: &[u8] = if disk.zeroes() { b"1\n" } else { b"0\n" };
    // SAFETY: one thread; an index below MAX_DISKS; room for two bytes.
    unsafe {
        if length < 2 || std::mem::replace(&mut TOLD_ALREADY[index], true) {
            return Ok(0);
        }
        std::ptr::copy_nonoverlapping(text.as_ptr(), into as *mut u8, 2);
    }
    Ok(2)
}

/// lseek(2), of which only the end is asked for.
pub(super) fn seek(descriptor: u64, whence: u64) -> Answer {
    let disk = disk(descriptor)?;
    Ok(if whence == libc::SEEK_END as u64 { disk.capacity() } else { 0 })
}

/// BLKSSZGET.
///
/// # Safety
/// `into` is an `int`.
pub(super) unsafe fn block_size(descriptor: u64, into: u64) -> Answer {
    disk(descriptor)?;
    // SAFETY: the caller's promise.
    unsafe { (into as *mut u32).write(SECTOR as u32) };
    Ok(0)
}

/// pread(2).
///
/// # Safety
/// `into` has room for `length` bytes.
pub(super) unsafe fn read_at(descriptor: u64, into: u64, length: u64, offset: u64) -> Answer {
    let disk = disk(descriptor)?;
    let length = length.min(disk.capacity().saturating_sub(offset));
    let mut done = 0;
    while done < length {
        let (at, to) = (offset + done, into + done);
        let within = at % SECTOR;
        let whole = (length - done) / SECTOR * SECTOR;
        done += if within == 0 && whole > 0 {
            let piece = whole.min(PIECE);
            // SAFETY: the caller's buffer.
            unsafe { disk.perform(Request::Read(to, piece), at / SECTOR) }
                .map_err(|_| libc::EIO)?;
            piece
        } else {
            let buffer = &raw mut BUFFER as u64;
            let piece = (length - done).min(BOUNCE as u64 - within);
            let sectors = (within + piece).next_multiple_of(SECTOR);
            // SAFETY: the buffer of this module, with one thread, and then the
            // caller's.
            unsafe {
                disk.perform(Request::Read(buffer, sectors), at / SECTOR).map_err(|_| libc::EIO)?;
                std::ptr::copy_nonoverlapping(
                    (buffer + within) as *const u8,
                    to as *mut u8,
                    piece as usize,
                );
            }
            piece
        };
    }
    Ok(length)
}

/// pwrite(2), of whole sectors.
///
/// # Safety
/// `length` bytes from `from` on are readable.
pub(super) unsafe fn write_at(descriptor: u64, from: u64, length: u64, offset: u64) -> Answer {
    let disk = writable(descriptor)?;
    if !offset.is_multiple_of(SECTOR) || !length.is_multiple_of(SECTOR) {
        return Err(libc::EINVAL);
    }
    let capacity = disk.capacity();
    if offset >= capacity && length > 0 {
        return Err(libc::ENOSPC);
    }
    let length = length.min(capacity - offset.min(capacity));
    let mut done = 0;
    while done < length {
        let piece = (length - done).min(PIECE);
        // SAFETY: the caller's buffer.
        unsafe { disk.perform(Request::Write(from + done, piece), (offset + done) / SECTOR) }
            .map_err(|_| libc::EIO)?;
        done += piece;
    }
    Ok(length)
}

/// fdatasync(2).
pub(super) fn flush(descriptor: u64) -> Answer {
    let disk = disk(descriptor)?;
    // SAFETY: no memory but the queue's.
    unsafe { disk.perform(Request::Flush, 0) }.map_err(|_| libc::EIO)?;
    Ok(0)
}

/// fallocate(2): zeroes, by whichever mode.
pub(super) fn zero(descriptor: u64, mode: u64, offset: u64, length: u64) -> Answer {
    /// A request has its number of sectors in 32 bits; QEMU takes up to 4 GiB.
    const MAX_AT_ONCE: u64 = 1 << 30;
    let disk = writable(descriptor)?;
    if !disk.zeroes() {
        return Err(libc::EOPNOTSUPP);
    }
    let end = offset.checked_add(length).filter(|&end| end <= disk.capacity());
    let end = end.ok_or(libc::EINVAL)?;
    if !offset.is_multiple_of(SECTOR) || !length.is_multiple_of(SECTOR) {
        return Err(libc::EINVAL);
    }
    let unmap = mode & libc::FALLOC_FL_PUNCH_HOLE as u64 != 0;
    let mut at = offset;
    while at < end {
        let bytes = (end - at).min(MAX_AT_ONCE);
        // SAFETY: no memory but the queue's.
        unsafe { disk.perform(Request::Zero { bytes, unmap }, at / SECTOR) }
            .map_err(|_| libc::EIO)?;
        at += bytes;
    }
    Ok(0)
}

fn writable(descriptor: u64) -> Result<Disk, i32> {
    let disk = disk(descriptor)?;
    if disk.is_read_only() {
        return Err(libc::EBADF);
    }
    Ok(disk)
}
