//! Commands to an image: reads, writes and orders.

use std::io;

use stasis_block::{Command, Operation, Status};
use stasis_qcow2_format::entries::Cluster;

use super::{finish, Core, End, PIECE};
use crate::disk::Source;
use crate::host::HostIo;
use crate::lock::lock;
use crate::turns::Subject;
use crate::Durability;

/// Limit on the bytes of tables that wait to be written: beyond it they are written without being
/// asked for.
const MAX_WAITING: u64 = 8 << 20;

/// The class of an I/O priority that makes a command durable whatever the
/// image's way: real-time (linux/ioprio.h).
const REAL_TIME: u16 = 1;

impl Core {
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
                cluster
                    if matches!(cluster, Cluster::Packed { .. })
                        || self.shared.lock().disk.tables.is_mixed(start, count) =>
                {
                    // The compressed data is freed, or what some parts of the cluster have moves.
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

    /// Writes where mappings are taken away.
    async fn replace(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _turn = self.turns.alone(Subject::Mappings).await;
        self.before_allocation().await?;
        let _change = self.changed();
        self.write_new(offset, data).await?;
        lock(&self.freed).push((0, 0));
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
}

fn status(outcome: io::Result<()>, failure: Status) -> Status {
    match outcome {
        Ok(()) => Status::Ok,
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Status::NoSpace,
        Err(_) => failure,
    }
}
