//! A machine's memory as snapshots see it: the file `ram`, page by page.
//!
//! A page has changed if its digest has (XXH3, 128 bits). What was never written is a hole of the
//! file, and a page of zeros.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{seek, SeekFrom};
use rustix::io::Errno;
use stasis_layout::{FromBytes, U64};
use twox_hash::XxHash3_128;

use super::mapped::Mapped;

/// Bytes of a page, as the processor has it.
pub(crate) const PAGE: usize = 4096;
/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// The digests of all pages of a file.
pub(crate) struct Digests {
    pages: Vec<u128>,
    zeros: u128,
    /// The file, from the first look on.
    mapped: Option<Mapped>,
}

impl Digests {
    /// Makes pages of `length` bytes that are zeros.
    pub(crate) fn new(length: u64) -> Self {
        let zeros = XxHash3_128::oneshot(&[0; PAGE]);
        let pages = usize::try_from(length.div_ceil(PAGE as u64)).unwrap_or(0);
        Self { pages: vec![zeros; pages], zeros, mapped: None }
    }

    /// Calls `changed` with the number and the bytes of each page of `ram`, the same file each time, that
    /// is another than at the last look. Nobody writes to it meanwhile.
    ///
    /// # Errors
    /// The file cannot be read, or those of `changed`.
    pub(crate) fn look(
        &mut self,
        ram: &File,
        mut changed: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let length = self.pages.len() * PAGE;
        let mapped = match self.mapped.take() {
            Some(mapped) => mapped,
            None => Mapped::new(ram, length)?,
        };
        let looked = self.look_at(ram, mapped.bytes(), &mut changed);
        self.mapped = Some(mapped);
        looked
    }

    fn look_at(
        &mut self,
        ram: &File,
        bytes: &[u8],
        changed: &mut impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let length = bytes.len() as u64;
        let mut at = 0;
        while at < length {
            let data = match seek(ram, SeekFrom::Data(at)) {
                Ok(data) => data / PAGE as u64 * PAGE as u64,
                Err(Errno::NXIO) => length,
                Err(error) => return Err(error.into()),
            };
            let data = data.min(length);
            self.holes(at, data, changed)?;
            at = data;
            let end = match at < length {
                true => seek(ram, SeekFrom::Hole(at))?.min(length),
                false => length,
            };
            let end = end.next_multiple_of(PAGE as u64).min(length);
            for page in bytes[at as usize..end as usize].chunks_exact(PAGE) {
                self.page(at / PAGE as u64, page, changed)?;
                at += PAGE as u64;
            }
        }
        Ok(())
    }

    fn page(
        &mut self,
        number: u64,
        bytes: &[u8],
        changed: &mut impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let digest = XxHash3_128::oneshot(bytes);
        let known = &mut self.pages[number as usize];
        match std::mem::replace(known, digest) == digest {
            true => Ok(()),
            false => changed(number, bytes),
        }
    }

    /// A hole from `begin` to `end`: its pages have changed where they were no zeros.
    fn holes(
        &mut self,
        begin: u64,
        end: u64,
        changed: &mut impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        for number in begin / PAGE as u64..end / PAGE as u64 {
            if self.pages[number as usize] != self.zeros {
                self.page(number, &[0; PAGE], changed)?;
            }
        }
        Ok(())
    }
}

/// A copy of `from` with its holes.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<File> {
    let from = File::open(from)?;
    let to = File::options().read(true).write(true).create_new(true).open(to)?;
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut digests = Digests::new(length);
    digests.look(&from, |page, bytes| to.write_all_at(bytes, page * PAGE as u64))?;
    Ok(to)
}

/// The names of the two files of changed pages: their numbers, and their bytes in the same order.
const NUMBERS: &str = "numbers";
const BYTES: &str = "pages";

/// Writes the pages of `ram` that have changed to `folder`. Returns how many bytes they are.
pub(crate) fn write_changed(digests: &mut Digests, ram: &File, folder: &Path) -> io::Result<u64> {
    let mut numbers = BufWriter::new(File::create(folder.join(NUMBERS))?);
    let mut pages = BufWriter::with_capacity(PIECE, File::create(folder.join(BYTES))?);
    let mut bytes = 0;
    digests.look(ram, |page, content| {
        bytes += content.len() as u64;
        numbers.write_all(&page.to_le_bytes())?;
        pages.write_all(content)
    })?;
    numbers.flush()?;
    pages.flush()?;
    Ok(bytes)
}

