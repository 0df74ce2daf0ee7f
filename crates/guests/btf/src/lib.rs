//! A Linux kernel's description of its own types (BTF), as far as it takes to find a member's
//! offset and a function's number.
//!
//! Source: Linux, Documentation/bpf/btf.rst. Promise: nothing here panics for what the bytes are.

use stasis_layout::{layout, FromBytes, U16, U32};

/// Kinds of types.
mod kind {
    pub const INT: u32 = 1;
    pub const POINTER: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FORWARD: u32 = 7;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const FLOAT: u32 = 16;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

const MAGIC: u16 = 0xeb9f;
/// Limit on unnamed members within unnamed members that are looked into.
const MAX_DEPTH: u32 = 8;

layout! {
    /// `struct btf_header`. Offsets count from its end.
    struct Header: 24 {
        [0] magic: U16,
        [2] version: u8,
        [3] flags: u8,
        /// Bytes of the header.
        [4] length: U32,
        [8] types: U32,
        [12] types_length: U32,
        [16] strings: U32,
        [20] strings_length: U32,
    }
}
layout! {
    /// `struct btf_type`.
    struct Type: 12 {
        /// Offset in the strings, as of every name.
        [0] name: U32,
        /// Number of parts in bits 15:0, kind in 28:24, a flag in 31.
        [4] info: U32,
        /// The size (bytes), or the number of a type.
        [8] target: U32,
    }
}
layout! {
    /// `struct btf_member`.
    struct Member: 12 {
        [0] name: U32,
        [4] member_type: U32,
        /// Offset in bits; with the type's flag the upper 8 are the size of a bit field.
        [8] offset: U32,
    }
}
layout! {
    /// `struct btf_param`.
    struct Parameter: 8 {
        [0] name: U32,
        [4] parameter_type: U32,
    }
}

impl Type {
    fn kind(&self) -> u32 {
        self.info.get() >> 24 & 0x1f
    }

    fn count(&self) -> usize {
        (self.info.get() & 0xffff) as usize
    }

    /// Bytes of its parts, which follow; None for a kind that is not known, so that nothing behind it
    /// can be read.
    fn parts(&self) -> Option<usize> {
        Some(match self.kind() {
            kind::INT | kind::VAR | kind::DECL_TAG => 4,
            kind::ARRAY => 12,
            kind::STRUCT | kind::UNION => size_of::<Member>() * self.count(),
            kind::DATASEC | kind::ENUM64 => 12 * self.count(),
            kind::FUNC_PROTO => size_of::<Parameter>() * self.count(),
            kind::ENUM => 8 * self.count(),
            kind::POINTER | kind::FORWARD..=kind::FUNC | kind::FLOAT | kind::TYPE_TAG => 0,
            _ => return None,
        })
    }
}

/// The types of the kernel, or of a module on top of the kernel's.
#[derive(Debug)]
pub struct Btf<'a> {
    base: Option<&'a Btf<'a>>,
    types: &'a [u8],
    /// Beginnings of the types.
    places: Vec<usize>,
    strings: &'a [u8],
    /// The number of the first type.
    first: u32,
    first_string: u32,
}

