//! The root of guests that is read where it lies: a virtio drive behind all others, which takes no
//! virtual time and is no part of the experiment.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use stasis_block::{Command, Operation};
use stasis_drive::Drive;
use stasis_machine::{Controller, DriveConfig};
use stasis_media::{Contents, MediumError, Synchronous};
use stasis_models::{BuildContext, ModelSpec};

use crate::plan::PlannedRoot;

/// Reader of the root's bytes: fills a buffer from an offset on.
pub type Source = Arc<dyn Fn(&mut [u8], u64) -> io::Result<()> + Send + Sync>;

/// The drive for a machine with `vcpus` processors.
pub fn drive(root: &PlannedRoot, source: &Source, vcpus: u32) -> Result<DriveConfig> {
    let capacity = root.length;
    let contents = ReadOnly { source: Arc::clone(source), capacity, label: "root".into() };
    let context = BuildContext { seed: 0, capacity, path: 0 };
    let model = ModelSpec::parse("null")?.build(&context)?;
    let medium = Box::new(Synchronous::of(contents));
    let drive = Drive::new(u16::MAX, "root".into(), model, medium).with_host_clock(Instant::now);
    let controller = Controller::Virtio(stasis_virtio::Config {
        capacity,
        identifier: stasis_channel::ROOT_SERIAL.into(),
        // Before a drive of one queue Linux puts a scheduler.
        queues: vcpus.clamp(2, 64) as u16,
        read_only: true,
        volatile_write_cache: false,
        ..Default::default()
    });
    Ok(DriveConfig { drive: Box::new(drive), tenant: None, controller, paths: Vec::new() })
}

/// Bytes that are only read.
struct ReadOnly {
    source: Source,
    capacity: u64,
    label: Arc<str>,
}

impl Contents for ReadOnly {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn perform(&mut self, command: &Command, data: &mut [u8]) -> Result<(), MediumError> {
        let Command { operation, offset, length, .. } = *command;
        let done = match operation {
            Operation::Read => (self.source)(data, offset),
            Operation::Flush | Operation::Barrier => Ok(()),
            _ => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        };
        let medium = Arc::clone(&self.label);
        done.map_err(|source| MediumError::Os { medium, operation, offset, length, source })
    }

    fn discard_zeroes(&self) -> bool {
        false
    }

    fn is_immediate(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stasis_block::Request;
    use stasis_media::Medium;

    fn command(operation: Operation, offset: u64, length: u64) -> Command {
        Command::new(operation, offset, length)
    }

    #[test]
    fn a_root_is_read_and_nothing_else() {
        let source: Source = Arc::new(|into: &mut [u8], offset| match offset {
            4096 => Err(io::Error::other("gone")),
            offset => {
                into.fill(offset as u8);
                Ok(())
            }
        });
        let contents = ReadOnly { source, capacity: 8192, label: "root".into() };
        let mut medium = Synchronous::of(contents);
        medium.submit(Request::new(1, command(Operation::Read, 512 + 7, 3), vec![0; 3]));
        medium.submit(Request::new(2, command(Operation::Read, 4096, 512), vec![0; 512]));
        medium.submit(Request::new(3, command(Operation::Write, 0, 512), vec![1; 512]));
        medium.submit(Request::new(4, command(Operation::Flush, 0, 0), Vec::new()));
        let mut done = Vec::new();
        medium.wait(&mut done);
        assert!(done[0].result.is_ok());
        assert_eq!(done[0].data, [7; 3]);
        let text = done[1].result.as_ref().unwrap_err().cause();
        assert!(text.contains("gone"), "{text}");
        assert!(done[2].result.is_err() && done[3].result.is_ok());
        assert_eq!(medium.in_flight(), 0);
    }
}
