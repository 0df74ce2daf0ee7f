//! Roots that are read where they lie.

use super::*;
use crate::{FileSystemKind, Lower, Part};
use proptest::prelude::*;

/// Limits that allow no copy.
const NOTHING: Limits = Limits { bytes: 1 << 30, copied: 0, entries: 100_000 };

fn form(path: &Path, limits: Limits) -> Result<Form, RootError> {
    let work = tempfile::tempdir().unwrap();
    let source = Source::find(path.to_str().unwrap())?;
    source.read(work.path(), limits).map(|read| read.form)
}

fn all(lower: &Lower) -> Vec<u8> {
    let mut bytes = vec![0; lower.length() as usize];
    lower.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// The folder's names in an image, with its files, and the same tree as one image.
fn names_and_image(folder: &Path) -> (TempDir, Lower, PathBuf) {
    let Form::Files(mut tree) = form(folder, NOTHING).unwrap() else { panic!("it is copied") };
    let work = tempfile::tempdir().unwrap();
    let (names, map) = (work.path().join("names"), work.path().join("map"));
    crate::write_names(&mut tree, &names, &map).unwrap();
    let image = work.path().join("image");
    crate::write_image(&mut tree, &image).unwrap();
    let lower = Lower::of_files(&names, &map).unwrap();
    (work, lower, image)
}

#[test]
fn names_with_the_files_are_the_image() {
    use std::os::unix::fs::MetadataExt;
    let folder = folder(&items());
    let (work, lower, path) = names_and_image(folder.path());
    let (_checked, whole) = image(&mut read(folder.path()).unwrap());
    assert!(all(&lower) == fs::read(&path).unwrap(), "the bytes are not the same");
    assert!(fs::read(&path).unwrap() == fs::read(whole).unwrap());
    let names = fs::metadata(work.path().join("names")).unwrap();
    assert!(names.blocks() * 512 < 1 << 20, "the files' bytes were copied");
}

#[test]
fn a_file_that_changed_or_went_is_an_error_that_names_it() {
    let folder = folder(&items());
    let (_work, lower, image) = names_and_image(folder.path());
    let whole = fs::read(image).unwrap();
    // The large file begins with what no other one has.
    let start = whole.windows(64).position(|bytes| bytes == &pattern(64)[..]).unwrap() as u64;
    let large = folder.path().join("usr/again");
    let read = |at: u64| {
        let mut bytes = [0; 512];
        lower.read_at(&mut bytes, at).map(|()| bytes)
    };
    // Not opened yet, and so seen to be another.
    fs::write(&large, "changed").unwrap();
    let text = read(start).unwrap_err().to_string();
    assert!(text.contains("usr/again") && text.contains("changed"), "{text}");
    fs::remove_file(&large).unwrap();
    let text = read(start).unwrap_err().to_string();
    assert!(text.contains("usr/again"), "{text}");
    let made = Command::new("mkfifo").arg(&large).status().unwrap();
    assert!(made.success() && read(start).is_err(), "a pipe is not waited for");
    assert_eq!(read(1024).unwrap()[..], whole[1024..1536], "the rest can be read");
    assert!(read(lower.length() - 511).is_err() && read(u64::MAX).is_err());
    assert!(read(lower.length() - 512).is_ok());
}

#[test]
fn a_file_that_is_cut_short_while_it_is_open_is_an_error() {
    let folder = folder(&items());
    let (_work, lower, image) = names_and_image(folder.path());
    let whole = fs::read(image).unwrap();
    let start = whole.windows(64).position(|bytes| bytes == &pattern(64)[..]).unwrap() as u64;
    let mut bytes = [0; 4096];
    lower.read_at(&mut bytes, start).unwrap();
    let large = fs::File::options().write(true).open(folder.path().join("usr/again")).unwrap();
    large.set_len(5000).unwrap();
    lower.read_at(&mut bytes, start).unwrap();
    let text = lower.read_at(&mut bytes, start + 4096).unwrap_err().to_string();
    assert!(text.contains("usr/again"), "{text}");
}

fn files() -> impl Strategy<Value = Vec<(u8, usize)>> {
    let size = prop_oneof![Just(0), 1usize..100, 4090usize..4100, 0usize..40_000];
    prop::collection::vec((0u8..4, size), 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Any read of the names with the files equals that of the image of the same tree.
    #[test]
    fn any_range_of_the_files_is_the_images(
        files in files(), ranges in prop::collection::vec((any::<u64>(), 0usize..70_000), 1..20),
    ) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("one"), "at least").unwrap();
        for (number, (below, size)) in files.iter().enumerate() {
            let inside = folder.path().join(format!("folder{below}"));
            fs::create_dir_all(&inside).unwrap();
            let first = inside.join(format!("file{number}"));
            fs::write(&first, pattern(*size)).unwrap();
            if size % 5 == 1 {
                fs::hard_link(&first, folder.path().join(format!("link{number}"))).unwrap();
            }
        }
        let (_work, lower, image) = names_and_image(folder.path());
        let whole = fs::read(image).unwrap();
        prop_assert_eq!(lower.length(), whole.len() as u64);
        prop_assert!(all(&lower) == whole);
        for (at, length) in ranges {
            let at = (at % whole.len() as u64) as usize;
            let end = (at + length).min(whole.len());
            let mut bytes = vec![1; end - at];
            lower.read_at(&mut bytes, at as u64).unwrap();
            prop_assert!(bytes == whole[at..end], "{at} to {end}");
        }
    }
}

