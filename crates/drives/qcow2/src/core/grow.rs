//! Growth of an image.

use std::io;

use super::{Core, End, PIECE};
use crate::disk::Source;
use crate::lock::lock;
use crate::turns::Subject;

impl Core {
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
