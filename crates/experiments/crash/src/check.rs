//! Checks of the disks after a power cut: a file system's checker, a database's checker, or an
//! application that compares them with its acknowledged writes.

use std::io;

use stasis_block::clock::Nanos;

/// The disks after a power cut, as the machine finds them when it starts again.
pub trait StateReader {
    /// Number of drives, in the experiment's order.
    fn drives(&self) -> usize;

    /// Size of a drive's disk as the guest sees it (bytes); 0 if there is no
    /// such drive.
    fn size(&self, drive: usize) -> u64;

    /// Fills `into` with the disk's bytes from `offset` on.
    ///
    /// # Errors
    /// If a file that holds the disk cannot be read, or the range lies outside the disk.
    fn read(&mut self, drive: usize, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Returns for each zone of a drive that is not empty its first byte on the drive, and the
    /// number of its written bytes.
    fn zones(&self, drive: usize) -> Vec<(u64, u64)> {
        let _ = drive;
        Vec::new()
    }

    /// The byte of the guest's disk that lies at `offset` of the drive: below an image, of the file
    /// that holds it. None where the guest's disk has no such byte.
    fn on_disk(&self, drive: usize, offset: u64) -> Option<u64> {
        let _ = drive;
        Some(offset)
    }

    /// The state's number.
    fn number(&self) -> u64 {
        0
    }

    /// Time of the power cut (ns of virtual time).
    fn at(&self) -> Nanos;

    /// Whole lines that the command had written to its standard output by then, each with the time
    /// when the machine received it (ns): the promises on which the workload may rely.
    fn lines(&self) -> &[(Nanos, Vec<u8>)];
}

/// A check's verdict on one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The state is as it should be.
    Sound,
    /// The state is as it should be after a repair, such as a replayed journal or an fsck that
    /// changed something.
    Repaired(String),
    /// Broken, with the reason.
    Broken(String),
    /// The check exceeded its time limit: nothing is known about the state.
    Late(String),
}

/// A check that is made on many states, one after the other.
pub trait Check {
    /// Looks at one state, which it leaves as it is.
    ///
    /// # Errors
    /// A message for the user where it is not the state's fault that there is
    /// no verdict, for example when a machine does not start.
    fn check(&mut self, state: &mut dyn StateReader) -> Result<Verdict, String>;
}
