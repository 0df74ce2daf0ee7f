//! Several host files side by side, as one medium: the place of a disk image and those below it.

use std::os::fd::RawFd;
use std::path::PathBuf;

use stasis_block::{Command, Operation, Request};

use crate::overlay::{Overlay, MAX_OVERLAY};
use crate::spec::delayed;
use crate::synchronous::{InPlace, Synchronous};
use crate::workers::Workers;
use crate::{open, Execution, Finished, HostMedium, Medium, MediumError, OpenError, OpenOptions};

/// Alignment of the files' beginnings on the drive (bytes).
const STEP: u64 = 1 << 20;

/// The use that is made of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The file is read, and others may read it at the same time.
    Read,
    /// The file is read and written, by nobody else.
    Write,
    /// The file is read, beside others; written data stays in memory, at most [`MAX_OVERLAY`], and
    /// is gone with the medium.
    Keep,
}

/// A file of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Limit on the file's size (bytes); never less than its present size.
    pub room: u64,
    /// The use that is made of it.
    pub access: Access,
}

/// Files side by side. A part of a file that was never written reads as zeroes.
pub struct HostFiles {
    // With their first bytes, in order.
    files: Vec<(u64, Box<dyn HostMedium>)>,
    capacity: u64,
    early: Vec<Finished>,
}

impl HostFiles {
    /// Opens and locks `files`, which is not empty.
    ///
    /// # Errors
    /// An [`OpenError`] that names the path, the cause and the remedy.
    pub fn open(files: &[HostFile], options: &OpenOptions) -> Result<Self, OpenError> {
        let mut opened = Vec::new();
        let mut capacity = 0;
        for HostFile { path, room, access } in files {
            let path = options.base.join(path);
            let label = format!("file:{}", path.display());
            let backing = open::host_file(&path, &label, *room, *access == Access::Write)?;
            let size = backing.capacity();
            let medium = match (access, options.execution) {
                (Access::Keep, _) => {
                    let overlay = Overlay::new(InPlace::new(backing), label.into(), MAX_OVERLAY);
                    delayed(Synchronous::of(overlay), options)
                }
                (_, Execution::Synchronous) => {
                    delayed(Synchronous::of(InPlace::new(backing)), options)
                }
                (_, Execution::Asynchronous) => delayed(Workers::new(backing), options),
                (_, Execution::Polled) => crate::uring::polled(backing)?,
            };
            opened.push((capacity, medium));
            capacity += size.next_multiple_of(STEP);
        }
        Ok(Self { files: opened, capacity, early: Vec::new() })
    }

    /// Beginning of each file on the drive, and the limit on its size (bytes).
    pub fn places(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.files.iter().map(|(start, medium)| (*start, medium.capacity()))
    }
}

impl Medium for HostFiles {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn submit(&mut self, request: Request) {
        let Command { operation, offset, length, .. } = request.command;
        // Only the first file is ever written.
        let index = match operation {
            Operation::Flush | Operation::Barrier => 0,
            _ => self.files.partition_point(|(start, _)| *start <= offset).saturating_sub(1),
        };
        match self.files.get_mut(index) {
            Some((start, medium)) if operation != Operation::Copy || index == 0 => {
                let offset = offset.saturating_sub(*start);
                let command = Command { offset, ..request.command };
                medium.submit(Request { command, ..request });
            }
            _ => {
                let capacity = self.capacity;
                let error = MediumError::OutOfRange { operation, offset, length, capacity };
                let Request { tag, data, .. } = request;
                self.early.push(Finished { tag, result: Err(error), data });
            }
        }
    }

    fn poll(&mut self, done: &mut Vec<Finished>) {
        done.append(&mut self.early);
        self.files.iter_mut().for_each(|(_, medium)| medium.poll(done));
    }

    fn wait(&mut self, done: &mut Vec<Finished>) {
        let before = done.len();
        self.poll(done);
        if done.len() == before {
            if let Some((_, medium)) = self.files.iter_mut().find(|(_, m)| m.in_flight() > 0) {
                medium.wait(done);
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.early.len() + self.files.iter().map(|(_, medium)| medium.in_flight()).sum::<usize>()
    }
    fn discard_zeroes(&self) -> bool {
        self.files.first().is_some_and(|(_, medium)| medium.discard_zeroes())
    }
}

impl HostMedium for HostFiles {
    fn needs_poll(&self) -> bool {
        !self.early.is_empty() || self.files.iter().any(|(_, medium)| medium.needs_poll())
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.files.iter().flat_map(|(_, medium)| medium.descriptors()).collect()
    }
}
