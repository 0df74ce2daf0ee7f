//! The kernel's description of its own types, as far as it takes to find a
//! member's offset and a function's number (Linux, Documentation/bpf/btf.rst).

/// A kind of type, and the layout of its entry after the common part.
mod kind {
    pub const INT: u32 = 1;
    pub const POINTER: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const DECL_TAG: u32 = 17;
    pub const ENUM64: u32 = 19;
}

const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;
/// Largest depth of unnamed members that are looked into.
const DEPTH: u32 = 8;

/// One type: where its name is, and its entry.
#[derive(Debug, Clone, Copy)]
struct Type {
    name: u32,
    kind: u32,
    flag: bool,
    count: usize,
    /// Beginning of what follows the common part.
    rest: usize,
}

/// The types of the kernel, or of a module on top of the kernel's.
#[derive(Debug)]
pub struct Btf<'a> {
    base: Option<&'a Btf<'a>>,
    types: Vec<Type>,
    bytes: &'a [u8],
    strings: &'a [u8],
    first: u32,
    first_string: u32,
}

impl<'a> Btf<'a> {
    /// Reads what `/sys/kernel/btf` has; `None` if it is damaged.
    pub fn parse(bytes: &'a [u8], base: Option<&'a Btf<'a>>) -> Option<Self> {
        let header = bytes.get(..HEADER)?;
        if header.get(..2)? != MAGIC.to_le_bytes() {
            return None;
        }
        let start = word(header, 4)? as usize;
        let part = |offset: usize, length: usize| {
            let from = start.checked_add(word(header, offset)? as usize)?;
            bytes.get(from..from.checked_add(word(header, length)? as usize)?)
        };
        let (entries, strings) = (part(8, 12)?, part(16, 20)?);
        let (first, first_string) = match base {
            Some(base) => (base.end(), base.first_string + base.strings.len() as u32),
            None => (1, 0),
        };
        let mut types = Vec::new();
        let mut at = 0;
        while at < entries.len() {
            let (name, info) = (word(entries, at)?, word(entries, at + 4)?);
            let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let rest = at + 12;
            types.push(Type { name, kind, flag: info >> 31 != 0, count, rest });
            at = rest
                + match kind {
                    kind::INT | kind::VAR | kind::DECL_TAG => 4,
                    kind::ARRAY => 12,
                    kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * count,
                    kind::ENUM | kind::FUNC_PROTO => 8 * count,
                    _ => 0,
                };
        }
        Some(Self { base, types, bytes: entries, strings, first, first_string })
    }

    /// The number after the last type's.
    fn end(&self) -> u32 {
        self.first + self.types.len() as u32
    }

    fn name(&self, offset: u32) -> Option<&[u8]> {
        match (offset.checked_sub(self.first_string), self.base) {
            (Some(offset), _) => self.strings.get(offset as usize..)?.split(|b| *b == 0).next(),
            (None, Some(base)) => base.name(offset),
            (None, None) => None,
        }
    }

    fn get(&self, number: u32) -> Option<(&Btf<'_>, Type)> {
        match (number.checked_sub(self.first), self.base) {
            (Some(index), _) => Some((self, *self.types.get(index as usize)?)),
            (None, Some(base)) => base.get(number),
            (None, None) => None,
        }
    }

    fn named(&self, kind: u32, name: &str) -> Option<u32> {
        let own = self.types.iter().position(|entry| {
            entry.kind == kind && self.name(entry.name).is_some_and(|n| n == name.as_bytes())
        });
        match own {
            Some(index) => Some(self.first + index as u32),
            None => self.base?.named(kind, name),
        }
    }

    /// The number of a function.
    pub fn function(&self, name: &str) -> Option<u32> {
        self.named(kind::FUNC, name)
    }

    /// The structure that a function's first argument points to.
    pub fn first_argument(&self, function: u32) -> Option<&str> {
        let target = |number: u32, of_kind: u32| {
            let (btf, entry) = self.get(number)?;
            (entry.kind == of_kind).then(|| word(btf.bytes, entry.rest - 4)).flatten()
        };
        let prototype = target(function, kind::FUNC)?;
        let (btf, entry) = self.get(prototype)?;
        if entry.kind != kind::FUNC_PROTO || entry.count == 0 {
            return None;
        }
        let pointed = target(word(btf.bytes, entry.rest + 4)?, kind::POINTER)?;
        let (btf, entry) = self.get(pointed)?;
        let name = (entry.kind == kind::STRUCT).then(|| btf.name(entry.name)).flatten()?;
        std::str::from_utf8(name).ok()
    }

