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
use stasis_kept_files::Damage;
use stasis_layout::{layout, FromBytes, IntoBytes, U128, U64};
use twox_hash::XxHash3_128;

use super::mapped::Mapped;
use crate::Error;

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

    /// Calls `changed` with the number, the bytes and the digest of each page of `ram`, the same file each
    /// time, that is another than at the last look. Nobody writes to it meanwhile.
    ///
    /// # Errors
    /// The file cannot be read, or those of `changed`.
    pub(crate) fn look(
        &mut self,
        ram: &File,
        mut changed: impl FnMut(u64, &[u8], u128) -> io::Result<()>,
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
        changed: &mut impl FnMut(u64, &[u8], u128) -> io::Result<()>,
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
        changed: &mut impl FnMut(u64, &[u8], u128) -> io::Result<()>,
    ) -> io::Result<()> {
        let digest = XxHash3_128::oneshot(bytes);
        let known = &mut self.pages[number as usize];
        match std::mem::replace(known, digest) == digest {
            true => Ok(()),
            false => changed(number, bytes, digest),
        }
    }

    /// A hole from `begin` to `end`: its pages have changed where they were no zeros.
    fn holes(
        &mut self,
        begin: u64,
        end: u64,
        changed: &mut impl FnMut(u64, &[u8], u128) -> io::Result<()>,
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
    digests.look(&from, |page, bytes, _| to.write_all_at(bytes, page * PAGE as u64))?;
    Ok(to)
}

/// The names of the two files of changed pages: their list, and their bytes in the same order.
const LIST: &str = "list";
pub(super) const BYTES: &str = "pages";

layout! {
    /// A page of the list.
    struct Listed: 24 {
        /// Its number.
        [0] number: U64,
        /// Digest of its bytes.
        [8] digest: U128,
    }
}

/// Writes the pages of `ram` that have changed to `folder`. Returns how many bytes they are.
pub(crate) fn write_changed(digests: &mut Digests, ram: &File, folder: &Path) -> io::Result<u64> {
    let mut list = BufWriter::new(File::create(folder.join(LIST))?);
    let mut pages = BufWriter::with_capacity(PIECE, File::create(folder.join(BYTES))?);
    let mut bytes = 0;
    digests.look(ram, |page, content, digest| {
        bytes += content.len() as u64;
        list.write_all(Listed { number: page.into(), digest: digest.into() }.as_bytes())?;
        pages.write_all(content)
    })?;
    list.flush()?;
    pages.flush()?;
    Ok(bytes)
}

/// Calls `put` with the offset and the bytes of pages that follow one another, for all that differ
/// from the base after the snapshots in `folders`, of which each was taken after the next.
///
/// # Errors
/// [`Damage`] of a page or a list; those of `put`.
pub(crate) fn read_all<'a>(
    folders: impl Iterator<Item = &'a Path>,
    mut put: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> Result<(), ReadError> {
    let mut newer = HashSet::new();
    for folder in folders {
        let (path, bytes) = (folder.join(LIST), folder.join(BYTES));
        let list = std::fs::read(&path).map_err(ReadError::of(&path))?;
        let pages = File::open(&bytes).map_err(ReadError::of(&bytes))?;
        let mut piece = vec![0; PIECE];
        let list = <[Listed]>::ref_from_bytes(&list).map_err(|_| Damage::Bytes(path.clone()))?;
        for (place, list) in list.chunks(PIECE / PAGE).enumerate() {
            // Pages that have changed again since are not read: of a long chain most are such.
            let is_new = |page: &Listed| !newer.contains(&page.number.get());
            let Some(first) = list.iter().position(is_new) else { continue };
            let end = list.iter().rposition(is_new).map_or(first, |last| last + 1);
            let piece = &mut piece[..(end - first) * PAGE];
            let begin = (place * PIECE + first * PAGE) as u64;
            pages.read_exact_at(piece, begin).map_err(ReadError::of(&bytes))?;
            let mut at = first;
            while at < end {
                let begin = list[at].number.get();
                let mut next = at;
                // Pages that follow one another are put at once.
                while next < end {
                    let number = list[next].number.get();
                    if number != begin.wrapping_add((next - at) as u64) || !newer.insert(number) {
                        break;
                    }
                    let page = &piece[(next - first) * PAGE..][..PAGE];
                    if XxHash3_128::oneshot(page) != list[next].digest.get() {
                        return Err(Damage::Bytes(bytes).into());
                    }
                    next += 1;
                }
                if next > at {
                    let pages = &piece[(at - first) * PAGE..(next - first) * PAGE];
                    put(begin.saturating_mul(PAGE as u64), pages).map_err(ReadError::Put)?;
                }
                at = next.max(at + 1);
            }
        }
    }
    Ok(())
}

/// The reason why a snapshot's memory is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Damage(#[from] Damage),
    #[error(transparent)]
    Put(io::Error),
}

impl ReadError {
    fn of(path: &Path) -> impl FnOnce(io::Error) -> Self + use<'_> {
        move |source| Self::Damage(Damage::File { path: path.to_owned(), source })
    }

    /// The error of a run that was to have the memory, which cannot be given for this reason.
    pub(crate) fn convert(self, put: impl FnOnce(io::Error) -> Error) -> Error {
        match self {
            Self::Damage(damage) => Error::DamagedSnapshot(damage),
            Self::Put(error) => put(error),
        }
    }
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
            digests.look(&ram, |_, _, _| Ok(())).unwrap();
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
    fn a_damaged_list_or_page_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        let ram =
            File::options().read(true).write(true).create_new(true).open(path("ram")).unwrap();
        ram.set_len(LENGTH as u64).unwrap();
        ram.write_all_at(&[9; 2 * PAGE], 5 * PAGE as u64).unwrap();
        write_changed(&mut Digests::new(LENGTH as u64), &ram, folder.path()).unwrap();
        let read = || read_all([folder.path()].into_iter(), |_, _| Ok(()));
        read().unwrap();
        for (name, changed) in [(LIST, 8), (LIST, 40), (BYTES, 0), (BYTES, 2 * PAGE - 1)] {
            let sound = std::fs::read(path(name)).unwrap();
            let mut damaged = sound.clone();
            damaged[changed] ^= 4;
            for damaged in [damaged, sound[..sound.len() - 1].to_vec()] {
                std::fs::write(path(name), damaged).unwrap();
                let error = read().unwrap_err();
                assert!(
                    matches!(error, ReadError::Damage(_)) && error.to_string().contains("damaged")
                );
            }
            std::fs::remove_file(path(name)).unwrap();
            assert!(matches!(read(), Err(ReadError::Damage(_))), "{name}");
            std::fs::write(path(name), sound).unwrap();
        }
    }
}
