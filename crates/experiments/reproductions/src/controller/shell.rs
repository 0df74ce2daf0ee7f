//! Scripts, here and in guests.

use std::process::Command;

use anyhow::{bail, Context, Result};
use stasis_qemu_vm::{Job, Piece, Vm};

/// Time limit of a script in a guest (ms).
const MAX_MS: u64 = 300_000;

/// Runs a script here; returns its standard output.
pub fn here(script: &str) -> Result<String> {
    let output = Command::new("sh").args(["-c", script]).output().context("cannot start sh")?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("`{}` failed ({}): {} {}", first(script), output.status, stdout.trim(), error.trim());
    }
    Ok(stdout)
}

/// Number of exits from guest mode on this machine so far, if the kernel counts them
/// (Documentation/virt/kvm: debugfs).
pub fn exits() -> Option<u64> {
    let script = "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug\n\
                  cat /sys/kernel/debug/kvm/exits";
    here(script).ok()?.trim().parse().ok()
}

/// Runs a script in a guest; returns its standard output. Processes that the script leaves keep
/// running.
pub fn inside(vm: &mut Vm, script: &str) -> Result<String> {
    let mut job = Job::new(vec!["sh".into(), "-c".into(), script.into()]);
    job.keep_processes = true;
    job.send_results = false;
    job.limit_ms = MAX_MS;
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let outcome = vm.run(&job, &mut std::io::empty(), &mut |piece| match piece {
        Piece::Output(stasis_qemu_vm::Stream::Output, bytes) => output.extend_from_slice(bytes),
        Piece::Output(_, bytes) => errors.extend_from_slice(bytes),
        Piece::Results(_) => {}
    })?;
    let output = String::from_utf8_lossy(&output).into_owned();
    if outcome.status != 0 {
        let errors = String::from_utf8_lossy(&errors).into_owned();
        bail!(
            "`{}` failed in the guest with status {}: {} {} {}",
            first(script),
            outcome.status,
            outcome.message.trim(),
            output.trim(),
            errors.trim()
        );
    }
    Ok(output)
}

/// The first line of a script that is not empty.
fn first(script: &str) -> &str {
    script.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_script_that_fails_tells_what_it_said() {
        assert_eq!(super::here("echo well").unwrap(), "well\n");
        let error = super::here("\n  echo half\necho why >&2; exit 3").unwrap_err().to_string();
        assert!(error.contains("echo half") && error.contains("why"), "{error}");
    }
}