    /// Returns the offset of a member in a structure (bytes), or of a member of a member, `a.b`; in
    /// unnamed members too.
    pub fn offset(&self, structure: &str, path: &str) -> Option<i16> {
        let first = (0u32, self.named(kind::STRUCT, structure)?);
        let (bits, _) = path.split('.').try_fold(first, |(bits, number), name| {
            let (more, member_type) = self.member(number, name, 0)?;
            Some((bits.checked_add(more)?, member_type))
        })?;
        (bits % 8 == 0).then(|| i16::try_from(bits / 8).ok()).flatten()
    }

    /// Returns the offset of a member (bits), and its type's number.
    fn member(&self, number: u32, name: &str, depth: u32) -> Option<(u32, u32)> {
        let (btf, entry) = self.get(number)?;
        if !matches!(entry.kind, kind::STRUCT | kind::UNION) || depth > DEPTH {
            return None;
        }
        (0..entry.count).find_map(|index| {
            let at = entry.rest + 12 * index;
            let [label, kind, place] = [0, 4, 8].map(|more| word(btf.bytes, at + more));
            let (label, place) = (label?, place?);
            // With the flag, the upper bits are a bit field's size.
            let place = if entry.flag { place & 0xff_ffff } else { place };
            match btf.name(label)? {
                b"" => {
                    let (more, member_type) = self.member(kind?, name, depth + 1)?;
                    Some((place.checked_add(more)?, member_type))
                }
                found => (found == name.as_bytes()).then_some((place, kind?)),
            }
        })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Types by hand: the part of an assembler that the tests need.
    fn assemble(strings: &str, entries: &[&[u32]]) -> Vec<u8> {
        let types: Vec<u8> =
            entries.iter().flat_map(|words| words.iter().flat_map(|w| w.to_le_bytes())).collect();
        let strings = strings.as_bytes();
        let lengths = [24, 0, types.len(), types.len(), strings.len()];
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        bytes.extend(lengths.iter().flat_map(|length| (*length as u32).to_le_bytes()));
        [bytes, types, strings.to_vec()].concat()
    }

    const STRUCT: u32 = kind::STRUCT << 24;

    #[test]
    fn members_and_functions_are_found() {
        // 1: int; 2: union { int b; } without a name; 3: struct s { int a; 2; }
        let kernel = assemble(
            "\0s\0a\0b\0",
            &[
                &[0, kind::INT << 24, 4, 32],
                &[0, kind::UNION << 24 | 1, 4, 5, 1, 0],
                &[1, STRUCT | 2, 8, 3, 1, 0, 0, 2, 32],
            ],
        );
        let kernel = Btf::parse(&kernel, None).unwrap();
        assert_eq!(kernel.offset("s", "a"), Some(0));
        assert_eq!(kernel.offset("s", "b"), Some(4));
        assert_eq!(kernel.offset("s", "c"), None);
        assert_eq!(kernel.offset("t", "a"), None);
        // On top of it: 4: struct m { s x; int y:8 at 64 }; 5: function f. Its
        // strings begin where the kernel's end.
        let own = |offset: u32| 7 + offset;
        let module = assemble(
            "\0m\0y\0f\0",
            &[
                &[own(1), STRUCT | 1 << 31 | 2, 16, 1, 3, 0, own(3), 1, 64 | 8 << 24],
                &[own(5), kind::FUNC << 24, 7],
                &[0, kind::POINTER << 24, 4],
                &[0, kind::FUNC_PROTO << 24 | 1, 0, 0, 6],
            ],
        );
        let module = Btf::parse(&module, Some(&kernel)).unwrap();
        assert_eq!(module.offset("m", "y"), Some(8));
        assert_eq!(module.offset("m", "s"), Some(0));
        assert_eq!(module.offset("s", "b"), Some(4));
        assert_eq!((module.function("f"), kernel.function("f")), (Some(5), None));
        // 6: struct m *; 7: void (struct m *).
        assert_eq!((module.first_argument(5), module.first_argument(4)), (Some("m"), None));
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0usize..90) {
            let mut head = assemble("\0s\0a\0b\0", &[&[1, STRUCT | 2, 8, 3, 1, 0, 0, 1, 32]]);
            head.truncate(cut);
            head.extend(bytes);
            if let Some(btf) = Btf::parse(&head, None) {
                let _ = (btf.offset("s", "a"), btf.function("s"));
                let _ = (0..20).find_map(|number| btf.first_argument(number));
            }
        }
    }
}
