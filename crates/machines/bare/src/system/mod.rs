//! The few Linux system calls that a static program of one thread needs.
//!
//! They come from the C library and from Rust's standard library, which need not be rebuilt for the
//! bare machine. There are no files but the machine's disks (`files`), no threads, no signals and
//! no paging. Other system calls return `ENOSYS`, with a message on the serial port.

mod entry;
mod files;
mod memory;

use crate::console::{self, die, end, say, say_number};
use entry::Frame;
use memory::Pages;

pub(crate) use entry::entry_offset;
pub use files::disk_path;

/// Start of the wall clock: 2026-01-01, in seconds since 1970.
const EPOCH: u64 = 1_767_225_600;
const SECOND: u64 = 1_000_000_000;

static mut PAGES: Pages = Pages::new();
static mut RANDOM: u64 = 0x9e37_79b9_7f4a_7c15;

/// Serves one system call.
extern "C" fn handle(frame: &mut Frame) {
    frame.number = match call(frame.number as i64, frame.arguments) {
        Ok(value) => value,
        Err(error) => -i64::from(error) as u64,
    };
}

fn call(number: i64, arguments: [u64; 6]) -> Result<u64, i32> {
    let [first, second, third, fourth, _, sixth] = arguments;
    let pages = &raw mut PAGES;
    // SAFETY: calls do not nest and there is one thread.
    let pages = unsafe { &mut *pages };
    pages.begin();
    Ok(match number {
        libc::SYS_write => match first {
            // SAFETY: the caller's buffer, as write(2) has it.
            1 | 2 => unsafe { print(second, third) },
            _ => return Err(libc::EBADF),
        },
        libc::SYS_writev => {
            let mut sum = 0;
            for index in 0..third {
                // SAFETY: the caller's array of buffers, as writev(2) has it.
                sum += unsafe {
                    let buffer = (second as *const libc::iovec).add(index as usize).read();
                    print(buffer.iov_base as u64, buffer.iov_len as u64)
                };
            }
            sum
        }
        // SAFETY: the caller's arguments, as the calls' manual pages have them.
        libc::SYS_open => return unsafe { files::open(first) },
        // SAFETY: as above.
        libc::SYS_openat => return unsafe { files::open(second) },
        // SAFETY: as above.
        libc::SYS_fstat => return unsafe { files::status(first, second) },
        libc::SYS_newfstatat => {
            // SAFETY: as above; an empty path means the descriptor.
            return unsafe {
                match fourth & libc::AT_EMPTY_PATH as u64 {
                    0 => files::status(files::open(second)?, third),
                    _ => files::status(first, third),
                }
            };
        }
        // SAFETY: as above.
        libc::SYS_stat => return unsafe { files::status(files::open(first)?, second) },
        // SAFETY: as above.
        libc::SYS_read => return unsafe { files::read(first, second, third) },
        libc::SYS_lseek => return files::seek(first, third),
        // SAFETY: as above.
        libc::SYS_pread64 => return unsafe { files::read_at(first, second, third, fourth) },
        // SAFETY: as above.
        libc::SYS_pwrite64 => return unsafe { files::write_at(first, second, third, fourth) },
        libc::SYS_pwritev2 => {
            // SAFETY: as above, with one buffer (`media` has no more).
            let buffer = unsafe { (second as *const libc::iovec).read() };
            if third != 1 {
                return Err(libc::EINVAL);
            }
            // SAFETY: as above.
            let written = unsafe {
                files::write_at(first, buffer.iov_base as u64, buffer.iov_len as u64, fourth)?
            };
            if sixth & libc::RWF_DSYNC as u64 != 0 {
                files::flush(first)?;
            }
            written
        }
        libc::SYS_fsync | libc::SYS_fdatasync => return files::flush(first),
        libc::SYS_fallocate => return files::zero(first, second, third, fourth),
        libc::SYS_brk => pages.set_break(first),
        libc::SYS_mmap => {
            let flags = fourth as i32;
            if flags & libc::MAP_ANONYMOUS == 0 {
                return Err(libc::ENODEV);
            }
            if flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0 {
                return Err(libc::EINVAL);
            }
            pages.take(second).ok_or(libc::ENOMEM)?
        }
        libc::SYS_munmap => {
            pages.give(first, second);
            0
        }
        libc::SYS_madvise => {
            if third as i32 == libc::MADV_DONTNEED {
                memory::clear(first, second);
            }
            0
        }
        libc::SYS_mremap => return Err(libc::ENOMEM), // the C library copies then
        libc::SYS_arch_prctl => match first {
            // SAFETY: the C library sets its own thread's data up.
            ARCH_SET_FS => unsafe {
                std::arch::asm!("wrfsbase {}", in(reg) second, options(nostack, preserves_flags));
                0
            },
            _ => return Err(libc::EINVAL),
        },
        libc::SYS_clock_gettime => {
            let now = ticks();
            let wall = if first == libc::CLOCK_REALTIME as u64 { EPOCH } else { 0 };
            // SAFETY: the caller's timespec.
            unsafe { (second as *mut [u64; 2]).write([wall + now / SECOND, now % SECOND]) };
            0
        }
        libc::SYS_nanosleep => sleep(first, false),
        libc::SYS_clock_nanosleep => sleep(third, second & libc::TIMER_ABSTIME as u64 != 0),
        libc::SYS_getrandom => {
            // SAFETY: the caller's buffer of that length; one thread.
            unsafe {
                for index in 0..second {
                    *(first as *mut u8).add(index as usize) = random() as u8;
                }
            }
            second
        }
        libc::SYS_prlimit64 => {
            if fourth != 0 {
                let limit = libc::rlimit { rlim_cur: 4 << 20, rlim_max: libc::RLIM_INFINITY };
                // SAFETY: the caller's structure.
                unsafe { (fourth as *mut libc::rlimit).write(limit) };
            }
            0
        }
        libc::SYS_rt_sigaction => zeroes(third, 32),
        libc::SYS_rt_sigprocmask => zeroes(third, 8),
        libc::SYS_sigaltstack => zeroes(second, 24),
        libc::SYS_sched_getaffinity => {
            zeroes(third, second.min(8));
            // SAFETY: the caller's set, at least a byte of it.
            unsafe { *(third as *mut u8) = 1 };
            second.min(8)
        }
        libc::SYS_sysinfo => zeroes(first, std::mem::size_of::<libc::sysinfo>() as u64),
        libc::SYS_getpid | libc::SYS_gettid | libc::SYS_set_tid_address => 1,
        libc::SYS_mprotect
        | libc::SYS_set_robust_list
        | libc::SYS_poll
        | libc::SYS_iopl
        | libc::SYS_close
        | libc::SYS_fcntl
        | libc::SYS_getuid
        | libc::SYS_geteuid
        | libc::SYS_getgid
        | libc::SYS_getegid
        | libc::SYS_setrlimit
        | libc::SYS_flock
        | libc::SYS_sched_yield => 0,
        libc::SYS_futex => match second as i32 & 0x7f {
            libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => 0,
            // Nobody else is there to end the wait.
            _ => die("a thread waits for another, and there is one only"),
        },
        libc::SYS_ioctl => match second as libc::c_ulong {
            // SAFETY: as above.
            BLKSSZGET => return unsafe { files::block_size(first, third) },
            _ => return Err(libc::ENOTTY),
        },
        libc::SYS_readlink | libc::SYS_readlinkat | libc::SYS_access => return Err(libc::ENOENT),
        libc::SYS_rseq | libc::SYS_statx | libc::SYS_clone3 | libc::SYS_clone => {
            return Err(libc::ENOSYS)
        }
        libc::SYS_exit | libc::SYS_exit_group => end(first as u8),
        libc::SYS_kill | libc::SYS_tgkill | libc::SYS_tkill => die("a signal"),
        _ => {
            say("stasis: no such system call here: ");
            say_number(number as u64);
            say("\n");
            return Err(libc::ENOSYS);
        }
    })
}

