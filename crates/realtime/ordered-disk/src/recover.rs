//! Valid part of a log after a crash: its longest beginning of whole epochs whose checksums hold.

use std::io;

use crate::checkpoint::{Checkpoint, Stage};
use crate::host::HostFile;
use crate::index::{Index, Source};
use crate::injected::{has, Bug};
use crate::record::{checksum, Kind, Record, HEADER, MAX_DATA, PAGE};
use crate::ring::Ring;
use crate::state::CheckpointPlan;
use crate::superblock::{Boot, NoSuperblock, Superblock, SUPERBLOCKS, UNKNOWN};

/// Bytes read at once: a longest record and the header behind it.
const WINDOW: u64 = 2 * MAX_DATA;

/// Reason why a log cannot be recovered.
#[derive(Debug)]
pub enum Unrecoverable {
    /// The log has no superblock that is understood.
    Superblock(NoSuperblock),
    /// The log is shorter than the length in its superblock (bytes).
    Truncated {
        /// Its length.
        length: u64,
        /// Its required length.
        expected: u64,
    },
    /// Records that were durable are not there.
    Damaged {
        /// Offset in the file (bytes) where a record should be.
        offset: u64,
    },
    /// The host's files cannot be read.
    Io(io::Error),
}

impl From<io::Error> for Unrecoverable {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Actions of a recovery, and its findings.
#[derive(Debug)]
pub struct Recovery {
    /// Seal that makes the log's last epoch whole, where only the program crashed: then the log is
    /// in the host's page cache and may not be durable.
    pub seal: Option<Record>,
    /// Data to checkpoint to the disk's file, with the superblock of an empty log.
    pub plan: CheckpointPlan,
    /// Bytes of records that are checkpointed there.
    pub replayed: u64,
    /// Bytes of sound records that were cut off, because their epoch has no end.
    pub cut: u64,
}

/// Reads the log and returns the actions after which the disk is a beginning of the writes to it.
/// Nothing is written, so that it can be repeated.
///
/// In the same boot of the host nothing was lost, and every record counts.
///
/// # Errors
/// [`Unrecoverable`], with the fault of the log.
pub fn recover<F: HostFile>(log: &F, length: u64, boot: Boot) -> Result<Recovery, Unrecoverable> {
    let mut pages = vec![0; SUPERBLOCKS as usize];
    log.read(0, &mut pages)?;
    let superblock = Superblock::newest(&pages).map_err(Unrecoverable::Superblock)?;
    let expected = SUPERBLOCKS + superblock.ring;
    if length < expected {
        return Err(Unrecoverable::Truncated { length, expected });
    }
    let mut index = Index::default();
    // Records of the epoch that is not known to be whole.
    let mut waiting = Vec::new();
    let (mut cut, mut epoch) = (superblock.tail, superblock.epoch);
    let mut reader = Reader::new(Ring { file: log, size: superblock.ring }, superblock.tail);
    while let Some(record) = reader.next(&superblock, epoch)? {
        if record.epoch > epoch {
            (cut, epoch) = (record.address, record.epoch);
            waiting.drain(..).for_each(|record| index_record(&mut index, &record));
        }
        waiting.push(record);
    }
    let end = reader.address;
    if !superblock.clean {
        reader.look_beyond(&superblock, end)?;
    }
    let mut seal = None;
    if (superblock.boot == boot && boot != UNKNOWN) || has(Bug::OpenEpoch) {
        // Not behind its own seal: however often this is begun again, the log
        // grows once.
        if waiting.iter().any(|record: &Record| record.kind != Kind::Seal) {
            seal = Some(Record::seal(superblock.incarnation, end, epoch + 1, superblock.tail));
        }
        cut = end;
        waiting.drain(..).for_each(|record| index_record(&mut index, &record));
    }
    let next = Superblock {
        generation: superblock.generation + 1,
        incarnation: superblock.incarnation + 1,
        tail: seal.map_or(end, |seal| seal.end()).next_multiple_of(PAGE),
        epoch: epoch + 2,
        boot,
        clean: false,
        ..superblock
    };
    let plan = CheckpointPlan { extents: index.iter().collect(), superblock: next };
    Ok(Recovery { seal, plan, replayed: cut - superblock.tail, cut: end - cut })
}

/// Carries out `recovery`, and ends with the log empty. It can be begun again at any point.
///
/// # Errors
/// The host's error.
pub fn apply<L: HostFile, D: HostFile>(
    log: &L,
    disk: &D,
    recovery: Recovery,
) -> io::Result<Superblock> {
    let ring = Ring { file: log, size: recovery.plan.superblock.ring };
    if let Some(seal) = &recovery.seal {
        ring.write(seal, &[])?;
    }
    // After a crash of the program alone nothing of it may be durable.
    if !has(Bug::NoRecoverySync) {
        log.sync()?;
    }
    let mut checkpoint = Checkpoint::new(recovery.plan);
    while checkpoint.stage() != Stage::Done {
        checkpoint.step(log, disk)?;
    }
    Ok(checkpoint.plan().superblock)
}

fn index_record(index: &mut Index, record: &Record) {
    let source = match record.kind {
        Kind::Data => Source::Log(record.address + HEADER),
        Kind::Zeroes => Source::Zeroes(record.address),
        Kind::Seal => return,
    };
    index.insert(record.offset, record.length, source);
}

/// Reads records one after the other.
struct Reader<'a, F> {
    ring: Ring<'a, F>,
    first: u64,
    address: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a, F: HostFile> Reader<'a, F> {
    fn new(ring: Ring<'a, F>, address: u64) -> Self {
        Self { ring, first: address, address, window: Vec::new(), window_at: address }
    }

