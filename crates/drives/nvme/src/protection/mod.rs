//! End-to-end protection of data, and the way of metadata between a host and the drive (NVM Command
//! Set 1.0 sections 5.2 and 5.3).
//!
//! On the drive a block is its data and a sector for its metadata. In that sector the metadata is
//! followed by zeroes, and protection information is complemented: a block that was never written,
//! or was deallocated, reads as zeroes, and so has protection information of ones, which disables
//! checks (section 5.2.3, "Deallocated or unwritten logical blocks").

mod crc;
mod tuple;

use std::ops::Range;

use crate::command::{location, Dword, SubmissionEntry};
use crate::metadata::{BlockFormat, Metadata, Protection, SECTOR_BYTES};
use crate::narrow;
use crate::status::{Failure, StatusCode};
use tuple::{guard_of, Tuple, ESCAPE};

/// Largest metadata of a block in bytes.
const MAX_METADATA: usize = 64;

/// PRINFO, in Dword 12.
mod prinfo {
    pub const ACTION: u32 = 1 << 29;
    pub const CHECK_GUARD: u32 = 1 << 28;
    pub const CHECK_APPLICATION: u32 = 1 << 27;
    pub const CHECK_REFERENCE: u32 = 1 << 26;
    pub const CHECKS: u32 = CHECK_GUARD | CHECK_APPLICATION | CHECK_REFERENCE;
}

/// A block that is not as its protection information, or the command, has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flaw {
    pub status: StatusCode,
    /// The block, counted from the command's first.
    pub block: u64,
}

/// Uses of protection information by a command: an action to insert or strip it (PRACT), and
/// checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Read and Write.
    Transfer,
    /// Compare and Verify: no action.
    Check,
    /// Write Zeroes: no checks.
    Zeroes,
}

/// The way of a command's blocks between the host and the drive, where they have metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    size: usize,
    metadata: Metadata,
    prinfo: u32,
    application: u16,
    application_mask: u16,
    storage: u16,
    reference: u64,
}

impl Passage {
    /// Makes the passage of a command for blocks from `lba` on; `None` if they have no metadata.
    ///
    /// # Errors
    /// Invalid Protection Information: PRINFO is not possible for the command or the namespace.
    pub fn of(
        command: &SubmissionEntry,
        format: BlockFormat,
        lba: u64,
        purpose: Use,
    ) -> Result<Option<Self>, Failure> {
        let Some(metadata) = format.metadata else { return Ok(None) };
        let size = format.size as usize;
        let (upper, lower) = (u64::from(command.cdw3), u64::from(command.cdw14));
        let guard = metadata.guard;
        let mut passage = Self {
            size,
            metadata,
            prinfo: command.cdw12,
            application: command.cdw15.low(),
            application_mask: command.cdw15.high(),
            storage: command.cdw2.low(),
            reference: (upper << 32 | lower) & guard.reference_mask(),
        };
        if metadata.protection == Protection::None {
            passage.prinfo = 0;
            return Ok(Some(passage));
        }
        let checks_reference = passage.has(prinfo::CHECK_REFERENCE);
        let possible = match purpose {
            Use::Transfer => true,
            Use::Check => !passage.has(prinfo::ACTION),
            Use::Zeroes => !passage.has(prinfo::CHECKS),
        };
        let has_reference = match metadata.protection {
            Protection::Type1 => passage.reference == lba & guard.reference_mask(),
            Protection::Type2 | Protection::None => true,
            // There is nothing to compare it with.
            Protection::Type3 => false,
        };
        if !possible || checks_reference && !has_reference {
            return Err(StatusCode::InvalidProtectionInformation.at(location::CDW12 + 3));
        }
        Ok(Some(passage))
    }

    fn has(&self, bits: u32) -> bool {
        self.prinfo & bits != 0
    }

    fn bytes(&self) -> usize {
        narrow::size(self.metadata.size)
    }

    /// Returns the place of protection information in the metadata.
    fn place(&self) -> Range<usize> {
        let tuple = self.metadata.guard.tuple();
        let start = if self.metadata.first { 0 } else { self.bytes() - tuple };
        start..start + tuple
    }

    /// Returns whether the command makes protection information (PRACT), or takes it off.
    pub fn inserts(&self) -> bool {
        self.has(prinfo::ACTION)
    }

    /// Returns whether it has something to check.
    pub fn checks(&self) -> bool {
        self.has(prinfo::CHECKS)
    }

