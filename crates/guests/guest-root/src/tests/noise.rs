//! No bytes make it panic.

use super::*;
use proptest::prelude::*;

/// A small image of ext4, an archive, and a qcow2 image's start.
fn seeds() -> &'static [Vec<u8>; 2] {
    static SEEDS: std::sync::OnceLock<[Vec<u8>; 2]> = std::sync::OnceLock::new();
    SEEDS.get_or_init(|| {
        let small: Vec<Item> = items()
            .into_iter()
            .filter(|item| !matches!(item, Item::File("usr/large", ..) | Item::Hard(..)))
            .collect();
        let bytes = archive(&small);
        let (_folder, path) = image(&mut read_bytes(&bytes).unwrap());
        [fs::read(path).unwrap(), bytes]
    })
}

/// The tree in the bytes of a file, if they are a root.
fn read_noise(bytes: &[u8]) -> Option<Tree> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let tree = read_or_leave(file.path(), Limits::default()).ok()??;
    tree.check().ok().map(|()| tree)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_images_and_archives_never_panic(
        which in 0..2usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        start in any::<bool>(),
    ) {
        let mut bytes = seeds()[which].clone();
        // A place in the tables, or anywhere.
        let reach = if start { bytes.len().min(40 << 10) } else { bytes.len() };
        for (at, byte) in changes {
            bytes[at.index(reach)] = byte;
        }
        // An image with unknown features is left to the guest's kernel.
        if let Some(mut tree) = read_noise(&bytes) {
            let folder = tempfile::tempdir().unwrap();
            let _ = crate::write_image(&mut tree, &folder.path().join("image"));
        }
    }

    #[test]
    fn damaged_qcow2_never_panics(
        header in prop::collection::vec(any::<u8>(), 104),
        rest in prop::collection::vec(any::<u8>(), 0..2000),
        bits in 9u8..22,
    ) {
        let mut bytes = b"QFI\xfb\0\0\0\x03".to_vec();
        bytes.extend(header);
        bytes[8..16].fill(0);
        bytes[20..24].copy_from_slice(&[0, 0, 0, bits]);
        bytes[32..38].fill(0);
        bytes[40..46].fill(0);
        bytes[72..80].fill(0);
        bytes.extend(rest);
        let _ = read_noise(&bytes);
    }
}
