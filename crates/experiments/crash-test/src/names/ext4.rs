//! ext4: `debugfs` and `dumpe2fs` of e2fsprogs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;

use super::bytes::little;
use super::holder::{path, Holder, Holders, NamedFile};
use super::tools::{answer, needs, section, words, Ask};

/// Debian's package with the tools.
const PACKAGE: &str = "e2fsprogs";
/// Blocks of a transaction that are looked up.
const LOGGED: usize = 64;
/// Inodes that are looked up at a time.
const INODES: usize = 128;

/// An ext4 file system, by its superblock (`struct ext4_super_block` in `fs/ext4/ext4.h` of Linux).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ext4 {
    /// Size of a block (bytes).
    pub block: u64,
    // Number of the first group's first block.
    first: u64,
    blocks_per_group: u64,
    inodes_per_group: u64,
    inode_size: u64,
    // Groups whose bitmaps and inode tables lie together.
    flex: u64,
    // True if it has a journal, in an inode of its own.
    has_journal: bool,
}

/// Inodes with a purpose (`fs/ext4/ext4.h`).
const ROOT: u64 = 2;
const RESIZE: u64 = 7;
const JOURNAL: u64 = 8;

/// A block of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logged {
    /// A list of the blocks that a transaction changes.
    Descriptor(u64),
    /// A changed block: the transaction, and the place that it is for.
    Copy(u64, u64),
    /// The end of a transaction.
    Commit(u64),
    /// A list of blocks whose older copies do not count.
    Revoke(u64),
}

/// The journal of a disk.
#[derive(Debug, Default, PartialEq, Eq)]
struct Journal {
    /// Its extents: first block of the journal, first block of the disk, length.
    extents: Vec<(u64, u64, u64)>,
    logged: HashMap<u64, Logged>,
    /// The blocks that a transaction changes.
    transactions: BTreeMap<u64, Vec<u64>>,
}

/// The tools' knowledge of blocks that are not the journal's.
#[derive(Debug, Default)]
struct Blocks {
    inodes: HashMap<u64, u64>,
    // The blocks of a range, what they are, and of inode tables the group's number.
    groups: Vec<(RangeInclusive<u64>, String, Option<u64>)>,
}

impl Ext4 {
    /// From a disk's first bytes; none where the superblock has impossible sizes.
    pub(super) fn read(start: &[u8]) -> Option<Self> {
        let field = |at: usize, length: usize| little(start, 1024 + at, length);
        let block = 1024u64.checked_shl(u32::try_from(field(0x18, 4)?).ok()?)?;
        let revision = field(0x4c, 4)?;
        let found = Self {
            block,
            first: field(0x14, 4)?,
            blocks_per_group: field(0x20, 4)?,
            inodes_per_group: field(0x28, 4)?,
            inode_size: if revision == 0 { 128 } else { field(0x58, 2)? },
            flex: 1 << field(0x174, 1)?.min(20),
            has_journal: field(0x5c, 4)? & 4 != 0 && field(0xe0, 4)? == JOURNAL,
        };
        let possible = found.block <= 64 << 10
            && found.blocks_per_group > 0
            && found.inodes_per_group > 0
            && (128..=found.block).contains(&found.inode_size);
        possible.then_some(found)
    }

