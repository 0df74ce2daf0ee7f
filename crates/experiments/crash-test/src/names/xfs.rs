//! XFS: `xfs_db` and `xfs_logprint` of xfsprogs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::bytes::big;
use super::holder::{path, Holder, Holders, NamedFile};
use super::tools::{answer, needs, section, Ask, MOUNTED};

/// Debian's package with the tools.
const PACKAGE: &str = "xfsprogs";
/// Inodes that are looked up at a time.
const INODES: usize = 128;

/// Unit in which xfs_db and the log count (bytes): a basic block.
pub(super) const UNIT: u64 = 512;

/// An XFS file system, by its superblock (`struct xfs_dsb` in `fs/xfs/libxfs/xfs_format.h` of
/// Linux).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xfs {
    /// Size of a block (bytes).
    pub block: u64,
    // Blocks of an allocation group, and the bits of a block's number within it.
    group_blocks: u64,
    group_bits: u32,
    // Bits of an inode's number within its block.
    inode_bits: u32,
    // The inode of the root folder.
    root: u64,
    // The log within the file system: group, first block, length; none where it is elsewhere.
    log: Option<(u64, u64, u64)>,
}

/// A block: its allocation group, and its number within the group.
type Place = (u64, u64);

impl Xfs {
    /// From a disk's first bytes; none where the superblock has impossible sizes.
    pub(super) fn read(start: &[u8]) -> Option<Self> {
        let field = |at: usize, length: usize| big(start, at, length);
        let bits = |at: usize| field(at, 1).filter(|bits| *bits <= 32).map(|bits| bits as u32);
        let (log_start, group_bits) = (field(48, 8)?, bits(124)?);
        let log = (log_start >> group_bits, log_start & ((1 << group_bits) - 1), field(96, 4)?);
        let found = Self {
            block: field(4, 4)?,
            group_blocks: field(84, 4)?,
            group_bits,
            inode_bits: bits(123)?,
            root: field(56, 8)?,
            log: (log_start > 0).then_some(log),
        };
        let possible = found.block.is_power_of_two()
            && (512..=64 << 10).contains(&found.block)
            && found.group_blocks > 0
            && found.inode_bits <= 8;
        possible.then_some(found)
    }

    fn place(&self, offset: u64) -> Place {
        let block = offset / self.block;
        (block / self.group_blocks, block % self.group_blocks)
    }

    /// The basic block of the log at a byte of the disk, if the byte lies in the log.
    fn in_log(&self, offset: u64) -> Option<u64> {
        let (group, first, length) = self.log?;
        let start = group.checked_mul(self.group_blocks)?.checked_add(first)?;
        let within = offset.checked_sub(start.checked_mul(self.block)?)?;
        (within / self.block < length).then_some(within / UNIT)
    }

    /// See [`super::holders`].
    pub(super) fn holders(
        &self,
        device: &str,
        offsets: &[u64],
        ask: &mut Ask<'_>,
    ) -> Result<Holders, String> {
        let is_log = |offset: &&u64| self.in_log(**offset).is_some();
        let records = match offsets.iter().any(|offset| is_log(&offset)) {
            true => records(&answer(ask(&log_script(device))?, PACKAGE)?),
            false => Vec::new(),
        };
        let elsewhere = offsets.iter().filter(|offset| !is_log(offset));
        let places: BTreeSet<Place> = elsewhere.map(|offset| self.place(*offset)).collect();
        let wanted: Vec<Place> = places.into_iter().collect();
        let mut used = HashMap::new();
        if !wanted.is_empty() {
            used = blocks(&answer(ask(&self.blocks_script(device, &wanted))?, PACKAGE)?);
            if used.is_empty() {
                return Err("xfs_db tells nothing of this disk".to_owned());
            }
        }
        let tables = wanted.iter().filter(|place| used.get(place).is_some_and(Used::is_table));
        let mut inodes: BTreeSet<u64> = tables.flat_map(|place| self.inodes_at(*place)).collect();
        let hit = |offset: &u64| Record::at(&records, self.in_log(*offset)?);
        inodes.extend(offsets.iter().filter_map(hit).flat_map(|record| &record.inodes));
        let inodes: Vec<u64> = inodes.into_iter().take(INODES).collect();
        let mut paths = match inodes.is_empty() {
            true => BTreeMap::new(),
            false => paths(&answer(ask(&paths_script(device, &inodes))?, PACKAGE)?),
        };
        // `ncheck` leaves the root out.
        paths.insert(self.root, NamedFile { inode: self.root, path: Some("/".into()) });
        let holder = |offset: &u64| {
            let place = self.place(*offset);
            let holder = match (self.in_log(*offset), used.get(&place)) {
                (Some(block), _) => match Record::at(&records, block) {
                    Some(record) => record.holder(&paths),
                    None => Holder::of("log: no record that is to be replayed"),
                },
                (None, None) => Holder::of("nothing: xfs_db does not know it"),
                (None, Some(used)) => self.holder(place, used, &paths),
            };
            (*offset, holder)
        };
        Ok(offsets.iter().map(holder).collect())
    }

