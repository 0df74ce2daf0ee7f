//! A medium of which what is written stays in memory, before bytes that are only read.

use std::collections::BTreeMap;
use std::sync::Arc;

use stasis_block::{Command, Operation};

use crate::medium::check;
use crate::synchronous::Contents;
use crate::MediumError;

/// Bytes that are kept together, those below included where a write covers a part.
const BLOCK: u64 = 4096;

/// Limit on the bytes of an overlay: a run that changes more fails at its medium.
pub const MAX_OVERLAY: u64 = 1 << 30;

/// The overlay of a medium.
pub(crate) struct Overlay<L> {
    lower: L,
    label: Arc<str>,
    /// Blocks with other bytes than those below.
    blocks: BTreeMap<u64, Box<[u8]>>,
    /// Blocks of zeroes, but for those of `blocks`: from the first to before the last.
    zeroes: BTreeMap<u64, u64>,
    /// Limit on the number of blocks.
    most: usize,
}

impl<L: Contents> Overlay<L> {
    /// An empty overlay of at most `most` bytes before `lower`, which is called `label`.
    pub(crate) fn new(lower: L, label: Arc<str>, most: u64) -> Self {
        let most = usize::try_from(most / BLOCK).unwrap_or(usize::MAX);
        Self { lower, label, blocks: BTreeMap::new(), zeroes: BTreeMap::new(), most }
    }

    /// Returns whether a block without bytes of its own is one of zeroes.
    fn is_zero(&self, block: u64) -> bool {
        self.zeroes.range(..=block).next_back().is_some_and(|(_, end)| block < *end)
    }

    /// Fills `data` with what is below from `offset` on.
    fn read_lower(&mut self, offset: u64, data: &mut [u8]) -> Result<(), MediumError> {
        // The last block may reach beyond the end.
        let room = self.lower.capacity().saturating_sub(offset).min(data.len() as u64);
        let (inside, beyond) = data.split_at_mut(room as usize);
        beyond.fill(0);
        if inside.is_empty() {
            return Ok(());
        }
        self.lower.perform(&Command::new(Operation::Read, offset, room), inside)
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<(), MediumError> {
        let end = offset + data.len() as u64;
        let (first, last) = (offset / BLOCK, end.div_ceil(BLOCK));
        let touched = self.blocks.range(first..last).next().is_some()
            || self.zeroes.range(..last).next_back().is_some_and(|(_, end)| *end > first);
        if !touched {
            return self.read_lower(offset, data);
        }
        for block in first..last {
            let (from, to) = (offset.max(block * BLOCK), end.min((block + 1) * BLOCK));
            let place = (from - offset) as usize..(to - offset) as usize;
            let within = (from - block * BLOCK) as usize..(to - block * BLOCK) as usize;
            match self.blocks.get(&block) {
                Some(bytes) => data[place].copy_from_slice(&bytes[within]),
                None if self.is_zero(block) => data[place].fill(0),
                None => self.read_lower(from, &mut data[place])?,
            }
        }
        Ok(())
    }

    /// The bytes of a block, to be changed; where it is `whole`, all of them are.
    fn block(&mut self, block: u64, whole: bool) -> Result<&mut [u8], MediumError> {
        if !self.blocks.contains_key(&block) {
            if self.blocks.len() >= self.most {
                let most = self.most as u64 * BLOCK;
                return Err(MediumError::Overlay { medium: Arc::clone(&self.label), most });
            }
            let mut bytes = vec![0; BLOCK as usize];
            if !whole && !self.is_zero(block) {
                self.read_lower(block * BLOCK, &mut bytes)?;
            }
            self.blocks.insert(block, bytes.into_boxed_slice());
        }
        Ok(self.blocks.get_mut(&block).map_or(&mut [], |bytes| &mut bytes[..]))
    }

    /// Changes the bytes from `offset` to `end`: `change` gets each block's share, and where that
    /// begins in the range.
    fn change(
        &mut self,
        (offset, end): (u64, u64),
        mut change: impl FnMut(&mut [u8], usize),
    ) -> Result<(), MediumError> {
        for block in offset / BLOCK..end.div_ceil(BLOCK) {
            let (from, to) = (offset.max(block * BLOCK), end.min((block + 1) * BLOCK));
            let within = (from - block * BLOCK) as usize..(to - block * BLOCK) as usize;
            let bytes = self.block(block, to - from == BLOCK)?;
            change(&mut bytes[within], (from - offset) as usize);
        }
        Ok(())
    }

    fn zero(&mut self, offset: u64, length: u64) -> Result<(), MediumError> {
        let end = offset + length;
        let (first, last) = (offset.div_ceil(BLOCK), end / BLOCK);
        if first >= last {
            return self.change((offset, end), |bytes, _| bytes.fill(0));
        }
        self.change((offset, first * BLOCK), |bytes, _| bytes.fill(0))?;
        self.change((last * BLOCK, end), |bytes, _| bytes.fill(0))?;
        let mut rest = self.blocks.split_off(&first);
        self.blocks.append(&mut rest.split_off(&last));
        // One range of those that meet it.
        let (mut begin, mut to) = (first, last);
        while let Some((&start, &stop)) = self.zeroes.range(..=to).next_back() {
            if stop < begin {
                break;
            }
            (begin, to) = (begin.min(start), to.max(stop));
            self.zeroes.remove(&start);
        }
        self.zeroes.insert(begin, to);
        Ok(())
    }
}

impl<L: Contents> Contents for Overlay<L> {
    fn capacity(&self) -> u64 {
        self.lower.capacity()
    }