/// The part that an image has.
fn part(bytes: &[u8], limits: Limits) -> (tempfile::NamedTempFile, Part) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let Form::Part(path, part) = form(file.path(), limits).unwrap() else { panic!("it is copied") };
    assert_eq!(path, fs::canonicalize(file.path()).unwrap());
    (file, part)
}

#[test]
fn a_guests_kernel_reads_what_is_large_or_not_known_here() {
    let (_folder, path) = image(&mut read_bytes(&archive(&items())).unwrap());
    let ext4 = fs::read(path).unwrap();
    let whole = Part { kind: FileSystemKind::Ext4, start: 0, length: ext4.len() as u64 };
    let (file, found) = part(&ext4, NOTHING);
    assert_eq!(found, whole);
    assert!(all(&Lower::of_image(file.path(), &found).unwrap()) == ext4);
    let mut unknown = ext4.clone();
    unknown[1024 + 0x60..][..4].copy_from_slice(&[0, 0, 1, 0]);
    assert_eq!(part(&unknown, Limits::default()).1, whole);
    for (at, mark, kind) in
        [(0, &b"XFSB"[..], FileSystemKind::Xfs), (0x1_0040, b"_BHRfS_M", FileSystemKind::Btrfs)]
    {
        let mut bytes = vec![0; 1 << 20];
        bytes[at..at + mark.len()].copy_from_slice(mark);
        assert_eq!(part(&bytes, Limits::default()).1, Part { kind, start: 0, length: 1 << 20 });
    }
    // The image has become shorter since.
    fs::File::options().write(true).open(file.path()).unwrap().set_len(1 << 20).unwrap();
    let text = Lower::of_image(file.path(), &whole).unwrap_err().to_string();
    assert!(text.contains("shorter"), "{text}");
}

#[test]
fn the_largest_partition_counts_that_is_not_read_here() {
    let mut disk = vec![0; 8 << 20];
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    for (slot, start, length) in [(0usize, 2048u32, 1024u32), (1, 4096, 4096), (2, 8192, 2048)] {
        let entry = 446 + slot * 16;
        disk[entry + 4] = 0x83;
        disk[entry + 8..entry + 12].copy_from_slice(&start.to_le_bytes());
        disk[entry + 12..entry + 16].copy_from_slice(&length.to_le_bytes());
        disk[start as usize * 512..][..4].copy_from_slice(b"XFSB");
    }
    let found = part(&disk, Limits::default()).1;
    let expected = Part { kind: FileSystemKind::Xfs, start: 4096 * 512, length: 4096 * 512 };
    assert_eq!(found, expected);
}

#[test]
fn what_is_compressed_cannot_be_read_where_it_lies() {
    use std::io::Write;
    let mut bytes = vec![0; 1 << 20];
    bytes[..4].copy_from_slice(b"XFSB");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), gzip.finish().unwrap()).unwrap();
    let text = form(file.path(), Limits::default()).unwrap_err().to_string();
    assert!(text.contains("unpack it"), "{text}");
}
