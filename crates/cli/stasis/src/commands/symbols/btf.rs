//! The layout of a kernel's structures, by the type information that it carries (BTF).
//!
//! Source: Linux, Documentation/bpf/btf.rst; ELF: System V ABI, chapter 4.

use std::collections::HashMap;

const MAGIC: u16 = 0xeb9f;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
/// Limit on structures within structures.
const DEPTH: u32 = 8;

/// The type information of a kernel.
#[derive(Debug)]
pub(super) struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Beginnings of the types in `types`, from number 1 on.
    places: Vec<usize>,
    structures: HashMap<&'a [u8], u32>,
}

/// A type's kind, how many parts it has, and whether offsets are of bit fields.
#[derive(Debug, Clone, Copy)]
struct Info {
    kind: u32,
    count: usize,
    has_fields: bool,
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn quad(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    usize::try_from(u64::from_le_bytes(*bytes)).ok()
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes).into())
}

/// The section of this name of an ELF file of 64 bits.
pub(super) fn section<'a>(file: &'a [u8], name: &str) -> Option<&'a [u8]> {
    if file.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (table, size) = (quad(file, 0x28)?, half(file, 0x3a)?);
    let (count, names) = (half(file, 0x3c)?, half(file, 0x3e)?);
    let header = |number: usize| table.checked_add(number.checked_mul(size)?);
    let bytes = |number: usize| {
        let (from, length) =
            (quad(file, header(number)? + 0x18)?, quad(file, header(number)? + 0x20)?);
        file.get(from..from.checked_add(length)?)
    };
    let names = bytes(names)?;
    let is = |number: &usize| {
        let at = header(*number).and_then(|header| long(file, header))? as usize;
        Some(names.get(at..)?.strip_prefix(name.as_bytes())?.first() == Some(&0))
    };
    (0..count).find(|number| is(number) == Some(true)).and_then(bytes)
}

impl<'a> Btf<'a> {
    /// The type information in a section; None if it is none.
    pub(super) fn parse(section: &'a [u8]) -> Option<Self> {
        if half(section, 0)? != usize::from(MAGIC) {
            return None;
        }
        let word = |at| long(section, at).map(|word| word as usize);
        let header = word(4)?;
        let part = |offset: usize, length: usize| {
            let begin = header.checked_add(offset)?;
            section.get(begin..begin.checked_add(length)?)
        };
        let (types, strings) = (part(word(8)?, word(12)?)?, part(word(16)?, word(20)?)?);
        let mut all = Self { types, strings, places: Vec::new(), structures: HashMap::new() };
        let mut at = 0;
        while at < types.len() {
            all.places.push(at);
            let info = all.info(at)?;
            let number = u32::try_from(all.places.len()).ok()?;
            if info.kind == STRUCT {
                let name = all.string(long(types, at)?)?;
                all.structures.entry(name).or_insert(number);
            }
            let each = match info.kind {
                1 | 14 | 17 => 4,
                3 => 12,
                STRUCT | UNION | 15 | 19 => 12 * info.count,
                6 | 13 => 8 * info.count,
                2 | 7..=12 | 16 | 18 => 0,
                _ => return None,
            };
            at = at.checked_add(12)?.checked_add(each)?;
        }
        Some(all)
    }

    fn info(&self, at: usize) -> Option<Info> {
        let info = long(self.types, at + 4)?;
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        Some(Info { kind, count, has_fields: info >> 31 == 1 })
    }

    fn string(&self, at: u32) -> Option<&'a [u8]> {
        let rest = self.strings.get(at as usize..)?;
        rest.get(..rest.iter().position(|&byte| byte == 0)?)
    }

    /// Offset of a member of a structure (bytes), which can be in an unnamed one within it.
    pub(super) fn offset(&self, structure: &str, member: &str) -> Option<u64> {
        let number = self.structures.get(structure.as_bytes())?;
        self.offset_in(*number, member.as_bytes(), DEPTH)
    }

    fn offset_in(&self, number: u32, member: &[u8], depth: u32) -> Option<u64> {
        let at = *self.places.get(number.checked_sub(1)? as usize)?;
        let info = self.info(at)?;
        if !matches!(info.kind, STRUCT | UNION) || depth == 0 {
            return None;
        }
        (0..info.count).find_map(|one| {
            let at = at + 12 + 12 * one;
            let name = self.string(long(self.types, at)?)?;
            let bits = long(self.types, at + 8)?;
            let bits = u64::from(if info.has_fields { bits & 0xff_ffff } else { bits });
            match name {
                name if name == member => Some(bits / 8),
                [] => {
                    let inner = self.offset_in(long(self.types, at + 4)?, member, depth - 1)?;
                    Some(bits / 8 + inner)
                }
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct outer { int first; struct { char *second; }; int third[2]; }`, written by hand after
    /// the format's description.
    fn section_of_outer() -> Vec<u8> {
        let strings = b"\0int\0outer\0first\0second\0third\0";
        let name = |word: &str| {
            let all = std::str::from_utf8(strings).unwrap();
            all.find(&format!("\0{word}\0")).unwrap() as u32 + 1
        };
        let words = [
            // 1: int of 32 bits.
            [name("int"), 1 << 24, 4].to_vec(),
            vec![32],
            // 2: the unnamed structure.
            [0, STRUCT << 24 | 1, 8].to_vec(),
            vec![name("second"), 4, 0],
            // 3: the outer one, whose offsets can be of fields of bits.
            [name("outer"), 1 << 31 | STRUCT << 24 | 3, 24].to_vec(),
            vec![name("first"), 1, 0, 0, 2, 64, name("third"), 5, 128],
            // 4: a pointer; 5: an array.
            [0, 2 << 24, 1].to_vec(),
            [0, 3 << 24, 0].to_vec(),
            vec![1, 1, 2],
        ];
        let types: Vec<u8> =
            words.concat().iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        let mut section = MAGIC.to_le_bytes().to_vec();
        section.extend([1, 0]);
        let lengths = [24, 0, types.len() as u32, types.len() as u32, strings.len() as u32];
        section.extend(lengths.iter().flat_map(|word| word.to_le_bytes()));
        section.extend(types);
        section.extend(strings);
        section
    }

    #[test]
    fn members_have_offsets() {
        let section = section_of_outer();
        let btf = Btf::parse(&section).unwrap();
        assert_eq!(btf.offset("outer", "first"), Some(0));
        assert_eq!(btf.offset("outer", "second"), Some(8));
        assert_eq!(btf.offset("outer", "third"), Some(16));
        assert_eq!(btf.offset("outer", "fourth"), None);
        assert_eq!(btf.offset("int", "first"), None);
    }

    /// Every byte changed, and every cut.
    #[test]
    fn damage_is_no_panic() {
        let whole = section_of_outer();
        for place in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0xff, whole[place] ^ 4] {
                let mut damaged = whole.clone();
                damaged[place] = byte;
                if let Some(btf) = Btf::parse(&damaged) {
                    btf.offset("outer", "second");
                }
                let mut elf = b"\x7fELF\x02".to_vec();
                elf.extend(&damaged);
                section(&elf, ".BTF");
            }
            assert!(Btf::parse(&whole[..place]).is_none(), "{place}");
        }
    }
}