    /// Returns whether the host's buffers have metadata: none that is nothing but protection
    /// information which the controller makes (section 5.2.2.1).
    fn crosses(&self) -> bool {
        !(self.inserts() && self.bytes() == self.metadata.guard.tuple())
    }

    /// From one block to the next in the host's data, in bytes.
    fn host_stride(&self) -> usize {
        let behind = self.metadata.extended && self.crosses();
        self.size + if behind { self.bytes() } else { 0 }
    }

    /// Bytes of the host's data for that many blocks.
    pub fn data_bytes(&self, blocks: usize) -> usize {
        blocks * self.host_stride()
    }

    /// Like [`Self::data_bytes`], but in 64 bits, as commands count blocks and bytes.
    pub fn bytes_for(&self, blocks: u64) -> u64 {
        blocks * self.host_stride() as u64
    }

    /// Bytes of metadata in a buffer of its own for that many blocks.
    pub fn metadata_bytes(&self, blocks: usize) -> usize {
        let apart = !self.metadata.extended && self.crosses();
        if apart {
            blocks * self.bytes()
        } else {
            0
        }
    }

    /// The blocks that `stored` bytes of the drive are.
    pub fn blocks(&self, stored: usize) -> usize {
        stored / self.stride()
    }

    /// From one block to the next on the drive, in bytes.
    pub fn stride(&self) -> usize {
        self.size + SECTOR_BYTES as usize
    }

    /// Bytes of data in `stored` bytes of the drive.
    pub fn data_in(&self, stored: usize) -> usize {
        self.blocks(stored) * self.size
    }

    /// A block's metadata from the host, whose buffers these are; empty if none crosses.
    fn metadata_of<'a>(&self, block: usize, host: &'a [u8], apart: &'a [u8]) -> &'a [u8] {
        let bytes = self.bytes();
        if !self.crosses() {
            &[]
        } else if self.metadata.extended {
            &host[block * self.host_stride() + self.size..][..bytes]
        } else {
            &apart[block * bytes..][..bytes]
        }
    }

    /// Turns the host's data and metadata into blocks of the drive, which begin as zeroes.
    ///
    /// # Errors
    /// The first block whose protection information is wrong.
    pub fn pack(&self, host: &[u8], apart: &[u8], stored: &mut [u8]) -> Result<(), Flaw> {
        let all = stored.chunks_exact_mut(self.stride()).enumerate();
        for (block, stored) in all {
            let (data, sector) = stored.split_at_mut(self.size);
            data.copy_from_slice(&host[block * self.host_stride()..][..self.size]);
            let from = self.metadata_of(block, host, apart);
            sector[..from.len()].copy_from_slice(from);
            self.protect(block as u64, data, sector)?;
        }
        Ok(())
    }

    /// Makes blocks of the drive from zeroes, as Write Zeroes does.
    pub fn pack_zeroes(&self, stored: &mut [u8]) {
        let all = stored.chunks_exact_mut(self.stride()).enumerate();
        for (block, stored) in all {
            let (data, sector) = stored.split_at_mut(self.size);
            let protected = self.protect(block as u64, data, sector);
            debug_assert_eq!(protected, Ok(()), "Write Zeroes checks nothing");
        }
    }

    /// Makes or checks a block's protection information on its way to the drive.
    fn protect(&self, block: u64, data: &[u8], sector: &mut [u8]) -> Result<(), Flaw> {
        if self.metadata.protection == Protection::None {
            return Ok(());
        }
        let (place, guard) = (self.place(), self.metadata.guard);
        if self.inserts() {
            let tuple = Tuple {
                guard: guard_of(guard, data, &sector[..place.start]),
                application: self.application,
                storage: self.storage,
                reference: self.reference_of(block),
            };
            tuple.write(guard, &mut sector[place.clone()]);
        } else {
            self.check(block, data, sector)?;
        }
        sector[place].iter_mut().for_each(|byte| *byte = !*byte);
        Ok(())
    }

