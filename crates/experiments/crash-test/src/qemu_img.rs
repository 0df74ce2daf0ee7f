//! QEMU's own opinion of an image.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use anyhow::Result;

/// Returns the fault that `qemu-img check` finds in an image; none if that program is not
/// installed.
pub fn finds(image: &File) -> Result<Option<String>> {
    let path = format!("/proc/{}/fd/{}", std::process::id(), image.as_raw_fd());
    let mut command = Command::new("qemu-img");
    command.args(["check", "-f", "qcow2", &path]).stdin(Stdio::null());
    let output = match command.output() {
        Ok(output) => output,
        Err(_) => return Ok(None),
    };
    Ok(match output.status.code() {
        // 3: leaks, which are harmless.
        Some(0 | 3) => None,
        code => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            Some(format!("qemu-img check ({code:?}): {}", text.trim()))
        }
    })
}
