//! The bench of measurements: what is measured, how much of it, and where.

use std::path::PathBuf;
use std::time::Duration;

use stasis_guest_image::Guest;

use super::super::measured::Measured;
use super::super::subject::Subject;

/// The port of the answerer.
pub const PORT: u16 = 7001;
/// Maximum number of tries of a part.
pub const TRIES: u32 = 3;
/// Threads where throughput counts.
pub const THREADS: u32 = 4;

/// Sizes of the measurements.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// I/Os of a thread in a round on the bare drive.
    pub ios: u64,
    /// Time of a round in the guest, in whole seconds.
    pub round: Duration,
    pub pings: u32,
    /// Time of each TCP measurement.
    pub seconds: f64,
    /// Reads of the file server by a thread.
    pub reads: u64,
}

impl Sizes {
    /// The usual size, or a check's.
    pub fn of(quick: bool) -> Self {
        match quick {
            true => Self {
                ios: 1000,
                round: Duration::from_secs(1),
                pings: 200,
                seconds: 1.0,
                reads: 300,
            },
            false => Self {
                ios: 4000,
                round: Duration::from_secs(2),
                pings: 2000,
                seconds: 4.0,
                reads: 1000,
            },
        }
    }
}

/// The bench of a subject.
pub struct Bench<'a> {
    pub guest: &'a Guest,
    pub sizes: &'a Sizes,
    pub subject: Subject,
    pub folder: PathBuf,
    pub program: PathBuf,
    /// The guest's processor, and the server's.
    pub cpus: [usize; 2],
    pub measured: Measured,
}
