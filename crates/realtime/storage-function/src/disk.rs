//! A function's NBD export as a file of the host: qemu-storage-daemon carries it over FUSE, for
//! every program that takes a file, `stasis serve` too.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::mount::{unmount, UnmountFlags};
use rustix::process::{geteuid, kill_process, Pid, Signal};
use stasis_qemu_vm::process::{with_path, Process};

use crate::Error;

const DAEMON: &str = "qemu-storage-daemon";
/// Advice for a user whose disk is not mounted (libfuse's mount by fusermount3, fuse(8)).
const USERS_NEED: &str =
    "\nWithout root, FUSE takes fusermount3 (Debian's package fuse3) and access to /dev/fuse";
/// Time that I/Os wait for the function to come back before they fail (s).
const RECONNECT: u32 = 120;
/// Limit on the time for the disk to appear, or to end.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A disk that a function offers. Dropping it takes the file away.
#[derive(Debug)]
pub(crate) struct ExportedDisk {
    process: Option<Process>,
    path: PathBuf,
}

impl ExportedDisk {
    /// Shows the export `name` at `address` as a file in `folder`.
    pub(crate) fn new(folder: &Path, name: &str, address: &(String, u16)) -> Result<Self, Error> {
        let path = folder.join(name);
        // Unmounts the remains of a killed supervisor; usually there is nothing.
        let _ = unmount(&path, UnmountFlags::DETACH);
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(Error::file("create", &path))?;
        let (host, port) = address;
        let mut command = Command::new(DAEMON);
        command
            .arg("--blockdev")
            .arg(format!(
                "driver=nbd,node-name=disk,export={name},server.type=inet,server.host={host},\
                 server.port={port},reconnect-delay={RECONNECT},discard=unmap"
            ))
            .arg("--export")
            .arg(with_path("type=fuse,id=disk,node-name=disk,writable=on,mountpoint=", &path));
        let process = Process::start(command, &[], &folder.join("disk.log"))
            .map_err(Error::file("start (Debian's package qemu-system-common has it)", DAEMON))?;
        let mut disk = Self { process: Some(process), path };
        let start = Instant::now();
        // The empty file below has no bytes, the disk has.
        while !fs::metadata(&disk.path).is_ok_and(|file| file.len() > 0) {
            let ended = disk.process.as_mut().and_then(Process::ended).is_some();
            if ended || start.elapsed() > TIMEOUT {
                let detail = disk.process.as_mut().map(Process::detail).unwrap_or_default();
                let remedy = if geteuid().is_root() { "" } else { USERS_NEED };
                return Err(Error::Invalid(format!(
                    "{DAEMON} does not show the disk {}{detail}{remedy}",
                    disk.path.display()
                )));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(disk)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ExportedDisk {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It flushes, and takes its mount away.
            if let Some(id) = Pid::from_raw(process.id() as i32) {
                let _ = kill_process(id, Signal::TERM);
            }
            let start = Instant::now();
            while process.ended().is_none() && start.elapsed() < TIMEOUT {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = unmount(&self.path, UnmountFlags::DETACH);
        let _ = fs::remove_file(&self.path);
    }
}