    fn holder(&self, place: Place, used: &Used, paths: &BTreeMap<u64, NamedFile>) -> Holder {
        let description = match (used.kind.as_str(), used.inode) {
            ("free1" | "free2", _) => return Holder::of("nothing: a free block"),
            ("sb", _) => format!("superblock and headers of group {}", place.0),
            ("inode", None) => {
                let inodes = self.inodes_at(place);
                let files = inodes.clone().filter_map(|inode| paths.get(&inode).cloned());
                let description = format!("inodes {} to {}", inodes.start(), inodes.end());
                return Holder { what: description, files: files.collect() };
            }
            ("data" | "dir", Some(inode)) => format!("inode {inode}"),
            (kind, Some(inode)) => format!("block map or attributes ({kind}) of inode {inode}"),
            (kind, None) => format!("{kind} of group {}", place.0),
        };
        let file = used.inode.map(|inode| NamedFile { inode, path: used.path.clone() });
        Holder { what: description, files: file.into_iter().collect() }
    }

    /// The inodes of a block of them.
    fn inodes_at(&self, (group, block): Place) -> std::ops::RangeInclusive<u64> {
        let first = (group << self.group_bits | block) << self.inode_bits;
        first..=first.saturating_add((1 << self.inode_bits) - 1)
    }

    fn blocks_script(&self, device: &str, places: &[Place]) -> String {
        let mut commands = String::new();
        for (group, block) in places {
            let address = (group * self.group_blocks + block) * (self.block / UNIT);
            commands += &format!(" -c 'daddr {address}' -c 'blockuse -n'");
        }
        // A mount replays the log.
        format!(
            "{}mkdir -p {MOUNTED}\nmount -t xfs -o nouuid {device} {MOUNTED} && umount {MOUNTED}\n\
             echo '== blocks'\nxfs_db -r -c 'blockget -n'{commands} {device} 2>&1\n",
            needs("xfs_db")
        )
    }
}

fn paths_script(device: &str, inodes: &[u64]) -> String {
    let asked: String = inodes.iter().map(|inode| format!(" -i {inode}")).collect();
    format!(
        "{}mkdir -p {MOUNTED}\nmount -t xfs -o nouuid {device} {MOUNTED} && umount {MOUNTED}\n\
         echo '== paths'\nxfs_db -r -c 'blockget -n' -c 'ncheck{asked}' {device} 2>&1\n",
        needs("xfs_db")
    )
}

fn log_script(device: &str) -> String {
    format!(
        "{}echo '== log'\nxfs_logprint -c {device} 2>/dev/null | \
         grep -E 'lsn: |Log Record: | ino: ' | tail -n 900\n",
        needs("xfs_logprint")
    )
}

/// A record of the log.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    // Its basic blocks within the log.
    blocks: Range<u64>,
    // The inodes of which it has changes.
    inodes: Vec<u64>,
}

impl Record {
    /// The newest with this basic block: the log is a ring, printed from its oldest record.
    fn at(records: &[Self], block: u64) -> Option<&Self> {
        records.iter().rev().find(|record| record.blocks.contains(&block))
    }

    fn holder(&self, paths: &BTreeMap<u64, NamedFile>) -> Holder {
        let file = |inode: &u64| {
            paths.get(inode).cloned().unwrap_or(NamedFile { inode: *inode, path: None })
        };
        let description = format!("log, record at block {}", self.blocks.start);
        Holder { what: description, files: self.inodes.iter().map(file).collect() }
    }
}