    fn perform(&mut self, command: &Command, data: &mut [u8]) -> Result<(), MediumError> {
        check(command, data.len(), self.capacity())?;
        let Command { operation, offset, length, .. } = *command;
        let end = offset.saturating_add(length);
        match operation {
            Operation::Read => self.read(offset, data),
            Operation::Write => self.change((offset, end), |bytes, at| {
                bytes.copy_from_slice(&data[at..at + bytes.len()]);
            }),
            Operation::Discard | Operation::WriteZeroes => self.zero(offset, length),
            Operation::Copy => {
                let mut copied = vec![0; length as usize];
                self.read(command.source, &mut copied)?;
                self.change((offset, end), |bytes, at| {
                    bytes.copy_from_slice(&copied[at..at + bytes.len()]);
                })
            }
            Operation::Verify => {
                let mut bytes = vec![0; length as usize];
                self.read(offset, &mut bytes)
            }
            Operation::Flush | Operation::Barrier => Ok(()),
        }
    }

    fn discard_zeroes(&self) -> bool {
        true
    }

    fn is_immediate(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Medium, Ram};
    use proptest::prelude::*;
    use stasis_block::Request;

    const SIZE: u64 = 1 << 20;

    /// The bytes of a file: they are read, and nothing else is asked of them.
    struct Below(Vec<u8>);

    impl Contents for Below {
        fn capacity(&self) -> u64 {
            self.0.len() as u64
        }

        fn perform(&mut self, command: &Command, data: &mut [u8]) -> Result<(), MediumError> {
            check(command, data.len(), self.capacity())?;
            assert_eq!(command.operation, Operation::Read, "what is below is only read");
            data.copy_from_slice(&self.0[command.offset as usize..][..data.len()]);
            Ok(())
        }

        fn discard_zeroes(&self) -> bool {
            true
        }

        fn is_immediate(&self) -> bool {
            true
        }
    }

    fn below() -> Vec<u8> {
        (0..SIZE).map(|at| (at / 512 + 1) as u8).collect()
    }

    fn commands() -> impl Strategy<Value = (Operation, u64, u64, u64)> {
        use Operation::{Copy, Discard, Read, Write, WriteZeroes};
        let operation = prop::sample::select(vec![Read, Write, Write, Discard, WriteZeroes, Copy]);
        let sectors = SIZE / 512;
        (operation, 0..sectors, 1u64..64, 0..sectors).prop_map(move |(one, at, length, from)| {
            let length = length.min(sectors - at).min(sectors - from);
            (one, at * 512, length.max(1) * 512, from * 512)
        })
    }

    proptest! {
        /// Against a medium in memory that holds the same bytes.
        #[test]
        fn an_overlay_is_a_copy(commands in prop::collection::vec(commands(), 1..60)) {
            let mut overlay = Overlay::new(Below(below()), "file:x".into(), SIZE);
            let mut copy = Ram::new(SIZE);
            let mut run = |command: Command, data: Vec<u8>| {
                copy.submit(Request::new(0, command, data));
                let mut done = Vec::new();
                copy.poll(&mut done);
                done.pop().map(|one| (one.result.is_ok(), one.data)).unwrap()
            };
            run(Command::new(Operation::Write, 0, SIZE), below());
            for (number, (operation, offset, length, source)) in commands.into_iter().enumerate() {
                let mut command = Command::new(operation, offset, length);
                command.source = source;
                let data = match operation {
                    Operation::Write => vec![number as u8 ^ 0x55; length as usize],
                    Operation::Read => vec![0; length as usize],
                    _ => Vec::new(),
                };
                let mut own = data.clone();
                let result = overlay.perform(&command, &mut own);
                let (well, wanted) = run(command, data);
                prop_assert_eq!(result.is_ok(), well);
                if well {
                    prop_assert!(own == wanted, "{:?}", command);
                }
            }
            let (mut own, whole) = (vec![0; SIZE as usize], Command::new(Operation::Read, 0, SIZE));
            overlay.perform(&whole, &mut own).unwrap();
            prop_assert!(own == run(whole, vec![0; SIZE as usize]).1);
            prop_assert!(overlay.lower.0 == below());
        }
    }

    #[test]
    fn an_overlay_ends_at_its_limit_and_a_discard_needs_no_room() {
        let mut overlay = Overlay::new(Below(below()), "file:x".into(), 2 * BLOCK);
        let mut write = |at: u64| {
            let command = Command::new(Operation::Write, at, 512);
            overlay.perform(&command, &mut [7; 512])
        };
        assert!(write(0).is_ok() && write(BLOCK).is_ok() && write(512).is_ok());
        let refused = write(2 * BLOCK).unwrap_err().to_string();
        assert!(refused.contains("file:x") && refused.contains("8KiB"), "{refused}");
        overlay.perform(&Command::new(Operation::Discard, 0, SIZE), &mut []).unwrap();
        assert!(overlay.blocks.is_empty() && overlay.zeroes.len() == 1);
        let command = Command::new(Operation::Write, 2 * BLOCK, 512);
        overlay.perform(&command, &mut [7; 512]).unwrap();
    }
}
