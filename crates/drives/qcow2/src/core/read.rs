//! Reads of the disk, and of the tables that say where it lies.

use std::io;

use stasis_block::{Command, Operation};
use stasis_qcow2_format::entries::unpack;

use super::Core;
use crate::disk::{Disk, Source};
use crate::tables::Look;
use crate::turns::Subject;

/// Reads begin and end at multiples of this (bytes).
const SECTOR: u64 = 512;

impl Core {
    /// Looks at the tables, and loads those that are not known yet.
    pub(super) async fn look<T>(
        &self,
        look: impl Fn(&mut Disk) -> io::Result<Look<T>>,
    ) -> io::Result<T> {
        loop {
            let found = look(&mut self.shared.lock().disk)?;
            match found {
                Look::Found(found) => return Ok(found),
                Look::Unknown { file, table } => self.load(file, table).await?,
            }
        }
    }

    /// Content of the disk from `offset` on, and for how many bytes of `most` it goes on alike.
    pub(crate) async fn locate(&self, offset: u64, most: u64) -> io::Result<(Source, u64)> {
        self.look(|disk| disk.locate(offset, most)).await
    }

    async fn load(&self, file: usize, table: u64) -> io::Result<()> {
        let _turn = self.turns.alone(Subject::Loading(file, table)).await;
        let size = {
            let disk = &mut self.shared.lock().disk;
            let tables = disk.tables_of(file);
            // Another may have loaded it meanwhile.
            if tables.is_known(table) {
                return Ok(());
            }
            tables.size()
        };
        let mut bytes = vec![0; size];
        self.read_file(file, table, &mut bytes).await?;
        self.shared.lock().disk.tables_of(file).load(table, bytes);
        Ok(())
    }

    /// Reads a file from `offset` on, a multiple of 512; behind its end are zeroes.
    async fn read_file(&self, file: usize, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let (start, length) = self.shared.lock().disk.span(file);
        let there = length.saturating_sub(offset).min(into.len() as u64) as usize;
        let (there, rest) = into.split_at_mut(there);
        rest.fill(0);
        if !there.is_empty() {
            // A file may end within a sector.
            let length = (there.len() as u64).next_multiple_of(SECTOR);
            let command = Command::new(Operation::Read, start + offset, length);
            let data = self.shared.io(command, vec![0; length as usize]).await?;
            there.copy_from_slice(data.get(..there.len()).unwrap_or(&vec![0; there.len()]));
        }
        Ok(())
    }

    /// Reads the disk; behind its end are zeroes.
    pub(super) async fn read(&self, mut offset: u64, mut into: &mut [u8]) -> io::Result<()> {
        let size = self.shared.lock().disk.size;
        let there = size.saturating_sub(offset).min(into.len() as u64) as usize;
        into[there..].fill(0);
        into = &mut into[..there];
        while !into.is_empty() {
            let (source, count) = self.locate(offset, into.len() as u64).await?;
            let (piece, rest) = into.split_at_mut(count as usize);
            match source {
                Source::Zero { .. } => piece.fill(0),
                Source::Data { file, at, .. } => self.read_file(file, at, piece).await?,
                Source::Packed { file, at, length } => {
                    let cluster = self.read_packed(file, at, length).await?;
                    let within = offset as usize & (cluster.len() - 1);
                    piece.copy_from_slice(&cluster[within..within + piece.len()]);
                }
            }
            into = rest;
            offset += count;
        }
        Ok(())
    }

    /// Reads a whole compressed cluster.
    async fn read_packed(&self, file: usize, at: u64, length: u64) -> io::Result<Vec<u8>> {
        let (size, compression) = {
            let disk = &mut self.shared.lock().disk;
            let tables = disk.tables_of(file);
            (tables.size(), tables.compression())
        };
        let within = at % SECTOR;
        let mut packed = vec![0; (within + length).next_multiple_of(SECTOR) as usize];
        self.read_file(file, at - within, &mut packed).await?;
        unpack(&packed[within as usize..], compression, size)
    }

    /// Reads within the drive below, to verify the data there.
    pub(super) async fn verify(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut at = 0;
        while at < length {
            let (source, count) = self.locate(offset + at, length - at).await?;
            if let Source::Data { file, at, .. } = source {
                let (start, _) = self.shared.lock().disk.span(file);
                let command = Command::new(Operation::Verify, start + at, count);
                self.shared.io(command, Vec::new()).await?;
            }
            at += count;
        }
        Ok(())
    }
}
