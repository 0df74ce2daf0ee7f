//! A run's kept I/Os as the text of `ios.csv`, whatever their format.

use std::io::{BufRead, Error, Read, Result};

use stasis_run_events::text;

use super::csv::{append, quoted};
use super::KeptIos;

/// Bytes of text that are made at once, about.
const PIECE: usize = 64 << 10;

/// Kept I/Os, read as `ios.csv` has them.
pub struct IosAsCsv {
    kept: KeptIos,
    /// The names of its drives, quoted.
    names: Vec<Vec<u8>>,
    text: Vec<u8>,
    /// Number of bytes of the text that have been read.
    read: usize,
    numbers: itoa::Buffer,
}

impl std::fmt::Debug for IosAsCsv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IosAsCsv").field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl KeptIos {
    /// The I/Os as `ios.csv` has them, for what reads that.
    pub fn into_csv(self) -> IosAsCsv {
        let text = format!("{}\n", text::heading()).into_bytes();
        IosAsCsv { kept: self, names: Vec::new(), text, read: 0, numbers: itoa::Buffer::new() }
    }
}

impl IosAsCsv {
    fn more(&mut self) -> Result<()> {
        self.text.clear();
        self.read = 0;
        while self.text.len() < PIECE {
            let Some(record) = self.kept.next() else { return Ok(()) };
            let record = record.map_err(Error::other)?;
            let drives = self.kept.drives();
            let new = drives.iter().skip(self.names.len());
            self.names.extend(new.map(|name| quoted(name).into_bytes()));
            append(
                &record,
                &self.names[usize::from(record.drive)],
                &mut self.numbers,
                &mut self.text,
            );
        }
        Ok(())
    }
}

impl BufRead for IosAsCsv {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if self.read == self.text.len() {
            self.more()?;
        }
        Ok(&self.text[self.read..])
    }

    fn consume(&mut self, amount: usize) {
        self.read = (self.read + amount).min(self.text.len());
    }
}

impl Read for IosAsCsv {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let there = self.fill_buf()?;
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        self.consume(count);
        Ok(count)
    }
}
