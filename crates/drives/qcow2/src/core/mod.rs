//! Commands to an image: reads, writes and orders.

mod allocate;
mod flush;
mod read;

use std::io;
use std::sync::Arc;
use std::task::Waker;

use stasis_block::{Command, Operation, Status};
use stasis_qcow2_format::entries::Cluster;

use crate::disk::Source;
use crate::host::{HostIo, Shared};
use crate::kill_safety::KillSafety;
use crate::lag::Lag;
use crate::turns::{Subject, Turns};
use crate::{Durability, Settings};

/// Limit on the bytes of tables that wait to be written: beyond it they are written without being
/// asked for.
const MAX_WAITING: u64 = 8 << 20;

/// Zeroes that are written at once (bytes).
const PIECE: usize = 1 << 20;

/// The class of an I/O priority that makes a command durable whatever the
/// image's way: real-time (linux/ioprio.h).
const REAL_TIME: u16 = 1;

/// End of a sequence of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Durable.
    Durable,
    /// Before everything that comes later.
    Ordered,
}

/// An open image.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) turns: Turns,
    pub(crate) shared: Arc<Shared>,
    pub(crate) settings: Settings,
    /// Freed ranges that may still be pointed to below: clusters are not given out again while that
    /// is possible. (offset, length) in the file.
    pub(crate) freed: std::sync::Mutex<Vec<(u64, u64)>>,
    pub(crate) lag: std::sync::Mutex<Lag>,
    /// Set while the drive below may not have the tables as they are, durably.
    pub(crate) stale: std::sync::Mutex<bool>,
    /// Those that wait for a flush that bounds the lag.
    behind: std::sync::Mutex<Vec<Waker>>,
    /// Part of the tables that survives when the program is killed.
    pub(crate) kill_safety: KillSafety,
    /// True if the image may be changed.
    writable: bool,
    /// True if the format has clusters of zeroes.
    zeroes: bool,
    /// True if the drive below orders without waiting.
    barriers: bool,
}

pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Core {
    pub(crate) fn new(
        shared: Arc<Shared>,
        settings: Settings,
        kill_safety: KillSafety,
        writable: bool,
        zeroes: bool,
        barriers: bool,
    ) -> Self {
        Self {
            turns: Turns::default(),
            shared,
            settings,
            freed: std::sync::Mutex::default(),
            lag: std::sync::Mutex::default(),
            stale: std::sync::Mutex::new(false),
            behind: std::sync::Mutex::default(),
            kill_safety,
            writable,
            zeroes,
            barriers,
        }
    }

    /// Returns whether a discarded range reads as zeroes.
    pub(crate) fn discard_zeroes(&self) -> bool {
        self.zeroes
    }

    /// Carries a command out. `acknowledge` is called where it has ended well
    /// for the guest and there is something left to do.
    pub(crate) async fn run(
        &self,
        command: Command,
        data: &mut [u8],
        acknowledge: &dyn Fn(),
    ) -> Status {
        let urgent = command.fua || command.priority >> 13 == REAL_TIME;
        let outcome = match command.operation {
            Operation::Read => {
                let _turn = self.turns.shared(Subject::Mappings).await;
                self.read(command.offset, data).await
            }
            Operation::Verify => {
                let _turn = self.turns.shared(Subject::Mappings).await;
                self.verify(command.offset, command.length).await
            }
            Operation::Write => self.write(command.offset, data, urgent).await,
            Operation::Discard => self.clear(command.offset, command.length, true).await,
            Operation::WriteZeroes => self.clear(command.offset, command.length, false).await,
            Operation::Copy => self.copy(command, urgent).await,
            Operation::Flush => {
                return status(self.flush(urgent, acknowledge).await, Status::WriteError)
            }
            Operation::Barrier if !self.barriers => Err(io::ErrorKind::Unsupported.into()),
            Operation::Barrier => return status(self.order(acknowledge).await, Status::WriteError),
        };
        let failure = command.operation.failure();
        let durable = matches!(command.operation, Operation::Discard | Operation::WriteZeroes);
        let outcome = match outcome {
            Ok(()) if durable && urgent => self.make_durable().await,
            Ok(()) if failure == Status::WriteError => self.make_kill_safe().await,
            outcome => outcome,
        };
        status(outcome, failure)
    }

    async fn copy(&self, command: Command, urgent: bool) -> io::Result<()> {
        let mut data = vec![0; command.length as usize];
        {
            let _turn = self.turns.shared(Subject::Mappings).await;
            self.read(command.source, &mut data).await?;
        }
        self.write(command.offset, &data, urgent).await
    }

    async fn write(&self, offset: u64, data: &[u8], urgent: bool) -> io::Result<()> {
        lock(&self.lag).written(data.len() as u64);
        let in_place = self.write_through(offset, data, urgent).await?;
        if urgent && !in_place {
            self.make_durable().await?;
        }
        let waiting = self.shared.lock().disk.tables.dirty_bytes();
        if waiting > MAX_WAITING {
            let _turn = self.turns.shared(Subject::Mappings).await;
            self.write_tables(End::Ordered).await?;
        }
        Ok(())
    }

    /// Writes; `true` if it was durable at once, as a durable write in place.
    async fn write_through(&self, offset: u64, data: &[u8], urgent: bool) -> io::Result<bool> {
        let length = data.len() as u64;
        let turn = self.turns.shared(Subject::Mappings).await;
        self.check_change(offset, length)?;
        // A durable write can be one below only where no table has to follow, and where earlier
        // writes need not be durable too.
        let alone = urgent
            && self.settings.durability != Durability::Ordered
            && !*lock(&self.stale)
            && self.turns.is_free(Subject::Tables);
        let mut in_place: Vec<HostIo> = Vec::new();
        let mut all = alone;
        let mut at = 0;
        while at < length {
            let start = offset + at;
            let (cluster, count) =
                self.look(|disk| disk.tables.look_up(start, length - at)).await?;
            let piece = &data[at as usize..(at + count) as usize];
            match cluster {
                Cluster::Data { at, own: true } => {
                    let mut command = Command::new(Operation::Write, at, count);
                    command.fua = alone;
                    in_place.push(self.shared.io(command, piece.to_vec()));
                }
                Cluster::Packed { .. } => {
                    // The compressed data is freed.
                    drop(turn);
                    finish(in_place).await?;
                    self.replace(start, &data[at as usize..]).await?;
                    return Ok(false);
                }
                _ => {
                    all = false;
                    self.before_allocation().await?;
                    let _change = self.changed();
                    self.write_new(start, piece).await?;
                }
            }
            at += count;
        }
        finish(in_place).await?;
        Ok(all)
    }

    /// Returns whether this part of the disk may be changed.
    fn check_change(&self, offset: u64, length: u64) -> io::Result<()> {
        let end = offset.checked_add(length);
        match () {
            () if !self.writable => Err(io::ErrorKind::PermissionDenied.into()),
            () if end.is_none_or(|end| end > self.shared.lock().disk.size) => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            () => Ok(()),
        }
    }

    /// Writes where mappings are taken away.
    async fn replace(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _turn = self.turns.alone(Subject::Mappings).await;
        self.before_allocation().await?;
        let _change = self.changed();
        self.write_new(offset, data).await?;
        lock(&self.freed).push((0, 0));
        Ok(())
    }

    /// Ensures that nothing points to a freed cluster any more when it gets a new use.
    async fn before_allocation(&self) -> io::Result<()> {
        let freed = || !lock(&self.freed).is_empty();
        if freed() {
            let turn = self.turns.alone(Subject::Tables).await;
            // Another may have seen to it meanwhile.
            if freed() {
                self.write_tables_in_turn(turn, End::Ordered).await?;
            }
        }
        Ok(())
    }

    /// Makes a range read as zeroes and frees its clusters.
    async fn clear(&self, offset: u64, length: u64, discard: bool) -> io::Result<()> {
        if !self.zeroes {
            return if discard { Ok(()) } else { self.write_zeroes(offset, length).await };
        }
        let _turn = self.turns.alone(Subject::Mappings).await;
        self.check_change(offset, length)?;
        let mut at = 0;
        while at < length {
            let (source, count) = self.locate(offset + at, length - at).await?;
            let freed = match source {
                Source::Zero { .. } => None,
                Source::Data { at, own: true, .. } => Some((at, count)),
                _ => {
                    // The clearing may need a new table, or frees a shared one.
                    self.before_allocation().await?;
                    Some((0, 0))
                }
            };
            if let Some(freed) = freed {
                let _change = self.changed();
                self.zero(offset + at, count).await?;
                lock(&self.freed).push(freed);
            }
            at += count;
        }
        Ok(())
    }

    async fn write_zeroes(&self, offset: u64, length: u64) -> io::Result<()> {
        let zeroes = vec![0; length.min(PIECE as u64) as usize];
        let mut at = 0;
        while at < length {
            let count = (length - at).min(PIECE as u64);
            self.write(offset + at, &zeroes[..count as usize], false).await?;
            at += count;
        }
        Ok(())
    }

    /// Makes the disk larger. The new part reads as zeroes, whatever lies there: a file below may
    /// be longer, and a disk that was made smaller leaves data behind its end.
    pub(crate) async fn grow(&self, size: u64) -> io::Result<()> {
        let _turn = self.turns.alone(Subject::Mappings).await;
        let change = self.changed();
        let old = {
            let disk = &mut self.shared.lock().disk;
            disk.tables.grow_l1(size)?;
            std::mem::replace(&mut disk.size, size)
        };
        // The table that grew leaves its old place.
        lock(&self.freed).push((0, 0));
        let zeroes = vec![0; PIECE];
        let mut at = old;
        while at < size {
            let (source, mut count) = self.locate(at, size - at).await?;
            if !matches!(source, Source::Zero { .. }) {
                self.before_allocation().await?;
                if self.zeroes {
                    self.zero(at, count).await?;
                } else {
                    // Version 2 has no clusters of zeroes.
                    count = count.min(PIECE as u64);
                    self.write_new(at, &zeroes[..count as usize]).await?;
                }
                lock(&self.freed).push((0, 0));
            }
            at += count;
        }
        drop(change);
        // The part that the new size uncovers is durable before the header has that size.
        self.write_tables(End::Durable).await?;
        if !self.shared.lock().disk.tables.set_size(size) {
            return Err(io::Error::other("its header is not known"));
        }
        self.write_tables(End::Durable).await
    }
}

fn status(outcome: io::Result<()>, failure: Status) -> Status {
    match outcome {
        Ok(()) => Status::Ok,
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Status::NoSpace,
        Err(_) => failure,
    }
}

/// Waits for all, and returns the first error.
pub(crate) async fn finish(ios: Vec<HostIo>) -> io::Result<()> {
    let mut first = Ok(());
    for io in ios {
        let outcome = io.await.map(drop);
        if first.is_ok() {
            first = outcome;
        }
    }
    first
}