impl<'a> Btf<'a> {
    /// Reads a kernel's types, as `/sys/kernel/btf/vmlinux` and the section `.BTF` have them; None
    /// if they are damaged, or of a newer form.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        Self::read(bytes, None)
    }

    /// Reads a module's types, which name those of `kernel`; None likewise.
    pub fn of_module(bytes: &'a [u8], kernel: &'a Btf<'a>) -> Option<Self> {
        Self::read(bytes, Some(kernel))
    }

    fn read(bytes: &'a [u8], base: Option<&'a Btf<'a>>) -> Option<Self> {
        let (header, _) = Header::ref_from_prefix(bytes).ok()?;
        if header.magic != MAGIC {
            return None;
        }
        let rest = bytes.get(header.length.get() as usize..)?;
        let part =
            |from: U32, length: U32| rest.get(from.get() as usize..)?.get(..length.get() as usize);
        let types = part(header.types, header.types_length)?;
        let strings = part(header.strings, header.strings_length)?;
        let (first, first_string) = match base {
            Some(base) => (
                base.first + u32::try_from(base.places.len()).ok()?,
                base.first_string.checked_add(u32::try_from(base.strings.len()).ok()?)?,
            ),
            None => (1, 0),
        };
        let (mut places, mut at) = (Vec::new(), 0);
        while at < types.len() {
            let (entry, parts) = Type::ref_from_prefix(&types[at..]).ok()?;
            let length = entry.parts()?;
            parts.get(..length)?;
            places.push(at);
            at += size_of::<Type>() + length;
        }
        Some(Self { base, types, places, strings, first, first_string })
    }

    fn name(&self, offset: U32) -> Option<&'a [u8]> {
        match (offset.get().checked_sub(self.first_string), self.base) {
            (Some(offset), _) => self.strings.get(offset as usize..)?.split(|b| *b == 0).next(),
            (None, Some(base)) => base.name(offset),
            (None, None) => None,
        }
    }

    /// The type that begins at a place, and what follows it.
    fn at(&self, place: usize) -> Option<(&'a Type, &'a [u8])> {
        Type::ref_from_prefix(self.types.get(place..)?).ok()
    }

    fn get(&self, number: U32) -> Option<(&Btf<'a>, &'a Type, &'a [u8])> {
        match (number.get().checked_sub(self.first), self.base) {
            (Some(index), _) => {
                let (entry, parts) = self.at(*self.places.get(index as usize)?)?;
                Some((self, entry, parts))
            }
            (None, Some(base)) => base.get(number),
            (None, None) => None,
        }
    }

    fn named(&self, kind: u32, name: &str) -> Option<U32> {
        let own = (self.first..).zip(&self.places).find(|(_, place)| {
            self.at(**place).is_some_and(|(entry, _)| {
                entry.kind() == kind && self.name(entry.name) == Some(name.as_bytes())
            })
        });
        match own {
            Some((number, _)) => Some(number.into()),
            None => self.base?.named(kind, name),
        }
    }

    /// The number of a function.
    pub fn function(&self, name: &str) -> Option<u32> {
        self.named(kind::FUNC, name).map(U32::get)
    }

    /// The structure that a function's first argument points to.
    pub fn first_argument(&self, function: u32) -> Option<&'a str> {
        let target = |number: U32, of_kind: u32| {
            let (_, entry, _) = self.get(number)?;
            (entry.kind() == of_kind).then_some(entry.target)
        };
        let prototype = target(function.into(), kind::FUNC)?;
        let (_, entry, parts) = self.get(prototype)?;
        if entry.kind() != kind::FUNC_PROTO || entry.count() == 0 {
            return None;
        }
        let (parameter, _) = Parameter::ref_from_prefix(parts).ok()?;
        let pointed = target(parameter.parameter_type, kind::POINTER)?;
        let (btf, entry, _) = self.get(pointed)?;
        let name = (entry.kind() == kind::STRUCT).then(|| btf.name(entry.name)).flatten()?;
        std::str::from_utf8(name).ok()
    }

    /// Returns the offset of a member in a structure (bytes), or of a member of a member, `a.b`; in
    /// unnamed members too. None also for a bit field that does not begin with a byte.
    pub fn offset(&self, structure: &str, path: &str) -> Option<u64> {
        let first = (0u32, self.named(kind::STRUCT, structure)?);
        let (bits, _) = path.split('.').try_fold(first, |(bits, number), name| {
            let (more, member_type) = self.member(number, name, 0)?;
            Some((bits.checked_add(more)?, member_type))
        })?;
        bits.is_multiple_of(8).then(|| u64::from(bits / 8))
    }

    /// Returns the offset of a member (bits), and its type's number.
    fn member(&self, number: U32, name: &str, depth: u32) -> Option<(u32, U32)> {
        let (btf, entry, parts) = self.get(number)?;
        if !matches!(entry.kind(), kind::STRUCT | kind::UNION) || depth > MAX_DEPTH {
            return None;
        }
        let (members, _) = <[Member]>::ref_from_prefix_with_elems(parts, entry.count()).ok()?;
        members.iter().find_map(|member| {
            let has_fields = entry.info.get() >> 31 != 0;
            let place = member.offset.get() & if has_fields { 0xff_ffff } else { u32::MAX };
            match btf.name(member.name)? {
                b"" => {
                    let (more, found) = self.member(member.member_type, name, depth + 1)?;
                    Some((place.checked_add(more)?, found))
                }
                found => (found == name.as_bytes()).then_some((place, member.member_type)),
            }
        })
    }
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
        let kernel = Btf::parse(&kernel).unwrap();
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
        let module = Btf::of_module(&module, &kernel).unwrap();
        assert_eq!(module.offset("m", "y"), Some(8));
        assert_eq!(module.offset("m", "s"), Some(0));
        assert_eq!(module.offset("m", "s.b"), Some(4));
        assert_eq!(module.offset("s", "b"), Some(4));
        assert_eq!((module.function("f"), kernel.function("f")), (Some(5), None));
        // 6: struct m *; 7: void (struct m *).
        assert_eq!((module.first_argument(5), module.first_argument(4)), (Some("m"), None));
    }

    /// `struct outer { int first; struct { char *second; }; int third[2]; }`, written by hand after
    /// the format's description.
    fn outer() -> Vec<u8> {
        let strings = "\0int\0outer\0first\0second\0third\0";
        let name = |word: &str| strings.find(&format!("\0{word}\0")).unwrap() as u32 + 1;
        assemble(
            strings,
            &[
                // 1: int of 32 bits.
                &[name("int"), kind::INT << 24, 4, 32],
                // 2: the unnamed structure.
                &[0, STRUCT | 1, 8, name("second"), 4, 0],
                // 3: the outer one, whose offsets can be of fields of bits.
                &[name("outer"), 1 << 31 | STRUCT | 3, 24],
                &[name("first"), 1, 0, 0, 2, 64, name("third"), 5, 128],
                // 4: a pointer; 5: an array.
                &[0, kind::POINTER << 24, 1],
                &[0, kind::ARRAY << 24, 0, 1, 1, 2],
            ],
        )
    }

    #[test]
    fn members_have_offsets() {
        let bytes = outer();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.offset("outer", "first"), Some(0));
        assert_eq!(btf.offset("outer", "second"), Some(8));
        assert_eq!(btf.offset("outer", "third"), Some(16));
        assert_eq!(btf.offset("outer", "fourth"), None);
        assert_eq!(btf.offset("int", "first"), None);
    }

    #[test]
    fn a_type_of_unknown_length_is_refused() {
        let of_kind = |kind: u32| Btf::parse(&assemble("\0", &[&[0, kind << 24, 0]])).is_some();
        let refused: Vec<_> = (0..32).filter(|kind| !of_kind(*kind)).collect();
        // Those with a part of their own are cut off here.
        assert_eq!(refused[..5], [0, kind::INT, kind::ARRAY, kind::VAR, kind::DECL_TAG]);
        assert_eq!(refused[5..], (20..32).collect::<Vec<_>>());
    }

    /// Every byte changed, and every cut.
    #[test]
    fn damage_is_no_panic() {
        let whole = outer();
        for place in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0xff, whole[place] ^ 4] {
                let mut damaged = whole.clone();
                damaged[place] = byte;
                if let Some(btf) = Btf::parse(&damaged) {
                    btf.offset("outer", "second");
                }
            }
            assert!(Btf::parse(&whole[..place]).is_none(), "{place}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0usize..90) {
            let mut head = assemble("\0s\0a\0b\0", &[&[1, STRUCT | 2, 8, 3, 1, 0, 0, 1, 32]]);
            head.truncate(cut);
            head.extend(bytes);
            if let Some(btf) = Btf::parse(&head) {
                let _ = (btf.offset("s", "a"), btf.function("s"));
                let _ = (0..20).find_map(|number| btf.first_argument(number));
            }
        }
    }
}
