//! Binding QEMU's threads to processors.

use rustix::io::Errno;
use rustix::thread::{sched_setaffinity, CpuSet, Pid};
use serde_json::json;
use stasis_qemu_vm::Vm;

use crate::Error;

/// A list of processors such as `2,4-6`.
///
/// # Errors
/// The word is not a valid list, or names an impossible processor.
pub fn parse(word: &str) -> Result<Vec<usize>, Error> {
    let wrong = || {
        Error::Invalid(format!(
            "`{word}` is no list of processors: numbers and ranges, such as 2,4-6"
        ))
    };
    let mut all = Vec::new();
    for part in word.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) =
            (first.trim().parse().map_err(|_| wrong())?, last.trim().parse().map_err(|_| wrong())?);
        if first > last || last >= CpuSet::MAX_CPU {
            return Err(wrong());
        }
        all.extend(first..=last);
    }
    Ok(all)
}

/// Binds each vCPU's thread to a processor of the list, in order and again from its start where
/// there are more; QEMU's other threads to the rest of the list, else to all of it.
///
/// # Errors
/// QEMU does not report its threads, or the system does not let them be bound.
pub fn pin(vm: &mut Vm, processors: &[usize]) -> Result<(), Error> {
    if processors.is_empty() {
        return Ok(());
    }
    let answer =
        vm.monitor().execute("query-cpus-fast", json!({})).map_err(stasis_qemu_vm::Error::from)?;
    let vcpus: Vec<i32> = answer
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|cpu| i32::try_from(cpu["thread-id"].as_i64()?).ok())
        .collect();
    let rest = match processors.get(vcpus.len()..) {
        Some(rest) if !rest.is_empty() => rest,
        _ => processors,
    };
    let tasks = format!("/proc/{}/task", vm.process_id());
    let entries = std::fs::read_dir(&tasks).map_err(Error::file("read", &tasks))?;
    for entry in entries.filter_map(Result::ok) {
        let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match vcpus.iter().position(|vcpu| *vcpu == thread) {
            Some(index) => bind(thread, &processors[index % processors.len()..][..1])?,
            None => bind(thread, rest)?,
        }
    }
    Ok(())
}

fn bind(thread: i32, processors: &[usize]) -> Result<(), Error> {
    let refused = |error: Errno| {
        Error::Invalid(format!("cannot bind a thread to the processors {processors:?}: {error}; `nproc` says how many there are"))
    };
    let mut set = CpuSet::new();
    for processor in processors {
        if *processor >= CpuSet::MAX_CPU {
            return Err(refused(Errno::INVAL));
        }
        set.set(*processor);
    }
    // No thread has the number 0, by which the caller would be meant.
    let thread = Pid::from_raw(thread).ok_or(refused(Errno::SRCH))?;
    match sched_setaffinity(Some(thread), &set) {
        // A thread that has ended since.
        Err(Errno::SRCH) => Ok(()),
        other => other.map_err(refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_numbers_and_ranges() {
        assert_eq!(parse("2,4-6").unwrap(), [2, 4, 5, 6]);
        assert_eq!(parse("0").unwrap(), [0]);
        for word in ["", "a", "3-1", "1,,2", "99999", "-1"] {
            assert!(parse(word).unwrap_err().to_string().contains("2,4-6"), "{word}");
        }
    }
}
