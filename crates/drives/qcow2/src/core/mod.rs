//! Commands to an image: reads, writes and orders.

mod flush;

use std::io;
use std::sync::Arc;

use imago::{FormatAccess, Mapping};
use stasis_block::{Command, Operation, Status};
use tokio::sync::{Mutex, Notify, RwLock, RwLockReadGuard};

use crate::host::{HostIo, Shared};
use crate::kill_safety::KillSafety;
use crate::lag::Lag;
use crate::storage::{Handle, Role};
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
    /// Read by operations that leave every mapping as it is or add one, written by those that take
    /// one away.
    access: RwLock<FormatAccess<Handle>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) settings: Settings,
    /// One at a time writes tables.
    writing: Mutex<()>,
    /// Freed ranges that may still be pointed to below: clusters are not given out again while that
    /// is possible. (offset, length) in the file.
    pub(crate) freed: std::sync::Mutex<Vec<(u64, u64)>>,
    pub(crate) lag: std::sync::Mutex<Lag>,
    /// Set while the drive below may not have the tables as they are, durably.
    pub(crate) stale: std::sync::Mutex<bool>,
    /// A flush that bounds the lag is over.
    caught_up: Notify,
    /// Part of the tables that survives when the program is killed.
    pub(crate) kill_safety: KillSafety,
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
        access: FormatAccess<Handle>,
        shared: Arc<Shared>,
        settings: Settings,
        kill_safety: KillSafety,
        zeroes: bool,
        barriers: bool,
    ) -> Self {
        Self {
            access: RwLock::new(access),
            shared,
            settings,
            writing: Mutex::new(()),
            freed: std::sync::Mutex::default(),
            lag: std::sync::Mutex::default(),
            stale: std::sync::Mutex::new(false),
            caught_up: Notify::new(),
            kill_safety,
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
            Operation::Read => self.read(command.offset, data).await,
            Operation::Verify => self.verify(command.offset, command.length).await,
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

    async fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.access.read().await.read(data, offset).await
    }

    /// Reads within the drive below, to verify the data there.
    async fn verify(&self, offset: u64, length: u64) -> io::Result<()> {
        let access = self.access.read().await;
        let mut at = 0;
        while at < length {
            let (mapping, count) = access.get_mapping(offset + at, length - at).await?;
            if let Mapping::Raw { storage, offset, .. } = mapping {
                let start = match storage.role {
                    Role::Below(start, _) => start,
                    _ => 0,
                };
                let command = Command::new(Operation::Verify, start + offset, count);
                self.shared.io(command, Vec::new()).await?;
            }
            at += count.max(1);
        }
        Ok(())
    }

    async fn copy(&self, command: Command, urgent: bool) -> io::Result<()> {
        let mut data = vec![0; command.length as usize];
        self.read(command.source, &mut data).await?;
        self.write(command.offset, &data, urgent).await
    }

    async fn write(&self, offset: u64, data: &[u8], urgent: bool) -> io::Result<()> {
        lock(&self.lag).written(data.len() as u64);
        let in_place = self.write_through(offset, data, urgent).await?;
        if urgent && !in_place {
            self.make_durable().await?;
        }
        let waiting = self.shared.lock().tables.dirty_bytes();
        if waiting > MAX_WAITING {
            let access = self.access.read().await;
            self.write_tables(&access, End::Ordered).await?;
        }
        Ok(())
    }

    /// Writes; `true` if it was durable at once, as a durable write in place.
    async fn write_through(&self, offset: u64, data: &[u8], urgent: bool) -> io::Result<bool> {
        let length = data.len() as u64;
        let access = self.access.read().await;
        // A durable write can be one below only where no table has to follow, and where earlier
        // writes need not be durable too.
        let alone = urgent
            && self.settings.durability != Durability::Ordered
            && !*lock(&self.stale)
            && self.writing.try_lock().is_ok();
        let mut in_place: Vec<HostIo> = Vec::new();
        let mut all = alone;
        let mut at = 0;
        while at < length {
            let (mapping, count) = access.get_mapping(offset + at, length - at).await?;
            let piece = &data[at as usize..(at + count) as usize];
            match mapping {
                Mapping::Raw { offset, writable: true, .. } => {
                    let mut command = Command::new(Operation::Write, offset, count);
                    command.fua = alone;
                    in_place.push(self.shared.io(command, piece.to_vec()));
                }
                Mapping::Special { .. } => {
                    // The compressed data is freed.
                    drop(access);
                    finish(in_place).await?;
                    self.replace(offset + at, &data[at as usize..]).await?;
                    return Ok(false);
                }
                Mapping::Eof { .. } => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => {
                    all = false;
                    self.before_allocation(&access).await?;
                    let _change = self.changed();
                    access.write(piece, offset + at).await?;
                }
            }
            at += count;
        }
        finish(in_place).await?;
        Ok(all)
    }

    /// Writes where mappings are taken away.
    async fn replace(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let access = self.access.write().await;
        self.before_allocation(&access).await?;
        let _change = self.changed();
        access.write(data, offset).await?;
        lock(&self.freed).push((0, 0));
        Ok(())
    }

    /// Ensures that nothing points to a freed cluster any more when it gets a new use.
    async fn before_allocation(&self, access: &FormatAccess<Handle>) -> io::Result<()> {
        let freed = || !lock(&self.freed).is_empty();
        if freed() {
            let turn = self.writing.lock().await;
            // Another may have seen to it meanwhile.
            if freed() {
                let mut job = self.job(turn, access).await?;
                job.submit(End::Ordered).await?;
                job.settle(access).await?;
            }
        }
        Ok(())
    }

    /// Makes a range read as zeroes and frees its clusters.
    async fn clear(&self, offset: u64, length: u64, discard: bool) -> io::Result<()> {
        if !self.zeroes {
            return if discard { Ok(()) } else { self.write_zeroes(offset, length).await };
        }
        let mut access = self.access.write().await;
        let mut at = 0;
        while at < length {
            let (mapping, count) = access.get_mapping(offset + at, length - at).await?;
            let freed = match mapping {
                Mapping::Zero { .. } => None,
                Mapping::Eof { .. } => return Err(io::ErrorKind::UnexpectedEof.into()),
                Mapping::Raw { offset, writable: true, .. } => Some((offset, count)),
                _ => {
                    // The clearing may need a new table, or frees a shared one.
                    self.before_allocation(&access).await?;
                    Some((0, 0))
                }
            };
            if let Some(freed) = freed {
                let _change = self.changed();
                access.discard_to_zero(offset + at, count).await?;
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

    /// Read access to the image through the format's library.
    pub(crate) async fn access(&self) -> RwLockReadGuard<'_, FormatAccess<Handle>> {
        self.access.read().await
    }

    /// Makes the disk larger. The new part reads as zeroes, whatever lies there: a file below may
    /// be longer, and a disk that was made smaller leaves data behind its end.
    pub(crate) async fn grow(&self, size: u64) -> io::Result<()> {
        let mut access = self.access.write().await;
        let old = access.size();
        // The part that the new size uncovers is durable before the header has that size.
        self.shared.lock().tables.hold_size(old);
        let change = self.changed();
        access.resize_grow(size, imago::format::PreallocateMode::None).await?;
        // The table that grew leaves its old place.
        lock(&self.freed).push((0, 0));
        let zeroes = vec![0; PIECE];
        let mut at = old;
        while at < size {
            let (mapping, mut count) = access.get_mapping(at, size - at).await?;
            match mapping {
                Mapping::Zero { .. } => {}
                Mapping::Eof { .. } => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ if self.zeroes => {
                    self.before_allocation(&access).await?;
                    access.discard_to_zero(at, count).await?;
                    lock(&self.freed).push((0, 0));
                }
                // Version 2 has no clusters of zeroes.
                _ => {
                    self.before_allocation(&access).await?;
                    count = count.min(PIECE as u64);
                    access.write(&zeroes[..count as usize], at).await?;
                    lock(&self.freed).push((0, 0));
                }
            }
            at += count;
        }
        drop(change);
        self.write_tables(&access, End::Durable).await?;
        if !self.shared.lock().tables.set_size(size) {
            return Err(io::Error::other("its header is not known"));
        }
        self.write_tables(&access, End::Durable).await
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
