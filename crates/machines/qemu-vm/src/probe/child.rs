//! Work in a separate process, which is killed if it takes long.

use crate::fd::{pipe, readable};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Runs `work` in a forked child and returns its answer, or an error if it took longer than
/// `limit`.
pub fn run(limit: Duration, work: impl FnOnce() -> String) -> io::Result<String> {
    let (read_end, write_end) = pipe()?;
    // SAFETY: the child runs `work` and leaves by _exit. The only part of the C library that it
    // uses after the fork is memory allocation, which glibc keeps usable in the child of a process
    // with threads (malloc/arena.c, __malloc_fork_*).
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        drop(read_end);
        // A leading byte distinguishes an empty answer from none.
        let answer =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| format!("\n{}", work())));
        let _ = File::from(write_end).write_all(answer.unwrap_or_default().as_bytes());
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(0) };
    }
    drop(write_end);
    let in_time = wait_readable(read_end.as_fd(), limit)?;
    // SAFETY: `child` is our own child and not yet waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let gone = reap(child, Duration::from_secs(1));
    if !in_time {
        let more = if gone { "" } else { " (and cannot be interrupted)" };
        return Ok(format!(
            "a 64-bit guest of a few instructions did not finish within {} s{more}",
            limit.as_secs()
        ));
    }
    let mut text = String::new();
    File::from(read_end).read_to_string(&mut text)?;
    match text.strip_prefix('\n') {
        Some(answer) => Ok(answer.to_owned()),
        None => Ok("the probe's process was killed".into()),
    }
}

fn wait_readable(fd: std::os::fd::BorrowedFd<'_>, limit: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + limit;
    while let Some(remaining) = deadline.checked_duration_since(Instant::now()) {
        let [ready] = readable([fd], remaining.as_millis() as i32 + 1)?;
        if ready {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes the child's end; one that the kernel does not let go is left.
fn reap(child: libc::pid_t, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        // SAFETY: a null status is allowed.
        match unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) } {
            0 if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            0 => return false,
            _ => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_TIME: Duration = Duration::from_secs(2);

    #[test]
    fn a_child_that_hangs_is_killed() {
        let start = Instant::now();
        let answer = run(Duration::from_millis(100), || loop {
            std::thread::sleep(Duration::from_secs(1));
        });
        assert!(answer.unwrap().contains("did not finish"));
        assert!(start.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn what_a_child_says_comes_back() {
        assert_eq!(run(MAX_TIME, || "something".into()).unwrap(), "something");
        assert_eq!(run(MAX_TIME, String::new).unwrap(), "");
    }

    #[test]
    fn a_child_that_dies_is_not_taken_for_one_that_is_content() {
        let answer = run(MAX_TIME, || {
            // SAFETY: ends this forked child only.
            unsafe { libc::_exit(9) }
        });
        assert!(answer.unwrap().contains("killed"));
    }
}