/// The records that `xfs_logprint` printed.
fn records(output: &str) -> Vec<Record> {
    let mut found: Vec<Record> = Vec::new();
    let digits = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse::<u64>().ok()
    };
    for line in section(output, "log") {
        let number = |word: &str| line.split_once(word).and_then(|(_, rest)| digits(rest));
        // `lsn: CYCLE,BLOCK`; tail_lsn follows.
        let lsn = line.split_once("lsn: ").and_then(|(_, rest)| rest.split_once(','));
        if let Some(start) = lsn.and_then(|(_, rest)| digits(rest)) {
            found.push(Record { blocks: start..start.saturating_add(1), inodes: Vec::new() });
        } else if let (Some(length), Some(last)) = (number("Log Record: "), found.last_mut()) {
            // A header, and what it is of.
            last.blocks.end = last.blocks.end.saturating_add(length.div_ceil(UNIT));
        } else if let (Some((_, rest)), Some(last)) =
            (line.split_once(" ino: 0x"), found.last_mut())
        {
            let inode = rest.split(' ').next().and_then(|hex| u64::from_str_radix(hex, 16).ok());
            if let Some(inode) = inode.filter(|inode| !last.inodes.contains(inode)) {
                last.inodes.push(inode);
            }
        }
    }
    found
}

/// The use of a block, as `blockuse` prints it.
#[derive(Debug, PartialEq, Eq)]
struct Used {
    kind: String,
    inode: Option<u64>,
    path: Option<String>,
}

impl Used {
    /// Returns whether it holds inodes.
    fn is_table(&self) -> bool {
        self.kind == "inode" && self.inode.is_none()
    }
}

/// From lines such as `block 24 (0/24) type data inode 131 many/3`.
fn blocks(output: &str) -> HashMap<Place, Used> {
    let mut found = HashMap::new();
    for line in section(output, "blocks").filter(|line| line.starts_with("block ")) {
        let place = || {
            let (group, block) = line.split_once('(')?.1.split_once(')')?.0.split_once('/')?;
            Some((group.parse().ok()?, block.parse().ok()?))
        };
        let (Some(place), Some((_, rest))) = (place(), line.split_once(" type ")) else { continue };
        let (kind, owner) = match rest.split_once(" inode ") {
            Some((kind, owner)) => (kind, Some(owner)),
            None => (rest, None),
        };
        let (inode, name) = match owner.map(|owner| owner.split_once(' ').unwrap_or((owner, ""))) {
            Some((inode, name)) => (inode.parse().ok(), Some(name).filter(|name| !name.is_empty())),
            None => (None, None),
        };
        found.insert(place, Used { kind: kind.to_owned(), inode, path: name.map(path) });
    }
    found
}

