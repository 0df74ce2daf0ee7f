//! Faults inside a guest, which its agent brings about as the machine orders it.

use serde::{Deserialize, Serialize};

/// A fault inside a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestFault {
    /// Every process of a name is killed.
    Kill {
        /// Name of the program, or of the process as in `/proc/PID/comm` (proc(5)).
        process: String,
    },
    /// Memory is taken from everything else until the end.
    MemoryShortage {
        /// Amount (bytes).
        bytes: u64,
    },
    /// The real-time clock jumps.
    ClockJump {
        /// Distance (ns); negative: backwards.
        by_ns: i64,
    },
    /// The guest's clocks run faster until the end.
    ClockDrift {
        /// By how much (parts per million); negative: slower.
        ppm: i32,
    },
}

/// The beginning of a fault inside a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Begins {
    /// At its time.
    InTime,
    /// As the guest asks for it, which its agent sees.
    AsAsked,
    /// As its command has written a line, which its agent sees.
    AtOutput,
    /// By something that its agent does not see: it has to ask now and then.
    Elsewhere,
}

/// Time of a fault inside a guest. Times count from the commands' start, or from its trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledGuestFault {
    /// Number among the experiment's faults.
    pub number: u16,
    /// Time at which it begins (ns).
    pub begin: u64,
    /// Time at which it ends (ns), if it lasts and does.
    pub end: Option<u64>,
    /// Its beginning.
    pub begins: Begins,
    /// The fault.
    pub fault: GuestFault,
}

/// The answer to [`crate::Request::Orders`], as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Orders {
    /// Faults that end now.
    pub end: Vec<u16>,
    /// Faults that begin now, with their numbers.
    pub begin: Vec<(u16, GuestFault)>,
    /// After what time of the guest to ask again (ns), if more can come.
    pub again_ns: Option<u64>,
    /// True if to ask again whenever the command has written something.
    pub after_output: bool,
}