    /// Turns blocks of the drive into the host's data and metadata.
    ///
    /// # Errors
    /// The first block whose protection information is wrong.
    pub fn unpack(&self, stored: &[u8], host: &mut [u8], apart: &mut [u8]) -> Result<(), Flaw> {
        let bytes = self.bytes();
        for (block, stored) in stored.chunks_exact(self.stride()).enumerate() {
            let (data, sector) = stored.split_at(self.size);
            let metadata = &self.metadata_in(sector)[..bytes];
            self.check(block as u64, data, metadata)?;
            let to = &mut host[block * self.host_stride()..][..self.host_stride()];
            let (to, behind) = to.split_at_mut(self.size);
            to.copy_from_slice(data);
            if !behind.is_empty() {
                behind.copy_from_slice(metadata);
            } else if self.crosses() {
                apart[block * bytes..][..bytes].copy_from_slice(metadata);
            }
        }
        Ok(())
    }

    /// Checks blocks of the drive, as Verify does.
    ///
    /// # Errors
    /// The first block whose protection information is wrong.
    pub fn verify(&self, stored: &[u8]) -> Result<(), Flaw> {
        for (block, stored) in stored.chunks_exact(self.stride()).enumerate() {
            let (data, sector) = stored.split_at(self.size);
            self.check(block as u64, data, &self.metadata_in(sector)[..self.bytes()])?;
        }
        Ok(())
    }

    /// Compares blocks of the drive with the host's data and metadata but protection information,
    /// which is checked on both sides (section 3.2.1).
    ///
    /// # Errors
    /// The first block that differs, or whose protection information is wrong.
    pub fn compare(&self, stored: &[u8], host: &[u8], apart: &[u8]) -> Result<(), Flaw> {
        let bytes = self.bytes();
        let protected = self.metadata.protection != Protection::None;
        let place = if protected { self.place() } else { bytes..bytes };
        for (block, stored) in stored.chunks_exact(self.stride()).enumerate() {
            let (data, sector) = stored.split_at(self.size);
            let metadata = &self.metadata_in(sector)[..bytes];
            let wanted = &host[block * self.host_stride()..][..self.size];
            let wanted_metadata = self.metadata_of(block, host, apart);
            let block = block as u64;
            self.check(block, wanted, wanted_metadata)?;
            self.check(block, data, metadata)?;
            let equal = wanted == data
                && wanted_metadata[..place.start] == metadata[..place.start]
                && wanted_metadata[place.end..] == metadata[place.end..];
            if !equal {
                return Err(Flaw { status: StatusCode::CompareFailure, block });
            }
        }
        Ok(())
    }

    /// The metadata in a sector of the drive. Its bytes come again and again as zeroes, so that a bit
    /// which is wrong anywhere in the sector is wrong in the metadata.
    fn metadata_in(&self, sector: &[u8]) -> [u8; MAX_METADATA] {
        let bytes = self.bytes();
        let mut metadata = [0; MAX_METADATA];
        for part in sector.chunks_exact(bytes) {
            metadata.iter_mut().zip(part).for_each(|(byte, more)| *byte ^= more);
        }
        if self.metadata.protection != Protection::None {
            metadata[self.place()].iter_mut().for_each(|byte| *byte = !*byte);
        }
        metadata
    }

    /// The reference tag that a block is to have.
    fn reference_of(&self, block: u64) -> u64 {
        match self.metadata.protection {
            Protection::Type3 => self.reference,
            _ => self.reference.wrapping_add(block) & self.metadata.guard.reference_mask(),
        }
    }

    /// Checks a block as PRCHK asks (section 5.2.2.4).
    fn check(&self, block: u64, data: &[u8], metadata: &[u8]) -> Result<(), Flaw> {
        if !self.checks() {
            return Ok(());
        }
        let (place, guard) = (self.place(), self.metadata.guard);
        let tuple = Tuple::parse(guard, &metadata[place.clone()]);
        let third = self.metadata.protection == Protection::Type3;
        let ones = tuple.reference == guard.reference_mask();
        if tuple.application == ESCAPE && (!third || ones) {
            return Ok(());
        }
        let mask = self.application_mask;
        let wrong = |status| Err(Flaw { status, block });
        if self.has(prinfo::CHECK_GUARD)
            && tuple.guard != guard_of(guard, data, &metadata[..place.start])
        {
            return wrong(StatusCode::GuardCheckError);
        }
        if self.has(prinfo::CHECK_APPLICATION)
            && tuple.application & mask != self.application & mask
        {
            return wrong(StatusCode::ApplicationTagCheckError);
        }
        if self.has(prinfo::CHECK_REFERENCE) && tuple.reference != self.reference_of(block) {
            return wrong(StatusCode::ReferenceTagCheckError);
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests;