// <linux/fs.h>: _IO(0x12, 104).
const BLKSSZGET: libc::c_ulong = 0x1268;
// <asm/prctl.h>
const ARCH_SET_FS: u64 = 0x1002;

fn zeroes(at: u64, length: u64) -> u64 {
    if at != 0 {
        // SAFETY: a structure of that length which the caller wants filled.
        unsafe { std::ptr::write_bytes(at as *mut u8, 0, length as usize) };
    }
    0
}

/// The processor's ticks: nanoseconds, as QEMU's TSC has 1 GHz.
fn ticks() -> u64 {
    // SAFETY: the instruction has no effect on memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Waits for the timespec at `at`: from now on, or until that time since the start.
fn sleep(at: u64, absolute: bool) -> u64 {
    let start = if absolute { 0 } else { ticks() };
    // SAFETY: the caller's timespec.
    let [seconds, rest] = unsafe { (at as *const [u64; 2]).read() };
    let end = start.saturating_add(seconds.saturating_mul(SECOND)).saturating_add(rest);
    if crate::start::is_done() {
        crate::svm::TIMER.sleep_until(end);
    }
    0
}

// Numbers for hash tables: the same in each run. Marsaglia: Xorshift RNGs,
// Journal of Statistical Software 8 (2003), 14.
fn random() -> u64 {
    // SAFETY: calls do not nest and there is one thread.
    unsafe {
        RANDOM ^= RANDOM << 13;
        RANDOM ^= RANDOM >> 7;
        RANDOM ^= RANDOM << 17;
        RANDOM
    }
}

/// # Safety
/// `length` bytes from `from` on are readable.
unsafe fn print(from: u64, length: u64) -> u64 {
    // SAFETY: the caller's promise.
    console::write(unsafe { std::slice::from_raw_parts(from as *const u8, length as usize) });
    length
}

/// Returns whether this program runs on the bare machine.
pub fn is_here() -> bool {
    entry::is_at_home() && std::env::var_os(crate::image::MARK).is_some()
}