    /// See [`super::holders`].
    pub(super) fn holders(
        &self,
        device: &str,
        offsets: &[u64],
        ask: &mut Ask<'_>,
    ) -> Result<Holders, String> {
        let journal = match self.has_journal {
            true => Journal::read(&answer(ask(&journal_script(device))?, PACKAGE)?),
            false => Journal::default(),
        };
        let mut wanted = BTreeSet::new();
        for offset in offsets {
            let block = offset / self.block;
            match journal.place(block) {
                None => drop(wanted.insert(block)),
                Some(place) => wanted.extend(journal.tells_of(place)),
            }
        }
        let blocks = match wanted.is_empty() {
            true => Blocks::default(),
            false => {
                let script = self.blocks_script(device, &wanted);
                Blocks::read(&answer(ask(&script)?, PACKAGE)?)
            }
        };
        let mut inodes = BTreeSet::new();
        for block in &wanted {
            match blocks.inodes.get(block) {
                Some(inode) => drop(inodes.insert(*inode)),
                None => inodes.extend(self.inodes_at(&blocks, *block).into_iter().flatten()),
            }
        }
        let inodes: Vec<u64> =
            inodes.into_iter().filter(|inode| *inode > 10).take(INODES).collect();
        let paths = match inodes.is_empty() {
            true => HashMap::new(),
            false => paths(&answer(ask(&paths_script(device, &inodes))?, PACKAGE)?),
        };
        let holder = |offset: &u64| {
            let block = offset / self.block;
            let holder = match journal.place(block) {
                None => self.holder(&blocks, &paths, block),
                Some(place) => self.logged(&journal, &blocks, &paths, place),
            };
            (*offset, holder)
        };
        Ok(offsets.iter().map(holder).collect())
    }

    /// The inodes of a block of an inode table.
    fn inodes_at(&self, blocks: &Blocks, block: u64) -> Option<RangeInclusive<u64>> {
        let (range, _, group) = blocks.groups.iter().find(|(range, ..)| range.contains(&block))?;
        let each = self.block / self.inode_size;
        let before = (block - range.start()).checked_mul(each)?;
        let first = (*group)?.checked_mul(self.inodes_per_group)?.checked_add(before)?;
        Some(first.checked_add(1)?..=first.checked_add(each)?)
    }

    /// A block that is not the journal's.
    fn holder(&self, blocks: &Blocks, paths: &HashMap<u64, NamedFile>, block: u64) -> Holder {
        let file = |inode: u64| match inode {
            ROOT => NamedFile { inode, path: Some("/".into()) },
            _ => paths.get(&inode).cloned().unwrap_or(NamedFile { inode, path: None }),
        };
        match blocks.inodes.get(&block) {
            Some(&RESIZE) => return Holder::of("room for more group descriptors"),
            Some(&JOURNAL) => return Holder::of("journal"),
            Some(&inode) => {
                return Holder { what: format!("inode {inode}"), files: vec![file(inode)] };
            }
            None => {}
        }
        if block < self.first {
            return Holder::of("boot block");
        }
        let found = blocks.groups.iter().find(|(range, ..)| range.contains(&block));
        let Some((_, region, _)) = found else { return Holder::of("nothing: a free block") };
        match self.inodes_at(blocks, block) {
            None => Holder::of(region.as_str()),
            Some(inodes) => {
                let region = format!("{region}, inodes {} to {}", inodes.start(), inodes.end());
                let named = |inode: &u64| *inode == ROOT || paths.contains_key(inode);
                Holder { what: region, files: inodes.filter(named).map(file).collect() }
            }
        }
    }

    /// A block of the journal.
    fn logged(
        &self,
        journal: &Journal,
        blocks: &Blocks,
        paths: &HashMap<u64, NamedFile>,
        place: u64,
    ) -> Holder {
        let changed = || {
            let mut files = BTreeSet::new();
            for block in journal.tells_of(place) {
                files.extend(self.holder(blocks, paths, block).files);
            }
            files.into_iter().collect()
        };
        let in_journal = |description: String| format!("journal, block {place}: {description}");
        match journal.logged.get(&place) {
            None if place == 0 => Holder::of(in_journal("its superblock".into())),
            None => Holder::of("journal: no part of a transaction that is to be replayed"),
            Some(Logged::Revoke(number)) => {
                Holder::of(in_journal(format!("revoked blocks of transaction {number}")))
            }
            Some(Logged::Copy(number, block)) => {
                let Holder { what: copied, files } = self.holder(blocks, paths, *block);
                let copied = format!("copy of block {block} ({copied}), transaction {number}");
                Holder { what: in_journal(copied), files }
            }
            Some(Logged::Descriptor(number)) => Holder {
                what: in_journal(format!("descriptor of transaction {number}, with blocks of")),
                files: changed(),
            },
            Some(Logged::Commit(number)) => Holder {
                what: in_journal(format!("commit of transaction {number}, with blocks of")),
                files: changed(),
            },
        }
    }

