//! btrfs: `btrfs inspect-internal` of btrfs-progs.

use std::collections::{BTreeMap, BTreeSet};

use super::bytes::little;
use super::holder::{path, Holder, Holders, NamedFile};
use super::tools::{answer, needs, section, Ask, MOUNTED};

/// Debian's package with the tools.
const PACKAGE: &str = "btrfs-progs";

/// A btrfs file system, by its superblock (`struct btrfs_super_block` in
/// `include/uapi/linux/btrfs_tree.h` of Linux).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Btrfs {
    /// Size of a sector, in which data is laid out (bytes).
    pub sector: u64,
    // Size of a tree's block.
    node: u64,
    devices: u64,
}

/// First bytes of the superblock's copies (`btrfs_sb_offset` in `fs/btrfs/disk-io.h`).
const SUPERBLOCKS: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];

/// A range of logical addresses, and a place of the disk that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Chunk {
    logical: u64,
    length: u64,
    physical: u64,
    is_data: bool,
}

impl Btrfs {
    /// From a disk's first bytes; none where the superblock has impossible sizes.
    pub(super) fn read(start: &[u8]) -> Option<Self> {
        let field = |at: usize, length: usize| little(start, (64 << 10) + at, length);
        let found = Self { sector: field(144, 4)?, node: field(148, 4)?, devices: field(136, 8)? };
        let size = |size: u64| size.is_power_of_two() && (512..=64 << 10).contains(&size);
        (size(found.sector) && size(found.node)).then_some(found)
    }

    /// See [`super::holders`].
    pub(super) fn holders(
        &self,
        device: &str,
        offsets: &[u64],
        ask: &mut Ask<'_>,
    ) -> Result<Holders, String> {
        if self.devices != 1 {
            return Err(format!(
                "the btrfs is on {} devices: only one on a whole disk is looked into",
                self.devices
            ));
        }
        let chunks = chunks(&answer(ask(&chunks_script(device))?, PACKAGE)?);
        if chunks.is_empty() {
            return Err("btrfs inspect-internal tells nothing of this disk".to_owned());
        }
        let (mut data, mut trees) = (BTreeSet::new(), BTreeSet::new());
        for (logical, is_data) in offsets.iter().filter_map(|offset| self.logical(&chunks, *offset))
        {
            if is_data { &mut data } else { &mut trees }.insert(logical);
        }
        let names = match data.is_empty() && trees.is_empty() {
            true => String::new(),
            false => answer(ask(&names_script(device, &data, &trees))?, PACKAGE)?,
        };
        let superblock =
            |offset: u64| SUPERBLOCKS.iter().any(|first| (*first..first + 4096).contains(&offset));
        let holder = |offset: &u64| {
            let holder = match self.logical(&chunks, *offset) {
                _ if superblock(*offset) => Holder::of("superblock"),
                None => Holder::of("nothing: outside of all chunks"),
                Some((logical, true)) => file(&names, logical),
                Some((logical, false)) => tree(&names, logical),
            };
            (*offset, holder)
        };
        Ok(offsets.iter().map(holder).collect())
    }

    /// The logical address of a byte of the disk, of the sector or the tree's block that it is in,
    /// and whether it is of data.
    fn logical(&self, chunks: &[Chunk], offset: u64) -> Option<(u64, bool)> {
        chunks.iter().find_map(|chunk| {
            let within = offset.checked_sub(chunk.physical).filter(|it| *it < chunk.length)?;
            let logical = chunk.logical.checked_add(within)?;
            let unit = if chunk.is_data { self.sector } else { self.node };
            Some((logical / unit * unit, chunk.is_data))
        })
    }
}

fn chunks_script(device: &str) -> String {
    format!(
        "{}echo '== chunks'\nbtrfs inspect-internal dump-tree -t chunk {device} 2>/dev/null | \
         grep -E 'CHUNK_ITEM|length|stripe [0-9]+ devid'\n",
        needs("btrfs")
    )
}

fn names_script(device: &str, data: &BTreeSet<u64>, trees: &BTreeSet<u64>) -> String {
    let mut script = needs("btrfs");
    for tree in trees {
        script += &format!(
            "echo '== tree {tree}'\nbtrfs inspect-internal dump-tree -b {tree} {device} 2>/dev/null | \
             grep -E -m 1 '^(leaf|node) '\n"
        );
    }
    if !data.is_empty() {
        // A mount replays the log trees.
        script += &format!("mkdir -p {MOUNTED}\nmount -t btrfs {device} {MOUNTED} || exit 0\n");
        for logical in data {
            script += &format!(
                "echo '== data {logical}'\nbtrfs inspect-internal logical-resolve {logical} {MOUNTED} \
                 2>/dev/null | while IFS= read -r name; do stat -c '%i %n' \"$name\"; done\n"
            );
        }
        script += &format!("umount {MOUNTED}\n");
    }
    script
}

/// The chunks that `dump-tree -t chunk` printed, one for each copy.
fn chunks(output: &str) -> Vec<Chunk> {
    let mut found = Vec::new();
    let (mut logical, mut length, mut is_data) = (0, 0, false);
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
    for line in section(output, "chunks").map(str::trim) {
        if let Some((_, key)) = line.split_once("CHUNK_ITEM ") {
            logical = number(key.split(')').next()).unwrap_or(0);
        } else if let Some(rest) = line.strip_prefix("length ") {
            length = number(rest.split(' ').next()).unwrap_or(0);
            is_data = rest.split_once(" type ").is_some_and(|(_, kind)| kind.starts_with("DATA"));
        } else if let Some((_, physical)) = line.split_once(" offset ") {
            let Some(physical) = number(Some(physical)) else { continue };
            found.push(Chunk { logical, length, physical, is_data });
        }
    }
    found
}

