//! Each I/O with its times, and the faults that happen, for a consumer that writes them down.
//!
//! The thread that serves a drive never waits for that: a record that does not
//! fit is left out, and counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;

use stasis_run_events::{FaultRecord, IoRecord};

/// Records that wait at most.
const ROOM: usize = 1 << 16;

/// The I/Os of all drives, as they complete.
pub struct IoRecords {
    sender: SyncSender<IoRecord>,
    receiver: Receiver<IoRecord>,
    faults: (SyncSender<FaultRecord>, Receiver<FaultRecord>),
    lost: Arc<AtomicU64>,
}

/// Destination of one drive's I/Os.
pub struct IoRecordSender {
    drive: u16,
    sender: SyncSender<IoRecord>,
    faults: SyncSender<FaultRecord>,
    lost: Arc<AtomicU64>,
}

impl Default for IoRecords {
    fn default() -> Self {
        let (sender, receiver) = sync_channel(ROOM);
        Self { sender, receiver, faults: sync_channel(ROOM), lost: Arc::default() }
    }
}

impl IoRecords {
    /// Destination of the I/Os of the drive that records name by `drive`.
    pub fn of(&self, drive: u16) -> IoRecordSender {
        let (sender, faults) = (self.sender.clone(), self.faults.0.clone());
        IoRecordSender { drive, sender, faults, lost: Arc::clone(&self.lost) }
    }

    /// Appends the waiting records, up to the room of the queue.
    pub fn take(&self, records: &mut Vec<IoRecord>) {
        records.extend(self.receiver.try_iter().take(ROOM));
    }

    /// Appends the waiting records of faults, up to the room of their queue.
    pub fn take_faults(&self, records: &mut Vec<FaultRecord>) {
        records.extend(self.faults.1.try_iter().take(ROOM));
    }

    /// Number of records left out.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl IoRecordSender {
    pub(crate) fn put_fault(&self, record: FaultRecord) {
        if self.faults.try_send(record).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn put(&self, record: IoRecord) {
        if self.sender.try_send(IoRecord { drive: self.drive, ..record }).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}