    /// The script that asks for the inodes of blocks, and for the layout of their groups.
    fn blocks_script(&self, device: &str, blocks: &BTreeSet<u64>) -> String {
        let group = |block: &u64| block.saturating_sub(self.first) / self.blocks_per_group;
        // Bitmaps and inode tables lie in the first group of those that are together.
        let mut groups = BTreeSet::new();
        for group in blocks.iter().map(group) {
            let first = group / self.flex * self.flex;
            groups.extend((first..first.saturating_add(self.flex.min(64))).chain([group]));
        }
        let groups: Vec<String> = groups.iter().map(u64::to_string).collect();
        format!(
            "{}{}echo '== icheck'\ndebugfs -R 'icheck {}' {device} 2>/dev/null\necho '== groups'\n\
             dumpe2fs {device} 2>/dev/null | grep -E -A 7 '^Group ({}):' | grep -E '^Group|s? at '\n",
            needs("debugfs"),
            replay(device),
            words(blocks.iter().copied()),
            groups.join("|")
        )
    }
}

/// The line that replays the journal: what was written is only then where it belongs.
fn replay(device: &str) -> String {
    format!("e2fsck -y -E journal_only {device} >/dev/null 2>&1\n")
}

fn journal_script(device: &str) -> String {
    format!(
        "{}echo '== extents'\ndebugfs -R 'stat <{JOURNAL}>' {device} 2>/dev/null | grep '^('\n\
         echo '== log'\ndebugfs -R 'logdump -a' {device} 2>/dev/null | tail -n 800\n",
        needs("debugfs")
    )
}

fn paths_script(device: &str, inodes: &[u64]) -> String {
    format!(
        "{}{}echo '== paths'\ndebugfs -R 'ncheck {}' {device} 2>/dev/null\n",
        needs("debugfs"),
        replay(device),
        words(inodes.iter().copied())
    )
}

/// The paths that `debugfs ncheck` printed, by inode.
fn paths(output: &str) -> HashMap<u64, NamedFile> {
    let mut found = HashMap::new();
    for line in section(output, "paths") {
        let Some((inode, printed)) = line.split_once('\t') else { continue };
        let Ok(inode) = inode.parse() else { continue };
        found.entry(inode).or_insert(NamedFile { inode, path: Some(path(printed)) });
    }
    found
}