    /// The bytes from `address` on, which is not before those of the last call.
    fn bytes(&mut self, address: u64, length: u64) -> io::Result<Option<&[u8]>> {
        let last = self.first + self.ring.size;
        if address + length > last {
            return Ok(None);
        }
        let have = self.window_at + self.window.len() as u64;
        if address + length > have || address < self.window_at {
            self.window.resize(WINDOW.max(length).min(last - address) as usize, 0);
            self.ring.read(address, &mut self.window)?;
            self.window_at = address;
        }
        let from = (address - self.window_at) as usize;
        Ok(Some(&self.window[from..from + length as usize]))
    }

    fn header(&mut self, address: u64) -> io::Result<Option<Record>> {
        let bytes = self.bytes(address, HEADER)?;
        let header = bytes.and_then(|bytes| bytes.try_into().ok());
        Ok(header.and_then(Record::decode))
    }

    /// The next record, if there is one.
    fn next(&mut self, superblock: &Superblock, epoch: u64) -> io::Result<Option<Record>> {
        let Some(record) = self.header(self.address)? else { return Ok(None) };
        let follows = record.address == self.address
            && (record.incarnation == superblock.incarnation || has(Bug::AnyIncarnation))
            && record.epoch >= epoch
            && record.end() <= self.first + self.ring.size
            && (record.kind == Kind::Seal || record.offset + record.length <= superblock.capacity);
        if !follows {
            return Ok(None);
        }
        if record.kind == Kind::Data {
            let data = self.bytes(record.address + HEADER, record.length)?;
            let holds = |data| checksum(data) == record.checksum || has(Bug::NoChecksum);
            if !data.is_some_and(holds) {
                return Ok(None);
            }
        }
        self.address = record.end();
        Ok(Some(record))
    }

    /// Looks for a later record whose field `durable` is beyond `end`: it proves that the log is
    /// damaged there. After each sync a record begins a page.
    fn look_beyond(&mut self, superblock: &Superblock, end: u64) -> Result<(), Unrecoverable> {
        let mut address = end.next_multiple_of(PAGE);
        while address < self.first + self.ring.size {
            if let Some(record) = self.header(address)? {
                let known = record.address == address
                    && record.incarnation == superblock.incarnation
                    && record.durable > end;
                if known {
                    let offset = SUPERBLOCKS + end % self.ring.size;
                    return Err(Unrecoverable::Damaged { offset });
                }
            }
            address += PAGE;
        }
        Ok(())
    }
}