/// The files that `logical-resolve` printed for a sector of data.
fn file(output: &str, logical: u64) -> Holder {
    let head = format!("data {logical}");
    let mut files: BTreeMap<u64, NamedFile> = BTreeMap::new();
    for line in section(output, &head) {
        let Some((inode, name)) = line.split_once(' ') else { continue };
        let (Ok(inode), Some(name)) = (inode.parse(), name.strip_prefix(MOUNTED)) else { continue };
        files.entry(inode).or_insert(NamedFile { inode, path: Some(path(name)) });
    }
    let inodes: Vec<String> = files.keys().map(u64::to_string).collect();
    match inodes.is_empty() {
        true => Holder::of("nothing: a free sector of data"),
        false => Holder {
            what: format!("inode {}", inodes.join(", ")),
            files: files.into_values().collect(),
        },
    }
}

/// The tree that a block of metadata is of.
fn tree(output: &str, logical: u64) -> Holder {
    let head = format!("tree {logical}");
    let line = section(output, &head).next();
    let part = |word: &str| {
        let (_, rest) = line?.split_once(word)?;
        rest.split(' ')
            .next()
            .filter(|it| it.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    };
    match (part(" owner "), part(" generation ")) {
        (Some(owner), Some(generation)) => {
            Holder::of(format!("block of the tree {owner}, generation {generation}"))
        }
        _ => Holder::of("nothing: a free block of metadata"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{named, FileSystem};
    use super::*;

    fn superblock(devices: u64) -> Vec<u8> {
        let mut start = vec![0; 80 << 10];
        let mut put = |at: usize, value: &[u8]| {
            start[(64 << 10) + at..(64 << 10) + at + value.len()].copy_from_slice(value);
        };
        put(136, &devices.to_le_bytes());
        put(144, &4096u32.to_le_bytes());
        put(148, &16384u32.to_le_bytes());
        start
    }

    /// Output of btrfs-progs 6.2, after the script's filter.
    const CHUNKS: &str = "== chunks
	item 1 key (FIRST_CHUNK_TREE CHUNK_ITEM 13631488) itemoff 16105 itemsize 80
		length 8388608 owner 2 stripe_len 65536 type DATA|single
			stripe 0 devid 1 offset 13631488
	item 3 key (FIRST_CHUNK_TREE CHUNK_ITEM 30408704) itemoff 15881 itemsize 112
		length 33554432 owner 2 stripe_len 65536 type METADATA|DUP
			stripe 0 devid 1 offset 38797312
			stripe 1 devid 1 offset 72351744
";
    const NAMES: &str = "== tree 30441472
leaf 30441472 items 16 free space 14891 generation 7 owner FS_TREE
== tree 30457856
== data 13635584
257 /run/stasis-names/log
258 /run/stasis-names/many/copy
== data 13639680
";

    #[test]
    fn a_place_is_named_by_its_logical_address() {
        let btrfs = Btrfs::read(&superblock(1)).unwrap();
        let second = 72351744 + (30441472 - 30408704);
        let offsets = [65536, 13635584, 13639680, second, second + 8192, second + 16384, 1 << 20];
        let answers = [("-t chunk", CHUNKS), ("", NAMES)];
        let (texts, scripts) = named(FileSystem::Btrfs(btrfs), "/dev/vda", &offsets, &answers);
        assert_eq!(
            texts,
            [
                "superblock",
                "inode 257, 258: /log, /many/copy",
                "nothing: a free sector of data",
                "block of the tree FS_TREE, generation 7",
                "block of the tree FS_TREE, generation 7",
                "nothing: a free block of metadata",
                "nothing: outside of all chunks",
            ]
        );
        assert!(
            scripts[1].contains("logical-resolve 13635584 /run/stasis-names"),
            "{}",
            scripts[1]
        );
        assert_eq!(scripts[1].matches("dump-tree -b").count(), 2, "{}", scripts[1]);
    }

    #[test]
    fn what_is_not_looked_into_is_named() {
        for bytes in [vec![], vec![0; 80 << 10], vec![0xff; 80 << 10]] {
            assert_eq!(Btrfs::read(&bytes), None);
        }
        let several = Btrfs::read(&superblock(2)).unwrap();
        let why = several.holders("/dev/vda", &[0], &mut |_| Ok(String::new())).unwrap_err();
        assert!(why.contains("2 devices"), "{why}");
        let one = Btrfs::read(&superblock(1)).unwrap();
        let why = one.holders("/dev/vda", &[0], &mut |_| Ok(String::new())).unwrap_err();
        assert!(why.contains("tells nothing"), "{why}");
        let mut none = |_: &str| Ok("stasis-missing btrfs\n".to_owned());
        let why = one.holders("/dev/vda", &[0], &mut none).unwrap_err();
        assert!(why.contains("`btrfs-progs`"), "{why}");
        let noise =
            "== chunks\nCHUNK_ITEM 18446744073709551615) x\nlength 18446744073709551615 x\n\
                     stripe 0 devid 1 offset 0\n";
        assert_eq!(one.holders("/dev/vda", &[9], &mut |_| Ok(noise.to_owned())).unwrap().len(), 1);
    }
}