/// Calls `put` with the offset and the bytes of pages that follow one another, for all that differ
/// from the base after the snapshots in `folders`, of which each was taken after the next.
pub(crate) fn read_all<'a>(
    folders: impl Iterator<Item = &'a Path>,
    mut put: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut newer = HashSet::new();
    for folder in folders {
        let numbers = std::fs::read(folder.join(NUMBERS))?;
        let pages = File::open(folder.join(BYTES))?;
        let mut piece = vec![0; PIECE];
        let numbers = <[U64]>::ref_from_bytes(&numbers).map_err(|_| io::ErrorKind::InvalidData)?;
        for (place, numbers) in numbers.chunks(PIECE / PAGE).enumerate() {
            // Pages that have changed again since are not read: of a long chain most are such.
            let is_new = |number: &U64| !newer.contains(&number.get());
            let Some(first) = numbers.iter().position(is_new) else { continue };
            let end = numbers.iter().rposition(is_new).map_or(first, |last| last + 1);
            let piece = &mut piece[..(end - first) * PAGE];
            pages.read_exact_at(piece, (place * PIECE + first * PAGE) as u64)?;
            let mut at = first;
            while at < end {
                let begin = numbers[at].get();
                let mut next = at;
                // Pages that follow one another are put at once.
                while next < end {
                    let number = numbers[next].get();
                    if number != begin.wrapping_add((next - at) as u64) || !newer.insert(number) {
                        break;
                    }
                    next += 1;
                }
                if next > at {
                    let pages = &piece[(at - first) * PAGE..(next - first) * PAGE];
                    put(begin.saturating_mul(PAGE as u64), pages)?;
                }
                at = next.max(at + 1);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LENGTH: usize = 40 * PAGE;

    /// Bytes, and the number of a page: all of it becomes these bytes.
    type Write = (usize, u8);

    proptest! {
        /// After each snapshot of a chain, base and pages are the memory that it was taken of.
        #[test]
        fn a_chain_of_snapshots_is_the_memory(
            base in prop::collection::vec((0usize..40, any::<u8>()), 0..20),
            steps in prop::collection::vec(prop::collection::vec((0usize..40, 0u8..3), 0..9), 1..6),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("base");
            let file = File::create(&path).unwrap();
            file.set_len(LENGTH as u64).unwrap();
            let write = |file: &File, writes: &[Write]| for (page, byte) in writes {
                file.write_all_at(&[*byte; PAGE], (page * PAGE) as u64).unwrap();
            };
            write(&file, &base);
            let ram = copy(&path, &folder.path().join("ram")).unwrap();
            prop_assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(folder.path().join("ram")).unwrap());
            let mut digests = Digests::new(LENGTH as u64);
            digests.look(&ram, |_, _| Ok(())).unwrap();
            let mut folders = Vec::new();
            for (number, step) in steps.iter().enumerate() {
                write(&ram, step);
                let own = folder.path().join(number.to_string());
                std::fs::create_dir(&own).unwrap();
                let bytes = write_changed(&mut digests, &ram, &own).unwrap();
                prop_assert!(bytes <= (step.len() * PAGE) as u64);
                folders.insert(0, own);
                let mut memory = std::fs::read(&path).unwrap();
                read_all(folders.iter().map(|folder| folder.as_path()), |at, page| {
                    memory[at as usize..][..page.len()].copy_from_slice(page);
                    Ok(())
                }).unwrap();
                let mut now = vec![0; LENGTH];
                ram.read_exact_at(&mut now, 0).unwrap();
                prop_assert!(memory == now);
            }
        }
    }

    #[test]
    fn a_damaged_list_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for (numbers, pages) in [(&[0u8; 9][..], &[0u8; PAGE][..]), (&[0; 16], &[0; PAGE])] {
            std::fs::write(folder.path().join(NUMBERS), numbers).unwrap();
            std::fs::write(folder.path().join(BYTES), pages).unwrap();
            assert!(read_all([folder.path()].into_iter(), |_, _| Ok(())).is_err());
        }
    }
}
