//! A file that may be anything, taken for a root: it is refused, or it works.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

use stasis_guest_root::{read_image, write_image as write_root, Form, Limits, Lower, Source};

/// Small, so that what is wrong is found soon.
const LIMITS: Limits = Limits { bytes: 16 << 20, copied: 8 << 20, entries: 3000 };

const SECTOR: usize = 512;

/// An archive of these bytes: where a block is marked as a header, its sum is right. (POSIX pax,
/// "ustar Interchange Format": the sum is at 148, and counts itself as eight blanks.)
#[allow(dead_code, reason = "not every target that has this file uses it")]
pub fn as_archive(bytes: &[u8]) -> Vec<u8> {
    let mut archive = bytes.to_vec();
    for block in archive.chunks_exact_mut(SECTOR) {
        if block[257..262] == *b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
    archive
}

/// Writes an image, of which the input gives the content of some sectors: the number of a sector
/// (two bytes, little-endian), then its bytes. It is a little longer than the last of these.
#[allow(dead_code, reason = "not every target that has this file uses it")]
pub fn write_image(bytes: &[u8], path: &Path) -> io::Result<()> {
    let file = File::create(path)?;
    let mut end = 0;
    for record in bytes.chunks(2 + SECTOR).filter(|record| record.len() > 2) {
        let at = u64::from(u16::from_le_bytes([record[0], record[1]])) * SECTOR as u64;
        file.write_all_at(&record[2..], at)?;
        end = end.max(at);
    }
    file.set_len(end + (64 << 10))
}

/// The sectors of an image that hold anything, as [`write_image`] takes them.
#[allow(dead_code, reason = "only the tests make inputs")]
pub fn sectors(image: &[u8]) -> Vec<u8> {
    let sectors = (0..=u16::MAX).zip(image.chunks(SECTOR));
    let held = sectors.filter(|(_, sector)| sector.iter().any(|byte| *byte != 0));
    held.flat_map(|(number, sector)| [&number.to_le_bytes(), sector].concat()).collect()
}

/// Reads what `write` writes into a file as a root. Where it can be used, its image is read again,
/// or its first bytes are, as a guest does. `true` if it can be used.
pub fn exercise(write: impl FnOnce(&Path) -> io::Result<()>) -> bool {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder")).path();
    // Tests may run on several threads.
    let own = format!("{:?}", std::thread::current().id());
    let path = folder.join(format!("root-{own}"));
    write(&path).expect("a file");
    let source = Source::find(path.to_str().expect("a path")).expect("it is there");
    source.stamp().expect("it is there");
    match source.read(folder, LIMITS).map(|read| read.form) {
        Ok(Form::Copied(mut tree)) => {
            let checked = tree.check();
            let image = folder.join(format!("image-{own}"));
            // Bytes at a place in the archive or the image may not be readable.
            let written = write_root(&mut tree, &image);
            if written.is_ok() {
                read_image(&image).expect("what was written can be read");
            }
            let _ = std::fs::remove_file(&image);
            checked.is_ok() && written.is_ok()
        }
        Ok(Form::Part(path, part)) => {
            let lower = Lower::of_image(&path, &part).expect("it was opened before");
            let mut start = vec![0; lower.length().min(4096) as usize];
            lower.read_at(&mut start, 0).is_ok()
        }
        Ok(Form::Files(_)) => unreachable!("it is no folder"),
        Err(_) => false,
    }
}