/// From lines such as `        131 many/3`; a folder's end with `/.`.
fn paths(output: &str) -> BTreeMap<u64, NamedFile> {
    let mut found = BTreeMap::new();
    for line in section(output, "paths") {
        let Some((inode, printed)) = line.trim_start().split_once(' ') else { continue };
        let Ok(inode) = inode.parse() else { continue };
        let printed = printed.strip_suffix("/.").unwrap_or(printed);
        found.entry(inode).or_insert(NamedFile { inode, path: Some(path(printed)) });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{named, FileSystem};
    use super::*;

    /// A superblock of 320 MiB, as mkfs.xfs 6.1 makes it.
    fn superblock() -> Vec<u8> {
        let mut start = vec![0; 4096];
        let mut put = |at: usize, value: &[u8]| start[at..at + value.len()].copy_from_slice(value);
        put(4, &4096u32.to_be_bytes()); // sb_blocksize
        put(48, &65542u64.to_be_bytes()); // sb_logstart
        put(56, &128u64.to_be_bytes()); // sb_rootino
        put(84, &20480u32.to_be_bytes()); // sb_agblocks
        put(96, &16384u32.to_be_bytes()); // sb_logblocks
        put(123, &[3]); // sb_inopblog
        put(124, &[15]); // sb_agblklog
        start
    }

    const BLOCKS: &str = "== blocks
block 0 (0/0) type sb
block 8 (0/8) type freelist
block 16 (0/16) type inode
block 24 (0/24) type data inode 131 many/3
block 25 (0/25) type dir inode 132
block 32792 (1/24) type free2
block 32793 (1/25) type btbmapd inode 7 log
";
    const PATHS: &str = "== paths
        131 many/3
        129 many/.
";

    /// Output of xfs_logprint 6.1, after the script's filter.
    const LOG: &str = "== log
cycle: 1\tversion: 2\t\tlsn: 1,2\ttail_lsn: 1,2
length of Log Record: 1536\tprev offset: 0\t\tnum ops: 15
INODE: #regs: 3   ino: 0x80  flags: 0x3   dsize: 18
INODE: #regs: 3   ino: 0x83  flags: 0x3   dsize: 6
INODE: #regs: 3   ino: 0x80  flags: 0x1   dsize: 6
cycle: 1\tversion: 2\t\tlsn: 1,6\ttail_lsn: 1,2
length of Log Record: 512\tprev offset: 2\t\tnum ops: 3
INODE: #regs: 3   ino: 0x99  flags: 0x3   dsize: 6
";

    #[test]
    fn a_block_of_the_log_tells_of_its_record() {
        let xfs = Xfs::read(&superblock()).unwrap();
        let start = (2 * 20480 + 6) * 4096;
        let offsets = [0, 2, 5, 6, 7, 8].map(|block| start + block * UNIT);
        let answers = [("ncheck", PATHS), ("", LOG)];
        let (texts, scripts) = named(FileSystem::Xfs(xfs), "/dev/vda", &offsets, &answers);
        for script in scripts {
            assert!(!script.contains("blockuse"), "only the log is asked for: {script}");
        }
        assert_eq!(
            texts,
            [
                "log: no record that is to be replayed",
                "log, record at block 2: /, /many/3",
                "log, record at block 2: /, /many/3",
                "log, record at block 6: inode 153 without a name",
                "log, record at block 6: inode 153 without a name",
                "log: no record that is to be replayed",
            ]
        );
    }

    #[test]
    fn a_block_is_named_by_its_use() {
        let xfs = Xfs::read(&superblock()).unwrap();
        let blocks = [0, 8, 16, 24, 25, 20504, 20505, 2 * 20480 + 6, 30000];
        let offsets = blocks.map(|block| block * 4096);
        let answers = [("ncheck", PATHS), ("blockuse", BLOCKS), ("logprint", LOG)];
        let (texts, scripts) = named(FileSystem::Xfs(xfs), "/dev/vda", &offsets, &answers);
        assert_eq!(
            texts,
            [
                "superblock and headers of group 0",
                "freelist of group 0",
                "inodes 128 to 135: /, /many, /many/3",
                "inode 131: /many/3",
                "inode 132, which has no name",
                "nothing: a free block",
                "block map or attributes (btbmapd) of inode 7: /log",
                "log: no record that is to be replayed",
                "nothing: xfs_db does not know it",
            ]
        );
        assert!(scripts[1].contains("-c 'daddr 164032' -c 'blockuse -n'"), "{}", scripts[1]);
        assert!(!scripts[1].contains("'daddr 327728'"), "the log is not asked for");
        assert!(scripts[2].contains("ncheck -i 128 -i 129"), "{}", scripts[2]);
    }

    #[test]
    fn impossible_superblocks_and_noise_are_no_panic() {
        for bytes in [vec![], vec![0; 4096], vec![0xff; 4096]] {
            assert_eq!(Xfs::read(&bytes), None);
        }
        let xfs = Xfs::read(&superblock()).unwrap();
        let mut noise = |_: &str| Ok("== blocks\nblock ( type\nblock 1 (a/b) type\n".to_owned());
        let why = xfs.holders("/dev/vda", &[0], &mut noise).unwrap_err();
        assert!(why.contains("tells nothing"), "{why}");
        let mut none = |_: &str| Ok("stasis-missing xfs_db\n".to_owned());
        let why = xfs.holders("/dev/vda", &[0], &mut none).unwrap_err();
        assert!(why.contains("`xfsprogs`"), "{why}");
    }
}
