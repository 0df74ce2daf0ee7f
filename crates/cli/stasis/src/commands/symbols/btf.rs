//! The section of a kernel's file that describes its types (ELF: System V ABI, chapter 4).

pub(super) use stasis_btf::Btf;
use stasis_layout::{u16_at, u32_at, u64_at};

/// The section of this name of an ELF file of 64 bits.
pub(super) fn section<'a>(file: &'a [u8], name: &str) -> Option<&'a [u8]> {
    if file.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let half = |at: usize| u16_at(file, at).map(usize::from);
    let long = |at: usize| usize::try_from(u64_at(file, at)?).ok();
    let (table, size) = (long(0x28)?, half(0x3a)?);
    let (count, names) = (half(0x3c)?, half(0x3e)?);
    let header = |number: usize| table.checked_add(number.checked_mul(size)?);
    let bytes = |number: usize| {
        let field = |at: usize| long(header(number)?.checked_add(at)?);
        let (from, length) = (field(0x18)?, field(0x20)?);
        file.get(from..from.checked_add(length)?)
    };
    let names = bytes(names)?;
    let is = |number: &usize| {
        let at = header(*number).and_then(|header| u32_at(file, header))? as usize;
        Some(names.get(at..)?.strip_prefix(name.as_bytes())?.first() == Some(&0))
    };
    (0..count).find(|number| is(number) == Some(true)).and_then(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An executable with one section beside its names.
    fn executable() -> Vec<u8> {
        let mut file = vec![0; 64 + 2 * 64];
        file[..5].copy_from_slice(b"\x7fELF\x02");
        (file[0x28], file[0x3a], file[0x3c]) = (64, 64, 2);
        let names = file.len() as u8;
        file.extend(b"\0.BTF\0");
        // Offset and length of each.
        (file[64 + 0x18], file[64 + 0x20]) = (names, 6);
        file[128] = 1;
        (file[128 + 0x18], file[128 + 0x20]) = (names + 2, 3);
        file
    }

    #[test]
    fn a_section_is_found_by_its_name() {
        let file = executable();
        assert_eq!(section(&file, ".BTF"), Some(&b"BTF"[..]));
        assert_eq!((section(&file, ".BT"), section(&file, "BTF")), (None, None));
    }

    /// Every byte changed, and every cut.
    #[test]
    fn damage_is_no_panic() {
        let whole = executable();
        for place in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0xff, whole[place] ^ 4] {
                let mut damaged = whole.clone();
                damaged[place] = byte;
                section(&damaged, ".BTF");
            }
            assert_eq!(section(&whole[..place], ".BTF"), None, "{place}");
        }
    }
}
