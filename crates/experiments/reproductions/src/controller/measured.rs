//! The measurements, in the form in which they leave a software host.

use serde::{Deserialize, Serialize};

use super::steady::Rounds;

/// Measurements of one way of running the guest, or of the bare host. Times in us, streams in Mbit
/// a second; failed measurements are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// A 4 KiB synchronous write by one thread: mean.
    pub write_us: Option<f64>,
    /// A 4 KiB synchronous write by one thread: median.
    pub write_median_us: Option<f64>,
    /// Exits from guest mode for one such write.
    #[serde(default)]
    pub exits: Option<f64>,
    /// Exits from guest mode for one read of the guest's file server.
    #[serde(default)]
    pub read_exits: Option<f64>,
    /// 4 KiB synchronous I/Os a second of several threads: read, write.
    pub iops: [Option<f64>; 2],
    /// The rounds of each rate that was tried, in the order of their being tried.
    #[serde(default)]
    pub rounds: Vec<(String, Rounds)>,
    /// Ping flood, round trip.
    pub ping_us: Option<f64>,
    /// Transactions of one byte a second.
    pub requests: Option<f64>,
    /// TCP to the client and from it, as the guest sees it.
    pub send: Option<f64>,
    /// TCP to the guest.
    pub receive: Option<f64>,
    /// File server: 4 KiB reads a second that miss its cache.
    pub reads: Option<f64>,
}

impl Variant {
    /// Adds the figures of another measurement.
    fn with(self, other: Self) -> Self {
        Self {
            write_us: self.write_us.or(other.write_us),
            write_median_us: self.write_median_us.or(other.write_median_us),
            exits: self.exits.or(other.exits),
            read_exits: self.read_exits.or(other.read_exits),
            iops: [0, 1].map(|side| self.iops[side].or(other.iops[side])),
            rounds: [self.rounds, other.rounds].concat(),
            ping_us: self.ping_us.or(other.ping_us),
            requests: self.requests.or(other.requests),
            send: self.send.or(other.send),
            receive: self.receive.or(other.receive),
            reads: self.reads.or(other.reads),
        }
    }
}

/// All that was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Place of the measurement.
    pub place: String,
    /// True if its processor is emulated.
    #[serde(default)]
    pub emulated: bool,
    /// Processors of the host.
    pub processors: usize,
    /// The host itself.
    pub bare: Variant,
    /// The guest by QEMU's own virtio-blk, halting, with interrupts.
    pub trap: Variant,
    /// The guest with polling everywhere, on the same drive.
    pub polled: Variant,
    /// The guest with polling everywhere, on a drive in the server's memory.
    pub own: Variant,
    /// Failed measurements, each with its reason.
    pub failed: Vec<String>,
    /// Repeated measurements, each with its reason: a virtual machine that ended by itself or hung,
    /// invalid rates.
    #[serde(default)]
    pub again: Vec<String>,
}

impl Measured {
    /// Adds the measurement of another subject.
    pub fn with(self, other: Self) -> Self {
        let place = if self.place.is_empty() { other.place } else { self.place };
        Self {
            place,
            emulated: self.emulated || other.emulated,
            processors: self.processors.max(other.processors),
            bare: self.bare.with(other.bare),
            trap: self.trap.with(other.trap),
            polled: self.polled.with(other.polled),
            own: self.own.with(other.own),
            failed: [self.failed, other.failed].concat(),
            again: [self.again, other.again].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_come_together() {
        let way = |exits, reads| Variant { exits, reads, ..Variant::default() };
        let drive = Measured { trap: way(Some(4.0), None), processors: 2, ..Measured::default() };
        let files = Measured {
            place: "here".into(),
            trap: way(None, Some(300.0)),
            failed: vec!["polling: it hung".into()],
            ..Measured::default()
        };
        let all = Measured::default().with(drive).with(files.clone());
        assert_eq!(all.trap, way(Some(4.0), Some(300.0)));
        assert_eq!((all.place, all.processors, all.failed), ("here".into(), 2, files.failed));
    }
}