/// A number at the beginning of a text.
fn leading(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The number after `word` in a line.
fn after(line: &str, word: &str) -> Option<u64> {
    line.split_once(word).and_then(|(_, rest)| leading(rest))
}

/// A range such as `3-258` or `3`.
fn range(text: &str) -> Option<RangeInclusive<u64>> {
    let first = leading(text)?;
    let last = after(text.split([' ', ',']).next()?, "-").unwrap_or(first);
    (first <= last).then_some(first..=last)
}

impl Journal {
    /// From the output of [`journal_script`].
    fn read(output: &str) -> Self {
        let mut found = Self::default();
        for part in section(output, "extents").flat_map(|line| line.split(", ")) {
            // Blocks of the tree of extents have letters in their parentheses.
            let Some((inner, places)) = part.trim_start_matches('(').split_once("):") else {
                continue;
            };
            if let (Some(journal), Some(disk)) = (range(inner), range(places)) {
                if inner.starts_with(|c: char| c.is_ascii_digit()) {
                    let length = (disk.end() - disk.start()).saturating_add(1);
                    found.extents.push((*journal.start(), *disk.start(), length));
                }
            }
        }
        let mut sequence = 0;
        for line in section(output, "log") {
            if let Some(number) = after(line, "expected sequence ") {
                sequence = number;
                let Some(place) = after(line, "at block ") else { continue };
                let kind = match after(line, ", type ") {
                    Some(1) => Logged::Descriptor(number),
                    Some(2) => Logged::Commit(number),
                    Some(5) => Logged::Revoke(number),
                    _ => continue,
                };
                found.logged.insert(place, kind);
            } else if let Some(block) = after(line, "FS block ") {
                let Some(place) = after(line, "journal block ") else { continue };
                found.logged.insert(place, Logged::Copy(sequence, block));
                found.transactions.entry(sequence).or_default().push(block);
            }
        }
        found
    }

    /// The number of a block of the disk within the journal, if it lies there.
    fn place(&self, block: u64) -> Option<u64> {
        self.extents.iter().find_map(|(journal, disk, length)| {
            let within = block.checked_sub(*disk).filter(|within| within < length)?;
            journal.checked_add(within)
        })
    }

    /// The blocks of the file system that a block of the journal tells of.
    fn tells_of(&self, place: u64) -> Vec<u64> {
        match self.logged.get(&place) {
            Some(Logged::Copy(_, block)) => vec![*block],
            Some(Logged::Descriptor(number) | Logged::Commit(number)) => {
                let blocks = self.transactions.get(number).map_or(&[][..], Vec::as_slice);
                blocks.iter().copied().take(LOGGED).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Blocks {
    /// From the output of [`Ext4::blocks_script`].
    fn read(output: &str) -> Self {
        let mut found = Self::default();
        for line in section(output, "icheck") {
            let Some((block, inode)) = line.split_once('\t') else { continue };
            if let (Ok(block), Ok(inode)) = (block.parse(), inode.parse()) {
                found.inodes.insert(block, inode);
            }
        }
        let mut group = 0;
        for line in section(output, "groups") {
            if let Some(number) = after(line, "Group ") {
                group = number;
                continue;
            }
            for part in line.trim().split(", ") {
                let Some((region, places)) = part.split_once(" at ") else { continue };
                let Some(range) = range(places) else { continue };
                let table = region == "Inode table";
                let region = region.to_lowercase();
                found.groups.push((
                    range,
                    format!("{region} of group {group}"),
                    table.then_some(group),
                ));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::FileSystem;
    use super::*;

    /// A superblock of 64 MiB with blocks of 1 KiB, as mkfs.ext4 1.47 makes it.
    fn superblock() -> Vec<u8> {
        let mut start = vec![0; 4096];
        let mut put = |at: usize, value: u32| {
            start[1024 + at..1024 + at + 4].copy_from_slice(&value.to_le_bytes());
        };
        put(0x14, 1); // s_first_data_block
        put(0x18, 0); // s_log_block_size
        put(0x20, 8192); // s_blocks_per_group
        put(0x28, 2048); // s_inodes_per_group
        put(0x4c, 1); // s_rev_level
        put(0x58, 256); // s_inode_size
        put(0x5c, 0x3c); // s_feature_compat
        put(0xe0, 8); // s_journal_inum
        put(0x174, 4); // s_log_groups_per_flex
        start
    }

    /// Output of the tools of e2fsprogs 1.47 for such a disk.
    const JOURNAL: &str = "== extents
(0-4095):16385-20480
== log
Journal starts at block 1, transaction 2
Found expected sequence 2, type 1 (descriptor block) at block 1
Dumping descriptor block, sequence 2, at block 1:
  FS block 267 logged at journal block 2 (flags 0x0)
  FS block 277 logged at journal block 3 (flags 0x2)
  FS block 4371 logged at journal block 4 (flags 0xa)
Found expected sequence 2, type 5 (revoke table) at block 5
Found expected sequence 2, type 2 (commit block) at block 6
No magic number at block 7: end of journal.
";
    const BLOCKS: &str = "== icheck
Block\tInode number
267\t<block not found>
277\t<block not found>
4371\t2
4385\t14
8000\t<block not found>
300\t7
== groups
Group 0: (Blocks 1-8192) csum 0x65ee [ITABLE_ZEROED]
  Primary superblock at 1, Group descriptors at 2-2
  Reserved GDT blocks at 3-258
  Block bitmap at 259 (+258), csum 0xaf8514a0
  Inode bitmap at 267 (+266), csum 0x6f3a3feb
  Inode table at 275-786 (+274)
Group 1: (Blocks 8193-16384) csum 0xce78 [INODE_UNINIT, BLOCK_UNINIT, ITABLE_ZEROED]
  Backup superblock at 8193, Group descriptors at 8194-8194
  Inode table at 787-1298 (bg #0 + 786)
";
    const PATHS: &str = "== paths
Inode\tPathname
11\t//lost+found
14\t/many/odd\u{7}name
14\t/another
";

    /// The texts of the holders of blocks, and the scripts that were run.
    fn named(blocks: &[u64]) -> (Vec<String>, Vec<String>) {
        let ext4 = Ext4::read(&superblock()).unwrap();
        let offsets: Vec<u64> = blocks.iter().map(|block| block * ext4.block).collect();
        let answers = [("logdump", JOURNAL), ("icheck", BLOCKS), ("ncheck", PATHS)];
        super::super::named(FileSystem::Ext4(ext4), "/dev/vdb", &offsets, &answers)
    }

    #[test]
    fn a_block_is_named_by_its_inode_or_its_group() {
        let (texts, scripts) = named(&[0, 1, 277, 300, 4371, 4385, 8000, 8193, 788]);
        assert_eq!(
            texts,
            [
                "boot block",
                "primary superblock of group 0",
                "inode table of group 0, inodes 9 to 12: /lost+found",
                "room for more group descriptors",
                "inode 2: /",
                "inode 14: /many/odd?name",
                "nothing: a free block",
                "backup superblock of group 1",
                "inode table of group 1, inodes 2053 to 2056",
            ]
        );
        assert_eq!(scripts.len(), 3, "the journal, the blocks, the paths");
        assert!(scripts[1].contains("icheck 0 1 277 300 788 4371 4385 8000 8193' /dev/vdb"));
    }

    #[test]
    fn a_block_of_the_journal_tells_of_its_transaction() {
        let first = 16385;
        let (texts, _) = named(&[0, 1, 2, 3, 5, 6, 7].map(|place| first + place));
        assert_eq!(
            texts,
            [
                "journal, block 0: its superblock",
                "journal, block 1: descriptor of transaction 2, with blocks of: /, /lost+found",
                "journal, block 2: copy of block 267 (inode bitmap of group 0), transaction 2",
                "journal, block 3: copy of block 277 (inode table of group 0, inodes 9 to 12), \
                 transaction 2: /lost+found",
                "journal, block 5: revoked blocks of transaction 2",
                "journal, block 6: commit of transaction 2, with blocks of: /, /lost+found",
                "journal: no part of a transaction that is to be replayed",
            ]
        );
    }

    #[test]
    fn a_guest_without_the_tools_is_told_the_package() {
        let ext4 = Ext4::read(&superblock()).unwrap();
        let mut none = |_: &str| Ok("stasis-missing debugfs\n".to_owned());
        let why = ext4.holders("/dev/vda", &[1024], &mut none).unwrap_err();
        assert_eq!(
            why,
            "the guest has no debugfs: add the package `e2fsprogs` to `packages` in [guest]"
        );
    }

    #[test]
    fn impossible_superblocks_and_noise_are_no_panic() {
        assert_eq!(Ext4::read(&[]), None);
        assert_eq!(Ext4::read(&vec![0; 8192]), None);
        assert_eq!(Ext4::read(&vec![0xff; 8192]), None);
        let ext4 = Ext4::read(&superblock()).unwrap();
        let huge = "== extents\n(0-18446744073709551615):1-18446744073709551615\n== log\n\
                    Found expected sequence 9, type 1 x\n FS block 1 x\n== icheck\n5\t99999\n\
                    == groups\nGroup 18446744073709551615: x\n  Inode table at 1-9 x\n";
        for noise in ["", "(", huge, "== extents\n(5-1):9-2, (a):b\n== log\nFS block"] {
            let found =
                ext4.holders("/dev/vda", &[0, 5120, 1 << 40], &mut |_| Ok(noise.to_owned()));
            assert!(found.unwrap().len() == 3, "{noise}");
        }
    }
}
